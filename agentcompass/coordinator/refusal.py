"""Refusals that a program tells apart by a code."""

from __future__ import annotations

import re

from agentcompass.errors import AgentCompassError, UsageError


class Refusal(UsageError):
    """This run cannot be gone on with as asked; `code` says why in one stable word."""

    def __init__(self, code: str, what: str, *, where: str = "", hint: str = "") -> None:
        super().__init__(f"{what} [{code}]", where=where, hint=hint)
        self.code = code


def code_of(error: AgentCompassError) -> str:
    """Return the stable word for a program: a refusal's code, else the name of the error's class."""
    if isinstance(error, Refusal):
        return error.code
    return re.sub(r"(?<!^)(?=[A-Z])", "_", type(error).__name__).lower()
