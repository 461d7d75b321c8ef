"""Checks what `evaluate` observed against the benchmark's contract.

An observation that the contract does not allow is dropped with an ERROR that names it; its
siblings stay, and nothing is ever replaced by zero.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from agentcompass.models.issue import Issue
from agentcompass.models.metric import MetricContract, MetricSpec
from agentcompass.models.result import Observation
from agentcompass.runtime.issues import issue
from agentcompass.runtime.normalize import Normalizer


def observations(
    found: Mapping[str, object], contract: MetricContract
) -> tuple[dict[str, Observation], tuple[Issue, ...]]:
    """Return the valid observations and an ERROR evaluate `invalid_observation` for each other.

    Number-like values (numpy, `Decimal`, big integers) count as numbers. A binary observation is a
    bool and nothing else: 1 and "yes" are mistakes that a table must not hide.
    """
    valid: dict[str, Observation] = {}
    issues = []
    for metric_id, value in found.items():
        spec = contract.get(metric_id) if isinstance(metric_id, str) else None
        checked = _checked(value, spec)
        if isinstance(checked, str):
            text = f"{metric_id}: {checked}"
            issues.append(issue("error", "evaluate", "invalid_observation", text))
        elif spec is not None:
            valid[spec.metric_id] = checked
    return valid, tuple(issues)


def _checked(value: object, spec: MetricSpec | None) -> bool | int | float | str:
    """Return the observation, or why it is none."""
    if spec is None:
        return "the contract declares no such metric"
    if _is_not_finite(value):
        return f"{value!r} is not a finite number"
    plain = Normalizer().value(value, spec.metric_id)
    if spec.kind == "binary_success":
        return plain if isinstance(plain, bool) else f"a {_kind(value)} is not a bool"
    if isinstance(plain, bool) or not isinstance(plain, int | float):
        return f"a {_kind(value)} is not a number"
    return plain


def _is_not_finite(value: object) -> bool:
    try:
        return isinstance(value, float) and not math.isfinite(value)
    except (TypeError, ValueError):
        return False


def _kind(value: object) -> str:
    return type(value).__name__
