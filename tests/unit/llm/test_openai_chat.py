from __future__ import annotations

import pytest

from agentcompass.errors import AttemptFailure
from agentcompass.llm.base import NATIVE, ChatRequest
from agentcompass.llm.openai_chat import send
from agentcompass.models.context import ModelEndpoint
from agentcompass.models.request import ModelSpec, SecretRef
from agentcompass.models.secret import SecretValue
from tests.support.scripted_server import Answer, InOrder, ScriptedServer

KEY = SecretValue("canary-canary-canary", name="KEY")


@pytest.mark.parametrize("name", ["messages", "n"])
def test_what_the_harness_sets_cannot_be_a_param(name: str) -> None:
    spec = ModelSpec(id="m", base_url="http://127.0.0.1:9/v1", params={name: 1})

    with pytest.raises(AttemptFailure, match=rf"model\.params\.{name} is set by the harness"):
        send(ModelEndpoint(spec=spec), ChatRequest(({"role": "user", "content": "hi"},)), 10.0)


def test_what_another_protocol_left_in_a_message_stays_here() -> None:
    request = ChatRequest(({"role": "assistant", "content": "hi", NATIVE: [{"type": "x"}]},))
    with ScriptedServer(InOrder(Answer("42"))) as server:
        send(ModelEndpoint(spec=ModelSpec(id="m", base_url=server.base_url)), request, 10.0)

        assert server.traffic.calls[0].body["messages"] == [{"role": "assistant", "content": "hi"}]


def test_a_secret_reference_alone_says_nothing() -> None:
    spec = ModelSpec(id="m", api_key=SecretRef(env="KEY"))

    assert KEY.reveal() not in repr(ModelEndpoint(spec=spec, api_key=KEY))
