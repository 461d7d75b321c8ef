"""Runs of other writers: each below $AGENTCOMPASS_FOREIGN_RUNS is reported and shown, never changed."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from agentcompass.cli.main import main
from tests.support.laboratory import strict_json
from tests.support.tree import paths_in, tree_of

pytestmark = pytest.mark.integration

FOLDER: Final = os.environ.get("AGENTCOMPASS_FOREIGN_RUNS", "")
RUNS: Final = (
    sorted(path.parent for path in paths_in(Path(FOLDER), "**/run_info.json")) if FOLDER else []
)

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def call(capfd: pytest.CaptureFixture[str]) -> Call:
    def call(*arguments: str) -> tuple[int, str, str]:
        code = main(arguments)
        return code, *capfd.readouterr()

    return call


@pytest.fixture
def copy(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return Path(shutil.copytree(request.param, tmp_path / request.param.name))


if not RUNS:
    pytest.skip("AGENTCOMPASS_FOREIGN_RUNS names no folder with runs", allow_module_level=True)


each_run = pytest.mark.parametrize(
    "copy", RUNS, indirect=True, ids=lambda path: f"{path.parents[1].name}-{path.name}"
)


@each_run
def test_it_is_reported_with_counts_that_add_up(call: Call, copy: Path) -> None:
    before = tree_of(copy)

    code, out, err = call("report", str(copy), "--json")

    assert code in {0, 1, 3}, err
    report = strict_json(out.encode())["report"]
    for series in report["series"]:
        counts = series["counts"]
        parts = counts["evaluated"] + counts["unavailable"] + counts["invalidated"]
        assert parts == counts["total"]
    assert tree_of(copy) == before


@each_run
def test_its_numbers_are_those_that_its_writer_has_published(call: Call, copy: Path) -> None:
    published = copy / "metrics.json"
    if not published.exists():
        pytest.skip("its writer has published none")

    _, out, _ = call("report", str(copy), "--json")

    theirs = json.loads(published.read_bytes())
    ours = {series["series_id"]: series for series in strict_json(out.encode())["report"]["series"]}
    for series in theirs["series"]:
        mine = ours[series["series_id"]]
        assert mine["value"] == pytest.approx(series["value"])
        assert mine["reference_value"] == pytest.approx(series["reference_value"])
        assert mine["counts"] == series["counts"]


@each_run
def test_its_status_is_shown(call: Call, copy: Path) -> None:
    before = tree_of(copy)

    code, out, err = call("status", str(copy), "--json")

    assert code in {0, 3}, err
    found = strict_json(out.encode())
    run_id = json.loads((copy / "run_info.json").read_bytes())["run_id"]
    assert (found["run_id"], found["path"]) == (run_id, str(copy))
    assert 0 <= found["attempts_done"] <= found["attempts_total"]
    assert call("status", str(copy))[1].startswith(run_id)
    assert tree_of(copy) == before
