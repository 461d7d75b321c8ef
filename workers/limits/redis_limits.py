"""Implements `agentcompass.runtime.ports.Limits` with one round trip a question."""

from __future__ import annotations

import logging
from typing import Final, cast

from redis import Redis

from agentcompass.runtime.ports import (
    Admitted,
    Bounds,
    LeaseKey,
    LimitsUnreachable,
    NotYet,
    Slot,
)
from workers.broker.client import UNREACHABLE
from workers.broker.keys import (
    PARKED,
    PARKED_MESSAGES,
    RunKeys,
    keys_of,
    lease_key,
    place_key,
    running_keys,
)
from workers.limits import places, running

logger = logging.getLogger(__name__)

MINUTE_S: Final = 60.0


class RedisLimits:
    """May be used from any thread or child; keeps nothing between calls."""

    def __init__(self, client: Redis, *, minute_s: float = MINUTE_S) -> None:
        """Take a client.

        Args:
            minute_s: how long "per minute" is; shorter only for tests.
        """
        self._minute_ms = int(minute_s * 1000)
        self._enter = client.register_script(places.ENTER)
        self._leave = client.register_script(places.LEAVE)
        self._slow_down = client.register_script(places.SLOW_DOWN)
        self._begin = client.register_script(running.BEGIN)
        self._end = client.register_script(running.END)
        self._wait = client.register_script(running.WAIT)

    def enter(self, slot: Slot, bounds: Bounds, tokens: int = 0) -> Admitted | NotYet:
        """Ask for a slot, without waiting."""
        arguments: list[str | int] = [
            _slot_name(slot),
            _run_of(slot),
            bounds.at_once or 0,
            bounds.per_minute or 0,
            bounds.tokens_per_minute or 0,
            _flag(bounds.is_adaptive),
            tokens,
            self._minute_ms,
        ]
        try:
            answer = self._enter(keys=[place_key(slot.place)], args=arguments)
        except UNREACHABLE as error:
            raise LimitsUnreachable(type(error).__name__) from error
        is_in, number = cast("tuple[int, int]", answer)
        return Admitted(number or None) if is_in else NotYet(number / 1000)

    def leave(self, slot: Slot, bounds: Bounds, tokens: int | None = None) -> None:
        """Give a slot up, or stop waiting for it."""
        used = -1 if tokens is None else tokens
        arguments = (_slot_name(slot), _run_of(slot), used, _flag(bounds.is_adaptive))
        try:
            self._leave(keys=[place_key(slot.place)], args=arguments)
        except UNREACHABLE:
            logger.warning("a slot could not be given back; it ends with its attempt's lease")

    def slow_down(self, slot: Slot, bounds: Bounds, for_s: float) -> None:
        """Let nobody in for so long; an adaptive limit is halved."""
        for_ms, adaptive = int(for_s * 1000), _flag(bounds.is_adaptive)
        arguments = (_slot_name(slot), for_ms, bounds.at_once or 0, adaptive)
        try:
            self._slow_down(keys=[place_key(slot.place)], args=arguments)
        except UNREACHABLE:
            logger.warning("others could not be told that the model is busy")

    def begin(self, key: LeaseKey, token: str, at_most: int) -> bool:
        """Count an attempt among those of its run that execute; False if there are enough."""
        run = keys_of(key.root_digest, key.run_ref)
        try:
            answer = self._begin(keys=running_keys(run), args=[_attempt_name(key, token), at_most])
        except UNREACHABLE as error:
            raise LimitsUnreachable(type(error).__name__) from error
        return bool(answer)

    def end(self, key: LeaseKey, token: str, at_most: int) -> None:
        """Count it no more, and let as many parked attempts begin as there is room for."""
        run = keys_of(key.root_digest, key.run_ref)
        names = [*running_keys(run), PARKED, PARKED_MESSAGES]
        try:
            self._end(keys=names, args=[_attempt_name(key, token), at_most])
        except UNREACHABLE:
            logger.warning("the next attempt of %s was not woken; it comes by itself", key.run_ref)

    def wait(self, run: RunKeys, message_id: str, *, leg: int, at_most: int) -> None:
        """Let a delivery that was parked before be woken when an attempt of its run ends.

        Raises:
            redis.exceptions.RedisError: it comes back by itself, later.
        """
        self._wait(keys=[*running_keys(run), PARKED], args=[message_id, at_most, leg])


def _slot_name(slot: Slot) -> str:
    return f"{lease_key(slot.holder)}|{slot.token}|{slot.number}"


def _run_of(slot: Slot) -> str:
    return (
        f"{slot.holder.root_digest}.{keys_of(slot.holder.root_digest, slot.holder.run_ref).digest}"
    )


def _attempt_name(key: LeaseKey, token: str) -> str:
    return f"{lease_key(key)}|{token}|"


def _flag(value: bool) -> str:  # noqa: FBT001 - one argument
    return "1" if value else "0"
