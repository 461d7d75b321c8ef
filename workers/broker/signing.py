"""Signed messages: a worker with a key executes only what a coordinator with the same key sent.

The key is read from the environment of both and never travels. A seal covers the task's name, the
message's id and the arguments; what it does not cover (lane, chord, what people are shown) decides
neither what is executed nor where. A sealed message that is sent again is harmless: attempts are
looked for on disk before anything is executed.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Mapping, Sequence
from typing import Final

from agentcompass.errors import UsageError
from workers.urls import MESSAGE_KEY_VARIABLE

SEAL_HEADER: Final = "compass_seal"
_SHORTEST_KEY: Final = 16
_SEAL_CHARS: Final = 32
"""128 bits of HMAC-SHA-256 in hexadecimal."""


class Signer:
    """Seals messages, and tells its own seals from all others."""

    __slots__ = ("_key",)

    def __init__(self, key: str) -> None:
        self._key = key.encode()

    def seal(self, task: str, message_id: str, args: Sequence[object]) -> str:
        """Return the seal of one message."""
        content = json.dumps(["agentcompass.v1", task, message_id, list(args)])
        return hmac.digest(self._key, content.encode(), "sha256").hex()[:_SEAL_CHARS]

    def is_sealed(self, seal: object, task: str, message_id: str, args: Sequence[object]) -> bool:
        """Return whether a message carries our seal, in constant time."""
        if not isinstance(seal, str) or not seal.isascii():
            return False
        return hmac.compare_digest(seal, self.seal(task, message_id, args))


def signer_from(env: Mapping[str, str]) -> Signer | None:
    """Return the signer of an environment's key; None if there is none.

    Raises:
        UsageError: the key is too short to be one.
    """
    key = env.get(MESSAGE_KEY_VARIABLE, "")
    if not key:
        return None
    if len(key.encode()) < _SHORTEST_KEY:
        raise UsageError(
            f"{MESSAGE_KEY_VARIABLE} is shorter than {_SHORTEST_KEY} bytes",
            hint="make one with: python -c 'import secrets; print(secrets.token_hex(32))'",
        )
    return Signer(key)
