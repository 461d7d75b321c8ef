"""`--aggregation` and `--category-hierarchy` together."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentcompass.coordinator.reading.formula import asked_for, settled
from agentcompass.errors import UsageError
from agentcompass.store.report import Override

TREE = {"type": "unweighted", "children": ["x", "y"]}
OWN = Override("micro_weighted")


def test_nothing_asked_for_is_nothing() -> None:
    assert asked_for(None, None) is None
    assert settled(None, OWN) is None


def test_a_tree_alone_means_its_aggregation() -> None:
    assert asked_for(None, json.dumps(TREE)) == Override("category_hierarchy", TREE)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("tree.json", json.dumps(TREE)),
        ("tree.yaml", "type: unweighted\nchildren: [x, y]\n"),
        ("tree.toml", 'type = "unweighted"\nchildren = ["x", "y"]\n'),
    ],
)
def test_a_tree_may_stand_in_a_file(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)

    asked = asked_for("category_hierarchy", str(tmp_path / name))

    assert asked == Override("category_hierarchy", TREE)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("aggregation", "hierarchy", "problem"),
    [
        ("median", None, "unknown aggregation 'median'"),
        ("category_mean", json.dumps(TREE), "takes no category hierarchy"),
        (None, '{"type": "leaf", "children": []}', "a leaf has no children"),
        (None, '{"type": "leaf"', "not valid JSON"),
        (None, '{"type": "leaf", "type": "leaf"}', "'type' is given twice"),
        (None, '{"type": "weighted", "weights": {"x": NaN}}', "not a finite number"),
        (None, '{"type":' * 5_000 + "1" + "}" * 5_000, "more than 100 levels deep"),
        (None, "no/such/file.json", "cannot read the category hierarchy"),
    ],
)
def test_what_does_not_fit_is_refused(
    aggregation: str | None, hierarchy: str | None, problem: str
) -> None:
    with pytest.raises(UsageError, match=problem):
        asked_for(aggregation, hierarchy)


def test_without_a_tree_that_of_the_run_is_meant() -> None:
    own = Override("category_hierarchy", TREE)  # type: ignore[arg-type]

    assert settled(asked_for("category_hierarchy", None), own) is None
    assert settled(asked_for("category_mean", None), own) == Override("category_mean")


def test_a_run_without_one_says_so() -> None:
    with pytest.raises(UsageError, match="no category hierarchy of its own"):
        settled(asked_for("category_hierarchy", None), OWN)


def test_what_the_run_does_anyway_is_nothing_else() -> None:
    assert settled(asked_for("micro_weighted", None), OWN) is None
