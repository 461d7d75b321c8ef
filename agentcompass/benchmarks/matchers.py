"""Whether an answer in free text is the expected one.

Every matcher tells what it took for the answer, so that a wrong verdict can be argued with, and
finding none is a wrong answer with that reason, never an error: the task stays in the denominator.
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, DecimalException
from typing import Final, Literal

MatcherName = Literal["exact", "regex", "choice", "numeric", "contains"]

_PUNCTUATION: Final = str.maketrans("", "", string.punctuation)
_NUMBER: Final = re.compile(
    r"(?<![\w.])[-+\u2212]?(?:(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d+)?%?"
)
_MAX_EXPONENT: Final = 1_000
"""Beyond it a number is no answer to anything, and writing it out would fill the memory."""
_MARKED: Final = re.compile(
    r"(?:####|\\boxed\{|\b(?:answer|result)\s*(?:\bis\b|\bwould\s+be\b|[:=]))(?P<rest>[^\n]*)",
    re.IGNORECASE,
)
_MARKED_LETTER: Final = (
    re.compile(r"\\boxed\{\s*(?:\\text\{)?\(?([A-Z])\b"),
    re.compile(
        r"\b(?i:answer|option|choice)\b(?:\s+is)?\s*[:=]?\s*[*_\"']*\(?([A-Z])\b(?!['\u2019])"
    ),
    re.compile(r"^\s*[*_\"']*\(?([A-Z])[).:]?[*_\"']*\s*(?:$|[-\u2013:.)])", re.MULTILINE),
)
_LONE_LETTER: Final = re.compile(r"\(([A-Z])\)|\b([A-Z])\b(?!['\u2019])")


@dataclass(frozen=True, slots=True)
class Normal:
    """What is ignored when texts are compared; white space around them always is."""

    ignore_case: bool = False
    ignore_punctuation: bool = False
    collapse_whitespace: bool = False

    def __call__(self, text: str) -> str:
        text = unicodedata.normalize("NFC", text)
        if self.ignore_case:
            text = text.casefold()
        if self.ignore_punctuation:
            text = text.translate(_PUNCTUATION)
        return " ".join(text.split()) if self.collapse_whitespace else text.strip()


@dataclass(frozen=True, slots=True)
class Rules:
    """How a file's answers are compared."""

    matcher: MatcherName
    normal: Normal = Normal()
    absolute_tolerance: float = 0.0
    relative_tolerance: float = 1e-6


@dataclass(frozen=True, slots=True)
class Verdict:
    """Right or wrong, and what was compared."""

    correct: bool
    found: str | None
    """What was taken for the answer; None if there was none to be found."""
    reason: str = ""


def judge(answer: str, expected: Sequence[str], choices: Sequence[str], rules: Rules) -> Verdict:
    """Compare an answer with every accepted one.

    Args:
        answer: the text to judge, reasoning already removed.
        expected: accepted answers, at least one.
        choices: for `choice` only: the texts of the options A, B, ….
        rules: how to compare.
    """
    if rules.matcher == "choice":
        return _judge_choice(answer, expected, choices)
    return _JUDGES[rules.matcher](answer, expected, rules)


def _judge_exact(answer: str, expected: Sequence[str], rules: Rules) -> Verdict:
    found = rules.normal(answer)
    return Verdict(any(found == rules.normal(text) for text in expected), found)


def _judge_contains(answer: str, expected: Sequence[str], rules: Rules) -> Verdict:
    text = rules.normal(answer)
    hit = next((e for e in expected if rules.normal(e) in text), None)
    return Verdict(hit is not None, hit, "" if hit is not None else "none of the answers occurs")


def _judge_regex(answer: str, expected: Sequence[str], rules: Rules) -> Verdict:
    flags = re.IGNORECASE if rules.normal.ignore_case else 0
    for pattern in expected:
        match = re.search(pattern, answer, flags)
        if match:
            return Verdict(correct=True, found=match[0])
    return Verdict(correct=False, found=None, reason="no pattern matches")


def _judge_numeric(answer: str, expected: Sequence[str], rules: Rules) -> Verdict:
    found = find_number(answer)
    if found is None:
        return Verdict(correct=False, found=None, reason="no number in the answer")
    right = any(
        _is_close(found, number, rules) for number in map(to_number, expected) if number is not None
    )
    return Verdict(right, str(found))


_JUDGES: Final[Mapping[str, Callable[[str, Sequence[str], Rules], Verdict]]] = {
    "exact": _judge_exact,
    "contains": _judge_contains,
    "regex": _judge_regex,
    "numeric": _judge_numeric,
}


def to_number(text: str) -> Decimal | None:
    """Return the value of a text that is a number: `1,234.5`, `-3e4`, `12%` (0.12), `$7`; else None."""
    bare = text.strip().strip("$\u20ac\u00a3 ").replace(",", "").replace("\u2212", "-")
    try:
        value = Decimal(bare.removesuffix("%"))
    except DecimalException:
        return None
    if not value.is_finite() or abs(value.adjusted()) > _MAX_EXPONENT:
        return None
    return value / 100 if bare.endswith("%") else value


def find_number(answer: str) -> Decimal | None:
    r"""Return the last number after `####`, `\boxed{` or "answer is", else the last one at all."""
    marked = [number for m in _MARKED.finditer(answer) if (number := _NUMBER.search(m["rest"]))]
    numbers = marked or list(_NUMBER.finditer(answer))
    return to_number(numbers[-1][0]) if numbers else None


def _is_close(found: Decimal, expected: Decimal, rules: Rules) -> bool:
    allowed = max(
        Decimal(repr(rules.absolute_tolerance)),
        Decimal(repr(rules.relative_tolerance)) * abs(expected),
    )
    return found == expected or abs(found - expected) <= allowed


def _judge_choice(answer: str, expected: Sequence[str], choices: Sequence[str]) -> Verdict:
    letters = {letter_of(text, choices) for text in expected}
    found = find_letter(answer, choices)
    if found is None:
        return Verdict(correct=False, found=None, reason="no choice in the answer")
    return Verdict(found in letters, found)


def letter_of(answer: str, choices: Sequence[str]) -> str | None:
    """Return the letter that an expected answer means: a letter itself, or the text of a choice."""
    text = answer.strip()
    letter = text.strip("().: ").upper()
    if len(letter) == 1 and letter in _letters(choices):
        return letter
    folded = [choice.strip().casefold() for choice in choices]
    return _letters(choices)[folded.index(text.casefold())] if text.casefold() in folded else None


def find_letter(answer: str, choices: Sequence[str]) -> str | None:
    """Return the option that an answer names, None if it names none.

    Looked for, in this order: the whole answer is a letter or the text of an option; a letter after
    "answer", "option" or in a box; a line that starts with a letter; exactly one lone capital; exactly
    one option whose text occurs. Several different lone letters are no answer.
    """
    letters = _letters(choices)
    whole = letter_of(answer.strip().rstrip("."), choices)
    if whole:
        return whole
    for pattern in _MARKED_LETTER:
        named = [m[1] for m in pattern.finditer(answer) if m[1] in letters]
        if named:
            return named[-1]
    # Without brackets, A and I are words more often than options.
    lone = {
        m[1] or m[2] for m in _LONE_LETTER.finditer(answer) if m[1] or m[2] not in {"A", "I"}
    }.intersection(letters)
    if len(lone) == 1:
        return lone.pop()
    said = answer.casefold()
    quoted = [
        letter
        for letter, choice in zip(letters, choices, strict=False)
        if choice.strip() and choice.strip().casefold() in said
    ]
    return quoted[0] if len(quoted) == 1 else None


def _letters(choices: Sequence[str]) -> str:
    return string.ascii_uppercase[: len(choices)] if choices else string.ascii_uppercase
