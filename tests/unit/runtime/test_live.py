from __future__ import annotations

import io
import logging
import sys

import pytest

from agentcompass.runtime.values import live

CANARY = "live-4f1d0c9b8a7e6f5d-0123456789"


@pytest.fixture(autouse=True)
def _known() -> None:
    live.note({"LIVE_TEST": CANARY})


def test_what_is_printed_is_masked_and_the_stream_comes_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stdout", stream)

    with live.masked_output():
        print(f"key {CANARY}", {"a": CANARY})  # noqa: T201 - as plug-ins do

    assert stream.getvalue() == "key ******** {'a': '********'}\n"
    assert sys.stdout is stream


HOSTILE = "a\x1b]0;title\x07b\x1b[2Jc\x9b2Jd\u202ee\x1b[8mf"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_nothing_that_steers_it_and_a_file_gets_it_all() -> None:
    terminal, file = Terminal(), io.StringIO()
    kept = "\r50 %\tof é 漢 \x1b[1;31mred\x1b[0m\n"

    for stream in (terminal, file):
        print(HOSTILE + kept, end="", file=live.MaskedOutput(stream))

    assert terminal.getvalue() == "a�]0;title�b�[2Jc�2Jd�e�[8mf" + kept
    assert file.getvalue() == HOSTILE + kept


def test_what_wraps_a_closed_stream_can_be_closed_as_well() -> None:
    stream = io.TextIOWrapper(io.BytesIO())
    wrapped = live.MaskedOutput(stream)

    stream.close()
    wrapped.close()

    assert wrapped.closed


def test_an_error_that_escapes_keeps_the_masks_for_its_traceback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    monkeypatch.setattr(sys, "stdout", io.StringIO())

    with pytest.raises(ValueError, match="bug"), live.masked_output():
        raise ValueError("bug")

    assert isinstance(sys.stderr, live.MaskedOutput)
    assert sys.stderr.isatty() is False


def test_a_line_is_masked_with_its_traceback_causes_and_notes() -> None:
    formatter = live.MaskingFormatter("%(message)s")
    error = ValueError(f"second {CANARY[:20]}")
    error.__cause__ = OSError(f"first at https://user:{CANARY}@host/")
    error.add_note(f"with {CANARY}")
    info = (ValueError, error, None)
    record = logging.LogRecord("x", logging.ERROR, "f", 1, "said %s", (CANARY,), info)

    text = formatter.format(record)

    assert CANARY[:12] not in text
    assert text.startswith("said ********")
    assert "OSError: first at https://********@host/" in text
    assert "with ********" in text


def test_a_value_that_is_known_costs_nothing_to_note_again() -> None:
    before = live.known()

    live.note({"LIVE_TEST": CANARY})

    assert live.known() is before
