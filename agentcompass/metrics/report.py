"""Outcomes of tasks -> the `MetricReport`, in one pass and in bounded memory.

Kept per series and category: four counters and one float per evaluated task (the uncertainty needs
them), never an object per task. The order of the outcomes does not change a bit of the result.
"""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import JsonValue

from agentcompass.metrics.cells import Cells, ComputedSeries
from agentcompass.metrics.extras import PartialNote
from agentcompass.metrics.failures import FailureTally
from agentcompass.metrics.formula.aggregate import formula
from agentcompass.metrics.formula.hierarchy import require_categories
from agentcompass.metrics.per_task.strategies import planned_series
from agentcompass.metrics.per_task.tasks import CountedAttempts, TaskReducer, TaskValues
from agentcompass.models.metric import MetricContract, MetricReport
from agentcompass.models.request import AttemptPlan
from agentcompass.models.result import TaskOutcomes

__all__ = ["PartialNote", "ReportBuilder", "build_report", "check_plan", "with_notes"]


def check_plan(
    contract: MetricContract,
    attempts: AttemptPlan,
    categories: Iterable[str],
    *,
    aggregation: str = "micro_weighted",
    category_hierarchy: JsonValue = None,
) -> None:
    """Refuse what `build_report` would refuse; to be asked before anything is reserved.

    Raises:
        UsageError: strategy, reducer, aggregation or hierarchy is unknown or does not fit.
    """
    planned_series(contract, attempts)
    chosen = formula(aggregation, category_hierarchy)
    if chosen.tree is not None:
        require_categories(chosen.tree, categories)


def with_notes(report: MetricReport, **notes: JsonValue) -> MetricReport:
    """Return the report with further keys in its `extra`.

    For instance that another writer's run had no task list. Nothing in a report may depend on
    time, place or retries.
    """
    return report.model_copy(update={"extra": {**report.extra, **notes}})


class ReportBuilder:
    """Takes in the frozen tasks of one run, in any order, each exactly once."""

    def __init__(
        self,
        contract: MetricContract,
        attempts: AttemptPlan,
        *,
        aggregation: str = "micro_weighted",
        category_hierarchy: JsonValue = None,
    ) -> None:
        self.reducer = TaskReducer(contract, attempts)
        self._aggregation = aggregation
        self._formula = formula(aggregation, category_hierarchy)
        self._cells = [Cells() for _ in self.reducer.series]
        self._failures = FailureTally(contract.primary)
        self._is_failed = False

    def add(self, task: TaskOutcomes) -> tuple[CountedAttempts, TaskValues]:
        """Take in one task and return what it was reduced to."""
        counted = self.reducer.counted(task)
        self._failures.add(task.task_id, counted)
        values = self.reducer.reduce(counted)
        self._is_failed = self._is_failed or values.is_invalidated
        for cells, value in zip(self._cells, values.values, strict=True):
            cells.add(task.category, value, values)
        return counted, values

    def report(self, partial: PartialNote | None = None) -> MetricReport:
        """Return the report on what was taken in.

        Raises:
            UsageError: the hierarchy has no leaf for a category.
        """
        if self._formula.tree is not None:
            require_categories(self._formula.tree, self._cells[0].categories)
        k = self.reducer.k
        return MetricReport(
            k=k,
            strategy=self.reducer.strategy,
            aggregation=self._aggregation,
            evaluation_failed=self._is_failed,
            series=tuple(
                ComputedSeries(plan, self._formula, k, cells).as_series(is_failed=self._is_failed)
                for plan, cells in zip(self.reducer.series, self._cells, strict=True)
            ),
            extra=self._notes(partial),
        )

    def _notes(self, partial: PartialNote | None) -> dict[str, JsonValue]:
        found: dict[str, JsonValue] = {}
        if partial is not None:
            found["partial"] = partial.model_dump(mode="json")
        table = self._failures.table()
        if table is not None:
            found["failures"] = table.model_dump(mode="json")
        return found


def build_report(
    contract: MetricContract,
    attempts: AttemptPlan,
    outcomes: Iterable[TaskOutcomes],
    *,
    aggregation: str = "micro_weighted",
    category_hierarchy: JsonValue = None,
    partial: PartialNote | None = None,
) -> MetricReport:
    """Return the report of a run over its frozen tasks, each of which comes exactly once.

    Args:
        outcomes: all selected tasks, in any order; the denominator of every count.

    Raises:
        UsageError: strategy, reducer, aggregation or hierarchy is unknown or does not fit.
    """
    builder = ReportBuilder(
        contract, attempts, aggregation=aggregation, category_hierarchy=category_hierarchy
    )
    for task in outcomes:
        builder.add(task)
    return builder.report(partial)
