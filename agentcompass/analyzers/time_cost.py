"""Analyzer `time_cost`."""

from __future__ import annotations

from collections.abc import Iterable

from typing_extensions import override

from agentcompass.analyzers.base import Analyzer
from agentcompass.analyzers.numbers import Measured, Spread, known, measured
from agentcompass.analyzers.steps import steps_of
from agentcompass.models.base import JsonObject, NoParams, Record
from agentcompass.models.result import AttemptResult

PARTS = ("attempt_s", "agent_s", "model_s", "actions_s", "other_s")


class TimeCost(Record):
    """Seconds of one attempt; null is not measured."""

    attempt_s: float | None = None
    """From the start of its (last) execution to its verdict."""
    agent_s: float | None = None
    """From the first step to the last."""
    model_s: float | None = None
    actions_s: float | None = None
    other_s: float | None = None
    """Of the agent's time neither model nor action; null if either is unknown or they overlap."""


class TimeCosts(Analyzer[NoParams]):
    """Where an attempt's time goes: the model, actions in the environment, the rest."""

    id = "time_cost"

    @override
    def analyze(self, attempt: AttemptResult) -> JsonObject:
        steps = steps_of(attempt) or ()
        agent_s = _agent_s(attempt)
        model_s = _seconds(measured(step.metric.llm_infer_ms for step in steps))
        actions_s = _seconds(measured(step.metric.env_action_ms for step in steps))
        return TimeCost(
            attempt_s=_attempt_s(attempt),
            agent_s=agent_s,
            model_s=model_s,
            actions_s=actions_s,
            other_s=_other_s(agent_s, model_s, actions_s),
        ).model_dump()

    @override
    def summarize(self, results: Iterable[JsonObject]) -> JsonObject:
        spreads = {name: Spread() for name in PARTS}
        for each in map(TimeCost.model_validate, results):
            for name, spread in spreads.items():
                spread.add(getattr(each, name))
        return {name: spread.summary() for name, spread in spreads.items()}


def _seconds(found: Measured) -> float | None:
    return found.whole / 1000 if found.of and found.whole is not None else None


def _attempt_s(attempt: AttemptResult) -> float | None:
    if attempt.started_at is None or attempt.finished_at is None:
        return None
    return known((attempt.finished_at - attempt.started_at).total_seconds())


def _agent_s(attempt: AttemptResult) -> float | None:
    whole = attempt.trajectory
    if whole is None:
        return None
    begun = whole.started_at or (whole.steps[0].started_at if whole.steps else None)
    ended = whole.finished_at or (whole.steps[-1].finished_at if whole.steps else None)
    return known((ended - begun).total_seconds()) if begun and ended else None


def _other_s(agent_s: float | None, model_s: float | None, actions_s: float | None) -> float | None:
    if agent_s is None or model_s is None or actions_s is None:
        return None
    return known(agent_s - model_s - actions_s)
