"""The tools of `tool_loop`: what the model is told of them, and what they do in the environment.

Whatever is wrong with a call is said to the model, which may call again. Only a failure of the
environment itself ends the attempt.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agentcompass.environments.base import EnvironmentHandle, ExecResult
from agentcompass.harnesses.commands import cut, shell
from agentcompass.models.base import JsonObject
from agentcompass.models.context import AttemptContext

ToolName: TypeAlias = Literal["bash", "read_file", "write_file", "edit_file"]
SUBMIT: Final = "submit"

_READ: Final = (
    'test -f "$1" || { echo "there is no file $1" >&2; exit 1; }; '
    'sed -n "$2,$3p" <"$1"; total=$(wc -l <"$1"); '
    '[ "$total" -le "$3" ] || echo "[the file has $total lines]"'
)
_SIZE: Final = 'test -f "$1" && wc -c <"$1"'
_WRITE: Final = 'mkdir -p -- "$(dirname -- "$1")" && cat >"$1"'
_FILE_TIMEOUT_S: Final = 60.0
_MAX_EDITED_BYTES: Final = 8 * 2**20


class _Arguments(BaseModel):
    """A number may come as text: models do that."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Bash(_Arguments):
    """Run a command line with bash (with sh where there is no bash) and see its output.

    Every command starts in the working directory, in a new shell.
    """

    command: str


class ReadFile(_Arguments):
    """Read lines of a text file."""

    path: str = Field(min_length=1, description="Absolute, or relative to the working directory.")
    first_line: int = Field(default=1, ge=1)
    line_count: int = Field(default=200, ge=1, le=5_000)


class WriteFile(_Arguments):
    """Write a file, with all folders above it; whatever was in it is replaced."""

    path: str = Field(min_length=1, description="Absolute, or relative to the working directory.")
    content: str


class EditFile(_Arguments):
    """Replace a text that occurs exactly once in a file."""

    path: str = Field(min_length=1, description="Absolute, or relative to the working directory.")
    old_text: str = Field(min_length=1)
    new_text: str


class Submit(_Arguments):
    """Finish the task; the files are taken as they are now."""

    answer: str = Field(default="", description="The answer, if the task asks for one in words.")


_KINDS: Final[Mapping[str, type[_Arguments]]] = {
    "bash": Bash,
    "read_file": ReadFile,
    "write_file": WriteFile,
    "edit_file": EditFile,
    SUBMIT: Submit,
}
ALL_TOOLS: Final[tuple[ToolName, ...]] = ("bash", "read_file", "write_file", "edit_file")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a call of a tool came to."""

    id: str
    name: str
    text: str
    """What the model is told."""
    env_action_ms: float | None = None
    is_malformed: bool = False
    """It could not even be tried."""
    submitted: str | None = None
    """The answer, if this was the last call."""


class Refused(Exception):
    """A call that cannot be carried out; the message is for the model."""


@dataclass(frozen=True, slots=True)
class _Done:
    text: str
    env_action_ms: float | None = None


class Toolbox:
    """The tools of one attempt."""

    def __init__(
        self,
        environment: EnvironmentHandle,
        context: AttemptContext,
        names: Sequence[ToolName],
        output_limit: int,
    ) -> None:
        self._environment = environment
        self._context = context
        self._names = (*names, SUBMIT)
        self._limit = output_limit

    @property
    def definitions(self) -> tuple[JsonObject, ...]:
        """What the model is told of the tools."""
        return tuple(_definition(name) for name in self._names)

    def call(self, call: JsonObject, number: int, timeout_s: float) -> Outcome:
        """Do what the model asks for; `number` names calls that the model left without an id."""
        found_id = call.get("id")
        call_id = found_id if isinstance(found_id, str) and found_id else f"call-{number}"
        function = call.get("function")
        function = function if isinstance(function, dict) else {}
        name = str(function.get("name"))
        try:
            arguments = self._arguments(name, function.get("arguments"))
        except Refused as problem:
            return Outcome(call_id, name, f"error: {problem}", is_malformed=True)
        if isinstance(arguments, Submit):
            return Outcome(call_id, name, "submitted", submitted=arguments.answer)
        try:
            done = self._do(arguments, timeout_s)
        except Refused as problem:
            return Outcome(call_id, name, f"error: {problem}")
        return Outcome(call_id, name, cut(done.text, self._limit), done.env_action_ms)

    def _arguments(self, name: str, written: object) -> _Arguments:
        if name not in self._names:
            raise Refused(f"there is no tool {name!r}; there are {', '.join(self._names)}")
        text = written if isinstance(written, str) else json.dumps(written)
        try:
            return _KINDS[name].model_validate_json(text or "{}")
        except ValidationError as error:
            wrong = "; ".join(
                f"{'.'.join(map(str, each['loc'])) or 'arguments'}: {each['msg']}"
                for each in error.errors(include_url=False)[:5]
            )
            raise Refused(f"wrong arguments of {name}: {wrong}") from error

    def _do(self, arguments: _Arguments, timeout_s: float) -> _Done:
        try:
            match arguments:
                case Bash():
                    ended = self._environment.exec(shell(arguments.command), timeout_s=timeout_s)
                    return _Done(_told(ended), ended.duration_s * 1_000)
                case ReadFile():
                    return self._read(arguments, timeout_s)
                case WriteFile():
                    return self._write(arguments.path, arguments.content, timeout_s)
                case EditFile():
                    return self._edit(arguments, timeout_s)
                case _:
                    raise AssertionError(arguments)
        except (ValueError, FileNotFoundError, NotADirectoryError) as error:
            # A NUL in a command, a path out of the environment: the environment's own failures
            # are of another class.
            raise Refused(f"{type(error).__name__}: {error}") from error

    def _read(self, wanted: ReadFile, timeout_s: float) -> _Done:
        last = wanted.first_line + wanted.line_count - 1
        words = ["sh", "-c", _READ, "sh", wanted.path, str(wanted.first_line), str(last)]
        ended = self._environment.exec(words, timeout_s=min(timeout_s, _FILE_TIMEOUT_S))
        text = ended.stdout if ended.exit_code == 0 else _told(ended)
        return _Done(text, ended.duration_s * 1_000)

    def _write(self, path: str, content: str, timeout_s: float) -> _Done:
        words = ["sh", "-c", _WRITE, "sh", path]
        limit = min(timeout_s, _FILE_TIMEOUT_S)
        ended = self._environment.exec(words, stdin=content, timeout_s=limit)
        text = f"wrote {path}" if ended.exit_code == 0 else _told(ended)
        return _Done(text, ended.duration_s * 1_000)

    def _edit(self, wanted: EditFile, timeout_s: float) -> _Done:
        sized = self._environment.exec(["sh", "-c", _SIZE, "sh", wanted.path])
        if sized.exit_code != 0:
            raise Refused(f"there is no file {wanted.path}")
        if int(sized.stdout) > _MAX_EDITED_BYTES:
            raise Refused(f"{wanted.path} has more than {_MAX_EDITED_BYTES} bytes")
        copy = self._context.work_dir / f"edited-{self._context.token[:16]}"
        self._environment.download(wanted.path, copy)
        try:
            content = copy.read_bytes().decode("utf-8")
        finally:
            copy.unlink(missing_ok=True)
        found = content.count(wanted.old_text)
        if found != 1:
            raise Refused(f"old_text occurs {found} times in {wanted.path}, not once")
        return self._write(
            wanted.path, content.replace(wanted.old_text, wanted.new_text), timeout_s
        )


def _definition(name: str) -> JsonObject:
    kind = _KINDS[name]
    schema: JsonObject = kind.model_json_schema()
    schema = {key: value for key, value in schema.items() if key not in {"title", "description"}}
    told = " ".join((kind.__doc__ or "").split())
    return {
        "type": "function",
        "function": {"name": name, "description": told, "parameters": schema},
    }


def _told(ended: ExecResult) -> str:
    """Return what a model is told of the end of a command."""
    if ended.timed_out:
        end = f"it did not end within {ended.duration_s:.0f} s and was killed"
    elif ended.exit_code < 0:
        end = f"it was ended by signal {-ended.exit_code}"
    else:
        end = f"exit code {ended.exit_code}"
    parts = [f"[{end}]", ended.stdout.rstrip("\n")]
    if ended.stderr:
        parts += ["[stderr]", ended.stderr.rstrip("\n")]
    return "\n".join(part for part in parts if part)
