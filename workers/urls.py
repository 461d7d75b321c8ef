"""The broker's URL: where it comes from, what is accepted, and how it looks without its password."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import SplitResult, urlsplit, urlunsplit

from agentcompass.errors import UsageError

BROKER_URL_VARIABLE: Final = "AGENTCOMPASS_BROKER_URL"
"""Never an argument: arguments are shown to everybody on the machine by `ps`."""

MESSAGE_KEY_VARIABLE: Final = "AGENTCOMPASS_MESSAGE_KEY"
"""Signs messages, see `workers.broker.signing`."""
OUR_OWN_SECRETS: Final = (BROKER_URL_VARIABLE, MESSAGE_KEY_VARIABLE)

_SCHEMES: Final = ("redis", "rediss")
_CREDENTIALS: Final = re.compile(r"(\w[\w+.-]*://)(?:[^\s/@]*@)+")
_QUERY_SECRET: Final = re.compile(r"([?&](?:password|username)=)[^&\s]+", re.IGNORECASE)


def masked(text: str) -> str:
    """Return `text` with the user information of every URL in it masked; hosts stay."""
    return _QUERY_SECRET.sub(r"\1********", _CREDENTIALS.sub(r"\1********@", text))


def checked(url: str) -> str:
    """Return `url` if our workers can use it; UsageError, password masked, if they cannot.

    One server, plain or over TLS: leases and messages must live in the same memory, so a list of
    alternates (`a;b`) would tear them apart at each failover.
    """
    problem = _problem(url)
    if problem:
        raise UsageError(
            f"broker URL cannot be used: {problem}",
            where=masked(url),
            # Without an example of a password: that would look like one, and be masked.
            hint="give redis://HOST[:PORT][/DB], or rediss:// for TLS",
        )
    return _verifying(url)


def _verifying(url: str) -> str:
    """Return the URL with the check of the server's certificate spelled out: Celery insists on it."""
    parts = urlsplit(url)
    if parts.scheme != "rediss" or "ssl_cert_reqs=" in parts.query:
        return url
    query = "&".join(filter(None, (parts.query, "ssl_cert_reqs=required")))
    return urlunsplit(parts._replace(query=query))


def _problem(url: str) -> str:
    if ";" in url:
        return "it lists several servers; give one"
    try:
        parts = urlsplit(url)
    except ValueError as error:  # half an IPv6 address
        return str(error)
    database = parts.path.strip("/")
    found = {
        f"scheme {parts.scheme!r} is not one of {', '.join(_SCHEMES)}": (
            parts.scheme not in _SCHEMES
        ),
        "it names no host": not parts.hostname,
        "its port is not a number from 1 to 65535": not _has_good_port(parts),
        "credentials belong before the host": bool(_QUERY_SECRET.search(url)),
        f"database {database!r} is not a number": bool(database) and not database.isdigit(),
    }
    return next((problem for problem, is_so in found.items() if is_so), "")


def _has_good_port(parts: SplitResult) -> bool:
    try:
        return parts.port != 0
    except ValueError:
        return False


def from_environment(env: Mapping[str, str]) -> str:
    """Return the checked URL of the environment; UsageError if there is none."""
    url = env.get(BROKER_URL_VARIABLE, "")
    if not url:
        raise UsageError(
            f"no broker: {BROKER_URL_VARIABLE} is not set",
            hint=f"give --broker, or set {BROKER_URL_VARIABLE}",
        )
    return checked(url)
