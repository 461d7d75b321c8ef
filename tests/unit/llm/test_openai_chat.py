"""The wire itself: real HTTP to a scripted server."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from agentcompass.errors import AttemptFailure
from agentcompass.llm import openai_chat
from agentcompass.llm.base import CallFailed, ChatRequest
from agentcompass.llm.openai_chat import send
from agentcompass.models.base import JsonObject
from agentcompass.models.context import ModelEndpoint
from agentcompass.models.request import MASK, ModelSpec, SecretRef
from agentcompass.models.secret import SecretValue
from tests.support.scripted_server import (
    Answer,
    InOrder,
    Script,
    ScriptedServer,
    rate_limited,
)

REQUEST = ChatRequest(({"role": "user", "content": "6 x 7?"},))
KEY = SecretValue("canary-canary-canary", name="KEY")


@pytest.fixture(autouse=True)
def no_client_is_left() -> Iterator[None]:
    yield
    for client in openai_chat._clients.values():
        client.close()
    openai_chat._clients.clear()


def endpoint(
    server: ScriptedServer,
    *,
    key: SecretValue | None = None,
    headers: dict[str, str | SecretValue] | None = None,
    params: JsonObject | None = None,
) -> ModelEndpoint:
    spec = ModelSpec(id="m", base_url=server.base_url, params=params or {})
    return ModelEndpoint(spec=spec, api_key=key, headers=headers or {})


def failure_of(script: Script, timeout_s: float = 10.0) -> CallFailed:
    with ScriptedServer(script) as server, pytest.raises(CallFailed) as caught:
        send(endpoint(server), REQUEST, timeout_s)
    return caught.value


def test_the_models_params_are_sent_as_they_are() -> None:
    params: JsonObject = {"temperature": 0.0, "max_tokens": 4096, "top_k": 3, "token_count": 1}
    with ScriptedServer(InOrder(Answer("42"))) as server:
        reply = send(endpoint(server, params=params), REQUEST, 10.0)

        assert reply.content == "42"
        body = server.traffic.calls[0].body
        assert {name: body[name] for name in params} == params
        assert body["model"] == "m"


def test_key_and_headers_arrive_and_nothing_else_of_ours() -> None:
    headers: dict[str, str | SecretValue] = {"X-Team": "blue", "X-Api-Key": KEY}
    with ScriptedServer(InOrder(Answer("42"))) as server:
        send(endpoint(server, key=KEY, headers=headers), REQUEST, 10.0)

        sent = server.traffic.calls[0].headers
        assert sent["authorization"] == f"Bearer {KEY.reveal()}"
        assert (sent["x-team"], sent["x-api-key"]) == ("blue", KEY.reveal())


def test_an_authorization_header_of_the_users_own_replaces_the_key() -> None:
    with ScriptedServer(InOrder(Answer("42"))) as server:
        send(endpoint(server, key=KEY, headers={"authorization": "Basic x"}), REQUEST, 10.0)

        assert server.traffic.calls[0].headers["authorization"] == "Basic x"


def test_without_a_key_none_is_sent_whatever_the_environment_holds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY.reveal())
    monkeypatch.setenv("OPENAI_ORG_ID", "org-canary")
    with ScriptedServer(InOrder(Answer("42"))) as server:
        send(endpoint(server), REQUEST, 10.0)

        sent = server.traffic.calls[0].headers
        assert "authorization" not in sent
        assert "canary" not in str(sent)


def test_the_mask_is_never_sent() -> None:
    with ScriptedServer(InOrder(Answer("42"))) as server:
        masked = endpoint(server, headers={"Authorization": f"Bearer {MASK}"})
        with pytest.raises(AttemptFailure, match="masked"):
            send(masked, REQUEST, 10.0)

        assert server.traffic.calls == []


@pytest.mark.parametrize("name", ["stream", "messages", "model", "n", "tools"])
def test_what_the_harness_sets_cannot_be_a_param(name: str) -> None:
    spec = ModelSpec(id="m", base_url="http://127.0.0.1:9/v1", params={name: 1})

    with pytest.raises(AttemptFailure, match=rf"model\.params\.{name} is set by the harness"):
        send(ModelEndpoint(spec=spec), REQUEST, 10.0)


def test_the_sdk_does_not_retry_by_itself_and_the_servers_wish_is_read() -> None:
    with ScriptedServer(InOrder(rate_limited("7"))) as server:
        with pytest.raises(CallFailed, match="429: slow down") as caught:
            send(endpoint(server), REQUEST, 10.0)

        assert len(server.traffic.calls) == 1
        assert (caught.value.kind, caught.value.retry_after_s) == ("unavailable", 7.0)


@pytest.mark.parametrize(
    ("status", "kind"),
    [(401, "refused"), (403, "refused"), (404, "rejected"), (503, "unavailable")],
)
def test_a_status_becomes_a_kind(status: int, kind: str) -> None:
    failure = failure_of(InOrder(Answer("no", status=status)))

    assert (failure.kind, failure.status) == (kind, status)


def test_a_server_may_say_that_asking_again_is_no_use() -> None:
    answer = Answer("quota", status=429, headers={"x-should-retry": "false"})

    assert failure_of(InOrder(answer)).kind == "refused"


def test_a_redirect_is_not_followed_with_the_key() -> None:
    answer = Answer("moved", status=307, headers={"Location": "http://127.0.0.1:9/v1"})

    assert failure_of(InOrder(answer)).kind == "rejected"


def test_a_stalled_server_is_a_timeout() -> None:
    assert failure_of(InOrder(Answer(stall=True)), timeout_s=0.2).kind == "timeout"


def test_a_cut_off_answer_is_worth_asking_again() -> None:
    assert failure_of(InOrder(Answer(body=b'{"choices": [{"mes'))).kind == "unavailable"


def test_no_connection_is_worth_asking_again() -> None:
    with ScriptedServer(InOrder(Answer("42"))) as server:
        gone = endpoint(server)

    with pytest.raises(CallFailed, match="no connection") as caught:
        send(gone, REQUEST, 5.0)
    assert caught.value.kind == "unavailable"


def test_one_client_serves_all_attempts_of_an_endpoint() -> None:
    with ScriptedServer(InOrder(Answer("42"))) as server:
        for _ in range(3):
            send(endpoint(server, key=KEY), REQUEST, 10.0)

    assert len(openai_chat._clients) == 1


def test_a_forked_child_starts_without_its_parents_connections() -> None:
    with ScriptedServer(InOrder(Answer("42"))) as server:
        send(endpoint(server), REQUEST, 10.0)
        parents = list(openai_chat._clients.values())
        openai_chat._forget_clients()

        assert send(endpoint(server), REQUEST, 10.0).content == "42"
        assert not set(parents).intersection(openai_chat._clients.values())
        for client in parents:
            client.close()


def test_the_sdk_is_not_imported_before_the_first_call() -> None:
    program = "import sys, agentcompass.harnesses.openai_chat; sys.exit('openai' in sys.modules)"

    assert (
        subprocess.run([sys.executable, "-c", program], check=False, env=os.environ).returncode == 0
    )


def test_a_secret_reference_alone_says_nothing() -> None:
    spec = ModelSpec(id="m", api_key=SecretRef(env="KEY"))

    assert KEY.reveal() not in repr(ModelEndpoint(spec=spec, api_key=KEY))
