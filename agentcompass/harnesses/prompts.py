"""What a task says to a model, and what tells an attempt's calls apart at a gateway."""

from __future__ import annotations

from pydantic import JsonValue

from agentcompass.models.base import JsonObject
from agentcompass.models.context import AttemptContext
from agentcompass.models.task import PreparedTask


def messages_of(prepared: PreparedTask, system_prompt: str | None) -> tuple[JsonObject, ...]:
    """Return the conversation: the task's own messages, or its prompt with its media.

    A system prompt comes first and replaces system messages of the task.
    """
    given = prepared.input
    system = given.system_prompt if system_prompt is None else system_prompt
    messages = given.messages
    if not messages:
        content: JsonValue = given.prompt
        if given.media:
            content = [{"type": "text", "text": given.prompt}, *given.media]
        messages = ({"role": "user", "content": content},)
    if not system:
        return messages
    rest = (message for message in messages if message.get("role") != "system")
    return ({"role": "system", "content": system}, *rest)


def identity_headers(context: AttemptContext) -> dict[str, str]:
    """Return headers that name the run, the task and the attempt."""
    # A header holds ASCII only; what else a task id may hold is escaped, not lost.
    task_id = context.task_id.encode("ascii", "backslashreplace").decode("ascii")
    return {
        "X-Agentcompass-Run": context.run_id.encode("ascii", "backslashreplace").decode("ascii"),
        "X-Agentcompass-Task": task_id,
        "X-Agentcompass-Attempt": str(context.attempt),
    }
