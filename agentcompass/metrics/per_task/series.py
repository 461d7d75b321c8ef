"""What one series is: a metric, a reducer and a draw size."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Literal

from agentcompass.metrics.formula.uncertainty import Scale
from agentcompass.metrics.per_task.reducers import Reducer
from agentcompass.models.metric import MetricDisplay, MetricSpec
from agentcompass.models.result import AttemptOutcome


@dataclass(frozen=True, slots=True)
class SeriesPlan:
    """One series of a report, before there are numbers."""

    spec: MetricSpec
    reducer: Reducer
    k: int
    """The draw size: the k of the plan, or less for an estimate from a complete plan."""

    @property
    def series_id(self) -> str:
        """`metric.reducer@k`."""
        return f"{self.spec.metric_id}.{self.reducer.series_name}@{self.k}"

    @property
    def role(self) -> Literal["headline", "auxiliary"]:
        """Every series of the primary metric is a headline; the first of them is *the* headline."""
        return "headline" if self.spec.primary else "auxiliary"

    @property
    def display(self) -> MetricDisplay:
        """The declared display, with a label made from the metric id if it has none."""
        declared = self.spec.display
        if declared.label is not None:
            return declared
        return declared.model_copy(update={"label": default_label(self.spec.metric_id)})

    @property
    def bounds(self) -> tuple[float, float] | None:
        """Smallest and largest possible value of a task, None if there are none."""
        if not self.reducer.keeps_bounds:
            return None
        return (0.0, 1.0) if self.spec.kind == "binary_success" else self.spec.bounds

    def scale(self, k: int) -> Scale:
        """Return what is known about the values of tasks tried k times."""
        is_binary = self.spec.kind == "binary_success" and self.reducer.keeps_bounds
        return Scale(
            is_indicator=is_binary and self.reducer.is_indicator,
            is_share=is_binary and not self.reducer.is_indicator,
            bounds=self.bounds,
            attempts=k,
        )


def default_label(metric_id: str) -> str:
    """Return a readable label: `tests_passed` -> "Tests passed"."""
    words = metric_id.replace("_", " ").strip() or metric_id
    return words[0].upper() + words[1:]


def observation(spec: MetricSpec, outcome: AttemptOutcome | None) -> float | None:
    """Return the observation of one attempt as a number, None if there is no valid one.

    A value of the wrong kind or a non-finite one is no observation: a score of 1 is not a
    success, and NaN would poison every mean that it enters.
    """
    value = outcome.metrics.get(spec.metric_id) if outcome is not None else None
    if value is None or isinstance(value, bool) != (spec.kind == "binary_success"):
        return None
    try:
        number = float(value)
    except OverflowError:  # an integer beyond the range of a float
        return None
    return number if isfinite(number) else None
