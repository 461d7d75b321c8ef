"""Somebody else, who makes a move at the worst moment; and processes that end there."""

from __future__ import annotations

from collections.abc import Callable

import pytest


class Other:
    """Somebody else, who makes one move right before our nth call of a function."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._patch = patch
        self.has_moved = False

    def moves(
        self,
        move: Callable[[], object],
        owner: object,
        name: str,
        when: Callable[..., bool] = lambda *_, **__: True,
        *,
        nth: int = 1,
    ) -> None:
        """Let `move` happen once, before the nth call with such arguments."""
        real, calls = getattr(owner, name), 0

        def moved(*args: object, **kwargs: object) -> object:
            nonlocal calls
            if not self.has_moved and when(*args, **kwargs):
                calls += 1
                if calls == nth:
                    self.has_moved = True
                    move()
            return real(*args, **kwargs)

        self._patch.setattr(owner, name, moved)


def of(*parts: str) -> Callable[..., bool]:
    """Return whether a call's first argument names all of these."""
    return lambda path, *_, **__: all(part in str(path) for part in parts)


class Killed(BaseException):
    """A process ends here."""


def die() -> None:
    raise Killed
