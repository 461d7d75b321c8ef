"""Analyzers look at the attempt between its evaluation and its publication."""

from __future__ import annotations

from agentcompass.models.base import JsonObject
from agentcompass.models.result import AttemptResult
from agentcompass.runtime.execution.attempt import Attempt
from agentcompass.runtime.execution.failures import Failure
from agentcompass.runtime.issues import issue
from agentcompass.runtime.normalize import Normalizer
from agentcompass.runtime.phases.plugin import tried
from agentcompass.runtime.values.cleaning import shortened


def analyzed(attempt: Attempt, result: AttemptResult) -> tuple[JsonObject, tuple[Failure, ...]]:
    """Return `analysis_result` by analyzer id, and a WARNING for each analyzer that failed."""
    found: JsonObject = {}
    failures = []
    for analyzer in attempt.parts.analyzers:
        limit = attempt.phase(attempt.plan.deadlines.evaluate_timeout_s, "evaluation_timeout")
        analysis = tried("analyze", limit, analyzer.analyze, result)
        if isinstance(analysis, Failure):
            failures.append(_warning(analyzer.id, analysis.issue.message, analysis.diagnostics))
            continue
        writer = Normalizer(text=shortened)
        found[analyzer.id] = writer.mapping(analysis, analyzer.id)
        failures += [_warning(analyzer.id, str(problem)) for problem in writer.problems]
    return found, tuple(failures)


def _warning(analyzer: str, message: str, diagnostics: str = "") -> Failure:
    text = f"{analyzer}: {message}"
    return Failure(issue("warning", "evaluate", "analyzer_failed", text), diagnostics)
