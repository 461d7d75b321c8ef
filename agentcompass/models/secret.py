"""A secret at the moment of use; everywhere else there is only the name of its variable."""

from __future__ import annotations

from typing import Final, NoReturn, final

MASK: Final = "********"
"""Stands where a literal secret was; never sent to anyone."""


@final
class SecretValue:
    """A live secret that does not print, compare as text, serialize or pickle."""

    __slots__ = ("_value", "name")

    def __init__(self, value: str, *, name: str) -> None:
        self._value = value
        self.name = name

    def reveal(self) -> str:
        """Return the value; call it only in the expression that sends it."""
        return self._value

    def __repr__(self) -> str:
        return f"SecretValue({self.name})"

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"the secret {self.name} must not be serialized")
