"""Secrets planted everywhere one can be, and a search for them that shares no code with the product."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Final
from urllib.parse import unquote_to_bytes

from tests.support.tree import files_in, paths_in

PART: Final = 12
"""So many characters of a secret are as good as all of it."""


def canary(name: str) -> str:
    """Return a secret of 32 characters that no other name has, the same in every process."""
    return base64.b32encode(sha256(name.encode()).digest()).decode()[:32].lower()


NAMES: Final = (
    "unreferenced", "model_key", "header", "url_user", "url_query", "harness_nested",
    "harness_env", "benchmark_nested", "task_variable", "broker", "message_key",
)  # fmt: skip
CANARIES: Final[Mapping[str, str]] = {name: canary(name) for name in NAMES}
VARIABLES: Final[Mapping[str, str]] = {
    "OTHER_SERVICE_TOKEN": CANARIES["unreferenced"],
    "CANARY_KEY": CANARIES["model_key"],
    "CANARY_HEADER": CANARIES["header"],
    "CANARY_USER": CANARIES["url_user"],
    "CANARY_QUERY": CANARIES["url_query"],
    "CANARY_NESTED": CANARIES["harness_nested"],
    "CANARY_ENV": CANARIES["harness_env"],
    "CANARY_JUDGE": CANARIES["benchmark_nested"],
    "TASK_SECRET": CANARIES["task_variable"],
    "AGENTCOMPASS_MESSAGE_KEY": CANARIES["message_key"],
}


def leaks(where: str, data: bytes) -> list[str]:
    """Return which secrets are in some bytes, plain, wrapped over lines or encoded."""
    haystacks = list(_readings(data))
    return [
        f"{name} in {where}"
        for name, value in CANARIES.items()
        if any(part in each for each in haystacks for part in _parts(value))
    ]


def leaks_in_files(folder: Path) -> list[str]:
    """Search all files below a folder, and their names."""
    found = leaks("names", "\n".join(map(str, paths_in(folder, "**/*"))).encode())
    for path, data in files_in(folder).items():
        found += leaks(str(path.relative_to(folder)), data)
    return found


def _parts(value: str) -> Iterator[bytes]:
    data = value.encode()
    for at in range(len(data) - PART + 1):
        yield data[at : at + PART]


def _readings(data: bytes) -> Iterator[bytes]:
    """Yield the data as it is and as its encodings hide it."""
    bare = re.sub(rb"(?:\s|\\+[nrt])+", b"", data)
    yield data
    yield bare
    yield unquote_to_bytes(data)
    for text in {data, bare}:
        tokens = set(re.findall(rb"[A-Za-z0-9+/_-]{16,}", text))
        yield b"\n".join(_decoded(tokens))
        digits = set(re.findall(rb"(?:[0-9a-fA-F]{2}){12,}", text))
        yield b"\n".join(bytes.fromhex(each.decode()) for each in digits)


def _decoded(tokens: Iterable[bytes]) -> Iterator[bytes]:
    for token in tokens:
        plain = token.translate(bytes.maketrans(b"-_", b"+/"))
        for skip in range(4):
            part = plain[skip:]
            yield base64.b64decode(part[: len(part) // 4 * 4])
