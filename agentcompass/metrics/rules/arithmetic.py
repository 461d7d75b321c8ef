"""Values that follow from others: computed again from the categories and compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import isclose

from agentcompass.metrics.cells import add_counts
from agentcompass.metrics.extras import Bounds, bounds
from agentcompass.metrics.formula.aggregate import Aggregate, Formula, Group
from agentcompass.metrics.formula.hierarchy import ROOT
from agentcompass.metrics.formula.numbers import weighted_mean
from agentcompass.metrics.rules.counts import printed
from agentcompass.models.metric import CategoryValue, Counts, MetricSeries

_TOLERANCE = 1e-9
"""Relative to the largest category: the second way of computing rounds elsewhere."""


class Ruler:
    """Compares numbers of one series."""

    def __init__(self, series: MetricSeries) -> None:
        values = [printed(part) for part in series.categories.values()]
        self._largest = max((abs(value) for value in values if value is not None), default=0.0)

    def same(self, found: float | None, expected: float | None) -> bool:
        """Return whether two numbers are equal but for rounding; None equals None."""
        if found is None or expected is None:
            return found is expected
        return isclose(found, expected, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE * self._largest)


def arithmetic_problems(series: MetricSeries, formula: Formula | None) -> Iterator[str]:
    """Yield values and weights that do not follow; `formula` None: another writer's tree."""
    ruler = Ruler(series)
    if series.kind == "binary_success":
        yield from _range_problems(series)
    if bool(series.hierarchy) != (series.aggregation == "category_hierarchy"):
        yield "a hierarchy belongs to aggregation category_hierarchy, and to no other"
    if formula is None:
        yield from _tree_problems(series, ruler)
        return
    expected = _recomputed(series, formula)
    if not ruler.same(printed(series), expected.value):
        yield f"value {printed(series)} does not follow from its categories: {expected.value}"
    for name, part in series.categories.items():
        if not ruler.same(part.aggregation_weight, expected.weights[name]):
            yield f"category {name!r}: weight is {part.aggregation_weight}, not {expected.weights[name]}"
    yield from _node_problems(series, expected, ruler)


def _range_problems(series: MetricSeries) -> Iterator[str]:
    values = {name: printed(part) for name, part in series.categories.items()}
    for name, value in values.items():
        if value is not None and not 0.0 <= value <= 1.0:
            yield f"category {name!r}: a binary value of {value} is not between 0 and 1"


def bounds_problems(
    series: MetricSeries, formula: Formula | None, of_metric: tuple[float, float] | None
) -> Iterator[str]:
    """Yield what is wrong with `extra.bounds`, if it is there; `of_metric` are those declared."""
    found = bounds(series)
    if found is None:
        return
    if found.n != series.counts.total:
        yield f"bounds: n is {found.n}, the total is {series.counts.total}"
    if (found.lower is None, found.upper is None) != (series.counts.total == 0,) * 2:
        yield "bounds: null belongs to a series without tasks, and to no other"
    elif found.lower is not None and found.upper is not None and found.lower > found.upper:
        yield "bounds: lower exceeds upper"
    readings = (0.0, 1.0) if series.kind == "binary_success" else of_metric
    if formula is not None and readings is not None:
        yield from _both_readings(series, formula, found, readings)


def _both_readings(
    series: MetricSeries, formula: Formula, found: Bounds, readings: tuple[float, float]
) -> Iterator[str]:
    ruler = Ruler(series)
    printed_as = {"lower": found.lower, "upper": found.upper}
    for (name, value), reading in zip(printed_as.items(), readings, strict=True):
        expected = _recomputed(series, formula, missing=reading).value
        if not ruler.same(value, expected):
            yield f"bounds: {name} is {value}, not {expected}"


def _recomputed(series: MetricSeries, formula: Formula, missing: float | None = None) -> Aggregate:
    groups = {name: _group(part, missing) for name, part in series.categories.items()}
    pairs = [(float(g.size), g.value) for g in groups.values() if g.value is not None]
    return formula.apply(groups, weighted_mean(pairs))


def _group(part: CategoryValue, missing: float | None) -> Group:
    """Return the category as it is, or with this value for each task that has none."""
    evaluated, total = part.counts.evaluated, part.counts.total
    value = printed(part)
    if missing is None:
        return Group(value, evaluated)
    own = [(float(evaluated), value)] if value is not None else []
    return Group(weighted_mean([*own, (float(total - evaluated), missing)]), total)


def _node_problems(series: MetricSeries, expected: Aggregate, ruler: Ruler) -> Iterator[str]:
    if set(series.hierarchy) != set(expected.nodes):  # a writer may sort its keys
        yield f"the nodes are {sorted(series.hierarchy)}, not {sorted(expected.nodes)}"
        return
    for path, part in series.hierarchy.items():
        node = expected.nodes[path]
        if not ruler.same(printed(part), node.value):
            yield f"node {path!r}: value is {printed(part)}, not {node.value}"
        if not ruler.same(part.aggregation_weight, node.weight):
            yield f"node {path!r}: weight is {part.aggregation_weight}, not {node.weight}"
        if part.counts != _counts_of(series, node.categories):
            yield f"node {path!r}: the counts are not those of its categories"


def _counts_of(series: MetricSeries, categories: tuple[str, ...]) -> Counts:
    return add_counts(
        series.categories[name].counts for name in categories if name in series.categories
    )


def _tree_problems(series: MetricSeries, ruler: Ruler) -> Iterator[str]:
    """Yield what is wrong with a tree whose configuration is not known."""
    root = series.hierarchy.get(ROOT)
    if root is None:
        yield f"the hierarchy has no node {ROOT!r}"
        return
    if not ruler.same(printed(root), printed(series)) or root.counts != series.counts:
        yield f"node {ROOT!r} is not the series"
    for path in series.hierarchy:
        if path != ROOT and path.rpartition("/")[0] not in series.hierarchy:
            yield f"node {path!r} has no parent"
        below = _children(series.hierarchy, path)
        if below and add_counts(child.counts for child in below) != series.hierarchy[path].counts:
            yield f"node {path!r}: the counts are not those of its children"


def _children(hierarchy: Mapping[str, CategoryValue], path: str) -> list[CategoryValue]:
    return [part for other, part in hierarchy.items() if other.rpartition("/")[0] == path]
