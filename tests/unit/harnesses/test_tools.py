from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from agentcompass.harnesses.commands import cut
from agentcompass.harnesses.tool_loop.tools import ALL_TOOLS, Outcome, Toolbox
from agentcompass.models.context import AttemptContext
from tests.support.process_environment import ProcessEnvironment

Call = Callable[..., Outcome]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    place = tmp_path / "place"
    place.mkdir()
    return place


@pytest.fixture
def call(place: Path, a_context: Callable[..., AttemptContext]) -> Call:
    box = Toolbox(ProcessEnvironment(place), a_context(), ALL_TOOLS, 1_000)

    def tool(name: str, **arguments: object) -> Outcome:
        function = {"name": name, "arguments": json.dumps(arguments)}
        return box.call({"id": "c1", "function": function}, 1, 20.0)  # type: ignore[dict-item]

    return tool


def test_a_file_is_read_by_lines_and_its_length_is_said(call: Call, place: Path) -> None:
    (place / "f").write_text("".join(f"{n}\n" for n in range(1, 11)))

    assert call("read_file", path="f", first_line=2, line_count=3).text == (
        "2\n3\n4\n[the file has 10 lines]\n"
    )
    assert call("read_file", path="f").text.splitlines()[-1] == "10"


@pytest.mark.parametrize("path", ["none", ".", "-n"])
def test_what_is_no_file_cannot_be_read(call: Call, path: str) -> None:
    found = call("read_file", path=path)

    assert found.text == f"[exit code 1]\n[stderr]\nthere is no file {path}"
    assert not found.is_malformed


def test_a_file_is_written_as_it_is_with_the_folders_above_it(call: Call, place: Path) -> None:
    text = "a 'b' \"c\" $HOME \\n\n\ttail without end"

    assert call("write_file", path="new/deep/f", content=text).text == "wrote new/deep/f"
    assert (place / "new/deep/f").read_text() == text


def test_a_text_that_occurs_once_is_replaced(call: Call, place: Path) -> None:
    (place / "f").write_text("one two\n")
    (place / "f").chmod(0o755)

    assert call("edit_file", path="f", old_text="two", new_text="2").text == "wrote f"
    assert (place / "f").read_text() == "one 2\n"
    assert (place / "f").stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize(("text", "times"), [("x", 0), ("o", 2)])
def test_a_text_that_does_not_occur_once_is_not_replaced(
    call: Call, place: Path, text: str, times: int
) -> None:
    (place / "f").write_text("one two\n")

    found = call("edit_file", path="f", old_text=text, new_text="")

    assert found.text == f"error: old_text occurs {times} times in f, not once"
    assert (place / "f").read_text() == "one two\n"


def test_what_is_no_text_or_not_there_cannot_be_edited(call: Call, place: Path) -> None:
    (place / "f").write_bytes(b"\xff\xfe")

    assert call("edit_file", path="f", old_text="a", new_text="").text.startswith("error: Unicode")
    missing = call("edit_file", path="g", old_text="a", new_text="")
    assert missing.text == "error: there is no file g"


def test_what_is_too_large_is_not_edited(call: Call, place: Path) -> None:
    with (place / "f").open("wb") as file:
        file.truncate(9 * 2**20)

    assert "more than" in call("edit_file", path="f", old_text="a", new_text="").text


def test_a_command_that_cannot_be_started_is_said(call: Call) -> None:
    assert call("bash", command="echo \0").text == "error: ValueError: embedded null byte"


def test_bash_is_used_where_there_is_one(call: Call) -> None:
    assert call("bash", command="[[ a == a ]] && echo $((1 + 1))").text == "[exit code 0]\n2"


def test_a_command_that_a_signal_ended_says_so(call: Call) -> None:
    assert "signal 9" in call("bash", command="kill -9 $$").text


def test_long_output_is_cut_in_the_middle(call: Call) -> None:
    text = call("bash", command="seq 1 10000").text

    assert len(text) < 1_100
    assert text.startswith("[exit code 0]\n1\n2\n")
    assert text.endswith("\n10000")


def test_cutting_says_how_much_is_missing() -> None:
    assert cut("abcdefgh", 8) == "abcdefgh"
    assert cut("abcdefghi", 4) == "ab\n[… 5 characters left out …]\nhi"
