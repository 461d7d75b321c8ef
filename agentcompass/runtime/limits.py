"""Where one execution waits for its turn: at its model's endpoint, and for an environment.

The clock of the phase stands still meanwhile, and so does the hard deadline. Limits save other people's
patience and never decide about a result: if nobody answers who counts, the execution waits a little and
goes on without.
"""

from __future__ import annotations

import hashlib
import itertools
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import SplitResult, urlsplit

from agentcompass.models.base import JsonObject
from agentcompass.models.context import CallTurn
from agentcompass.models.limits import ModelLimits
from agentcompass.models.request import ModelSpec
from agentcompass.runtime.bookkeeping import others_go_on
from agentcompass.runtime.calling.interrupts import Stopped
from agentcompass.runtime.ports import (
    Admitted,
    Bounds,
    LeaseKey,
    Limits,
    LimitsUnreachable,
    NotYet,
    Slot,
    StopSignal,
)

logger: Final = logging.getLogger(__name__)

PATIENCE_S: Final = 10.0
"""So long an execution waits for an answer of whoever counts, once."""
UNREACHABLE_LOOK_S: Final = 0.5
LONGEST_SLOW_DOWN_S: Final = 300.0
"""A server may ask for more: of the call that it refused, not of all others."""
_HISTORY: Final = 200

StandStill = Callable[[], AbstractContextManager[None]]
"""Opens a context in which no time passes for the phase."""


@dataclass(frozen=True, slots=True)
class Entry:
    """How a slot became ours."""

    limit: int | None
    """How many could be there at once; None means any number."""
    waited_s: float


@dataclass(slots=True)
class Turns:
    """The slots of one execution, from any of its threads."""

    limits: Limits
    holder: LeaseKey
    token: str
    stop: StopSignal
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    _patience_s: float = PATIENCE_S

    def slot(self, place: str) -> Slot:
        """Return a slot to ask for."""
        return Slot(place, self.holder, self.token, next(self._numbers))

    def enter(self, slot: Slot, bounds: Bounds, stand_still: StandStill, tokens: int = 0) -> Entry:
        """Return when the slot is ours; raises `Stopped` soon after a stop."""
        began_s = time.monotonic()
        try:
            answer = self._ask(slot, bounds, tokens)
            if isinstance(answer, Admitted):
                return Entry(answer.limit, 0.0)
            with others_go_on(), stand_still():
                admitted = self._waited(slot, bounds, tokens, answer)
                return Entry(admitted.limit, time.monotonic() - began_s)
        except BaseException:
            self.limits.leave(slot, bounds)
            raise

    def _waited(self, slot: Slot, bounds: Bounds, tokens: int, answer: NotYet) -> Admitted:
        found: Admitted | NotYet = answer
        while isinstance(found, NotYet):
            if self.stop.wait(found.again_s) and self.stop.reason is not None:
                raise Stopped(self.stop.reason)
            found = self._ask(slot, bounds, tokens)
        return found

    def _ask(self, slot: Slot, bounds: Bounds, tokens: int) -> Admitted | NotYet:
        began_s = time.monotonic()
        try:
            return self.limits.enter(slot, bounds, tokens)
        except LimitsUnreachable as error:
            self._patience_s -= UNREACHABLE_LOOK_S + time.monotonic() - began_s
            if self._patience_s > 0:
                return NotYet(UNREACHABLE_LOOK_S)
            logger.warning("limits cannot be kept now (%s); going on without", error)
            return Admitted()


class ModelGate:
    """The calls of one try to its model; implements `agentcompass.models.context.CallGate`."""

    def __init__(self, turns: Turns, place: str, bounds: Bounds, stand_still: StandStill) -> None:
        self._turns = turns
        self._place = place
        self._bounds = bounds
        self._stand_still = stand_still
        self._open: dict[int, Slot] = {}
        self._calls = 0
        self._waited_s = 0.0
        self._seen: list[tuple[int, int | None]] = []
        self._is_closed = False

    def enter(self, tokens: int) -> CallTurn:
        """Wait until one more request may be sent."""
        if self._is_closed:
            raise RuntimeError("this step of the attempt is over; its model is not yours")
        # Known before it is asked for: plug-in code is interrupted anywhere, also while it gives back.
        slot = self._turns.slot(self._place)
        self._open[slot.number] = slot
        entry = self._turns.enter(slot, self._bounds, self._stand_still, tokens)
        self._calls += 1
        self._waited_s += entry.waited_s
        if not self._seen or self._seen[-1][1] != entry.limit:
            self._seen.append((self._calls, entry.limit))
            del self._seen[:-_HISTORY]
        return CallTurn(slot.number, entry.waited_s)

    def leave(self, turn: CallTurn, tokens: int | None) -> None:
        """Make room for the next one."""
        slot = self._open.get(turn.number)
        if slot is not None:
            self._turns.limits.leave(slot, self._bounds, tokens)
            self._open.pop(turn.number, None)

    def slow_down(self, turn: CallTurn, retry_after_s: float | None) -> None:
        """Say that the server was busy."""
        slot = self._open.get(turn.number)
        if slot is not None and (retry_after_s or self._bounds.is_adaptive):
            for_s = min(retry_after_s or 0.0, LONGEST_SLOW_DOWN_S)
            self._turns.limits.slow_down(slot, self._bounds, for_s)

    def close(self) -> None:
        """Give back what interrupted calls held or waited for. Not called by what is interrupted."""
        self._is_closed = True
        while self._open:
            _, slot = self._open.popitem()
            self._turns.limits.leave(slot, self._bounds)

    def telemetry(self) -> JsonObject:
        """Return how the calls fared: `limit` is [number of the call, limit from then on] each."""
        found: JsonObject = {"slot_wait_s": round(self._waited_s, 3)}
        if any(limit is not None for _, limit in self._seen):
            found["limit"] = [list(each) for each in self._seen]
        return found


def bounds_of(limits: ModelLimits) -> Bounds:
    """Return what a request allows at its model's endpoint."""
    return Bounds(
        limits.concurrent_calls,
        limits.requests_per_minute,
        limits.tokens_per_minute,
        limits.adaptive,
    )


def endpoint_place(model: ModelSpec) -> str:
    """Return the name of a model's endpoint, the same for every run and worker.

    Made of scheme, host, port and path of the base URL and of the model's id: what may be secret
    in a URL (login, query) has no part in it, and what is left is digested.

    Args:
        model: with every reference resolved.
    """
    parts = urlsplit(model.base_url)
    host = (parts.hostname or "").lower()
    where = f"{parts.scheme}://{host}{_port(parts)}{parts.path.rstrip('/')}"
    return f"model:{_digest(f'{where} {model.id}')}"


def environment_place(kind: str) -> str:
    """Return the name of what the environments of one kind share."""
    return f"environment:{_digest(kind)}"


def _port(parts: SplitResult) -> str:
    try:
        port = parts.port
    except ValueError:  # no number; then no call will get there either
        return ""
    is_default = port in {None, {"http": 80, "https": 443}.get(parts.scheme)}
    return "" if is_default else f":{port}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
