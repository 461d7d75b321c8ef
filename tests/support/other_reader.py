"""Run by an interpreter that has AgentCompass 1.0.1: reads a run with that program's own strict code.

Prints one JSON object: what it read. Anything that it refuses ends it with a traceback.
"""

from __future__ import annotations

import asyncio
import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.support.tree import paths_in


def main(folder: str) -> None:
    run_dir = Path(folder)
    store = import_module("agentcompass.runtime.results.store").RunStore(None)
    layout = import_module("agentcompass.runtime.results.layout")
    info = store._load_run_info(run_dir)
    store._require_current_run_info(info, path=run_dir / "run_info.json")
    report_file = run_dir / "metrics.json"
    series: dict[str, Any] = {}
    if report_file.is_file():
        model = import_module("agentcompass.runtime.metrics.report").MetricReport
        report = model.model_validate(json.loads(report_file.read_text(encoding="utf-8")))
        series = {each.series_id: each.value for each in report.series}
    details = store.load_persisted_results(run_dir)
    found = {
        "finished": sorted(detail["task_id"] for detail in details),
        "metrics": {
            detail["task_id"]: {n: each["metrics"] for n, each in detail["attempts"].items()}
            for detail in details
        },
        "series": series,
        "resumable": asyncio.run(resumable(run_dir, layout)),
        "plan": store._normalized_attempt_plan(info["request"]["execution"]["attempts"]),
    }
    sys.stdout.write(json.dumps(found))


async def resumable(run_dir: Path, layout: Any) -> dict[str, list[int]]:
    """Return the attempts of unfinished tasks that it would take one by one."""
    attempts = import_module("agentcompass.runtime.attempts.repository")
    repository = attempts.RunAttemptCheckpointRepository(run_dir)
    found: dict[str, list[int]] = {}
    for path in paths_in(run_dir, "details/running/*/task.json"):
        index = json.loads(path.read_text(encoding="utf-8"))
        for number in index["attempts"]:
            key = attempts.AttemptKey(index["task_id"], int(number))
            checkpoint = await repository.load(key)
            if checkpoint is not None and checkpoint.is_reusable:
                found.setdefault(index["task_id"], []).append(int(number))
    return found


if __name__ == "__main__":
    main(sys.argv[1])
