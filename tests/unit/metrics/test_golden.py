"""One small run whose `metrics.json` is written out, number by number.

Four tasks in two categories, three attempts each: t0 right, wrong, right; t1 three times right; t2
wrong with an error beside it; t3 of another category lost its last attempt.
"""

from __future__ import annotations

import json

from pydantic import JsonValue

from agentcompass.metrics.report import build_report
from agentcompass.models.metric import MetricSpec
from agentcompass.models.request import AttemptPlan
from agentcompass.models.result import TaskOutcomes
from tests.builders import a_contract, an_issue, an_outcome

CONTRACT = a_contract("binary_success", MetricSpec(metric_id="steps", kind="scalar"))
RUN = [
    TaskOutcomes(
        task_id="t0",
        category="x",
        attempts=(
            an_outcome(correct=True, steps=1),
            an_outcome(correct=False, steps=2),
            an_outcome(correct=True, steps=3),
        ),
    ),
    TaskOutcomes(task_id="t1", category="x", attempts=(an_outcome(correct=True, steps=4.5),) * 3),
    TaskOutcomes(
        task_id="t2",
        category="x",
        attempts=(
            an_outcome(correct=False, steps=1),
            an_outcome(an_issue("error"), correct=False, steps=1),
            an_outcome(correct=False, steps=1),
        ),
    ),
    TaskOutcomes(
        task_id="t3",
        category="y",
        attempts=(an_outcome(correct=True, steps=1), an_outcome(correct=False, steps=2), None),
    ),
]

GOLDEN = """
{"schema_version": "agentcompass.metric_report.v1", "k": 3, "strategy": "avg",
 "aggregation": "micro_weighted", "evaluation_failed": false, "series": [
 {"series_id": "correct.avg@3", "metric_id": "correct", "kind": "binary_success",
  "reducer": "avg", "role": "headline", "aggregation": "micro_weighted", "k": 3,
  "value": 0.5555555555555555, "reference_value": null,
  "counts": {"total": 4, "evaluated": 3, "error": 1, "unavailable": 1, "invalidated": 0},
  "categories": {
   "x": {"value": 0.5555555555555555, "reference_value": null, "aggregation_weight": 3.0,
    "counts": {"total": 3, "evaluated": 3, "error": 1, "unavailable": 0, "invalidated": 0}},
   "y": {"value": null, "reference_value": null, "aggregation_weight": 0.0,
    "counts": {"total": 1, "evaluated": 0, "error": 0, "unavailable": 1, "invalidated": 0}}},
  "hierarchy": {},
  "display": {"label": "Correct", "description": null, "unit": null, "precision": null}},
 {"series_id": "correct.pass@3", "metric_id": "correct", "kind": "binary_success",
  "reducer": "pass", "role": "headline", "aggregation": "micro_weighted", "k": 3,
  "value": 0.75, "reference_value": null,
  "counts": {"total": 4, "evaluated": 4, "error": 1, "unavailable": 0, "invalidated": 0},
  "categories": {
   "x": {"value": 0.6666666666666666, "reference_value": null, "aggregation_weight": 3.0,
    "counts": {"total": 3, "evaluated": 3, "error": 1, "unavailable": 0, "invalidated": 0}},
   "y": {"value": 1.0, "reference_value": null, "aggregation_weight": 1.0,
    "counts": {"total": 1, "evaluated": 1, "error": 0, "unavailable": 0, "invalidated": 0}}},
  "hierarchy": {},
  "display": {"label": "Correct", "description": null, "unit": null, "precision": null}},
 {"series_id": "steps.avg@3", "metric_id": "steps", "kind": "scalar",
  "reducer": "avg", "role": "auxiliary", "aggregation": "micro_weighted", "k": 3,
  "value": 2.5, "reference_value": null,
  "counts": {"total": 4, "evaluated": 3, "error": 1, "unavailable": 1, "invalidated": 0},
  "categories": {
   "x": {"value": 2.5, "reference_value": null, "aggregation_weight": 3.0,
    "counts": {"total": 3, "evaluated": 3, "error": 1, "unavailable": 0, "invalidated": 0}},
   "y": {"value": null, "reference_value": null, "aggregation_weight": 0.0,
    "counts": {"total": 1, "evaluated": 0, "error": 0, "unavailable": 1, "invalidated": 0}}},
  "hierarchy": {},
  "display": {"label": "Steps", "description": null, "unit": null, "precision": null}}]}
"""


def without_extra(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return {key: without_extra(child) for key, child in value.items() if key != "extra"}
    if isinstance(value, list):
        return [without_extra(child) for child in value]
    return value


def test_the_report_of_a_small_run_is_the_one_written_out_here() -> None:
    report = build_report(CONTRACT, AttemptPlan(k=3), RUN)

    assert without_extra(json.loads(report.model_dump_json())) == json.loads(GOLDEN)


def test_what_is_ours_stands_under_extra_only() -> None:
    report = build_report(CONTRACT, AttemptPlan(k=3), RUN)

    assert set(report.extra) == {"failures"}
    assert [set(series.extra) for series in report.series] == [
        {"uncertainty", "category_uncertainty", "bounds"},
        {"uncertainty", "category_uncertainty", "bounds"},
        {"uncertainty", "category_uncertainty"},  # steps have no bounds
    ]
