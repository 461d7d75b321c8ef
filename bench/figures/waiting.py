"""Many attempts that wait for their models at once, in one worker with the pool `threads`."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any

from bench.lab import Lab, Serving, open_lab, run_command, worker
from bench.measuring import memory_of_tree
from bench.rows import Row
from bench.scale import Scale

_WAIT_S = 12.0
_TIMEOUT_S = 6.0
_LOOK_S = 0.5


def measure(scale: Scale, folder: Path) -> list[Row]:
    """Return memory per waiting attempt, and how late attempts are woken and ended."""
    rows: list[Row] = []
    for harness, kind in (("WaitingHarness", "async def"), ("BlockingHarness", "def")):
        with open_lab(folder / harness) as lab, worker(lab, "threads", scale.waiting) as served:
            rows += _rows(lab, served, scale.waiting, harness, kind)
    return rows


def _rows(lab: Lab, served: Serving, count: int, harness: str, kind: str) -> list[Row]:
    idle_mb = memory_of_tree(served.process.pid)
    wait = ("--param", f"harness.seconds={_WAIT_S}")
    peak_mb = _peak_mb(lab, served, count, harness, *wait, "--run-id", "waited")
    late_ms = [1000 * one["meta"]["benchmark"]["late_s"] for one in _results(lab, "waited")]
    limit = ("--run-id", "ended", "--timeout", str(_TIMEOUT_S))
    _peak_mb(lab, served, count, harness, *wait, *limit)
    over_s = [_over_s(one) for one in _results(lab, "ended")]
    what = f"{count:,} waiting attempts ({kind})"
    return [
        Row(f"memory per attempt, {what}", "MB", [(peak_mb - idle_mb) / count], at_most=0.5),
        Row(f"woken late, median of {what}", "ms", [median(late_ms)]),
        Row(f"woken late, worst of {what}", "ms", [max(late_ms)]),
        Row(f"time-out missed by, median of {what}", "s", [median(over_s)]),
        Row(f"time-out missed by, worst of {what}", "s", [max(over_s)]),
    ]


def _peak_mb(lab: Lab, served: Serving, count: int, harness: str, *more: str) -> float:
    """Run to the end; return the largest memory of the worker's processes."""
    command = run_command(lab.results, count, 1, "--broker", lab.server.url, *more, harness=harness)
    peak_mb = 0.0
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as coordinator:
        while coordinator.poll() is None:
            peak_mb = max(peak_mb, memory_of_tree(served.process.pid))
            time.sleep(_LOOK_S)
    return peak_mb


def _results(lab: Lab, run_id: str) -> list[Mapping[str, Any]]:
    paths = lab.results.glob(f"*/{run_id}/details/*/*/attempt-1/result.json")
    return [json.loads(path.read_bytes()) for path in paths]


def _over_s(result: Mapping[str, Any]) -> float:
    took = datetime.fromisoformat(result["finished_at"]) - datetime.fromisoformat(
        result["started_at"]
    )
    return took.total_seconds() - _TIMEOUT_S
