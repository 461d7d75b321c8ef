"""A suite file: many named requests, read as a whole. What is wrong is named by its path in the file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Final

from pydantic import JsonValue

from agentcompass.coordinator.asking import BROKER_VARIABLE
from agentcompass.coordinator.asking.interpolation import interpolated
from agentcompass.coordinator.asking.literals import (
    Separated,
    refuse_literals,
    refuse_missing,
    refuse_values_as_names,
    separate_literals,
)
from agentcompass.coordinator.asking.request_file import read_mapping
from agentcompass.coordinator.asking.requests import (
    anywhere,
    expanded,
    merged,
    place_of,
)
from agentcompass.coordinator.asking.validation import FLAGS, request_of
from agentcompass.errors import UsageError
from agentcompass.metrics.per_task.strategies import STRATEGIES
from agentcompass.models.base import JsonObject
from agentcompass.models.request import Request

VERSION: Final = 1
_FIELDS: Final = ("version", "name", "defaults", "requests", "results_dir", "broker")
_REPLACED: Final = ("benchmark", "harness", "environment", "evaluation_environment")
"""Parts whose default parameters belong to the default id only. Models share an endpoint."""


@dataclass(frozen=True, slots=True)
class NamedRequest:
    """One request of a suite."""

    name: str
    request: Request
    where: str
    """For messages: its place in the file."""


@dataclass(frozen=True, slots=True)
class Suite:
    """Valid requests, and what belongs to this start of them."""

    name: str
    requests: Sequence[NamedRequest]
    results_dir: Path | None = None
    broker: str | None = field(default=None, repr=False)
    """May hold a password: only connect with it."""
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    """For the environment of local workers; empty with a broker."""


def read_suite(file: Path, over: JsonObject, *, environ: Mapping[str, str], base: Path) -> Suite:
    """Read a suite and refuse what is wrong with any of its requests.

    Args:
        over: flags, shaped like a request file; they win in every request.
        environ: of this process; `${NAME}` is looked up in it.
        base: the current directory; plug-in files become absolute.

    Raises:
        UsageError: naming the field by its path in the file, such as `requests[2].model.id`.
    """
    content = read_mapping(file, "suite file", "`requests: [{name: one, benchmark: humaneval}]`")
    _refuse_unknown(content, file)
    content |= {name: over[name] for name in ("results_dir", "broker") if name in over}
    results_dir = place_of(content, "results_dir", str(file), environ)
    broker = place_of(content, "broker", str(file), environ) or environ.get(BROKER_VARIABLE)
    flags = {name: value for name, value in over.items() if name not in _FIELDS}
    reader = _Reader(file, _defaults(content, file), flags, environ, base)
    found = [reader.read(at, item) for at, item in enumerate(_items(content, file))]
    _refuse_duplicates(found, file)
    reader.refuse_what_cannot_work(broker)
    return Suite(
        name=_name(content, file),
        requests=found,
        results_dir=Path(results_dir).expanduser() if results_dir else None,
        broker=broker or None,
        secrets=reader.secrets,
    )


class _Reader:
    """Reads one request after the other; literal secrets of all get variables of their own."""

    def __init__(
        self,
        file: Path,
        defaults: JsonObject,
        flags: JsonObject,
        environ: Mapping[str, str],
        base: Path,
    ) -> None:
        self.secrets: Mapping[str, str] = {}
        self._file, self._defaults, self._flags = file, defaults, flags
        self._environ, self._base = environ, base
        self._separated: list[tuple[str, Separated]] = []

    def read(self, at: int, item: JsonValue) -> NamedRequest:
        """Return one request, the defaults below it and the flags on top of it."""
        where = f"requests[{at}]"
        if not isinstance(item, dict):
            raise UsageError(
                f"{where} must hold fields, such as `name: one`", where=str(self._file)
            )
        own = expanded(item)
        name = own.pop("name", None)
        if not isinstance(name, str) or not name.strip():
            raise UsageError(f"{where}.name must be text", where=str(self._file))
        where = f"{where} ({name!r}) in {self._file}"
        layers = merged(_laid(self._defaults, own), self._flags)
        try:
            content = anywhere(interpolated(layers, self._environ), self._base)
            separated = separate_literals(content, self.secrets)
            request = request_of(
                separated.content,
                where=str(self._file),
                named=lambda path: self._named(path, at, own),
            )
            STRATEGIES.get(request.execution.attempts.strategy)
        except UsageError as error:
            raise within(where, error) from error
        self.secrets = separated.values
        self._separated.append((where, separated))
        return NamedRequest(name, request, where)

    def refuse_what_cannot_work(self, broker: str | None) -> None:
        """Refuse literals with a broker, and missing secrets without one."""
        known = {**self._environ, **self.secrets}
        for where, separated in self._separated:
            refuse_values_as_names(separated.referenced, known, where)
            if broker:
                refuse_literals(separated, where)
            else:
                _refuse_missing(separated, known, where)

    def _named(self, path: str, at: int, own: JsonObject) -> str:
        """Return how the author knows a field: where it is written."""
        if _holds(self._flags, path):
            return FLAGS.get(path, path)
        is_default = _holds(self._defaults, path) and not _holds(own, path)
        return f"defaults.{path}" if is_default else f"requests[{at}].{path}"


def within(where: str, error: UsageError) -> UsageError:
    """Return an error about one request with its place in the file."""
    if error.where.startswith(("requests[", "defaults.", "--")) or not error.where:
        return UsageError(error.what, where=where, hint=error.hint)
    return UsageError(error.what, where=f"{error.where}, {where}", hint=error.hint)


def _laid(defaults: JsonObject, own: JsonObject) -> JsonObject:
    """Lay a request over the defaults; another benchmark does not get the default one's parameters."""
    kept = {name: value for name, value in defaults.items() if not _is_other(name, value, own)}
    return merged(kept, own)


def _is_other(name: str, value: JsonValue, own: JsonObject) -> bool:
    mine = own.get(name)
    if name not in _REPLACED or not isinstance(mine, dict) or not isinstance(value, dict):
        return False
    return "id" in mine and mine["id"] != value.get("id")


def _holds(content: JsonValue, path: str) -> bool:
    """Return whether a layer has a field, or is the reason why something in it is wrong."""
    for part in path.replace("[", ".[").split("."):
        if part.startswith("["):
            return True
        if not isinstance(content, dict) or part not in content:
            return False
        content = content[part]
    return True


def _refuse_unknown(content: JsonObject, file: Path) -> None:
    for name in content:
        if name not in _FIELDS:
            near = get_close_matches(name, _FIELDS, n=1, cutoff=0.6)
            guess = f"did you mean {near[0]!r}? " if near else ""
            raise UsageError(
                f"unknown field {name}",
                where=str(file),
                hint=f"{guess}known here: {', '.join(_FIELDS)}; a request stands in `requests`",
            )
    version = content.get("version")
    if version != VERSION or isinstance(version, bool):
        said = "version is missing" if version is None else f"version {version!r} is not known"
        raise UsageError(said, where=str(file), hint=f"write `version: {VERSION}`")


def _name(content: JsonObject, file: Path) -> str:
    name = content.get("name", file.stem)
    if not isinstance(name, str) or not name.strip():
        raise UsageError("name must be text", where=str(file))
    return name


def _defaults(content: JsonObject, file: Path) -> JsonObject:
    defaults = content.get("defaults") or {}
    if not isinstance(defaults, dict):
        raise UsageError("defaults must hold fields of a request", where=str(file))
    if "name" in defaults:
        raise UsageError("defaults.name: every request has a name of its own", where=str(file))
    _refuse_foreign(defaults, file)
    return expanded(defaults)


def _refuse_foreign(defaults: JsonObject, file: Path) -> None:
    """Name a misspelt default even where no request would show it."""
    known = tuple(Request.model_fields)
    for name in defaults:
        if name not in known:
            near = get_close_matches(name, known, n=1, cutoff=0.6)
            guess = f"did you mean {near[0]!r}? " if near else ""
            raise UsageError(
                f"unknown field defaults.{name}",
                where=str(file),
                hint=f"{guess}known here: {', '.join(known)}",
            )


def _items(content: JsonObject, file: Path) -> Sequence[JsonValue]:
    items = content.get("requests")
    if not isinstance(items, list) or not items:
        raise UsageError(
            "requests must be a list of at least one request",
            where=str(file),
            hint="write `requests:` and below it `- {name: one, benchmark: humaneval, …}`",
        )
    return items


def _refuse_duplicates(found: Iterable[NamedRequest], file: Path) -> None:
    first: dict[str, int] = {}
    for at, each in enumerate(found):
        if first.setdefault(each.name, at) != at:
            raise UsageError(
                f"requests[{first[each.name]}] and requests[{at}] have the same name {each.name!r}",
                where=str(file),
                hint="runs go by the names of their requests: give each one its own",
            )


def _refuse_missing(separated: Separated, known: Mapping[str, str], where: str) -> None:
    try:
        refuse_missing(separated.referenced, known)
    except UsageError as error:
        raise within(where, error) from error
