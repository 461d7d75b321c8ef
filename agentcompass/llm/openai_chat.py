"""Protocol `openai-chat`: chat completions, as most servers speak them."""

from __future__ import annotations

from typing import Any, Final, cast

from agentcompass.llm import openai_sdk
from agentcompass.llm.base import NATIVE, ChatRequest, Reply
from agentcompass.llm.replies import read_reply
from agentcompass.llm.wire import params_of
from agentcompass.models.base import JsonObject
from agentcompass.models.context import ModelEndpoint

RESERVED: Final = frozenset({"model", "messages", "tools", "stream", "n"})


def send(endpoint: ModelEndpoint, request: ChatRequest, timeout_s: float) -> Reply:
    """Ask once; see `llm.base.Send`."""
    body = params_of(endpoint, RESERVED)
    if request.tools:
        body["tools"] = list(request.tools)
    with openai_sdk.asking(endpoint, timeout_s) as (client, timeout):
        response = client.chat.completions.with_raw_response.create(
            model=endpoint.spec.id,
            messages=cast("Any", [_own(message) for message in request.messages]),
            extra_body=body,
            extra_headers=openai_sdk.headers(endpoint, request),
            timeout=timeout,
        )
    raw = response.http_response
    return read_reply(raw.content, request_id=raw.headers.get("x-request-id"))


def _own(message: JsonObject) -> JsonObject:
    return {name: value for name, value in message.items() if name != NATIVE}
