"""Bases of every type that crosses a process or reaches the disk."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, JsonValue

Timestamp: TypeAlias = AwareDatetime
"""Aware, written as ISO 8601 with offset; ours are UTC."""

Sha256: TypeAlias = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Seconds: TypeAlias = Annotated[float, Field(gt=0, le=31_536_000)]
"""Of a deadline: at most a year, because what waits for one takes no larger number."""
JsonObject: TypeAlias = dict[str, JsonValue]
"""Open content of a plug-in or of another writer. Stays at the border; never decided by."""

__all__ = ["Frozen", "JsonObject", "NoParams", "Record", "Seconds", "Sha256", "Timestamp"]


class Frozen(BaseModel):
    """Base of requests, plans, messages and everything that we compute.

    Frozen, so that a value can be shared; unknown fields are refused, so that a misspelt one is
    an error and not a silent default; strict and without NaN, so that reading back what we wrote
    gives exactly what we had.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class NoParams(Frozen):
    """The parameters of a component that has none: any is refused."""


class Record(BaseModel):
    """Base of what is read from a run directory: as strict as `Frozen`, but unknown fields are kept."""

    model_config = ConfigDict(frozen=True, extra="allow", strict=True, allow_inf_nan=False)
