from __future__ import annotations

import json

from agentcompass.llm.anthropic_messages import messages_of, read_message, send
from agentcompass.llm.base import ChatRequest
from agentcompass.llm.spending import cost_usd
from agentcompass.models.base import JsonObject
from agentcompass.models.context import ModelEndpoint
from agentcompass.models.request import ModelPrices, ModelSpec
from tests.support.scripted_server import Answer, InOrder, ScriptedServer

CALL: JsonObject = {"id": "c1", "function": {"name": "f", "arguments": '{"a": 1}'}}


def a_message(*content: JsonObject, **usage: int) -> bytes:
    return json.dumps({"content": content, "usage": usage}).encode()


def test_a_bound_on_the_answer_is_sent_because_the_protocol_demands_one() -> None:
    with ScriptedServer(InOrder(Answer("ok"))) as server:
        model = ModelEndpoint(spec=ModelSpec(id="m", base_url=server.base_url))
        send(model, ChatRequest(({"role": "user", "content": "hi"},)), 10.0)

        assert server.traffic.calls[0].body["max_tokens"] == 8_192


def test_results_of_several_calls_are_one_turn_and_precede_what_the_user_says() -> None:
    found = messages_of(
        (
            {"role": "system", "content": "s"},
            {"role": "user", "content": "q"},
            {"role": "assistant", "content": "", "tool_calls": [CALL]},
            {"role": "tool", "tool_call_id": "c1", "content": "r"},
            {"role": "user", "content": "go on"},
        )
    )

    assert [message["role"] for message in found] == ["user", "assistant", "user"]
    assert found[1]["content"] == [{"type": "tool_use", "id": "c1", "name": "f", "input": {"a": 1}}]
    assert found[2]["content"] == [
        {"type": "tool_result", "tool_use_id": "c1", "content": "r"},
        {"type": "text", "text": "go on"},
    ]


def test_signed_reasoning_goes_back_as_it_came() -> None:
    thought: JsonObject = {"type": "thinking", "thinking": "hm", "signature": "signed"}
    use: JsonObject = {"type": "tool_use", "id": "c1", "name": "f", "input": {}}

    reply = read_message(a_message(thought, use))

    assert messages_of((reply.message(),)) == [{"role": "assistant", "content": [thought, use]}]


def test_pictures_are_sent_in_the_protocols_form() -> None:
    def picture(url: str) -> JsonObject:
        part: JsonObject = {"type": "image_url", "image_url": {"url": url}}
        return {"role": "user", "content": [part]}

    found = messages_of((picture("data:image/png;base64,AAAA"), picture("https://x/y.png")))

    assert found[0]["content"] == [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
        {"type": "image", "source": {"type": "url", "url": "https://x/y.png"}},
    ]


def test_arguments_that_are_no_json_are_kept_where_they_can_be() -> None:
    call: JsonObject = {"id": "c1", "function": {"name": "f", "arguments": "{oops"}}

    found = messages_of(({"role": "assistant", "content": "x", "tool_calls": [call]},))

    assert '"input": {"malformed": "{oops"}' in json.dumps(found)


def test_cached_tokens_are_part_of_the_prompt_and_have_their_own_price() -> None:
    raw = a_message(
        input_tokens=10, cache_read_input_tokens=100, cache_creation_input_tokens=1, output_tokens=2
    )

    reply = read_message(raw)

    assert (reply.prompt_tokens, reply.cached_tokens, reply.cache_write_tokens) == (111, 100, 1)
    assert reply.usage["input_tokens"] == 111
    plain = ModelPrices(input_usd_per_mtok=1.0, output_usd_per_mtok=1.0)
    assert cost_usd(reply, plain) == 113e-6
    own = plain.model_copy(
        update={"cached_input_usd_per_mtok": 0.1, "cache_write_usd_per_mtok": 2.0}
    )
    assert cost_usd(reply, own) == (10 + 10 + 2 + 2) / 1e6
