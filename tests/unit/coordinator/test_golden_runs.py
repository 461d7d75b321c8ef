"""Real runs of another writer: their own report follows from their details, field by field.

By hand: AGENTCOMPASS_FOREIGN_RUNS names a folder of such runs.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from pydantic import JsonValue

from agentcompass.coordinator.reading.comparison import compare_runs
from agentcompass.coordinator.reading.export import exported
from agentcompass.coordinator.report import report
from agentcompass.metrics.validate import validate_report
from agentcompass.models.metric import MetricReport

FOLDER = os.environ.get("AGENTCOMPASS_FOREIGN_RUNS", "")
RUNS = sorted(path.parent for path in Path(FOLDER).rglob("run_info.json")) if FOLDER else []
REPORTED = [path for path in RUNS if (path / "metrics.json").is_file()]

pytestmark = pytest.mark.skipif(not RUNS, reason="AGENTCOMPASS_FOREIGN_RUNS names no runs")


def named(paths: Sequence[Path]) -> list[str]:
    return [path.relative_to(FOLDER).as_posix() for path in paths]


OURS_ALONE = {"extra", "schema_version"}
"""Their `extra` is empty, and they leave the marker out."""


def without_our_notes(value: JsonValue) -> JsonValue:
    """Return a report with only what theirs says, at every depth."""
    if isinstance(value, dict):
        kept = {name: each for name, each in value.items() if name not in OURS_ALONE}
        return {name: without_our_notes(each) for name, each in kept.items()}
    return [without_our_notes(each) for each in value] if isinstance(value, list) else value


def snapshot(run_dir: Path) -> dict[Path, tuple[int, int, int]]:
    stats = {path: path.lstat() for path in run_dir.rglob("*")}
    return {path: (s.st_mtime_ns, s.st_size, s.st_mode) for path, s in stats.items()}


@pytest.mark.parametrize("run_dir", REPORTED, ids=named(REPORTED))
def test_every_field_of_their_report_follows_from_their_details(run_dir: Path) -> None:
    theirs = json.loads((run_dir / "metrics.json").read_bytes())
    before = snapshot(run_dir)

    ours = report(run_dir)

    assert without_our_notes(json.loads(ours.report.model_dump_json())) == without_our_notes(theirs)
    assert snapshot(run_dir) == before


@pytest.mark.parametrize("run_dir", REPORTED, ids=named(REPORTED))
def test_their_report_keeps_our_rules(run_dir: Path) -> None:
    validate_report(MetricReport.model_validate_json((run_dir / "metrics.json").read_bytes()))


@pytest.mark.parametrize("run_dir", RUNS, ids=named(RUNS))
def test_every_run_can_be_reported_and_exported(run_dir: Path) -> None:
    ours = report(run_dir)
    rows = b"".join(exported(run_dir, "tasks", "jsonl")).splitlines()

    assert len(rows) == ours.report.headline.counts.total
    states = [json.loads(row)["state"] for row in rows]
    assert states.count("evaluated") == ours.report.headline.counts.evaluated


def test_a_run_and_its_reuse_do_not_differ() -> None:
    pairs = [(path, path.parent / "f-reuse") for path in RUNS if path.name == "f-src"]
    if not pairs:
        pytest.skip("there is no such pair")

    (found,) = compare_runs(pairs[0]).found

    assert (found.difference, found.wins, found.losses) == (0.0, 0, 0)
