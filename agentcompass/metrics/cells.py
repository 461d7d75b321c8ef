"""The tasks of one series, sorted into categories, and everything that is printed about them."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain

from pydantic import JsonValue

from agentcompass.metrics.extras import Bounds
from agentcompass.metrics.formula.aggregate import Aggregate, Formula, Group, NodeValue
from agentcompass.metrics.formula.numbers import mean
from agentcompass.metrics.formula.uncertainty import Uncertainty, combine_shares, of_mean
from agentcompass.metrics.per_task.series import SeriesPlan
from agentcompass.metrics.per_task.tasks import TaskValues
from agentcompass.models.metric import CategoryValue, Counts, MetricSeries


@dataclass(slots=True)
class Cell:
    """The tasks of one category in one series."""

    values: array[float] = field(default_factory=lambda: array("d"))
    """Of the evaluated tasks, 8 bytes each."""
    unavailable: int = 0
    invalidated: int = 0
    error: int = 0

    def add(self, value: float | None, task: TaskValues) -> None:
        """Count one task."""
        self.error += task.has_error
        if task.is_invalidated:
            self.invalidated += 1
        elif value is None:
            self.unavailable += 1
        else:
            self.values.append(value)

    @property
    def counts(self) -> Counts:
        """The counters as reported."""
        return Counts(
            total=len(self.values) + self.without_value,
            evaluated=len(self.values),
            error=self.error,
            unavailable=self.unavailable,
            invalidated=self.invalidated,
        )

    @property
    def without_value(self) -> int:
        """Tasks that are unavailable or invalidated."""
        return self.unavailable + self.invalidated

    def filled(self, value: float) -> array[float]:
        """Return the values of all tasks, if those without one had this."""
        return self.values + array("d", [value]) * self.without_value


class Cells:
    """One series while it grows."""

    def __init__(self) -> None:
        self._cells: dict[str, Cell] = {}

    @property
    def categories(self) -> tuple[str, ...]:
        """The categories that have tasks."""
        return tuple(self._cells)

    def add(self, category: str, value: float | None, task: TaskValues) -> None:
        """Count one task."""
        cell = self._cells.get(category)
        if cell is None:
            cell = self._cells[category] = Cell()
        cell.add(value, task)

    def by_name(self) -> dict[str, Cell]:
        """Return the cells in the order of their names, which no order of tasks can change."""
        return dict(sorted(self._cells.items()))


class ComputedSeries:
    """All that is printed of one series."""

    def __init__(self, plan: SeriesPlan, formula: Formula, k: int, cells: Cells) -> None:
        self._plan = plan
        self._formula = formula
        self._scale = plan.scale(k)
        self._cells = cells.by_name()
        self._counts = {name: cell.counts for name, cell in self._cells.items()}
        self._means = {name: _group(cell.values) for name, cell in self._cells.items()}
        self._result = self._aggregate({name: cell.values for name, cell in self._cells.items()})

    def as_series(self, *, is_failed: bool) -> MetricSeries:
        """Return the series; one invalidated task anywhere withholds every official value."""

        def part(value: float | None, weight: float | None, counts: Counts) -> CategoryValue:
            return CategoryValue(
                value=None if is_failed else value,
                reference_value=value if is_failed else None,
                counts=counts,
                aggregation_weight=weight,
            )

        plan, result = self._plan, self._result
        whole = part(result.value, None, add_counts(self._counts.values()))
        return MetricSeries(
            series_id=plan.series_id,
            metric_id=plan.spec.metric_id,
            kind=plan.spec.kind,
            reducer=plan.reducer.series_name,
            role=plan.role,
            aggregation=self._formula.id,
            k=plan.k,
            value=whole.value,
            reference_value=whole.reference_value,
            counts=whole.counts,
            categories={
                name: part(group.value, result.weights[name], self._counts[name])
                for name, group in self._means.items()
            },
            hierarchy={
                path: part(node.value, node.weight, self._counts_below(node))
                for path, node in result.nodes.items()
            },
            display=plan.display,
            extra=self._extra(),
        )

    def _aggregate(self, values: dict[str, array[float]]) -> Aggregate:
        groups = {name: _group(each) for name, each in values.items()}
        pooled = _group(array("d", chain.from_iterable(values.values())))
        return self._formula.apply(groups, pooled.value)

    def _counts_below(self, node: NodeValue) -> Counts:
        return add_counts(self._counts[name] for name in node.categories if name in self._counts)

    def _extra(self) -> dict[str, JsonValue]:
        by_category = {
            name: of_mean(cell.values, self._scale) for name, cell in self._cells.items()
        }
        extra: dict[str, JsonValue] = {
            "uncertainty": self._uncertainty(by_category).model_dump(mode="json"),
            "category_uncertainty": {
                name: u.model_dump(mode="json") for name, u in by_category.items()
            },
        }
        if self._plan.bounds is not None:
            extra["bounds"] = self._bounds(*self._plan.bounds).model_dump(mode="json")
        return extra

    def _uncertainty(self, by_category: dict[str, Uncertainty]) -> Uncertainty:
        if self._formula.id == "micro_weighted":
            values = chain.from_iterable(cell.values for cell in self._cells.values())
            return of_mean(array("d", values), self._scale)
        means = {name: group.value for name, group in self._means.items()}
        return combine_shares(self._result.weights, means, by_category)

    def _bounds(self, worst: float, best: float) -> Bounds:
        """Return what the value would be if all tasks without one had the worst, or the best."""
        lower = self._aggregate({name: cell.filled(worst) for name, cell in self._cells.items()})
        upper = self._aggregate({name: cell.filled(best) for name, cell in self._cells.items()})
        total = sum(counts.total for counts in self._counts.values())
        return Bounds(lower=lower.value, upper=upper.value, n=total)


def add_counts(counts: Iterable[Counts]) -> Counts:
    """Return the counts of several disjoint groups of tasks."""
    every = list(counts)
    return Counts(
        total=sum(c.total for c in every),
        evaluated=sum(c.evaluated for c in every),
        error=sum(c.error for c in every),
        unavailable=sum(c.unavailable for c in every),
        invalidated=sum(c.invalidated for c in every),
    )


def _group(values: array[float]) -> Group:
    return Group(mean(values) if values else None, len(values))
