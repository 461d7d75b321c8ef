"""Each built-in analyzer: what it says of one attempt and of many; what was not measured is null."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agentcompass.analyzers.base import Analyzer
from agentcompass.models.request import ComponentSpec
from agentcompass.models.result import AttemptResult
from agentcompass.runtime import components
from tests.builders import a_result, an_issue
from tests.unit.analyzers.conftest import a_call, a_step, an_attempt

NAMES = [name for name, _ in components.known("analyzer")]


def an_analyzer(name: str, **params: Any) -> Analyzer[Any]:
    return components.load("analyzer", ComponentSpec(id=name, params=params))


def analyzed(name: str, attempt: AttemptResult, **params: Any) -> dict[str, Any]:
    """Return what is said of an attempt, as it comes back from the disk."""
    found: dict[str, Any] = json.loads(json.dumps(an_analyzer(name, **params).analyze(attempt)))
    return found


def summarized(name: str, *attempts: AttemptResult, **params: Any) -> dict[str, Any]:
    said = (analyzed(name, attempt, **params) for attempt in attempts)
    found: dict[str, Any] = json.loads(json.dumps(an_analyzer(name, **params).summarize(said)))
    return found


def numbers_in(value: object) -> list[float]:
    if isinstance(value, dict):
        return [number for each in value.values() for number in numbers_in(each)]
    return [value] if isinstance(value, int | float) and not isinstance(value, bool) else []


def test_eight_are_built_in_and_each_has_the_id_it_is_found_by() -> None:
    assert len(NAMES) == 8
    assert [an_analyzer(name).id for name in NAMES] == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_every_one_of_them_bears_an_attempt_without_anything(name: str) -> None:
    for attempt in (a_result(), an_attempt(), an_attempt(a_step(None))):
        assert summarized(name, attempt)


@pytest.mark.parametrize("name", NAMES)
def test_a_run_of_which_nothing_was_observed_has_no_share_and_no_percentile(name: str) -> None:
    found = summarized(name)

    for key in ("mean", "p50", "p90", "max"):
        assert all(part[key] is None for part in found.values() if isinstance(part, dict) and part)
    assert all(value is None for key, value in found.items() if key.startswith("share"))


class TestTokens:
    def test_they_are_summed_over_steps(self) -> None:
        found = analyzed("tokens", an_attempt(a_step(tokens=(10, 2)), a_step(tokens=(30, 4))))

        assert found["prompt_tokens"] == {"sum": 40, "max": 30, "known": 2, "of": 2}
        assert found["completion_tokens"]["sum"] == 6

    def test_a_sum_over_some_of_the_steps_is_no_attempts_sum(self) -> None:
        partly = an_attempt(a_step(tokens=(10, 2)), a_step(tokens=(None, 4)))
        wholly = an_attempt(a_step(tokens=(7, 1)))

        found = summarized("tokens", partly, wholly, a_result())

        assert found["prompt_tokens"] | {"p99": 7} == {
            "n": 1,
            "unknown": 2,
            "sum": 7,
            "mean": 7,
            "min": 7,
            "p50": 7,
            "p90": 7,
            "p99": 7,
            "max": 7,
        }
        assert found["completion_tokens"]["n"] == 2

    def test_no_trajectory_is_not_zero_tokens(self) -> None:
        assert analyzed("tokens", a_result())["steps"] is None
        assert analyzed("tokens", a_result())["prompt_tokens"]["sum"] is None


class TestLatency:
    def test_percentiles_are_values_that_were_observed(self) -> None:
        attempt = an_attempt(*(a_step(model_ms=ms) for ms in (5, 1, 2, 3, 4)))

        found = analyzed("latency", attempt)

        assert (found["model_ms_p50"], found["model_ms_p90"]) == (3, 5)
        assert found["model_ms"] == {"sum": 15, "max": 5, "known": 5, "of": 5}

    def test_what_is_no_measurement_is_left_out(self) -> None:
        attempt = an_attempt(*(a_step(model_ms=ms) for ms in (float("nan"), -1.0, 8.0)))

        found = summarized("latency", attempt)

        assert (found["model_calls"], found["model_ms_mean"]) == (1, 8)


class TestTimeCost:
    def test_the_rest_is_what_neither_model_nor_actions_took(self) -> None:
        attempt = an_attempt(a_step(model_ms=6_000, action_ms=1_000), seconds=10)

        assert analyzed("time_cost", attempt) == {
            "attempt_s": 90,
            "agent_s": 10,
            "model_s": 6,
            "actions_s": 1,
            "other_s": 3,
        }

    @pytest.mark.parametrize(("model_ms", "action_ms"), [(6_000, None), (9_000, 9_000)])
    def test_it_is_unknown_if_a_part_is_or_parts_overlap(
        self, model_ms: float, action_ms: float | None
    ) -> None:
        attempt = an_attempt(a_step(model_ms=model_ms, action_ms=action_ms), seconds=10)

        assert analyzed("time_cost", attempt)["other_s"] is None
        assert summarized("time_cost", attempt)["other_s"]["unknown"] == 1


class TestToolUse:
    def test_calls_are_counted_by_tool(self) -> None:
        attempt = an_attempt(
            a_step("", a_call("bash"), a_call("bash", "not json")),
            a_step("", {"name": "edit", "arguments": {"path": "x"}}, {"odd": 1}),
            a_step("done"),
        )

        found = analyzed("tool_use", attempt)

        assert found["by_tool"] == {"bash": 2, "edit": 1, "(unnamed)": 1}
        assert (found["calls"], found["steps_with_calls"]) == (4, 2)
        assert found["unreadable_arguments"] == 1

    def test_names_are_kept_up_to_a_limit_and_no_call_gets_lost(self) -> None:
        attempt = an_attempt(a_step("", a_call("a"), a_call("a"), a_call("b"), a_call("c")))

        found = summarized("tool_use", attempt, attempt, most_tools=1)

        assert found["by_tool"] == {"a": {"calls": 4, "attempts": 2}}
        assert found["calls_of_other_tools"] == 4

    def test_the_share_is_of_those_that_were_observed(self) -> None:
        found = summarized("tool_use", an_attempt(a_step("", a_call("a"))), a_result())

        assert (found["share_with_calls"], found["calls_per_attempt"]["unknown"]) == (1.0, 1)


class TestRepetition:
    def test_a_loop_is_the_same_deed_in_succession_whatever_the_ids_of_its_calls(self) -> None:
        steps = [a_step("again", a_call("ls", "{}", call_id=str(n))) for n in range(3)]

        found = analyzed("repetition", an_attempt(a_step("first"), *steps))

        assert (found["repeated_steps"], found["longest_streak"]) == (2, 3)
        assert found["is_looping"] is True

    def test_an_agent_that_comes_back_to_something_is_not_looping(self) -> None:
        attempt = an_attempt(*(a_step(word) for word in ("a", "b", "a", "b", "a")))

        found = analyzed("repetition", attempt)

        assert (found["repeated_steps"], found["is_looping"]) == (3, False)

    def test_text_that_repeats_itself_has_a_share(self) -> None:
        looped = an_attempt(a_step("one two three four " * 50))
        plain = an_attempt(a_step(" ".join(map(str, range(200)))))

        assert analyzed("repetition", looped, words=4)["repeated_words_share"] > 0.97
        assert analyzed("repetition", plain, words=4)["repeated_words_share"] == 0.0
        assert (
            analyzed("repetition", an_attempt(a_step("too short")))["repeated_words_share"] is None
        )

    def test_text_beyond_the_limit_is_not_looked_at(self) -> None:
        attempt = an_attempt(a_step("a b c d e f g h"), a_step("a b c d e f g h"))

        found = analyzed("repetition", attempt, words=8, most_characters=15)

        assert found["repeated_words_share"] == 0.0


class TestTruncation:
    @pytest.mark.parametrize("reason", ["length", "max_tokens", "MAX_TOKENS"])
    def test_a_step_that_ended_at_a_limit_is_truncated(self, reason: str) -> None:
        attempt = an_attempt(a_step(stop_reason=reason), a_step(stop_reason="stop"))

        found = analyzed("truncation", attempt)

        assert (found["is_truncated"], found["is_last_truncated"]) == (True, False)

    def test_nobody_knows_without_a_reason(self) -> None:
        known, unknown = an_attempt(a_step(stop_reason="stop")), an_attempt(a_step())

        assert analyzed("truncation", unknown)["is_truncated"] is None
        assert summarized("truncation", known, unknown)["attempts_known"] == 1
        assert summarized("truncation", unknown)["truncated_attempts"] is None

    def test_other_reasons_can_be_named(self) -> None:
        attempt = an_attempt(a_step(stop_reason="budget"))

        assert summarized("truncation", attempt, stop_reasons=["budget"])["share_truncated"] == 1.0


class TestEmptyOutput:
    @pytest.mark.parametrize(
        ("answer", "has"), [("4", True), (0, True), (False, True), (" \n", False), ({}, False)]
    )
    def test_an_answer_with_nothing_in_it(self, answer: Any, has: bool) -> None:  # noqa: FBT001
        assert analyzed("empty_output", an_attempt(answer=answer))["has_answer"] is has

    def test_null_is_told_from_blank(self) -> None:
        found = summarized("empty_output", an_attempt(answer=None), an_attempt(answer=""))

        assert (found["without_answer"], found["of_them_null"]) == (2, 1)

    def test_a_step_with_a_call_is_not_empty(self) -> None:
        attempt = an_attempt(a_step(""), a_step(None, a_call("ls")), a_step("words"))

        assert analyzed("empty_output", attempt)["empty_steps"] == 1


class TestExceptions:
    def test_issues_and_what_the_agent_saw_are_counted_by_kind(self) -> None:
        trace = 'Traceback (most recent call last):\n  File "a.py", line 1\nValueError: no\n'
        seen = [{"type": "text", "text": trace}, "subprocess.TimeoutExpiredError: 3 s\nKeyError"]
        attempt = an_attempt(a_step(observation=seen)).model_copy(  # type: ignore[arg-type]
            update={"issues": (an_issue(), an_issue("warning", "cleanup", "cleanup_failed"))}
        )

        found = analyzed("exceptions", attempt)

        assert found["seen"] == {"ValueError": 1, "TimeoutExpiredError": 1, "KeyError": 1}
        assert found["issues"] == {"error run run_failed": 1, "warning cleanup cleanup_failed": 1}

    def test_a_word_inside_a_line_is_no_exception(self) -> None:
        attempt = an_attempt(a_step(observation="I think that ValueError: is what it raises"))

        assert analyzed("exceptions", attempt)["seen"] == {}

    def test_a_run_says_in_how_many_attempts(self) -> None:
        failed = an_attempt(a_step(observation="OSError: a\nOSError: b"))

        found = summarized("exceptions", failed, failed, a_result())

        assert found["seen_by_the_agent"] == {"OSError": {"count": 4, "attempts": 2}}
        assert found["attempts_observed"] == 2


def test_a_number_is_finite_whatever_the_steps_say() -> None:
    odd = a_step(tokens=(-5, 10**15), model_ms=float("inf"), action_ms=float("nan"))
    for name in NAMES:
        for number in numbers_in(summarized(name, an_attempt(odd, odd))):
            assert number == number  # noqa: PLR0124 - NaN is not
            assert abs(number) != float("inf")
