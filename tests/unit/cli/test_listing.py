"""`list`: what there is, with its parameters; the page of the documentation says the same."""

from __future__ import annotations

import json

import pytest

from agentcompass.cli.listing import KINDS, SINGULAR
from agentcompass.cli.main import main
from tests.support import parameters_page


@pytest.mark.parametrize("name", SINGULAR)
def test_a_kind_may_be_named_in_the_singular(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert SINGULAR[name] in KINDS
    assert main(["list", name]) == 0
    singular = capsys.readouterr().out

    assert main(["list", SINGULAR[name]]) == 0
    assert capsys.readouterr().out == singular


def test_the_parameters_of_one_are_shown_as_they_are_given(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["list", "benchmark", "jsonl"]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("jsonl  Your own questions")
    path, matcher = (
        next(line for line in lines if f".{name} " in line) for name in ("path", "matcher")
    )
    assert path.split()[:3] == ["benchmark.path", "text", "required"]
    assert "exact | regex | choice | numeric | contains" in matcher
    assert '"exact"' in matcher


def test_a_program_reads_them_with_types_and_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "harnesses", "--json"]) == 0

    found = {each["id"]: each for each in map(json.loads, capsys.readouterr().out.splitlines())}
    command = {each["name"]: each for each in found["command"]["params"]}
    assert command["command"]["required"]
    assert "default" not in command["command"]
    assert (command["timeout_s"]["type"], command["timeout_s"]["default"]) == (
        "number or null",
        None,
    )
    assert command["env"]["default"] == {}


@pytest.mark.parametrize(
    ("kind", "name"), [("benchmark", "jsonll"), ("reducer", "agv"), ("strategies", "x")]
)
def test_an_unknown_one_is_answered_with_those_that_there_are(
    kind: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["list", kind, name]) == 2

    assert "known: " in capsys.readouterr().err


def test_the_page_of_the_documentation_says_what_the_models_say() -> None:
    written = parameters_page.PAGE.read_text(encoding="utf-8")

    assert written == parameters_page.page(), "python -m tests.support.parameters_page"
