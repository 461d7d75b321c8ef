"""The official OpenAI SDK, for both of its protocols; the only module that imports it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from agentcompass.llm.base import ChatRequest
from agentcompass.llm.wire import CONNECT_TIMEOUT_S, OUR_KEY, classified, client_of, headers_of
from agentcompass.models.context import ModelEndpoint

if TYPE_CHECKING:
    from openai import OpenAI, Timeout

OFFICIAL_URL: Final = "https://api.openai.com/v1"
"""Where a model without a base URL is asked; OPENAI_BASE_URL of the worker is not looked at, because
a run that goes elsewhere on one of its workers cannot be explained afterwards."""


@contextmanager
def asking(endpoint: ModelEndpoint, timeout_s: float) -> Iterator[tuple[OpenAI, Timeout]]:
    """Yield the client and the limits of one request; failures inside come out classified.

    `timeout_s` bounds connecting and every wait for further bytes, not their sum: a server that
    drips is ended by the attempt's deadline.
    """
    import openai

    client = client_of("openai", endpoint.spec.base_url or OFFICIAL_URL, _new_client)
    with classified(openai, timeout_s):
        yield client, openai.Timeout(timeout_s, connect=min(timeout_s, CONNECT_TIMEOUT_S))


def _new_client(base_url: str) -> OpenAI:
    from openai import DefaultHttpxClient, OpenAI

    # No redirects: a key in a header of the user's own would follow them to another host.
    return OpenAI(
        base_url=base_url,
        api_key=OUR_KEY,
        max_retries=0,
        http_client=DefaultHttpxClient(follow_redirects=False),
    )


def headers(endpoint: ModelEndpoint, request: ChatRequest) -> dict[str, Any]:
    """Return the headers of one call, the model's key among them."""
    from openai import Omit

    ours: dict[str, object] = {"Authorization": Omit()}
    if endpoint.spec.base_url:
        # The SDK reads these two from the environment, and would tell them to any host.
        ours |= {"OpenAI-Organization": Omit(), "OpenAI-Project": Omit()}
    if endpoint.api_key is not None:
        ours["Authorization"] = f"Bearer {endpoint.api_key.reveal()}"
    return headers_of(endpoint, request, ours)
