"""Live secrets are found in whatever spelling they turn up; nothing else is."""

from __future__ import annotations

import base64
import html
import json
import textwrap
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcompass.runtime.values.forms import secret_parts
from agentcompass.runtime.values.masking import Masker, secrets_of

KEY = 'sk-"4f1d/0c9b+8a7e=6f5d&\\é0123456789ab'
BODY = base64.b64encode(bytes(range(144))).decode()
PEM = (
    "-----BEGIN RSA PRIVATE KEY-----\n"
    + "\n".join(textwrap.wrap(BODY, 64))
    + "\n-----END RSA PRIVATE KEY-----\n"
)


def in_base64(before: int) -> str:
    return base64.b64encode(b"x" * before + KEY.encode() + b"yyyy").decode()


@pytest.mark.parametrize(
    "text",
    [
        quote(KEY, safe=""),
        quote(KEY, safe="").lower(),
        json.dumps({"a": KEY}),
        json.dumps({"a": KEY}, ensure_ascii=False),
        json.dumps(json.dumps({"a": KEY})),
        repr({"a": KEY}),
        html.escape(KEY),
        KEY.encode().hex(),
        *(in_base64(n) for n in range(4)),
        base64.urlsafe_b64encode(KEY.encode()).decode(),
        "\n".join(textwrap.wrap(in_base64(1), 9)),
        "\r\n".join(textwrap.wrap(KEY, 5)),
        "  ".join(KEY),
        json.dumps("\n".join(textwrap.wrap(KEY, 7))),
    ],
)
def test_a_spelling_is_masked_and_what_surrounds_it_stays(text: str) -> None:
    masker = Masker({"KEY": KEY})

    found = masker(f"before {text} after")

    assert masker.found
    assert found.startswith("before ")
    assert found.endswith(" after")
    # What is left at the ends of base64 is shared with the neighbours: no whole byte of the key.
    assert len(found) < len("before  after") + len('{"a": ""}') + 8 + 12


def test_each_line_of_a_private_key_is_masked_and_its_armour_is_not() -> None:
    masker = Masker({"KEY": PEM})

    found = [masker(line) for line in PEM.splitlines()]

    assert (found[0], found[-1]) == (PEM.splitlines()[0], PEM.splitlines()[-1])
    assert set(found[1:-1]) == {"********"}
    assert "PRIVATE KEY-----" in masker(PEM)
    assert BODY[:12] not in masker(json.dumps(PEM))


@pytest.mark.parametrize(
    ("value", "parts"),
    [
        ("https://me:pass%2Fword@host/db", ["me:pass%2Fword", "pass%2Fword", "pass/word"]),
        ("https://host/x?api_key=abc&page=2", ["abc"]),
        ("https://hooks.host/services/T0/0123456789abcdef", ["0123456789abcdef"]),
        ("https://host:8000/v1", []),
        ("Bearer abcdefgh", ["abcdefgh"]),
        ("Basic bWU6cGFzc3dvcmQ=", ["bWU6cGFzc3dvcmQ=", "me:password", "password"]),
        ('{"type": "account", "private_key": "abc", "n": [1]}', ["abc"]),
        ("plain", ["plain"]),
    ],
)
def test_hosts_and_field_names_are_no_secrets(value: str, parts: list[str]) -> None:
    assert secret_parts(value) == parts


def test_of_an_environment_only_what_nobody_could_guess_is_a_secret() -> None:
    token = "4f1d0c9b8a7e6f5d"
    environ = {
        "MY_TOKEN": token,
        "PGPASSWORD": "postgres",
        "OTHER_SECRET": "internationalization",
        "DATABASE": f"postgres://me:{token}@host/db",
        "PWD": "/some/where/4f1d0c9b8a7e6f5d",
        "PATH": f"/usr/bin:/{token}",
    }

    assert secrets_of(environ) == {
        "MY_TOKEN": token,
        "DATABASE": f"me:{token}",
        "DATABASE_part1": token,
    }


def test_what_belongs_to_the_worker_is_masked_in_a_snapshot_and_not_put_back() -> None:
    masker = Masker({"KEY": KEY}, {"OTHER": "4f1d-0c9b-8a7e-6f5d"})

    written = masker.for_snapshot(f"{KEY} 4f1d-0c9b-8a7e-6f5d")

    assert written.endswith("} ********")
    assert masker.put_back(written) == f"{KEY} ********"


SPELLINGS = st.sampled_from(
    [KEY, KEY[:17], quote(KEY), in_base64(0), in_base64(2), "\n".join(KEY), "a", " ", "${x}", "\\n"]
)


@given(st.lists(SPELLINGS, max_size=8))
def test_a_snapshot_of_any_spelling_is_put_back_exactly(parts: list[str]) -> None:
    masker, text = Masker({"KEY": KEY}), "".join(parts)

    assert masker.put_back(masker.for_snapshot(text)) == text


@given(st.text(max_size=60), st.lists(SPELLINGS, max_size=4))
def test_the_quick_look_at_serialized_text_misses_nothing(around: str, parts: list[str]) -> None:
    masker = Masker({"KEY": KEY})
    text = around + "".join(parts)

    is_masked = masker(text) != text

    data = json.dumps([text], ensure_ascii=False).encode("utf-8", "surrogatepass")
    assert masker.may_be_in(data) or not is_masked


@given(st.text())
def test_other_text_is_returned_as_it_is(text: str) -> None:
    masker = Masker({"KEY": KEY, "PEM": PEM})

    assert masker(text) is text
