"""The one place that knows which protocols there are; what harnesses hand to `ChatClient`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from agentcompass.llm import anthropic_messages, openai_chat, openai_responses
from agentcompass.llm.base import ChatRequest, Reply, Send
from agentcompass.models.context import ModelEndpoint

DEFAULT: Final = "openai-chat"
SENDERS: Final[Mapping[str, Send]] = {
    "openai-chat": openai_chat.send,
    "openai-responses": openai_responses.send,
    "anthropic": anthropic_messages.send,
}


def send(endpoint: ModelEndpoint, request: ChatRequest, timeout_s: float) -> Reply:
    """Ask once, in the protocol that the model's spec names; see `llm.base.Send`."""
    return SENDERS[endpoint.spec.api_protocol or DEFAULT](endpoint, request, timeout_s)
