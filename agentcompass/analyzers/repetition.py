"""Analyzer `repetition`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from hashlib import sha256

from pydantic import Field
from typing_extensions import override

from agentcompass.analyzers.base import Analyzer
from agentcompass.analyzers.numbers import Spread, share
from agentcompass.analyzers.steps import first_characters, steps_of, texts
from agentcompass.models.base import Frozen, JsonObject, Record
from agentcompass.models.result import AttemptResult
from agentcompass.models.trajectory import Step


class RepetitionParams(Frozen):
    """What counts as going in circles."""

    loop_length: int = Field(default=3, ge=2)
    """An agent that does the same so often in succession is looping."""
    words: int = Field(default=8, ge=1)
    """Length of the word sequences whose repetition is counted in what the model writes."""
    most_characters: int = Field(default=200_000, ge=1)
    """Of one attempt's text; what is beyond them is not looked at."""


class Repeated(Record):
    """Of one attempt; null where there is nothing to repeat."""

    steps: int | None = None
    repeated_steps: int = 0
    """Steps that do what an earlier one did: the same words and the same calls."""
    longest_streak: int = 0
    """Equal steps in succession."""
    is_looping: bool | None = None
    repeated_words_share: float | None = None
    """Of all word sequences of the model's text those that occurred before."""


class Repetition(Analyzer[RepetitionParams]):
    """Steps that repeat earlier ones, loops, and text that repeats itself."""

    id = "repetition"
    Params = RepetitionParams

    @override
    def analyze(self, attempt: AttemptResult) -> JsonObject:
        steps = steps_of(attempt)
        if steps is None:
            return Repeated().model_dump()
        done = [_deed(step) for step in steps]
        streak = _longest_streak(done)
        return Repeated(
            steps=len(steps),
            repeated_steps=len(done) - len(set(done)),
            longest_streak=streak,
            is_looping=streak >= self.params.loop_length if steps else None,
            repeated_words_share=self._repeated_words(steps),
        ).model_dump()

    @override
    def summarize(self, results: Iterable[JsonObject]) -> JsonObject:
        repeated, streak, in_text = Spread(), Spread(), Spread()
        observed = looping = 0
        for each in map(Repeated.model_validate, results):
            has_steps = bool(each.steps)
            repeated.add(each.repeated_steps if has_steps else None)
            streak.add(each.longest_streak if has_steps else None)
            in_text.add(each.repeated_words_share)
            observed += each.is_looping is not None
            looping += bool(each.is_looping)
        return {
            "looping_attempts": looping if observed else None,
            "share_looping": share(looping, observed),
            "repeated_steps": repeated.summary(),
            "longest_streak": streak.summary(),
            "repeated_words_share": in_text.summary(),
        }

    def _repeated_words(self, steps: Sequence[Step]) -> float | None:
        """Return the share over all steps; a sequence does not go beyond the end of a text."""
        said = (text for step in steps for text in texts(step.assistant_content.content))
        seen, total = set[int](), 0
        for text in first_characters(said, self.params.most_characters):
            words = text.split()
            for at in range(len(words) - self.params.words + 1):
                seen.add(hash(tuple(words[at : at + self.params.words])))
                total += 1
        return (total - len(seen)) / total if total else None


def _deed(step: Step) -> bytes:
    """Return a digest of what the agent did in a step; ids of calls differ each time."""
    content = step.assistant_content
    calls = [
        {name: value for name, value in call.items() if name != "id"} for call in content.tool_calls
    ]
    done = json.dumps([content.content, calls], sort_keys=True)
    return sha256(done.encode("utf-8", "surrogatepass")).digest()


def _longest_streak(done: Sequence[bytes]) -> int:
    longest = streak = 0
    before = b""
    for each in done:
        streak = streak + 1 if each == before else 1
        longest, before = max(longest, streak), each
    return longest
