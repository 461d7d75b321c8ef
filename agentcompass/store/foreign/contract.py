"""What another writer's run measures: from its `metrics.json`, else from its observations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from pydantic import JsonValue, ValidationError

from agentcompass.models.metric import MetricContract, MetricKind, MetricSpec
from agentcompass.models.result import AttemptOutcome
from agentcompass.store import records

_REDUCERS: Final[dict[MetricKind, tuple[str, ...]]] = {
    "binary_success": ("native", "avg", "pass"),
    "scalar": ("native", "avg"),
}
_PRIMARIES: Final[tuple[tuple[str, MetricKind], ...]] = (
    ("correct", "binary_success"),
    ("score", "scalar"),
)


def contract_of_report(report: Mapping[str, JsonValue], path: Path) -> MetricContract:
    """Return the contract that the series of a report were made under.

    Raises:
        RecordCorrupt: the report names no series that we understand.
    """
    kinds: dict[str, MetricKind] = {}
    headline = ""
    series = report.get("series")
    for each in series if isinstance(series, list) else []:
        if not isinstance(each, dict):
            continue
        name, kind = str(each.get("metric_id")), each.get("kind")
        kinds[name] = "binary_success" if kind == "binary_success" else "scalar"
        if each.get("role") == "headline":
            headline = headline or name
    if not kinds:
        raise records.corrupt(path, "has no series")
    return _contract(kinds, headline, path)


def contract_of_observations(outcomes: Iterable[AttemptOutcome], path: Path) -> MetricContract:
    """Return the contract that the observations suggest: truth values binary, numbers scalar.

    Without any observation that could be primary it is a plain `correct`, which nobody observed.
    """
    kinds: dict[str, MetricKind] = {}
    for outcome in outcomes:
        for name, value in outcome.metrics.items():
            is_binary = isinstance(value, bool) and kinds.get(name) != "scalar"
            kinds[name] = "binary_success" if is_binary else "scalar"
    primary = next((name for name, kind in _PRIMARIES if kinds.get(name) == kind), "")
    if not primary:
        primary = "correct"
        kinds[primary] = "binary_success"
    return _contract(kinds, primary, path)


def _contract(kinds: Mapping[str, MetricKind], primary: str, path: Path) -> MetricContract:
    try:
        return MetricContract(
            metrics=tuple(
                MetricSpec(
                    metric_id=name, kind=kind, reducers=_REDUCERS[kind], primary=name == primary
                )
                for name, kind in sorted(kinds.items(), key=lambda item: item[0] != primary)
            )
        )
    except ValidationError as error:
        raise records.corrupt(path, records.brief(error)) from error
