"""What went wrong in an attempt, as a value."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from agentcompass.models.base import Record

Severity = Literal["fatal", "error", "warning"]
Phase = Literal["setup", "run", "collect", "evaluate", "cleanup"]
IssueCode = Annotated[str, Field(pattern=r"^[a-z0-9_]{1,64}$")]

MESSAGE_LIMIT: Final = 2_000
"""Characters of a message; what is longer goes to `artifacts.execution_diagnostics`."""


class Issue(Record):
    """One thing that went wrong.

    FATAL: the task cannot be scored in this run; ERROR may keep valid observations; WARNING never
    changes a count or a state.
    """

    severity: Severity
    phase: Phase
    code: IssueCode
    message: str
    """One line, for people; nothing decides by it."""

    @property
    def is_failure(self) -> bool:
        """True for what counts as an error: anything but a warning."""
        return self.severity != "warning"
