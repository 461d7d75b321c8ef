"""The types of a model call, the same for every protocol."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol

from pydantic import Field

from agentcompass.models.base import Frozen, JsonObject
from agentcompass.models.context import ModelEndpoint

NATIVE: Final = "native"
"""Key of an assistant message: what the model said, in its protocol's own form (`Reply.native`)."""

FailureKind = Literal["refused", "unavailable", "rejected", "timeout"]
"""refused: 401, 402, 403, no use to ask again. unavailable: 429, 5xx, no connection, a broken
answer; worth asking again. rejected: any other answer to this one request. timeout: no answer in
the time that the call had."""


class CallPolicy(Frozen):
    """How long and how often one call is tried; every bound holds by itself."""

    request_timeout_s: float = Field(default=600.0, gt=0)
    """One request, from sending to the last byte; the attempt's deadline cuts it shorter."""
    max_model_retries: int = Field(default=6, ge=0, le=1_000)
    """Further requests after the first, whatever the server says."""
    backoff_base_s: float = Field(default=1.0, gt=0)
    """Before the first retry; doubles with each, and is drawn from its upper half."""
    backoff_max_s: float = Field(default=60.0, gt=0)
    """The longest wait of our own choosing; a server's Retry-After may ask for more."""
    backoff_budget_s: float = Field(default=600.0, ge=0)
    """The sum of all waits of one call; a Retry-After beyond what is left ends it at once."""


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """What is asked: messages and tools in the form of OpenAI's chat completions.

    Other protocols are translated from it, so that a harness need not know what it speaks.
    """

    messages: tuple[JsonObject, ...]
    tools: tuple[JsonObject, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    """Of this call only, beside the model's own; never a secret."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What the model answered; null means that the server did not say."""

    content: str
    reasoning: str | None = None
    tool_calls: tuple[JsonObject, ...] = ()
    """In the form of chat completions, whatever the protocol."""
    finish_reason: str | None = None
    """In the words of chat completions (stop, length, tool_calls, content_filter) where there is
    one, else the server's own."""
    usage: JsonObject = field(default_factory=dict)
    """As the server reports it; where its `input_tokens` leave cached ones out, they are added."""
    prompt_tokens: int | None = None
    """All of them, also those that were read from a cache or written to one."""
    completion_tokens: int | None = None
    """All of them, reasoning included."""
    cached_tokens: int | None = None
    """Of the prompt: read from the provider's cache."""
    cache_write_tokens: int | None = None
    """Of the prompt: written to the provider's cache; only some providers count them."""
    reasoning_tokens: int | None = None
    """Of the completion."""
    native: tuple[JsonObject, ...] = ()
    """The answer in its protocol's own form, where the next request must hold more of it than text
    and tool calls, such as signed reasoning."""
    served_model: str | None = None
    request_id: str | None = None

    @property
    def is_empty(self) -> bool:
        """True if there is neither text nor a tool call; reasoning alone is no answer."""
        return not self.content.strip() and not self.tool_calls

    @property
    def tokens(self) -> int | None:
        """What the call used in all; None if the server did not say both sides."""
        if self.prompt_tokens is None or self.completion_tokens is None:
            return None
        return self.prompt_tokens + self.completion_tokens

    def message(self) -> JsonObject:
        """Return the answer as the message that goes into the next request."""
        said: JsonObject = {"role": "assistant", "content": self.content}
        if self.tool_calls:
            said["tool_calls"] = list(self.tool_calls)
        if self.native:
            said[NATIVE] = list(self.native)
        return said


class CallFailed(Exception):
    """One request failed; `client` decides whether there is another."""

    def __init__(
        self,
        kind: FailureKind,
        message: str,
        *,
        status: int | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(kind, message, status, retry_after_s)
        self.kind: FailureKind = kind
        self.message = message
        self.status = status
        self.retry_after_s = retry_after_s

    def __str__(self) -> str:
        return self.message


class Send(Protocol):
    """One request over one protocol."""

    def __call__(self, endpoint: ModelEndpoint, request: ChatRequest, timeout_s: float) -> Reply:
        """Return the reply.

        Raises:
            CallFailed: there is none; every failure of the wire and of the server ends here.
        """
