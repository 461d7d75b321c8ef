from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcompass.benchmarks.answers import text_of, visible
from agentcompass.benchmarks.matchers import (
    MatcherName,
    Normal,
    Rules,
    find_letter,
    find_number,
    judge,
    letter_of,
    to_number,
)

CITIES = ("Paris", "London", "Rome", "New York")


def is_right(
    matcher: MatcherName, answer: str, *expected: str, normal: Normal | None = None
) -> bool:
    return judge(answer, expected, (), Rules(matcher, normal or Normal())).correct


@pytest.mark.parametrize(
    ("answer", "normal", "right"),
    [
        ("Paris", Normal(), True),
        (" Paris\n", Normal(), True),
        ("paris", Normal(), False),
        ("paris", Normal(ignore_case=True), True),
        ("Paris.", Normal(), False),
        ("Paris.", Normal(ignore_punctuation=True), True),
        ("It is Paris", Normal(), False),
        ("", Normal(), False),
    ],
)
def test_exact(answer: str, normal: Normal, right: bool) -> None:  # noqa: FBT001 -- a table
    assert is_right("exact", answer, "Paris", normal=normal) is right


def test_exact_sees_one_letter_in_its_two_encodings() -> None:
    assert is_right("exact", "cafe\u0301", "caf\u00e9")


def test_white_space_inside_counts_unless_it_is_collapsed() -> None:
    assert not is_right("exact", "New  York", "New York")
    assert is_right("exact", "New \n York", "New York", normal=Normal(collapse_whitespace=True))


def test_one_accepted_answer_of_several_is_enough() -> None:
    assert is_right("contains", "the city of light", "Paris", "city of light")
    assert not is_right("contains", "London", "Paris", "city of light")


@pytest.mark.parametrize(
    ("pattern", "right"), [(r"\b4\d\b", True), ("^42", False), ("FORTY|42", True)]
)
def test_regex_is_searched_anywhere(pattern: str, right: bool) -> None:  # noqa: FBT001 -- a table
    assert is_right("regex", "it is 42", pattern) is right


@pytest.mark.parametrize(
    ("answer", "number"),
    [
        ("42", "42"),
        ("so 3 + 4 = 7.", "7"),
        ("#### 1,234.50", "1234.50"),
        (r"\boxed{-3} after 9 steps", "-3"),
        ("The answer is 5, because 2 + 3 = 5 and 3 > 2", "5"),
        ("**Answer:** $18 per day\n\nThat is 2 more", "18"),
        ("To answer this: 3", "3"),
        ("Answer: 12%", "0.12"),
        ("1.5e3", "1.5e3"),
        ("\u22127", "-7"),
        ("pages 3-4", "4"),
        ("1, 2, 3", "3"),
        ("none", None),
        ("v2", None),
    ],
)
def test_the_number_of_an_answer_is_found(answer: str, number: str | None) -> None:
    assert find_number(answer) == (None if number is None else Decimal(number))


@pytest.mark.parametrize("text", ["", "nan", "inf", "abc", "1e999999999", "1/2"])
def test_what_is_no_number_is_none(text: str) -> None:
    assert to_number(text) is None


@given(st.integers(-(10**40), 10**40))
def test_whole_numbers_of_any_size_match_themselves_without_tolerance(value: int) -> None:
    rules = Rules("numeric", relative_tolerance=0.0)

    assert judge(f"It is {value}", [str(value)], (), rules).correct


@pytest.mark.parametrize(
    ("answer", "absolute", "relative", "right"),
    [
        ("3.14", 0.0, 1e-2, True),
        ("3.14", 0.0, 1e-6, False),
        ("3.2", 0.1, 0.0, True),
        ("3.3", 0.1, 0.0, False),
    ],
)
def test_either_tolerance_is_enough(
    answer: str,
    absolute: float,
    relative: float,
    right: bool,  # noqa: FBT001 -- a table
) -> None:
    rules = Rules("numeric", absolute_tolerance=absolute, relative_tolerance=relative)

    assert judge(answer, ["3.14159"], (), rules).correct is right


@pytest.mark.parametrize(
    ("answer", "letter"),
    [
        ("B", "B"),
        ("b", "B"),
        ("(B)", "B"),
        ("B.", "B"),
        ("London", "B"),
        ("london.", "B"),
        ("The answer is B", "B"),
        ("The answer is (B).", "B"),
        ("Answer: **B**", "B"),
        ("A looks right, but the correct option is B", "B"),
        (r"\boxed{B}", "B"),
        (r"$\boxed{\text{B}}$", "B"),
        ("B) London", "B"),
        ("**B.** London is the capital", "B"),
        ("I would say (B)", "B"),
        ("I would say (A)", "A"),
        ("It must be London, of course", "B"),
        ("The answer is a city: London", "B"),
        ("B or C", None),
        ("Paris or London", None),
        ("A city", None),
        ("Z", None),
        ("", None),
    ],
)
def test_the_option_of_an_answer_is_found(answer: str, letter: str | None) -> None:
    assert find_letter(answer, CITIES) == letter


def test_an_expected_choice_is_a_letter_or_the_text_of_an_option() -> None:
    assert [letter_of(text, CITIES) for text in ("C", "c)", "new york", "E", "Oslo")] == [
        "C", "C", "D", None, None,
    ]  # fmt: skip


def test_no_choice_in_the_answer_is_wrong_and_says_so() -> None:
    verdict = judge("hmm", ["B"], CITIES, Rules("choice"))

    assert (verdict.correct, verdict.found, verdict.reason) == (
        False,
        None,
        "no choice in the answer",
    )


@pytest.mark.parametrize(
    ("said", "left"),
    [
        ("<think>no</think>yes", "yes"),
        ("no</think>yes", "yes"),
        ("<think>never ends", "<think>never ends"),
        ("a < b > c", "a < b > c"),
    ],
)
def test_reasoning_is_not_the_answer(said: str, left: str) -> None:
    assert visible(said) == left


@pytest.mark.parametrize(
    ("answer", "text"), [(None, ""), ("x", "x"), (3.5, "3.5"), ({"a": [1]}, '{"a": [1]}')]
)
def test_any_answer_has_a_text(answer: object, text: str) -> None:
    assert text_of(answer) == text
