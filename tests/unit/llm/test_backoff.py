from __future__ import annotations

from email.utils import formatdate
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcompass.llm.backoff import delay_s, retry_after_s
from agentcompass.llm.base import CallPolicy

NOW_S = 1_800_000_000.0
POLICY = CallPolicy(backoff_base_s=1.0, backoff_max_s=8.0)


@pytest.mark.parametrize(
    ("headers", "wait_s"),
    [
        ({}, None),
        ({"retry-after": "2"}, 2.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after-ms": "250", "retry-after": "1"}, 0.25),
        ({"retry-after": formatdate(NOW_S + 30, usegmt=True)}, 30.0),
        ({"retry-after": formatdate(NOW_S - 30, usegmt=True)}, 0.0),
        ({"retry-after": formatdate(NOW_S + 30)}, 30.0),  # "-0000", which is parsed as naive
        # The server's clock is an hour behind ours; what it means is 30 s.
        (
            {
                "retry-after": formatdate(NOW_S - 3_570, usegmt=True),
                "date": formatdate(NOW_S - 3_600, usegmt=True),
            },
            30.0,
        ),
    ],
)
def test_a_servers_wish_is_read_in_every_form(
    headers: dict[str, str], wait_s: float | None
) -> None:
    assert retry_after_s(headers, NOW_S) == wait_s


@given(retry=st.integers(1, 10_000), seed=st.integers())
def test_our_own_wait_doubles_to_a_maximum_and_stays_in_its_upper_half(
    retry: int, seed: int
) -> None:
    full = min(8.0, 2.0 ** (retry - 1)) if retry < 50 else 8.0

    assert full / 2 <= delay_s(retry, None, POLICY, Random(seed)) <= full


@given(retry=st.integers(1, 20), asked_s=st.floats(0, 1e4), seed=st.integers())
def test_a_server_is_never_asked_before_it_wishes_and_hardly_later(
    retry: int, asked_s: float, seed: int
) -> None:
    wait_s = delay_s(retry, asked_s, POLICY, Random(seed))

    assert asked_s <= wait_s <= max(8.0, asked_s + 1.0)
