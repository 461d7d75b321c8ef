from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from agentcompass.coordinator.planning.start import SealedRun, address_of, root_of
from agentcompass.store import sealed
from tests.support.store_runs import a_run

RunMaker = Callable[..., SealedRun]


@pytest.fixture
def make_run(tmp_path: Path) -> RunMaker:
    """Return a maker of sealed runs with given task ids, as a coordinator holds them."""

    def make(*ids: str, k: int = 1) -> SealedRun:
        run_dir = a_run(tmp_path, *ids, k=k)
        info = sealed.load_sealed(run_dir)
        return SealedRun(address_of(root_of(run_dir), run_dir, info.request), info)

    return make
