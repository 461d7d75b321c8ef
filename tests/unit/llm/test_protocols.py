"""One suite for every protocol, over real HTTP to a scripted server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from random import Random
from typing import Any, Literal

import pytest

from agentcompass.errors import AttemptFailure, PermanentFailure
from agentcompass.llm import wire
from agentcompass.llm.base import CallFailed, CallPolicy, ChatRequest
from agentcompass.llm.client import ChatClient, Clockwork
from agentcompass.llm.protocols import SENDERS, send
from agentcompass.llm.spending import cost_usd
from agentcompass.models.base import JsonObject
from agentcompass.models.context import ModelEndpoint
from agentcompass.models.request import MASK, ModelPrices, ModelSpec
from agentcompass.models.secret import SecretValue
from tests.support.scripted_server import (
    Answer,
    InOrder,
    Script,
    ScriptedServer,
    ToolCall,
    rate_limited,
)

Protocol = Literal["", "openai-chat", "openai-responses", "anthropic"]
REQUEST = ChatRequest(
    ({"role": "system", "content": "Be brief."}, {"role": "user", "content": "6 x 7?"})
)
KEY = SecretValue("canary-canary-canary", name="KEY")
ADD: JsonObject = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "Add two numbers.",
        "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}},
    },
}
PRICES = ModelPrices(input_usd_per_mtok=1.0, output_usd_per_mtok=10.0)


@pytest.fixture(params=[*SENDERS])
def protocol(request: pytest.FixtureRequest) -> Protocol:
    found: Protocol = request.param
    return found


def endpoint(
    server: ScriptedServer,
    protocol: Protocol,
    *,
    key: SecretValue | None = None,
    headers: dict[str, str | SecretValue] | None = None,
    params: JsonObject | None = None,
) -> ModelEndpoint:
    spec = ModelSpec(
        id="m", base_url=server.base_url, api_protocol=protocol, params=params or {}, prices=PRICES
    )
    return ModelEndpoint(spec=spec, api_key=key, headers=headers or {})


def failure_of(script: Script, protocol: Protocol, timeout_s: float = 10.0) -> CallFailed:
    with ScriptedServer(script) as server, pytest.raises(CallFailed) as caught:
        send(endpoint(server, protocol), REQUEST, timeout_s)
    return caught.value


def ask(
    script: Script, protocol: Protocol, policy: CallPolicy | None = None
) -> tuple[AttemptFailure, int]:
    """Ask through the client; return the failure and the number of calls."""
    waits = Clockwork(sleep=lambda _: None, rng=Random(1))
    client = ChatClient(
        send, policy or CallPolicy(max_model_retries=1, backoff_base_s=0.001), waits
    )
    with ScriptedServer(script) as server, pytest.raises(AttemptFailure) as caught:
        client.ask(endpoint(server, protocol), REQUEST, waits.monotonic() + 30)
    return caught.value, len(server.traffic.calls)


def test_text_reasoning_counts_and_cost_are_read(protocol: Protocol) -> None:
    answer = Answer("It is 42.", reasoning="six by seven", cached_tokens=1, reasoning_tokens=2)
    with ScriptedServer(InOrder(answer)) as server:
        reply = send(endpoint(server, protocol), REQUEST, 10.0)

    assert (reply.content, reply.reasoning, reply.tool_calls) == ("It is 42.", "six by seven", ())
    assert (reply.prompt_tokens, reply.completion_tokens) == (3, 3)
    assert (reply.cached_tokens, reply.reasoning_tokens) == (1, 2)
    assert (reply.finish_reason, reply.served_model) == ("stop", "m")
    assert cost_usd(reply, PRICES) == pytest.approx(33e-6)


def test_the_server_hears_the_system_prompt_the_question_and_the_tools(protocol: Protocol) -> None:
    with ScriptedServer(InOrder(Answer("42"))) as server:
        send(endpoint(server, protocol), ChatRequest(REQUEST.messages, (ADD,)), 10.0)

        call = server.traffic.calls[0]
        assert call.heard.first == "6 x 7?"
        assert call.heard.tools == ("add",)
        assert "Be brief." in json.dumps(call.body)
        assert not call.body.get("stream", False)


def test_tool_calls_come_and_their_results_go_back(protocol: Protocol) -> None:
    calls = (ToolCall("add", {"a": 1}, id="c1"), ToolCall("add", {"a": 2}, id="c2"))
    script = InOrder(Answer("Let me see.", tool_calls=calls, reasoning="hm"), Answer("3"))
    with ScriptedServer(script) as server:
        model = endpoint(server, protocol)
        reply = send(model, ChatRequest(REQUEST.messages, (ADD,)), 10.0)
        results: tuple[JsonObject, ...] = (
            {"role": "tool", "tool_call_id": "c1", "content": "one"},
            {"role": "tool", "tool_call_id": "c2", "content": "two"},
        )
        messages = (*REQUEST.messages, reply.message(), *results)
        last = send(model, ChatRequest(messages, (ADD,)), 10.0)

        heard = server.traffic.calls[1].heard
        assert (heard.turns, heard.results) == (1, ("one", "two"))
    assert reply.finish_reason == "tool_calls"
    assert [arguments_of(call) for call in reply.tool_calls] == [
        ("add", {"a": 1}),
        ("add", {"a": 2}),
    ]
    assert last.content == "3"


def arguments_of(call: JsonObject) -> tuple[str, Any]:
    function: Any = call["function"]
    return function["name"], json.loads(function["arguments"])


def test_an_answer_that_was_cut_off_says_so(protocol: Protocol) -> None:
    with ScriptedServer(InOrder(Answer("It is", finish_reason="length"))) as server:
        assert send(endpoint(server, protocol), REQUEST, 10.0).finish_reason == "length"


def test_the_models_params_are_sent_as_they_are(protocol: Protocol) -> None:
    params: JsonObject = {"temperature": 0.0, "max_tokens": 77, "top_k": 3, "token_count": 1}
    with ScriptedServer(InOrder(Answer("42"))) as server:
        send(endpoint(server, protocol, params=params), REQUEST, 10.0)

        body = server.traffic.calls[0].body
        assert {name: body[name] for name in params} == params
        assert body["model"] == "m"


@pytest.mark.parametrize("name", ["stream", "model", "tools"])
def test_what_the_harness_sets_cannot_be_a_param(protocol: Protocol, name: str) -> None:
    with (
        ScriptedServer(InOrder(Answer("42"))) as server,
        pytest.raises(PermanentFailure, match=rf"model\.params\.{name} is set by the harness"),
    ):
        send(endpoint(server, protocol, params={name: 1}), REQUEST, 10.0)


def test_key_and_headers_arrive(protocol: Protocol) -> None:
    headers: dict[str, str | SecretValue] = {"X-Team": "blue", "X-Token": KEY}
    with ScriptedServer(InOrder(Answer("42"))) as server:
        send(endpoint(server, protocol, key=KEY, headers=headers), REQUEST, 10.0)

        sent = server.traffic.calls[0].headers
        key = sent.get("authorization", "").removeprefix("Bearer ") or sent.get("x-api-key")
        assert key == KEY.reveal()
        assert (sent["x-team"], sent["x-token"]) == ("blue", KEY.reveal())


def test_without_a_key_none_is_sent_whatever_the_environment_holds(
    protocol: Protocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("OPENAI_API_KEY", "OPENAI_ORG_ID", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
    for name in names:
        monkeypatch.setenv(name, KEY.reveal())
    with ScriptedServer(InOrder(Answer("42"))) as server:
        send(endpoint(server, protocol), REQUEST, 10.0)

        sent = server.traffic.calls[0].headers
        assert not {"authorization", "x-api-key"}.intersection(sent)
        assert not [text for text in sent.values() if "canary" in text or wire.OUR_KEY in text]


def test_a_header_of_the_users_own_replaces_the_key(protocol: Protocol) -> None:
    headers: dict[str, str | SecretValue] = {"authorization": "Basic x", "x-api-key": "own"}
    with ScriptedServer(InOrder(Answer("42"))) as server:
        send(endpoint(server, protocol, key=KEY, headers=headers), REQUEST, 10.0)

        sent = server.traffic.calls[0].headers
        assert (sent["authorization"], sent["x-api-key"]) == ("Basic x", "own")


def test_the_mask_is_never_sent(protocol: Protocol) -> None:
    with ScriptedServer(InOrder(Answer("42"))) as server:
        masked = endpoint(server, protocol, headers={"Authorization": f"Bearer {MASK}"})
        with pytest.raises(AttemptFailure, match="masked"):
            send(masked, REQUEST, 10.0)

        assert server.traffic.calls == []


def test_the_sdk_does_not_retry_by_itself_and_the_servers_wish_is_read(protocol: Protocol) -> None:
    with ScriptedServer(InOrder(rate_limited("7"))) as server:
        with pytest.raises(CallFailed, match="429: slow down") as caught:
            send(endpoint(server, protocol), REQUEST, 10.0)

        assert len(server.traffic.calls) == 1
        assert (caught.value.kind, caught.value.retry_after_s) == ("unavailable", 7.0)


@pytest.mark.parametrize(
    ("status", "calls", "issue"),
    [
        (401, 1, "permanent fatal model_failed"),
        (402, 1, "permanent fatal model_failed"),
        (403, 1, "permanent fatal model_failed"),
        (400, 1, "error run_failed"),
        (404, 1, "error run_failed"),
        (429, 2, "fatal model_failed"),
        (500, 2, "fatal model_failed"),
        (529, 2, "fatal model_failed"),
    ],
)
def test_a_status_is_the_same_issue_in_every_protocol(
    protocol: Protocol, status: int, calls: int, issue: str
) -> None:
    failure, asked = ask(InOrder(Answer("no", status=status)), protocol)

    permanent = "permanent " if isinstance(failure, PermanentFailure) else ""
    assert f"{permanent}{failure.severity} {failure.code}" == issue
    assert asked == calls


def test_a_server_may_say_that_asking_again_is_no_use(protocol: Protocol) -> None:
    answer = Answer("quota", status=429, headers={"x-should-retry": "false"})

    assert failure_of(InOrder(answer), protocol).kind == "refused"


def test_a_redirect_is_not_followed_with_the_key(protocol: Protocol) -> None:
    answer = Answer("moved", status=307, headers={"Location": "http://127.0.0.1:9/v1"})

    assert failure_of(InOrder(answer), protocol).kind == "rejected"


def test_a_stalled_server_is_a_timeout(protocol: Protocol) -> None:
    policy = CallPolicy(request_timeout_s=0.2)

    failure, asked = ask(InOrder(Answer(stall=True)), protocol, policy)

    assert (failure.severity, failure.code, asked) == ("error", "model_timeout", 1)


@pytest.mark.parametrize(
    "body", [b"", b"<html>proxy</html>", b"[]", b"{}", b'{"choices": [{"mes', b'{"output": 1}']
)
def test_a_broken_answer_is_worth_asking_again(protocol: Protocol, body: bytes) -> None:
    assert failure_of(InOrder(Answer(body=body)), protocol).kind == "unavailable"


def test_an_error_inside_of_a_good_status_is_an_error(protocol: Protocol) -> None:
    body = json.dumps({"error": {"message": "no such tenant", "code": 401}}).encode()

    failure = failure_of(InOrder(Answer(body=body)), protocol)

    assert (failure.kind, failure.status) == ("refused", 401)
    assert "no such tenant" in failure.message


def test_an_empty_answer_is_an_error_that_keeps_the_answer(protocol: Protocol) -> None:
    failure, asked = ask(InOrder(Answer("", finish_reason="length")), protocol)

    assert (failure.severity, failure.code, asked) == ("error", "model_empty_output", 1)
    assert "length" in failure.message


def test_no_connection_is_worth_asking_again(protocol: Protocol) -> None:
    with ScriptedServer(InOrder(Answer("42"))) as server:
        gone = endpoint(server, protocol)

    with pytest.raises(CallFailed, match="no connection") as caught:
        send(gone, REQUEST, 5.0)
    assert caught.value.kind == "unavailable"


def test_one_client_serves_all_attempts_of_an_endpoint(protocol: Protocol) -> None:
    with ScriptedServer(InOrder(Answer("42"))) as server:
        for _ in range(3):
            send(endpoint(server, protocol, key=KEY), REQUEST, 10.0)

    assert len(wire._clients) == 1


def test_a_forked_child_starts_without_its_parents_connections(protocol: Protocol) -> None:
    with ScriptedServer(InOrder(Answer("42"))) as server:
        send(endpoint(server, protocol), REQUEST, 10.0)
        parents = list(wire._clients.values())
        wire._forget_clients()

        assert send(endpoint(server, protocol), REQUEST, 10.0).content == "42"
        assert not set(parents).intersection(wire._clients.values())
        for client in parents:
            client.close()


def test_a_model_without_a_protocol_is_asked_for_chat_completions() -> None:
    with ScriptedServer(InOrder(Answer("42"))) as server:
        assert send(endpoint(server, ""), REQUEST, 10.0).content == "42"

        assert "messages" in server.traffic.calls[0].body
        assert "max_tokens" not in server.traffic.calls[0].body


def test_no_sdk_is_imported_before_the_first_call() -> None:
    program = (
        "import sys, agentcompass.llm.protocols, agentcompass.harnesses.openai_chat; "
        "sys.exit(bool({'openai', 'anthropic'} & sys.modules.keys()))"
    )

    assert (
        subprocess.run([sys.executable, "-c", program], check=False, env=os.environ).returncode == 0
    )


def test_a_protocol_whose_package_is_missing_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "anthropic", None)
    with (
        ScriptedServer(InOrder(Answer("42"))) as server,
        pytest.raises(
            PermanentFailure, match=r"pip install 'agentcompass-distributed\[anthropic\]'"
        ),
    ):
        send(endpoint(server, "anthropic"), REQUEST, 10.0)
