"""Strict JSON for whole records: run results, prepared tasks, trajectories, published results.

The table is in `normalize`; this knows the records' fields, which of them hold facts that are
never cut (answers, ground truth, observations), and which hold long text of which a part will do.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import sha256
from typing import Final, TypeVar

from pydantic import BaseModel

from agentcompass.models.issue import Issue, Phase
from agentcompass.models.result import AttemptMeta, AttemptResult, RunResult
from agentcompass.models.task import PreparedTask
from agentcompass.runtime.issues import issue
from agentcompass.runtime.normalize import Normalizer, Problem, TextRule
from agentcompass.runtime.redact import redact
from agentcompass.runtime.values.masking import Masker
from agentcompass.store.records import compact

ModelT = TypeVar("ModelT", bound=BaseModel)

INLINE_LIMIT: Final = 1_000_000
"""Characters of one text in a trajectory, in telemetry or in evidence. Large streams belong among
the artifacts; final answers and observations are never cut."""
_SHOWN_PROBLEMS: Final = 10


def shortened(text: str) -> str:
    """Return text of at most `INLINE_LIMIT` characters; a marker tells length and digest."""
    if len(text) <= INLINE_LIMIT:
        return text
    digest = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    marker = f"\n[… cut; all {len(text)} characters have sha256 {digest} …]\n"
    half = INLINE_LIMIT // 2 - len(marker)
    return f"{text[:half]}{marker}{text[-half:]}"


def clean_result(result: RunResult) -> tuple[RunResult, list[Problem]]:
    """Return a run result that can be written, and what in it could not."""
    facts, evidence = Normalizer(), Normalizer(text=shortened)
    fields: dict[str, object] = {
        "final_answer": facts.value(result.final_answer, "final_answer"),
        "ground_truth": facts.value(result.ground_truth, "ground_truth"),
        "trajectory": result.trajectory and clean_model(evidence, result.trajectory, "trajectory"),
        "issues": tuple(clean_model(evidence, each, "issues") for each in result.issues),
        "artifacts": evidence.mapping(result.artifacts, "artifacts"),
        "telemetry": redact(evidence.mapping(result.telemetry, "telemetry")),
        "extra": evidence.mapping(result.extra, "extra"),
    }
    return result.model_copy(update=fields), facts.problems + evidence.problems


def clean_prepared(prepared: PreparedTask) -> PreparedTask:
    """Return a prepared task that can be written: task content, never cut."""
    return clean_model(Normalizer(), prepared, "prepared_task")


def unwritable(problems: Sequence[Problem], phase: Phase) -> list[Issue]:
    """Return an ERROR for each value that could not be written, with the path of its field."""
    shown = [
        issue("error", phase, "unwritable_value", f"{problem} (null was written)")
        for problem in problems[:_SHOWN_PROBLEMS]
    ]
    if len(problems) > len(shown):
        more = f"and {len(problems) - len(shown)} more values that cannot be written"
        shown.append(issue("error", phase, "unwritable_value", more))
    return shown


def masked_result(result: AttemptResult, mask: TextRule) -> AttemptResult:
    """Return the result with a text rule applied to every string that a plug-in could fill."""
    return _walked(Normalizer(text=mask), result)


def may_hold(secrets: Masker, *records: BaseModel) -> bool:
    """Return False if records surely hold no live secret, and no text that looks like a reference.

    To look at whole records is far cheaper than to look at each of their strings.
    """
    try:
        return any(secrets.may_be_in(compact(record)) for record in records)
    except TypeError:  # it holds what JSON does not: then each string is looked at
        return True


def rewritten(result: AttemptResult) -> tuple[AttemptResult, list[Issue]]:
    """Return a record that JSON can hold, and an ERROR for each value of it that JSON cannot."""
    writer = Normalizer()
    return _walked(writer, result), unwritable(writer.problems, "evaluate")


def _walked(writer: Normalizer, result: AttemptResult) -> AttemptResult:
    meta = AttemptMeta(
        benchmark=writer.mapping(result.meta.benchmark, "meta.benchmark"),
        harness=writer.mapping(result.meta.harness, "meta.harness"),
    )
    fields: dict[str, object] = {
        "final_answer": writer.value(result.final_answer, "final_answer"),
        "error": writer.string(result.error),
        "issues": tuple(clean_model(writer, each, "issues") for each in result.issues),
        "artifacts": writer.mapping(result.artifacts, "artifacts"),
        "analysis_result": writer.mapping(result.analysis_result, "analysis_result"),
        "meta": meta,
        "trajectory": result.trajectory and clean_model(writer, result.trajectory, "trajectory"),
    }
    return result.model_copy(update=fields)


def clean_model(writer: Normalizer, model: ModelT, path: str) -> ModelT:
    """Return a model of ours with its texts and values cleaned; the same one if it was clean."""
    if _is_clean(writer, model):
        return model
    fields = {
        name: writer.value(value, f"{path}.{name}") for name, value in model.model_dump().items()
    }
    return type(model).model_validate_json(json.dumps(fields))


def _is_clean(writer: Normalizer, value: object) -> bool:
    if isinstance(value, BaseModel):
        fields = (*vars(value).values(), *(value.model_extra or {}).values())
        return all(_is_clean(writer, member) for member in fields)
    if isinstance(value, tuple):
        return all(_is_clean(writer, member) for member in value)
    return writer.is_clean(value)
