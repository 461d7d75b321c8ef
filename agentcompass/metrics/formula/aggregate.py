"""Values of tasks -> one number: `micro_weighted`, `category_mean`, `category_hierarchy`.

All three are weighted means of category values. They differ in the weights, and a category or
node without a value takes no part: the others are weighted anew, and the counts say so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import fsum
from typing import Final

from pydantic import JsonValue

from agentcompass.errors import UsageError
from agentcompass.metrics.formula.hierarchy import Node, parse_hierarchy
from agentcompass.metrics.formula.numbers import weighted_mean

AGGREGATIONS: Final = ("micro_weighted", "category_mean", "category_hierarchy")


@dataclass(frozen=True, slots=True)
class Group:
    """The mean of one category's tasks, None without any, and how many tasks it is over."""

    value: float | None
    size: int


@dataclass(frozen=True, slots=True)
class NodeValue:
    """The value of a node and its weight in its parent (sums to 1 over siblings with a value)."""

    value: float | None
    weight: float | None
    categories: tuple[str, ...]
    """Of all leaves below, for the counts."""


@dataclass(frozen=True, slots=True)
class Aggregate:
    """The overall value and how it comes about."""

    value: float | None
    weights: Mapping[str, float]
    """Category -> weight as reported: tasks for `micro_weighted`, 1 for `category_mean`, the share
    of the whole for `category_hierarchy`; 0 without a value. Value = weighted mean by these."""
    nodes: Mapping[str, NodeValue] = field(default_factory=dict)
    """Path -> node, parents first."""


@dataclass(frozen=True, slots=True)
class Formula:
    """A checked aggregation."""

    id: str
    tree: Node | None = None

    def apply(self, groups: Mapping[str, Group], pooled: float | None) -> Aggregate:
        """Combine categories; `pooled` is the mean over all tasks, computed without a detour."""
        if self.tree is not None:
            return _over_tree(self.tree, groups)
        if self.id == "micro_weighted":
            return Aggregate(pooled, {name: float(g.size) for name, g in groups.items()})
        weights = {name: float(group.value is not None) for name, group in groups.items()}
        return Aggregate(_mean_by(weights, groups), weights)


def formula(aggregation: str, category_hierarchy: JsonValue = None) -> Formula:
    """Return the checked formula.

    Raises:
        UsageError: unknown aggregation, or a hierarchy that is broken, missing or not asked for.
    """
    if aggregation not in AGGREGATIONS:
        raise UsageError(
            f"unknown aggregation {aggregation!r}", hint=f"known: {', '.join(AGGREGATIONS)}"
        )
    if aggregation == "category_hierarchy":
        return Formula(aggregation, parse_hierarchy(category_hierarchy))
    if category_hierarchy is not None:
        raise UsageError(f"aggregation {aggregation!r} takes no category hierarchy")
    return Formula(aggregation)


def _mean_by(weights: Mapping[str, float], groups: Mapping[str, Group]) -> float | None:
    return weighted_mean(
        [(weights[name], g.value) for name, g in groups.items() if g.value is not None]
    )


@dataclass(frozen=True, slots=True)
class _Sub:
    value: float | None
    size: int
    shares: Mapping[str, float]
    """Category -> its share of this node's value; only categories with a value."""
    nodes: Mapping[str, NodeValue]
    categories: tuple[str, ...]


def _over_tree(tree: Node, groups: Mapping[str, Group]) -> Aggregate:
    root = _reduce_node(tree, groups)
    nodes = {tree.path: NodeValue(root.value, None, root.categories), **root.nodes}
    return Aggregate(root.value, {name: root.shares.get(name, 0.0) for name in groups}, nodes)


def _reduce_node(node: Node, groups: Mapping[str, Group]) -> _Sub:
    if node.type == "leaf":
        group = groups.get(node.category, Group(None, 0))
        shares = {node.category: 1.0} if group.value is not None else {}
        return _Sub(group.value, group.size, shares, {}, (node.category,))
    subs = [_reduce_node(child, groups) for child in node.children]
    weights = _renormalized(node, subs)
    nodes: dict[str, NodeValue] = {}
    for child, sub, weight in zip(node.children, subs, weights, strict=True):
        nodes[child.path] = NodeValue(sub.value, weight, sub.categories)
        nodes.update(sub.nodes)
    return _Sub(
        value=weighted_mean(
            [(w, s.value) for w, s in zip(weights, subs, strict=True) if s.value is not None]
        ),
        size=sum(sub.size for sub in subs),
        shares={
            name: weight * share
            for weight, sub in zip(weights, subs, strict=True)
            for name, share in sub.shares.items()
        },
        nodes=nodes,
        categories=tuple(name for sub in subs for name in sub.categories),
    )


def _renormalized(node: Node, subs: list[_Sub]) -> list[float]:
    """Return the children's weights, 0 without a value, scaled to a sum of 1 (or all 0)."""
    given = _given_weights(node, subs)
    used = [w if sub.value is not None else 0.0 for w, sub in zip(given, subs, strict=True)]
    total = fsum(used)
    return [w / total for w in used] if total > 0 else used


def _given_weights(node: Node, subs: list[_Sub]) -> list[float]:
    if node.type == "weighted":
        return list(node.weights)
    if node.type == "weighted_by_count":
        return [float(sub.size) for sub in subs]
    return [1.0] * len(subs)
