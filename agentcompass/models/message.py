"""The one message of an attempt: where it is, never what it is."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import AfterValidator, Field

from agentcompass.models.base import Frozen

MAX_RUN_REF_BYTES: Final = 160


def _inside(value: str) -> str:
    if len(value.encode()) > MAX_RUN_REF_BYTES:
        raise ValueError(f"run reference is longer than {MAX_RUN_REF_BYTES} bytes")
    parts = value.split("/")
    if any(part in {"", ".", ".."} for part in parts) or "\\" in value or "\0" in value:
        raise ValueError("run reference is not a relative path below the results folder")
    return value


RunRef = Annotated[str, AfterValidator(_inside)]
"""Path of the run directory below the results folder, with `/` between the levels."""

RootDigest = Annotated[str, Field(pattern=r"^[0-9a-f]{8}$")]
"""First 8 hex digits of the id in `.agentcompass-root`."""


class AttemptMessage(Frozen):
    """Names one attempt; under 256 bytes, no secret, valid in any order and any number of times."""

    run: RunRef
    root: RootDigest
    leg: int = Field(ge=1)
    offset: int = Field(ge=0)
    """Byte offset of the task's line in `tasks.jsonl`."""
    attempt: int = Field(ge=1)


class FinalizeMessage(Frozen):
    """Asks for a look at one run directory: complete it, or say that something is missing."""

    run: RunRef
    root: RootDigest
    leg: int = Field(ge=1)
