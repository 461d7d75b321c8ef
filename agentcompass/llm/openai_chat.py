"""Chat completions over the official OpenAI SDK; the only module that imports it.

The SDK costs half a second and 40 MB, so it is imported by the first call, not by the worker's
start. There is one HTTP client, with its pool of kept connections, per process and base URL; it
belongs to no attempt and to no key. Its own retries are off: it neither knows the attempt's
deadline nor tells how often it tried.
"""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING, Any, Final, cast

from agentcompass.errors import PermanentFailure
from agentcompass.llm.backoff import retry_after_s
from agentcompass.llm.base import CallFailed, ChatRequest, FailureKind, Reply
from agentcompass.llm.replies import kind_of, read_reply, server_words
from agentcompass.models.base import JsonObject
from agentcompass.models.context import ModelEndpoint
from agentcompass.models.request import MASK
from agentcompass.models.secret import SecretValue

if TYPE_CHECKING:
    from openai import APIConnectionError, APIStatusError, OpenAI

OFFICIAL_URL: Final = "https://api.openai.com/v1"
"""Where a model without a base URL is asked; OPENAI_BASE_URL of the worker is not looked at, because
a run that goes elsewhere on one of its workers cannot be explained afterwards."""
CONNECT_TIMEOUT_S: Final = 10.0
RESERVED: Final = frozenset({"model", "messages", "tools", "stream", "n"})

_clients: dict[str, OpenAI] = {}
_guard = threading.Lock()


def _forget_clients() -> None:
    """After a fork the child must not speak on its parent's connections."""
    global _guard  # a thread of the parent may have held it in that moment
    _clients.clear()
    _guard = threading.Lock()


os.register_at_fork(after_in_child=_forget_clients)


def send(endpoint: ModelEndpoint, request: ChatRequest, timeout_s: float) -> Reply:
    """Ask once; see `llm.base.Send`.

    `timeout_s` bounds connecting and every wait for further bytes, not their sum: a server that
    drips is ended by the attempt's deadline.
    """
    body = _body(endpoint, request)
    client = _client(endpoint.spec.base_url or OFFICIAL_URL)
    from openai import APIConnectionError, APIStatusError, APITimeoutError, Timeout

    try:
        response = client.chat.completions.with_raw_response.create(
            model=endpoint.spec.id,
            messages=cast("Any", request.messages),
            extra_body=body,
            extra_headers=_headers(endpoint, request),
            timeout=Timeout(timeout_s, connect=min(timeout_s, CONNECT_TIMEOUT_S)),
        )
    except APIStatusError as error:
        raise _from_status(error) from error
    except APITimeoutError as error:
        raise _from_timeout(error, timeout_s) from error
    except APIConnectionError as error:
        reason = f"{error.__cause__ or error}".strip() or type(error.__cause__).__name__
        raise CallFailed("unavailable", f"no connection to the model: {reason}") from error
    raw = response.http_response
    return read_reply(raw.content, request_id=raw.headers.get("x-request-id"))


def _client(base_url: str) -> OpenAI:
    with _guard:
        client = _clients.get(base_url)
        if client is None:
            client = _clients[base_url] = _new_client(base_url)
        return client


def _new_client(base_url: str) -> OpenAI:
    from openai import DefaultHttpxClient, OpenAI

    # No redirects: a key in a header of the user's own would follow them to another host. The
    # key is not known here; each call brings its own Authorization header.
    return OpenAI(
        base_url=base_url,
        api_key="given-with-each-call",
        max_retries=0,
        http_client=DefaultHttpxClient(follow_redirects=False),
    )


def _body(endpoint: ModelEndpoint, request: ChatRequest) -> JsonObject:
    taken = RESERVED.intersection(endpoint.spec.params)
    if taken:
        raise PermanentFailure(
            "fatal",
            "setup",
            "setup_failed",
            f"model.params.{min(taken)} is set by the harness and cannot be given",
        )
    body = dict(endpoint.spec.params)
    if request.tools:
        body["tools"] = list(request.tools)
    return body


def _headers(endpoint: ModelEndpoint, request: ChatRequest) -> dict[str, Any]:
    """Return the headers of one call; the only place where a secret is in the clear."""
    from openai import Omit

    headers: dict[str, Any] = {"Authorization": Omit(), **request.headers}
    if endpoint.spec.base_url:
        # The SDK reads these two from the environment, and would tell them to any host.
        headers |= {"OpenAI-Organization": Omit(), "OpenAI-Project": Omit()}
    if endpoint.api_key is not None:
        headers["Authorization"] = f"Bearer {endpoint.api_key.reveal()}"
    for name, value in endpoint.headers.items():
        given = next((known for known in headers if known.lower() == name.lower()), name)
        headers[given] = value.reveal() if isinstance(value, SecretValue) else value
    if any(MASK in value for value in headers.values() if isinstance(value, str)):
        raise PermanentFailure(
            "fatal", "setup", "secret_missing", "a masked secret must not be sent to a model"
        )
    return headers


def _from_status(error: APIStatusError) -> CallFailed:
    status = error.status_code
    headers = error.response.headers
    words = server_words(error.response.content)
    kind = _advised(headers.get("x-should-retry"), kind_of(status))
    return CallFailed(
        kind,
        f"the model answered with status {status}: {words}",
        status=status,
        retry_after_s=retry_after_s(headers, time.time()),
    )


def _advised(should_retry: str | None, kind: FailureKind) -> FailureKind:
    """Follow a server that knows better whether it is worth asking again, as the SDK does."""
    if kind == "unavailable" and should_retry == "false":
        return "refused"
    return "unavailable" if kind == "rejected" and should_retry == "true" else kind


def _from_timeout(error: APIConnectionError, timeout_s: float) -> CallFailed:
    # The SDK has one class for "not connected in time" and "not answered in time". In the first
    # case nothing was sent, so asking again costs nothing.
    if type(error.__cause__).__name__ in {"ConnectTimeout", "PoolTimeout"}:
        return CallFailed("unavailable", "no connection to the model in time")
    return CallFailed("timeout", f"the model did not answer within {timeout_s:g} s")
