from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agentcompass.harnesses.tool_loop.conversation import LEFT_OUT, fitted, size_of
from agentcompass.models.base import JsonObject

ROLES = st.sampled_from(["system", "user", "assistant", "tool"])
MESSAGES = st.lists(
    st.builds(
        lambda role, length: {"role": role, "content": "x" * length}, ROLES, st.integers(0, 500)
    ),
    max_size=20,
)


def message(role: str, length: int) -> JsonObject:
    return {"role": role, "content": "x" * length}


@given(MESSAGES, st.integers(0, 5_000))
def test_what_fits_is_within_the_budget_and_only_old_results_are_left_out(
    messages: list[JsonObject], budget: int
) -> None:
    found = fitted(messages, budget)

    if found is None:
        assert size_of(messages) > budget
        return
    assert size_of(found) <= budget
    assert len(found) == len(messages)
    spoken = [n for n, each in enumerate(messages) if each["role"] == "assistant"]
    for number, (before, after) in enumerate(zip(messages, found, strict=True)):
        if before != after:
            assert before["role"] == "tool"
            assert after == {**before, "content": LEFT_OUT}
            assert spoken
            assert number < spoken[-1]


def test_room_is_made_for_some_turns_at_once() -> None:
    turn = [message("assistant", 10), message("tool", 1_000)]
    messages = [message("user", 10), *turn * 10, message("assistant", 10)]

    found = fitted(messages, size_of(messages) - 1)

    assert found is not None
    assert size_of(found) <= 0.75 * size_of(messages)
    assert found[2]["content"] == LEFT_OUT
    assert found[-2] == messages[-2]
