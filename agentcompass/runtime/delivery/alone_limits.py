"""Limits for an execution in a process of its own: the child asks, its parent knows whom to ask.

The child's questions go out with its other lines and are answered on its standard input, in order.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from agentcompass.runtime.ports import (
    Admitted,
    Bounds,
    LeaseKey,
    Limits,
    LimitsUnreachable,
    NotYet,
    Slot,
)

Line = dict[str, Any]
"""What one line of JSON holds."""


@dataclass(slots=True)
class _Question:
    is_answered: threading.Event = field(default_factory=threading.Event)
    answer: Line = field(default_factory=dict)


class AskingParent:
    """The child's side; implements `agentcompass.runtime.ports.Limits` for slots of its own."""

    def __init__(self, say: Callable[..., None]) -> None:
        self._say = say
        self._numbers = itertools.count(1)
        self._open: dict[int, _Question] = {}

    def hear(self, answer: Line) -> None:
        """Take an answer from the parent."""
        question = self._open.pop(answer["answer"], None)
        if question is not None:
            question.answer = answer
            question.is_answered.set()

    def enter(self, slot: Slot, bounds: Bounds, tokens: int = 0) -> Admitted | NotYet:
        """Ask for a slot, without waiting."""
        number, question = next(self._numbers), _Question()
        self._open[number] = question
        self._say(ask=number, **_described("enter", slot, bounds), tokens=tokens)
        question.is_answered.wait()
        found = question.answer
        if "unreachable" in found:
            raise LimitsUnreachable(found["unreachable"])
        return NotYet(found["again_s"]) if "again_s" in found else Admitted(found["limit"])

    def leave(self, slot: Slot, bounds: Bounds, tokens: int | None = None) -> None:
        """Give a slot up."""
        self._say(ask=0, **_described("leave", slot, bounds), tokens=tokens)

    def slow_down(self, slot: Slot, bounds: Bounds, for_s: float) -> None:
        """Let nobody in for so long."""
        self._say(ask=0, **_described("slow_down", slot, bounds), for_s=for_s)

    def begin(self, key: LeaseKey, token: str, at_most: int) -> bool:
        """Never asked: the parent has counted the attempt."""
        raise NotImplementedError

    def end(self, key: LeaseKey, token: str, at_most: int) -> None:
        """Never asked."""
        raise NotImplementedError


def answer(limits: Limits, key: LeaseKey, token: str, said: Mapping[str, Any]) -> Line | None:
    """Do what a child asks for; the line that it is to be told, if it waits for one."""
    slot = Slot(said["place"], key, token, said["number"])
    bounds = Bounds(*said["bounds"])
    match said["what"]:
        case "enter":
            return {"answer": said["ask"], **_entered(limits, slot, bounds, said["tokens"])}
        case "leave":
            limits.leave(slot, bounds, said["tokens"])
        case _:
            limits.slow_down(slot, bounds, said["for_s"])
    return None


def _entered(limits: Limits, slot: Slot, bounds: Bounds, tokens: int) -> Line:
    try:
        found = limits.enter(slot, bounds, tokens)
    except LimitsUnreachable as error:
        return {"unreachable": str(error)}
    return {"again_s": found.again_s} if isinstance(found, NotYet) else {"limit": found.limit}


def _described(what: str, slot: Slot, bounds: Bounds) -> Line:
    numbers = (
        bounds.at_once,
        bounds.per_minute,
        bounds.tokens_per_minute,
        bounds.is_adaptive,
    )
    return {"what": what, "place": slot.place, "number": slot.number, "bounds": numbers}
