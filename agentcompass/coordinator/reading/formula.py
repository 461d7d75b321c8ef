"""Another cross-task formula, as somebody asks for it on the command line."""

from __future__ import annotations

from pathlib import Path

from pydantic import JsonValue

from agentcompass.coordinator.asking.request_file import parsed_json, read_mapping
from agentcompass.errors import UsageError
from agentcompass.metrics.formula.aggregate import formula
from agentcompass.store.report import Override

TREE = "category_hierarchy"


def asked_for(aggregation: str | None, hierarchy: str | None) -> Override | None:
    """Return the formula that the two options mean together; None if neither was given.

    Args:
        aggregation: its id; a hierarchy alone means `category_hierarchy`, which without one means
            that of the run.
        hierarchy: a JSON object, or a file that holds one (YAML and TOML too).

    Raises:
        UsageError: there is no such aggregation, or the hierarchy is broken or not used by it.
    """
    if aggregation is None and hierarchy is None:
        return None
    asked = Override(aggregation or TREE, None if hierarchy is None else _tree(hierarchy))
    if asked.category_hierarchy is not None or asked.aggregation != TREE:
        formula(asked.aggregation, asked.category_hierarchy)
    return asked


def settled(asked: Override | None, own: Override) -> Override | None:
    """Return what is asked for of a run with this formula of its own; None if that is the same.

    Raises:
        UsageError: a hierarchy is asked for, nobody gave one and the run has none.
    """
    if asked is None:
        return None
    if asked.aggregation == TREE and asked.category_hierarchy is None:
        if own.category_hierarchy is None:
            raise UsageError(
                "the run has no category hierarchy of its own",
                where="--aggregation category_hierarchy",
                hint="give one with --category-hierarchy",
            )
        asked = Override(TREE, own.category_hierarchy)
    return None if asked == own else asked


def _tree(given: str) -> JsonValue:
    if given.lstrip().startswith("{"):
        return parsed_json(given, "--category-hierarchy")
    return read_mapping(Path(given), "category hierarchy")
