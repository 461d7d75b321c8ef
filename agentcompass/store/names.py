"""Safe names for whatever users and data sets call their things. Pure."""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Final

from agentcompass.models.request import Request

COMPONENT_BYTES: Final = 255
"""What every file system allows. Temporary files have names of their own, so none is longer."""
NAMESPACE_BYTES: Final = 100
"""Of our own part of a namespace: a message's run reference has 160 for all levels and the run id."""
READABLE_CHARS: Final = 80

_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._=-]")
_UNSAFE_RUN: Final = re.compile(r"[^A-Za-z0-9._=-]+")
_TOKEN: Final = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
_DIGEST_CHARS: Final = 16


def safe_component(text: str, *, limit: int = COMPONENT_BYTES) -> str:
    """Return one path component for `text`: `[A-Za-z0-9._=-]`, at most `limit` bytes, not hidden.

    Different texts may give the same component (`org/m` and `org_m`); whoever needs them apart
    compares the texts. Only a text that has to be cut gets a digest of the whole.
    """
    safe = _UNSAFE.sub("_", text)
    if safe.startswith("."):  # ".", "..", and the names that we hide our own files under
        safe = "_" + safe[1:]
    if len(safe) <= limit:
        return safe or "_"
    digest = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_CHARS]
    return f"{safe[: limit - _DIGEST_CHARS - 1]}-{digest}"


def namespace_of(request: Request, request_name: str | None = None) -> tuple[str, ...]:
    """Return the levels between the results folder and the run: run name, then what is evaluated.

    Args:
        request_name: of a named request of a launch; its runs go by that name.
    """
    levels = [safe_component(level) for level in request.output.run_name.split("/") if level]
    model, benchmark, harness = request.model.id, request.benchmark.id, request.harness.id
    own = request_name if request_name is not None else f"{model}_{benchmark}_{harness}"
    return (*levels, safe_component(own, limit=NAMESPACE_BYTES))


def readable(task_id: str) -> str:
    """Return the part of a task's directory name that people read; not unique."""
    return _UNSAFE_RUN.sub("_", task_id).strip("._-")[:READABLE_CHARS].strip("._-") or "task"


def task_dirname(task_id: str) -> str:
    """Return `<readable>--<sha256>`: at most 146 bytes, distinct for distinct ids, never hidden."""
    return f"{readable(task_id)}--{sha256(task_id.encode()).hexdigest()}"


def is_token(text: str) -> bool:
    """Return whether this can name an execution's files: 1 to 64 of `[A-Za-z0-9_-]`."""
    return _TOKEN.fullmatch(text) is not None
