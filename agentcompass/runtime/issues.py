"""Issues are one line of bounded length, whatever they are made of."""

from __future__ import annotations

from agentcompass.models.issue import MESSAGE_LIMIT, Issue, Phase, Severity
from agentcompass.runtime.normalize import utf8_text


def issue(severity: Severity, phase: Phase, code: str, message: str) -> Issue:
    """Return an issue whose message is one line of bounded length."""
    line = " ".join(utf8_text(message).split())
    if len(line) > MESSAGE_LIMIT:
        line = f"{line[: MESSAGE_LIMIT - 40]} … ({len(line)} characters)"
    return Issue(severity=severity, phase=phase, code=code, message=line)
