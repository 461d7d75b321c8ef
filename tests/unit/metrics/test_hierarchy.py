"""The tree of categories and its configuration."""

from __future__ import annotations

import pytest
from pydantic import JsonValue

from agentcompass.errors import UsageError
from agentcompass.metrics.formula.aggregate import Group, formula
from agentcompass.metrics.formula.hierarchy import (
    escape,
    parse_hierarchy,
    require_categories,
    unescape,
)

GROUPS = {"a": Group(1.0, 1), "b": Group(0.0, 3), "c": Group(0.5, 10), "d": Group(None, 0)}


def value_of(config: JsonValue) -> float | None:
    return formula("category_hierarchy", config).apply(GROUPS, None).value


@pytest.mark.parametrize(
    ("config", "value"),
    [
        ({"type": "leaf", "category": "c"}, 0.5),
        ({"type": "unweighted", "children": ["a", "b", "c"]}, 0.5),
        ({"type": "weighted_by_count", "children": ["a", "b"]}, 0.25),
        ({"type": "weighted", "children": ["a", "b"], "weights": {"a": 3, "b": 1}}, 0.75),
        ({"type": "unweighted", "children": ["a", "d"]}, 1.0),  # d has no value and no say
        ({"type": "unweighted", "children": ["d", "nobody"]}, None),
        (
            {
                "type": "unweighted",
                "children": {
                    "inner": {"type": "weighted_by_count", "children": ["a", "b"]},
                    "other": {"type": "leaf", "category": "c"},
                },
            },
            0.375,
        ),
    ],
)
def test_each_type_of_node_weighs_its_children_in_its_way(
    config: JsonValue, value: float | None
) -> None:
    assert value_of(config) == value


def test_weights_are_shares_of_the_children_that_have_a_value() -> None:
    config: JsonValue = {
        "type": "weighted",
        "weights": {"a": 1, "b": 3, "d": 96},
        "children": ["a", "b", "d"],
    }

    result = formula("category_hierarchy", config).apply(GROUPS, None)

    assert [node.weight for node in result.nodes.values()] == [None, 0.25, 0.75, 0.0]
    assert result.weights == {"a": 0.25, "b": 0.75, "c": 0.0, "d": 0.0}


def test_a_path_escapes_what_separates_its_segments() -> None:
    root = parse_hierarchy({"type": "unweighted", "children": ["a/b", "c~d"]})

    assert [child.path for child in root.children] == ["overall/a~1b", "overall/c~0d"]
    assert [child.category for child in root.children] == ["a/b", "c~d"]


@pytest.mark.parametrize("name", ["a", "a/b", "~", "~1", "~0", "/~/"])
def test_an_escaped_segment_is_read_back(name: str) -> None:
    assert unescape(escape(name)) == name
    assert "/" not in escape(name)


def deep(levels: int) -> JsonValue:
    tree: JsonValue = {"type": "leaf", "category": "a"}
    for _ in range(levels):
        tree = {"type": "unweighted", "children": {"x": tree}}
    return tree


@pytest.mark.parametrize(
    ("config", "rule"),
    [
        (None, "a node is an object"),
        (["a"], "a node is an object"),
        ({"type": "mean", "children": ["a"]}, "unknown type 'mean'"),
        ({"type": "leaf", "catgory": "a"}, "unknown field 'catgory'"),
        ({"type": "leaf", "category": ""}, "non-empty string"),
        ({"type": "leaf", "category": 1}, "non-empty string"),
        ({"type": "leaf", "children": ["a"]}, "a leaf has no children"),
        ({"type": "unweighted"}, "needs named children"),
        ({"type": "unweighted", "children": {}}, "needs named children"),
        ({"type": "unweighted", "children": {"": {"type": "leaf"}}}, "needs named children"),
        ({"type": "unweighted", "children": [1]}, "needs named children"),
        ({"type": "unweighted", "children": ["a", "a"]}, "same name"),
        ({"type": "unweighted", "children": ["a"], "category": "a"}, "only a leaf has a category"),
        ({"type": "unweighted", "children": ["a"], "weights": {"a": 1}}, "only a weighted node"),
        ({"type": "weighted", "children": ["a"]}, "one weight for each"),
        ({"type": "weighted", "children": ["a"], "weights": {"b": 1}}, "one weight for each"),
        ({"type": "weighted", "children": ["a"], "weights": {"a": 0}}, "is not between"),
        ({"type": "weighted", "children": ["a"], "weights": {"a": True}}, "a weight is a number"),
        ({"type": "weighted", "children": ["a"], "weights": {"a": "1"}}, "a weight is a number"),
        (
            {"type": "unweighted", "children": {"x": {"type": "leaf", "category": "a"}, "a": {}}},
            "'a' stands in more than one leaf",
        ),
        (deep(40), "deeper than 32 levels"),
    ],
)
def test_a_broken_tree_is_refused_with_path_and_rule(config: JsonValue, rule: str) -> None:
    with pytest.raises(UsageError, match=rule) as caught:
        parse_hierarchy(config)

    assert caught.value.where.startswith("overall")


def test_a_category_without_a_leaf_is_refused() -> None:
    root = parse_hierarchy({"type": "unweighted", "children": ["a"]})

    require_categories(root, ["a"])
    with pytest.raises(UsageError, match="no leaf covers the categories 'b', 'c'"):
        require_categories(root, ["c", "a", "b"])


def test_an_unknown_aggregation_lists_the_known_ones() -> None:
    with pytest.raises(UsageError, match="known: micro_weighted, category_mean"):
        formula("median")


def test_a_tree_that_nobody_uses_is_refused() -> None:
    with pytest.raises(UsageError, match="takes no category hierarchy"):
        formula("category_mean", {"type": "leaf", "category": "a"})
