"""The types of a model call, the same for every protocol."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from pydantic import Field

from agentcompass.models.base import Frozen, JsonObject
from agentcompass.models.context import ModelEndpoint

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
    """What is asked: messages and tools in the form of OpenAI's chat completions."""

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
    finish_reason: str | None = None
    usage: JsonObject = field(default_factory=dict)
    """As the server reports it, unchanged."""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
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
