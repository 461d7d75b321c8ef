"""The tree of `category_hierarchy`: its configuration, checked once, and its paths.

    {"type": "weighted", "weights": {"coding": 2, "math": 1},
     "children": {"coding": {"type": "unweighted", "children": ["python", "rust"]},
                  "math": {"type": "leaf", "category": "maths"}}}

The root is called `overall`. `type` is `leaf` (one category, by default the node's own name),
`unweighted`, `weighted` (positive `weights`, one for each child) or `weighted_by_count` (evaluated
tasks below each child). A list of children stands for leaves of these names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, cast

from pydantic import JsonValue

from agentcompass.errors import UsageError

ROOT: Final = "overall"
NodeType: TypeAlias = Literal["leaf", "unweighted", "weighted", "weighted_by_count"]
_TYPES: Final = ("leaf", "unweighted", "weighted", "weighted_by_count")
_FIELDS: Final = {"type", "children", "weights", "category"}
_MAX_DEPTH: Final = 32
_WEIGHTS: Final = (1e-9, 1e9)
"""Between these no sum of weights overflows and no share underflows."""


@dataclass(frozen=True, slots=True)
class Node:
    """One node of a checked tree."""

    path: str
    type: NodeType
    category: str = ""
    """The category of a leaf."""
    children: tuple[Node, ...] = ()
    weights: tuple[float, ...] = ()
    """Of the children, in their order; empty unless `weighted`."""

    def leaves(self) -> Iterator[Node]:
        """Yield the leaves below this node, or the node itself, in order."""
        if self.type == "leaf":
            yield self
        for child in self.children:
            yield from child.leaves()


def escape(segment: str) -> str:
    """Return a child's name as one segment of a path: `~` is `~0`, `/` is `~1`."""
    return segment.replace("~", "~0").replace("/", "~1")


def unescape(segment: str) -> str:
    """Undo `escape`."""
    return segment.replace("~1", "/").replace("~0", "~")


def parse_hierarchy(config: JsonValue) -> Node:
    """Return the checked tree.

    Raises:
        UsageError: the configuration breaks a rule; it names the path and the rule.
    """
    root = _parse(config, ROOT, ROOT, depth=1)
    categories = [leaf.category for leaf in root.leaves()]
    twice = sorted({name for name in categories if categories.count(name) > 1})
    if twice:
        raise _broken(ROOT, f"category {twice[0]!r} stands in more than one leaf")
    return root


def require_categories(root: Node, categories: Iterable[str]) -> None:
    """Refuse tasks whose category no leaf covers: they would vanish from the headline."""
    covered = {leaf.category for leaf in root.leaves()}
    lost = sorted(set(categories) - covered)
    if lost:
        raise _broken(ROOT, f"no leaf covers the categories {', '.join(map(repr, lost[:5]))}")


def _broken(path: str, rule: str) -> UsageError:
    return UsageError(f"category hierarchy: {rule}", where=path)


def _parse(config: JsonValue, path: str, name: str, *, depth: int) -> Node:
    if not isinstance(config, dict):
        raise _broken(path, "a node is an object with a type")
    if depth > _MAX_DEPTH:
        raise _broken(path[:200], f"deeper than {_MAX_DEPTH} levels")
    unknown = sorted(set(config) - _FIELDS)
    if unknown:
        raise _broken(path, f"unknown field {unknown[0]!r}; known: {', '.join(sorted(_FIELDS))}")
    kind = config.get("type", "leaf")
    if kind not in _TYPES:
        raise _broken(path, f"unknown type {kind!r}; known: {', '.join(_TYPES)}")
    if kind == "leaf":
        return _leaf(config, path, name)
    children = _children(config, path, depth)
    weights = _weights(config, path, tuple(_child_configs(config, path)))
    return Node(path, cast("NodeType", kind), children=children, weights=weights)


def _leaf(config: Mapping[str, JsonValue], path: str, name: str) -> Node:
    category = config.get("category", name)
    if not isinstance(category, str) or not category:
        raise _broken(path, "the category of a leaf is a non-empty string")
    if "children" in config or "weights" in config:
        raise _broken(path, "a leaf has no children and no weights")
    return Node(path, "leaf", category=category)


def _child_configs(config: Mapping[str, JsonValue], path: str) -> dict[str, JsonValue]:
    found = config.get("children")
    if isinstance(found, list) and all(isinstance(name, str) for name in found):
        names = cast("list[str]", found)
        if len(set(names)) != len(names):
            raise _broken(path, "two children have the same name")
        found = {name: {"type": "leaf"} for name in names}
    if not isinstance(found, dict) or not found or "" in found:
        raise _broken(path, "an inner node needs named children")
    if "category" in config:
        raise _broken(path, "only a leaf has a category")
    return found


def _children(config: Mapping[str, JsonValue], path: str, depth: int) -> tuple[Node, ...]:
    return tuple(
        _parse(child, f"{path}/{escape(name)}", name, depth=depth + 1)
        for name, child in _child_configs(config, path).items()
    )


def _weights(
    config: Mapping[str, JsonValue], path: str, children: tuple[str, ...]
) -> tuple[float, ...]:
    given = config.get("weights")
    if config["type"] != "weighted":
        if given is not None:
            raise _broken(path, "only a weighted node has weights")
        return ()
    if not isinstance(given, dict) or set(given) != set(children):
        raise _broken(path, "a weighted node needs one weight for each of its children")
    return tuple(_weight(given[name], f"{path}/{escape(name)}") for name in children)


def _weight(value: JsonValue, path: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _broken(path, "a weight is a number")
    smallest, largest = _WEIGHTS
    if not smallest <= value <= largest:  # NaN is refused too
        raise _broken(path, f"weight {value} is not between {smallest:g} and {largest:g}")
    return float(value)
