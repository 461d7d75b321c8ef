"""The selected tasks between loading and freezing, in bounded memory."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from types import TracebackType
from typing import Final, Self

from agentcompass.errors import UsageError
from agentcompass.models.task import TaskSpec
from agentcompass.runtime.normalize import Normalizer
from agentcompass.store import records

_IN_MEMORY_BYTES: Final = 8 * 1024 * 1024


class TaskSpool:
    """Tasks in the order in which they were appended; can be read any number of times.

    A hundred thousand tasks would be hundreds of megabytes as objects. What does not fit into a
    few megabytes is kept in a temporary file without a name, which goes away with the process.
    """

    def __init__(self) -> None:
        self._count = 0
        self._file = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY_BYTES)  # noqa: SIM115 - see close

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[TaskSpec]:
        self._file.seek(0)
        for line in self._file:
            yield TaskSpec.model_validate_json(line)

    def append(self, task: TaskSpec) -> None:
        """Add a task at the end, as strict JSON.

        Raises:
            UsageError: it holds a value that JSON does not have; the field is named.
        """
        self._file.write(_line(task, self._count + 1))
        self._count += 1

    def close(self) -> None:
        """Forget everything."""
        self._file.close()


def _line(task: TaskSpec, position: int) -> bytes:
    try:
        return records.compact(task)
    except (
        TypeError
    ):  # a lone surrogate or a number of more than 64 bits: replaced by a fixed table
        normalizer = Normalizer()
        content = normalizer.mapping(task.model_dump(), "task")
    if normalizer.problems:
        raise UsageError(
            f"task {task.task_id!r} at position {position} cannot be written: "
            f"{normalizer.problems[0]}"
        )
    return records.compact(content)
