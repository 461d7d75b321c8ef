"""Values from outside: how deep, how large, and the same on every version of Python."""

from __future__ import annotations

from math import inf

import pytest

from agentcompass.models.extent import (
    MAX_DEPTH,
    MAX_SIZE,
    TooMuch,
    json_value,
    refuse_excess,
)


def test_the_deepest_value_that_is_taken() -> None:
    text = "[" * MAX_DEPTH + "1" + "]" * MAX_DEPTH

    assert json_value(text) is not None
    with pytest.raises(TooMuch, match="100 levels"):
        json_value(f"[{text}]")


@pytest.mark.parametrize("depth", [500, 5_000, 100_000])
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_json_of_any_depth_is_refused_in_the_same_words(
    depth: int, opening: str, closing: str
) -> None:
    with pytest.raises(TooMuch, match="nested more than 100 levels deep"):
        json_value(opening * depth + "1" + closing * depth)


@pytest.mark.parametrize("text", ["", "{", "nothing", "1" * 5_000])
def test_what_is_not_json_is_an_error_of_its_own(text: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the parser's own words
        json_value(text)

    assert not isinstance(caught.value, TooMuch)


def test_a_value_that_holds_itself_is_too_deep() -> None:
    circle: list[object] = []
    circle.append({"again": circle})

    with pytest.raises(TooMuch, match="levels deep"):
        refuse_excess(circle)


def test_one_object_in_many_places_counts_in_each() -> None:
    bomb: list[object] = ["lol"]
    for _ in range(12):
        bomb = [bomb] * 9

    with pytest.raises(TooMuch, match="10,000,000 values and characters"):
        refuse_excess(bomb)


def test_long_text_counts_by_its_characters() -> None:
    text = "x" * (MAX_SIZE // 10)

    refuse_excess([text] * 9)
    with pytest.raises(TooMuch):
        refuse_excess([text] * 10)
    refuse_excess([text] * 10, max_size=inf)
