"""Limits in memory: a test says what is answered, and reads what was asked."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from agentcompass.runtime.ports import (
    Admitted,
    Bounds,
    LeaseKey,
    LimitsUnreachable,
    NotYet,
    Slot,
)


@dataclass
class FakeLimits:
    """Lets in whoever `answers` lets in; when they are used up, everybody."""

    answers: list[Admitted | NotYet] = field(default_factory=list)
    is_reachable: bool = True
    is_full: bool = False
    did: list[tuple[object, ...]] = field(default_factory=list)
    asked: threading.Event = field(default_factory=threading.Event)

    def enter(self, slot: Slot, bounds: Bounds, tokens: int = 0) -> Admitted | NotYet:
        self.did.append(("enter", slot.place.split(":")[0], slot.number))
        self.asked.set()
        if not self.is_reachable:
            raise LimitsUnreachable("nobody")
        return self.answers.pop(0) if self.answers else Admitted(bounds.at_once)

    def leave(self, slot: Slot, bounds: Bounds, tokens: int | None = None) -> None:
        self.did.append(("leave", slot.place.split(":")[0], slot.number, tokens))

    def slow_down(self, slot: Slot, bounds: Bounds, for_s: float) -> None:
        self.did.append(("slow_down", slot.number, for_s))

    def begin(self, key: LeaseKey, token: str, at_most: int) -> bool:
        self.did.append(("begin", at_most))
        if not self.is_reachable:
            raise LimitsUnreachable("nobody")
        return not self.is_full

    def end(self, key: LeaseKey, token: str, at_most: int) -> None:
        self.did.append(("end", at_most))
