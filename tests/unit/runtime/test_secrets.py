from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from agentcompass.errors import AttemptFailure
from agentcompass.models.request import ModelSpec, SecretRef
from agentcompass.models.secret import SecretValue
from agentcompass.runtime.values.masking import Masker
from agentcompass.runtime.values.references import references, resolve
from agentcompass.runtime.values.secrets import endpoint, variables

KEY = "sk-abcdefghijklmnopqrstuvwxyz-0123456789"


def test_a_secret_is_taken_from_the_workers_environment() -> None:
    found = endpoint(
        ModelSpec(
            id="m",
            api_key=SecretRef(env="KEY"),
            headers={"X-A": "Bearer ${OTHER}", "X-B": SecretRef(env="OTHER"), "X-C": "plain"},
        ),
        {"KEY": KEY, "OTHER": "other"},
    )

    revealed = [each.reveal() for each in found.headers.values() if isinstance(each, SecretValue)]
    assert (found.api_key and found.api_key.reveal()) == KEY
    assert (revealed, found.headers["X-C"]) == (["Bearer other", "other"], "plain")


def test_a_missing_secret_names_its_variable_and_nothing_else() -> None:
    with pytest.raises(AttemptFailure, match="variable KEY is not set") as caught:
        resolve(SecretRef(env="KEY"), {})

    assert (caught.value.severity, caught.value.code) == ("fatal", "secret_missing")


def test_the_mask_is_never_sent() -> None:
    with pytest.raises(AttemptFailure, match="masked secret"):
        endpoint(ModelSpec(id="m", api_key="********"), {})


def test_only_a_whole_reference_in_a_task_variable_is_replaced() -> None:
    found = variables({"A": "${KEY}", "B": "$HOME/${X}"}, {"KEY": KEY})

    assert found == {"A": KEY, "B": "$HOME/${X}"}


def test_references_are_found_where_a_secret_is_meant() -> None:
    plan: JsonValue = {
        "api_key": {"env": "ONE"},
        "headers": {"Authorization": "Bearer ${TWO}"},
        "params": {"command": "${HOME}/run ${MY_API_KEY}"},
    }

    assert sorted(references(plan)) == ["MY_API_KEY", "ONE", "TWO"]


@pytest.mark.parametrize(
    "text",
    [
        KEY,
        f"Bearer {KEY}\n",
        f"x{KEY[:12]}y",
        f"x{KEY[5:25]}y",
        f"{KEY[-12:]}",
        f"{KEY[:20]}…{KEY[20:]}",
    ],
)
def test_a_live_secret_and_any_twelve_characters_of_it_are_masked(text: str) -> None:
    masker = Masker({"KEY": KEY})

    found = masker(text)

    assert masker.found
    assert not any(KEY[at : at + 12] in found for at in range(len(KEY) - 11))


@pytest.mark.parametrize("text", ["", KEY[:11], "password=swordfish; token: abc; api_key: missing"])
def test_ordinary_text_is_returned_as_it_is(text: str) -> None:
    masker = Masker({"KEY": KEY, "SHORT": "abc", "EIGHT": "a b c d e"})

    assert masker(text) is text
    assert not masker.found


def test_a_secret_of_eight_characters_is_masked_as_a_whole_only() -> None:
    masker = Masker({"KEY": "12345678"})

    assert masker("a12345678b 1234567") == "a********b 1234567"


@given(st.lists(st.sampled_from(["${agentcompass:", KEY, KEY[3:20], "}", "KEY:0:5}", "a"])))
def test_a_snapshot_gives_the_text_back_and_holds_no_secret(parts: list[str]) -> None:
    masker, text = Masker({"KEY": KEY}), "".join(parts)

    written = masker.for_snapshot(text)

    assert not any(KEY[at : at + 12] in written for at in range(len(KEY) - 11))
    assert masker.put_back(written) == text


def test_a_snapshot_cannot_be_read_without_the_secret() -> None:
    written = Masker({"KEY": KEY}).for_snapshot(KEY)

    with pytest.raises(AttemptFailure, match="KEY"):
        Masker({}).put_back(written)


@given(st.lists(st.integers(1, 50), max_size=6), st.integers(0, 3))
def test_a_file_is_masked_wherever_its_chunks_are_cut(sizes: list[int], spaces: int) -> None:
    data = (f"first line\nkey={KEY} é" + " " * spaces + "end\n").encode()
    cuts = [sum(sizes[:n]) for n in range(len(sizes) + 1)]
    chunks = [data[a:b] for a, b in zip(cuts, [*cuts[1:], None], strict=True)]

    found = b"".join(Masker({"KEY": KEY}).filter_chunks(iter(chunks)))

    assert found == data.replace(KEY.encode(), b"********")


def test_a_binary_file_stays_as_it_is() -> None:
    chunks = [b"\0" + KEY.encode(), KEY.encode()]

    assert list(Masker({"KEY": KEY}).filter_chunks(iter(chunks))) == chunks
