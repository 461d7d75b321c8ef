"""Redaction by key name, for configuration and telemetry only (contracts, §10).

Task content, observations, ground truth and answers never pass here: `api_key: missing` in an
answer is an answer. Live secret values are another matter, see `agentcompass.runtime.values.secrets`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from agentcompass.models.secret import MASK

if TYPE_CHECKING:  # whoever only masks what it writes can do without pydantic
    from pydantic import JsonValue

_SECRET_WORDS: Final = (
    ("authorization",),
    ("bearer",),
    ("basic", "auth"),
    ("cookie",),
    ("cookies",),
    ("passphrase",),
    ("pwd",),
    ("secrets",),
    ("credential",),
    ("credentials",),
    ("dsn",),
    ("api", "key"),
    ("api", "keys"),
    ("access", "key"),
    ("private", "key"),
    ("secret", "key"),
    ("signing", "key"),
    ("message", "key"),
    ("session", "id"),
    ("connection", "string"),
    ("webhook", "url"),
)
"""A name is a secret if its last words are these: `OPENAI_API_KEY`, `x-auth-token`."""

_SECRET_ENDINGS: Final = (
    "password",
    "passwords",
    "passwd",
    "secret",
    "token",
    "apikey",
    "accesskey",
    "privatekey",
    "secretkey",
    "sessionid",
    "connectionstring",
)
"""A last word that is or ends in one of these is a secret, too: `PGPASSWORD`, `refreshtoken`."""

_NOT_SECRET_BEFORE_TOKEN: Final = frozenset(
    {"eos", "bos", "pad", "unk", "sep", "cls", "mask", "stop", "per", "first", "next", "last"}
)
"""`eos_token` is a word of a vocabulary, `ms_per_token` a rate."""

_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s\"'<>\\]+")
_USER_INFO: Final = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*://)([^/?#]*)@")
_QUERY_PAIR: Final = re.compile(r"([?&#;])([^=&#;?]+)=([^&#;]*)")
_REFERENCE: Final = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}")


@lru_cache(maxsize=4_096)
def is_secret_name(name: str) -> bool:
    """Return whether the value under this key is a secret.

    Case, `-`, `_` and camelCase do not matter. The *last* words decide: `max_tokens`, `tokenizer`,
    `token_count`, `sort_key` and `password_policy_enabled` are not secrets.
    """
    words = [word.lower() for word in _WORDS.findall(name)]
    while len(words) > 1 and words[-1].isdecimal():
        words.pop()  # `API_KEY_2` is one of several
    if not words:
        return False
    if any(tuple(words[-len(secret) :]) == secret for secret in _SECRET_WORDS):
        return True
    last = words[-1]
    if not last.endswith(_SECRET_ENDINGS):
        return False
    before = last.removesuffix("token") or (words[-2] if len(words) > 1 else "")
    return before not in _NOT_SECRET_BEFORE_TOKEN


def redact(value: JsonValue) -> JsonValue:
    """Return the value with everything under secret names and all URL credentials masked.

    References to the environment (`{"env": "NAME"}`, `${NAME}`) and empty values stay: they are
    not secrets. A clean value is returned as it is, not copied.
    """
    if isinstance(value, str):
        return mask_urls(value)
    if isinstance(value, list):
        walked = [redact(member) for member in value]
        return value if all(a is b for a, b in zip(walked, value, strict=True)) else walked
    if isinstance(value, dict):
        fields = {name: _field(name, member) for name, member in value.items()}
        return value if all(fields[name] is value[name] for name in value) else fields
    return value


def mask_urls(text: str) -> str:
    """Return text in which user info and secret query values of URLs are masked; hosts stay.

    A reference `${NAME}` in their place stays, too.
    """
    return credentials_replaced(text, _masked_credential)


def _field(name: str, value: JsonValue) -> JsonValue:
    if is_secret_name(name) and not _is_harmless(value):
        return MASK
    return redact(value)


def _is_harmless(value: JsonValue) -> bool:
    if value is None or isinstance(value, bool) or value in ("", MASK):
        return True
    if isinstance(value, dict):
        return set(value) == {"env"}
    return isinstance(value, str) and _REFERENCE.fullmatch(value) is not None


def credentials_replaced(text: str, instead: Callable[[str], str]) -> str:
    """Return text with the user information and each secret query value of its URLs replaced."""
    if "://" not in text:
        return text

    def url(match: re.Match[str]) -> str:
        found = _USER_INFO.sub(lambda user: f"{user[1]}{instead(user[2])}@", match[0])
        return _QUERY_PAIR.sub(pair, found)

    def pair(match: re.Match[str]) -> str:
        is_secret = bool(match[3]) and is_secret_name(match[2])
        return f"{match[1]}{match[2]}={instead(match[3])}" if is_secret else match[0]

    return _SCHEME.sub(url, text)


def is_reference_or_has_one_as_password(text: str) -> bool:
    """Tell `${NAME}` and `user:${NAME}` from credentials that are written out."""
    return _REFERENCE.fullmatch(text.rpartition(":")[2]) is not None


def _masked_credential(text: str) -> str:
    return text if is_reference_or_has_one_as_password(text) else MASK
