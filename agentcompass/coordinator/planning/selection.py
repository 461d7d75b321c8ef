"""Which tasks a run has: ids checked, selection applied, order kept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from itertools import islice
from typing import Final

import orjson
from pydantic import ValidationError

from agentcompass.errors import UsageError
from agentcompass.models.request import Selection
from agentcompass.models.task import TaskSpec

_NAMED: Final = 3


def selected(tasks: Iterable[object], selection: Selection) -> Iterator[TaskSpec]:
    """Yield the selected tasks: in the benchmark's order, or in the order of the ids asked for.

    Streams, unless ids are given; then those tasks are held. With ids the whole benchmark is read,
    because a second task of the same id may stand anywhere.

    Raises:
        UsageError: an id is not usable, occurs twice, or was asked for and is unknown.
    """
    valid = checked(tasks)
    if not selection.task_ids:
        yield from islice(valid, selection.limit)
        return
    wanted = selection.task_ids[: selection.limit]
    _refuse_twice(selection.task_ids)
    asked = set(selection.task_ids)
    known: dict[str, TaskSpec | None] = {}
    for task in valid:
        known[task.task_id] = task if task.task_id in asked else None
    _refuse_unknown(selection.task_ids, known)
    for task_id in wanted:
        chosen = known[task_id]
        if chosen is not None:
            yield chosen


def checked(tasks: Iterable[object]) -> Iterator[TaskSpec]:
    """Yield what a benchmark loads, if every id is text, unpadded and unique.

    Raises:
        UsageError: naming the position, counted from 1, or both positions of an id.
    """
    seen: dict[str, int] = {}
    iterator = iter(tasks)
    position = 0
    while True:
        position += 1
        try:
            item = next(iterator)
        except StopIteration:
            return
        except ValidationError as error:
            raise _invalid(position, error) from error
        task = _task(item, position, iterator, seen)
        first = seen.setdefault(task.task_id, position)
        if first != position:
            raise _twice(task.task_id, first, position)
        yield task


def _task(item: object, position: int, rest: Iterator[object], seen: Mapping[str, int]) -> TaskSpec:
    """Return an item as a task; a plug-in may also yield mappings, or skip our validation."""
    task_id = _raw_id(item)
    problem = _problem(task_id)
    if problem and (isinstance(item, TaskSpec | Mapping) or task_id is not None):
        twin = _twin(task_id, position, rest, seen)
        also = f" (it could be confused with the id at position {twin})" if twin else ""
        raise UsageError(
            f"the id of the task at position {position} is {problem}{also}",
            hint="give every task a text id of its own",
        )
    try:
        if isinstance(item, TaskSpec):
            return item
        return TaskSpec.model_validate_json(orjson.dumps(item))
    except ValidationError as error:
        raise _invalid(position, error) from error
    except TypeError as error:
        raise UsageError(
            f"task at position {position} is a {type(item).__name__}, not a TaskSpec"
        ) from error


def _raw_id(item: object) -> object:
    return item.get("task_id") if isinstance(item, Mapping) else getattr(item, "task_id", None)


def _problem(task_id: object) -> str:
    """Return what is wrong with an id, "" if nothing is."""
    if not isinstance(task_id, str):
        return f"{task_id!r}, not text"
    try:
        task_id.encode()
    except UnicodeEncodeError:
        return "not Unicode"
    rules = (
        (not task_id, "empty"),
        (task_id != task_id.strip(), f"padded with white space: {task_id!r}"),
        # It could be named on no command line and told no program in its environment.
        ("\0" in task_id, f"one with a NUL character: {task_id!r}"),
    )
    return next((problem for is_broken, problem in rules if is_broken), "")


def _twin(
    task_id: object, position: int, rest: Iterator[object], seen: Mapping[str, int]
) -> int | None:
    """Return the position of an id that this one would be confused with."""
    text = str(task_id).strip()
    if text in seen:
        return seen[text]
    try:
        for at, item in enumerate(rest, start=position + 1):
            other = _raw_id(item)
            if other == task_id or str(other).strip() == text:
                return at
    except ValidationError:  # the next one is wrong, too; this one is reported first
        return None
    return None


def _refuse_twice(task_ids: tuple[str, ...]) -> None:
    first: dict[str, int] = {}
    for position, task_id in enumerate(task_ids, start=1):
        if first.setdefault(task_id, position) != position:
            raise UsageError(
                f"task id {task_id!r} is selected twice, at positions {first[task_id]} and {position}",
                where="--task-id",
            )


def _refuse_unknown(task_ids: tuple[str, ...], known: Mapping[str, object]) -> None:
    unknown = [task_id for task_id in task_ids if task_id not in known]
    if not unknown:
        return
    near = get_close_matches(unknown[0], known, n=1, cutoff=0.6)
    named = ", ".join(repr(task_id) for task_id in unknown[:_NAMED])
    more = f" and {len(unknown) - _NAMED} more" if len(unknown) > _NAMED else ""
    raise UsageError(
        f"no task has the id {named}{more}",
        where="--task-id",
        hint=f"did you mean {near[0]!r}?" if near else f"the benchmark has {len(known)} tasks",
    )


def _twice(task_id: str, first: int, second: int) -> UsageError:
    return UsageError(
        f"task id {task_id!r} occurs twice, at positions {first} and {second}",
        hint="give every task an id of its own",
    )


def _invalid(position: int, error: ValidationError) -> UsageError:
    details = error.errors(include_url=False, include_input=False)[0]
    field = ".".join(map(str, details["loc"])) or "task"
    reason = details["msg"].removeprefix("Value error, ")
    return UsageError(
        f"task at position {position} is not valid: {field}: {reason}",
        hint="correct it in the benchmark's data",
    )
