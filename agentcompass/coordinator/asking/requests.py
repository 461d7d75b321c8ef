"""What the user asked for: one request from a file and flags, where flags win."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pydantic import JsonValue

from agentcompass.coordinator.asking import BROKER_VARIABLE
from agentcompass.coordinator.asking.analyzers import ANALYZER, analyzers_of, with_settings
from agentcompass.coordinator.asking.literals import (
    Separated,
    refuse_literals,
    refuse_missing,
    refuse_values_as_names,
    separate_literals,
)
from agentcompass.coordinator.asking.request_file import read_request_file
from agentcompass.coordinator.asking.validation import request_of
from agentcompass.coordinator.asking.values import json_or_text
from agentcompass.errors import UsageError
from agentcompass.metrics.per_task.strategies import STRATEGIES
from agentcompass.models.base import JsonObject
from agentcompass.models.request import Request
from agentcompass.runtime.components import canonical_id

COMPONENTS: Final = ("benchmark", "harness", "environment", "evaluation_environment", "model")
"""The parts of a request that have parameters, and may be given by their id alone."""
_PLACES: Final = ("results_dir", "broker")
"""Fields of a file that are no part of the request: where this machine reads and writes."""
NO_RECIPES: Final = "none"
_WHOLE_REFERENCE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


@dataclass(frozen=True, slots=True)
class Asked:
    """A valid request and what belongs to this start of it, not to the run."""

    request: Request
    results_dir: Path | None = None
    broker: str | None = field(default=None, repr=False)
    """May hold a password: only connect with it."""
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    """For the environment of local workers; empty with a broker."""


@dataclass(frozen=True, slots=True)
class Gathered:
    """A file and flags laid over one another, without literal secrets; not validated yet."""

    separated: Separated
    where: str
    results_dir: Path | None
    broker: str | None = field(repr=False)

    def refuse_what_cannot_work(self, environ: Mapping[str, str]) -> None:
        """Refuse literals with a broker, and missing secrets without one."""
        known = {**environ, **self.separated.values}
        refuse_values_as_names(self.separated.referenced, known, self.where)
        if self.broker:
            refuse_literals(self.separated, self.where)
        else:
            refuse_missing(self.separated.referenced, known)


def ask(
    flags: JsonObject,
    *,
    file: Path | None,
    params: Iterable[str],
    environ: Mapping[str, str],
    base: Path,
) -> Asked:
    """Build the request and refuse what cannot work, before anything is reserved.

    Args: as of `gather`.

    Raises:
        UsageError: naming the field or flag.
    """
    found = gather(flags, file=file, params=params, environ=environ, base=base)
    request = request_of(found.separated.content, where=found.where)
    STRATEGIES.get(request.execution.attempts.strategy)
    found.refuse_what_cannot_work(environ)
    return Asked(request, found.results_dir, found.broker, found.separated.values)


def gather(
    flags: JsonObject,
    *,
    file: Path | None,
    params: Iterable[str],
    environ: Mapping[str, str],
    base: Path,
) -> Gathered:
    """Lay flags over a file.

    Args:
        flags: shaped like a request file, only with what was given; wins over the file.
        params: `component.key=value` each; they win over `flags`.
        environ: of this process; local workers resolve secrets from it.
        base: the current directory; plug-in files become absolute, for workers elsewhere.

    Raises:
        UsageError: the file or a parameter cannot be read.
    """
    content = read_request_file(file) if file else {}
    every = list(params)
    others = (text for text in every if not text.startswith(ANALYZER))
    for layer in (flags, *map(parse_param, others)):
        content = merged(expanded(content), expanded(layer))
    content = with_settings(content, (text for text in every if text.startswith(ANALYZER)))
    where = f"{file} and the command line" if file else "the command line"
    results_dir, broker = (place_of(content, name, where, environ) for name in _PLACES)
    return Gathered(
        separate_literals(anywhere(content, base)),
        where,
        Path(results_dir).expanduser() if results_dir else None,
        broker or environ.get(BROKER_VARIABLE) or None,
    )


def parse_param(text: str) -> JsonObject:
    """Return `component.key=value` as a layer of a request; the value is JSON, else text."""
    path, equals, written = text.partition("=")
    component, *keys = path.split(".")
    if not equals or component not in COMPONENTS or not keys or not all(keys):
        raise UsageError(
            f"cannot read the parameter {path!r}",
            where="--param",
            hint=f"write component.key=value, where component is one of {', '.join(COMPONENTS)}",
        )
    layer: JsonValue = json_or_text(written)
    for key in reversed(("params", *keys)):
        layer = {key: layer}
    return {component: layer}


def expanded(content: JsonObject) -> JsonObject:
    """Return the content with what may be short spelled out: `benchmark: humaneval`, `reuse: true`."""
    spelled: JsonObject = {
        name: {"id": value} if name in COMPONENTS and isinstance(value, str) else value
        for name, value in content.items()
    }
    if isinstance(spelled.get("reuse"), bool):
        spelled["reuse"] = {} if spelled["reuse"] else None
    if isinstance(spelled.get("execution"), dict):
        spelled["execution"] = _expanded_execution(spelled["execution"])  # type: ignore[arg-type]  # it is
    return spelled


def _expanded_execution(content: JsonObject) -> JsonObject:
    analyzers, recipes = content.get("analyzers"), content.get("recipes")
    layer: JsonObject = {}
    if isinstance(analyzers, list):
        layer["analyzers"] = analyzers_of(analyzers)
    if recipes in (NO_RECIPES, [NO_RECIPES]):
        layer["recipes"] = []
    return {**content, **layer}


def merged(base: JsonObject, over: JsonObject) -> JsonObject:
    """Return `base` with `over` laid on it: objects field by field, everything else replaced."""
    result = dict(base)
    for name, value in over.items():
        under = result.get(name)
        both = isinstance(under, dict) and isinstance(value, dict)
        result[name] = merged(under, value) if both else value  # type: ignore[arg-type]  # both are
    return result


def anywhere(content: JsonObject, base: Path) -> JsonObject:
    """Return the content with plug-in ids that mean the same in every working directory."""

    def own(spec: JsonValue) -> JsonValue:
        if isinstance(spec, dict) and isinstance(spec.get("id"), str):
            return {**spec, "id": canonical_id(str(spec["id"]), base)}
        return spec

    fields = {
        name: own(value) if name in COMPONENTS and name != "model" else value
        for name, value in content.items()
    }
    execution = fields.get("execution")
    analyzers = execution.get("analyzers") if isinstance(execution, dict) else None
    recipes = execution.get("recipes") if isinstance(execution, dict) else None
    layer: JsonObject = {}
    if isinstance(analyzers, list):
        layer["analyzers"] = [own(each) for each in analyzers]
    if isinstance(recipes, list):
        layer["recipes"] = [canonical_id(str(each), base) for each in recipes]
    if isinstance(execution, dict):
        fields["execution"] = {**execution, **layer}
    return fields


def place_of(content: JsonObject, name: str, where: str, environ: Mapping[str, str]) -> str | None:
    """Take a field out that is no part of the request; a whole `${NAME}` is looked up here."""
    value = content.pop(name, None)
    if value is None:
        return None
    if not isinstance(value, str) or not value:
        raise UsageError(f"{name} must be text", where=where)
    reference = _WHOLE_REFERENCE.fullmatch(value)
    if reference is None:
        return value
    refuse_missing([reference[1]], environ)
    return environ[reference[1]]
