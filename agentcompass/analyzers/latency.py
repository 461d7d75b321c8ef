"""Analyzer `latency`."""

from __future__ import annotations

from collections.abc import Iterable

from typing_extensions import override

from agentcompass.analyzers.base import Analyzer
from agentcompass.analyzers.numbers import Measured, Spread, known, measured, percentile
from agentcompass.analyzers.steps import steps_of
from agentcompass.models.base import JsonObject, NoParams, Record
from agentcompass.models.result import AttemptResult


class Latency(Record):
    """Of one attempt; null without a trajectory or a measurement."""

    model_ms: Measured = Measured()
    model_ms_p50: float | None = None
    model_ms_p90: float | None = None
    action_ms: Measured = Measured()


class Latencies(Analyzer[NoParams]):
    """How long a model's answer and an action in the environment take, step by step."""

    id = "latency"

    @override
    def analyze(self, attempt: AttemptResult) -> JsonObject:
        steps = steps_of(attempt) or ()
        ordered = sorted(
            value for step in steps if (value := known(step.metric.llm_infer_ms)) is not None
        )
        return Latency(
            model_ms=measured(step.metric.llm_infer_ms for step in steps),
            model_ms_p50=percentile(ordered, 50),
            model_ms_p90=percentile(ordered, 90),
            action_ms=measured(step.metric.env_action_ms for step in steps),
        ).model_dump()

    @override
    def summarize(self, results: Iterable[JsonObject]) -> JsonObject:
        """Spread what each attempt has of its own: its median, its 90th percentile, its slowest."""
        names = ("p50", "p90", "max")
        model = {name: Spread() for name in names}
        action = Spread()
        calls, model_ms = 0, 0.0
        for each in map(Latency.model_validate, results):
            model["p50"].add(each.model_ms_p50)
            model["p90"].add(each.model_ms_p90)
            model["max"].add(each.model_ms.max)
            action.add(each.action_ms.max)
            calls += each.model_ms.known
            model_ms += each.model_ms.sum or 0.0
        return {
            "model_calls": calls,
            "model_ms_mean": model_ms / calls if calls else None,
            **{f"model_ms_{name}_of_attempts": model[name].summary() for name in names},
            "slowest_action_ms_of_attempts": action.summary(),
        }
