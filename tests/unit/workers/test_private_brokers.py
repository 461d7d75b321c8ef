"""Where the private brokers of one user stand: brokers of other runs come and go meanwhile."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from workers import embedded
from workers.keeping.locks import try_lock


def test_a_broker_that_is_cleared_up_meanwhile_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("broker-ends", "broker-dead"):
        (tmp_path / name).mkdir()
    (tmp_path / "broker-file").touch()

    def clears_up_first(path: Path) -> int | None:
        if path.parent.name == "broker-ends":
            shutil.rmtree(path.parent)
        return try_lock(path)

    monkeypatch.setattr(embedded, "try_lock", clears_up_first)

    made, alive = embedded._private_folder(tmp_path)

    assert {path.name for path in tmp_path.glob("broker-*")} == {made.name, "broker-file"}
    assert try_lock(made / "alive") is None
    os.close(alive)


def test_the_folder_of_a_broker_that_lives_is_left_alone(tmp_path: Path) -> None:
    first, alive = embedded._private_folder(tmp_path)

    second, also = embedded._private_folder(tmp_path)

    assert first.is_dir()
    assert second != first
    os.close(alive)
    os.close(also)
