"""The examples of docs/metrics.md work, and what it says of failures is what the code decides."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

import pytest

from agentcompass.metrics.failures import OBSERVATION_MISSING, culprit_of
from agentcompass.metrics.formula.aggregate import AGGREGATIONS
from agentcompass.metrics.formula.hierarchy import parse_hierarchy
from agentcompass.metrics.per_task.reducers import REDUCERS, Reducer
from agentcompass.metrics.report import build_report
from agentcompass.metrics.validate import Expected, validate_report
from agentcompass.models.request import AttemptPlan
from agentcompass.models.result import AttemptMeta, TaskOutcomes
from tests.builders import a_result, an_outcome

TEXT: Final = (Path(__file__).parents[1] / "docs" / "metrics.md").read_text(encoding="utf-8")
MIDDLE: Final = re.compile(r"^\| ([a-z ]+) \| (.*) \| (.*) \|$", re.MULTILINE)


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)


def test_the_example_of_an_own_formula_makes_a_valid_report() -> None:
    namespace: dict[str, Any] = {}
    exec(blocks("python")[0], namespace)
    benchmark = namespace["Suites"](namespace["Suites"].Params())
    tasks = [
        TaskOutcomes(task_id=name, category="c", attempts=(an_outcome(score=0.5),)) for name in "ab"
    ]
    report = build_report(benchmark.contract, AttemptPlan(), tasks)
    details = [
        a_result(name, metrics={"score": 0.5}).model_copy(
            update={
                "meta": AttemptMeta(benchmark={"tests": {"passed": passed, "all": 10 * passed}})
            }
        )
        for name, passed in (("a", 1), ("b", 3))
    ]

    made = benchmark.aggregate_metrics(iter(details), report)

    assert [series.value for series in made.series] == [0.1, 4.0]
    validate_report(made, Expected(benchmark.contract, AttemptPlan(), total=2))


def test_the_example_of_an_own_reducer_reduces() -> None:
    namespace: dict[str, Reducer] = {}
    exec(blocks("python")[1], namespace)

    best = namespace["BEST"]

    assert (best.draws(1), best.draws(3)) == ((), (3,))
    assert best.reduce([0.5, 1.5], 2) == 1.5
    assert best.reduce([0.5, None], 2) is None


def test_the_example_of_a_tree_is_one() -> None:
    tree = parse_hierarchy(json.loads(blocks("json")[0]))

    assert [leaf.category for leaf in tree.leaves()] == ["python", "rust", "maths"]


def test_every_reducer_and_aggregation_has_its_row() -> None:
    assert {*re.findall(r"^\| `([a-z]+(?:@j)?)`", TEXT, re.MULTILINE)} >= {*REDUCERS.known()}
    assert {*re.findall(r"^\| `([a-z_]+)` \|", TEXT, re.MULTILINE)} >= {*AGGREGATIONS}


def whose() -> list[tuple[str, str, str]]:
    section = TEXT.split("| whose | codes | phases |")[1].split("\n## ")[0]
    return [
        (culprit, *pair)
        for culprit, codes, phases in MIDDLE.findall(section)
        for pair in [
            *(("run", code) for code in re.findall(r"`([a-z_]+)`", codes)),
            *((phase, "invented") for phase in re.findall(r"[a-z]+", phases)),
        ]
    ]


@pytest.mark.parametrize(("culprit", "phase", "code"), whose())
def test_whose_failure_it_is_is_documented(culprit: str, phase: str, code: str) -> None:
    assert culprit_of(phase, code) == culprit  # type: ignore[arg-type]
    assert OBSERVATION_MISSING in TEXT
