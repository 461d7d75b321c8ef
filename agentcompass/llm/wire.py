"""What the senders of all protocols share: kept connections, headers, and the classes of failure.

There is one HTTP client, with its pool of kept connections, per process, SDK and base URL; it belongs
to no attempt and to no key. The SDKs' own retries are off: they neither know the attempt's deadline
nor tell how often they tried. An SDK costs up to a second and 40 MB, so it is imported by the first
call, not by the worker's start.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import Any, Final, Protocol, TypeVar, cast

from agentcompass.errors import PermanentFailure
from agentcompass.llm.backoff import retry_after_s
from agentcompass.llm.base import CallFailed, ChatRequest, FailureKind
from agentcompass.llm.replies import kind_of, server_words
from agentcompass.models.base import JsonObject
from agentcompass.models.context import ModelEndpoint
from agentcompass.models.request import MASK
from agentcompass.models.secret import SecretValue

CONNECT_TIMEOUT_S: Final = 10.0
OUR_KEY: Final = "given-with-each-call"
"""What a client is made with; each call brings its own header, or none."""


class Closable(Protocol):
    """A client of an SDK."""

    def close(self) -> None:
        """Give its connections back."""


ClientT = TypeVar("ClientT", bound=Closable)

_clients: dict[tuple[str, str], Closable] = {}
_guard = threading.Lock()


def _forget_clients() -> None:
    """After a fork the child must not speak on its parent's connections."""
    global _guard  # a thread of the parent may have held it in that moment
    _clients.clear()
    _guard = threading.Lock()


os.register_at_fork(after_in_child=_forget_clients)


def close_clients() -> None:
    """Close all connections of this process; the next call opens new ones."""
    with _guard:
        for client in _clients.values():
            client.close()
        _clients.clear()


def client_of(sdk: str, base_url: str, make: Callable[[str], ClientT]) -> ClientT:
    """Return this process's client of an SDK for a base URL."""
    with _guard:
        client = _clients.get((sdk, base_url))
        if client is None:
            client = _clients[sdk, base_url] = make(base_url)
        return cast("ClientT", client)


def params_of(endpoint: ModelEndpoint, reserved: Collection[str]) -> JsonObject:
    """Return the model's own params, a copy; refuse those that the harness sets."""
    taken = set(reserved).intersection(endpoint.spec.params)
    if taken:
        raise PermanentFailure(
            "fatal",
            "setup",
            "setup_failed",
            f"model.params.{min(taken)} is set by the harness and cannot be given",
        )
    return dict(endpoint.spec.params)


def headers_of(
    endpoint: ModelEndpoint, request: ChatRequest, ours: Mapping[str, object]
) -> dict[str, Any]:
    """Return the headers of one call; they hold secrets in the clear.

    Args:
        ours: of the protocol, the key among them; a header of the model's own replaces it.
    """
    headers: dict[str, Any] = {**ours, **request.headers}
    for name, value in endpoint.headers.items():
        given = next((known for known in headers if known.lower() == name.lower()), name)
        headers[given] = value.reveal() if isinstance(value, SecretValue) else value
    if any(MASK in value for value in headers.values() if isinstance(value, str)):
        raise PermanentFailure(
            "fatal", "setup", "secret_missing", "a masked secret must not be sent to a model"
        )
    return headers


@contextmanager
def classified(sdk: ModuleType, timeout_s: float) -> Iterator[None]:
    """Turn what an SDK raises into `CallFailed`; both SDKs name their errors alike."""
    try:
        yield
    except sdk.APIStatusError as error:
        raise _from_status(error) from error
    except sdk.APITimeoutError as error:
        raise _from_timeout(error, timeout_s) from error
    except sdk.APIConnectionError as error:
        cause = error.__cause__
        reason = f"{cause or error}".strip() or type(cause).__name__
        raise CallFailed("unavailable", f"no connection to the model: {reason}") from error


def _from_status(error: Any) -> CallFailed:
    status = int(error.status_code)
    headers = error.response.headers
    words = server_words(error.response.content)
    return CallFailed(
        _advised(headers.get("x-should-retry"), kind_of(status)),
        f"the model answered with status {status}: {words}",
        status=status,
        retry_after_s=retry_after_s(headers, time.time()),
    )


def _advised(should_retry: str | None, kind: FailureKind) -> FailureKind:
    """Follow a server that knows better whether it is worth asking again, as the SDKs do."""
    if kind == "unavailable" and should_retry == "false":
        return "refused"
    return "unavailable" if kind == "rejected" and should_retry == "true" else kind


def _from_timeout(error: BaseException, timeout_s: float) -> CallFailed:
    # The SDKs have one class for "not connected in time" and "not answered in time". In the first
    # case nothing was sent, so asking again costs nothing.
    if type(error.__cause__).__name__ in {"ConnectTimeout", "PoolTimeout"}:
        return CallFailed("unavailable", "no connection to the model in time")
    return CallFailed("timeout", f"the model did not answer within {timeout_s:g} s")
