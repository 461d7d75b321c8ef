"""Finds plug-ins and builds them: by id, as `package.module:Class` or as `path/file.py:Class`.

Ids come from entry points. Where the package runs without its metadata (from a source tree) the
built-in table below stands in. A file outside of the trusted folders is not executed.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import json
import sys
import threading
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from importlib.machinery import SourceFileLoader
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Final, Literal, TypeAlias, cast, overload

from pydantic import BaseModel, ValidationError

from agentcompass.analyzers.base import Analyzer
from agentcompass.benchmarks.base import Benchmark
from agentcompass.environments.base import Environment
from agentcompass.errors import UnknownComponent, UsageError
from agentcompass.harnesses.base import Harness
from agentcompass.models.issue import MESSAGE_LIMIT
from agentcompass.models.request import ComponentSpec
from agentcompass.recipes.base import Recipe

Kind: TypeAlias = Literal["benchmark", "harness", "environment", "analyzer", "recipe"]
Component: TypeAlias = (
    Benchmark[BaseModel]
    | Harness[BaseModel]
    | Environment[BaseModel]
    | Analyzer[BaseModel]
    | Recipe
)

GROUPS: Final[Mapping[Kind, str]] = {
    "benchmark": "agentcompass.benchmarks",
    "harness": "agentcompass.harnesses",
    "environment": "agentcompass.environments",
    "analyzer": "agentcompass.analyzers",
    "recipe": "agentcompass.recipes",
}
BUILT_IN: Final[Mapping[Kind, Mapping[str, str]]] = {
    "benchmark": {
        "humaneval": "agentcompass.benchmarks.humaneval:HumanEval",
        "jsonl": "agentcompass.benchmarks.jsonl:JsonlBenchmark",
        "shell_tasks": "agentcompass.benchmarks.shell_tasks.benchmark:ShellTasks",
    },
    "harness": {
        "command": "agentcompass.harnesses.command:CommandHarness",
        "mini_swe_agent": "agentcompass.harnesses.mini_swe_agent.harness:MiniSweAgentHarness",
        "none": "agentcompass.harnesses.none:NoHarness",
        "openai_chat": "agentcompass.harnesses.openai_chat:OpenAIChat",
        "tool_loop": "agentcompass.harnesses.tool_loop.harness:ToolLoop",
    },
    "environment": {
        "bubblewrap": "agentcompass.environments.bubblewrap:Bubblewrap",
        "docker": "agentcompass.environments.docker.environment:Docker",
        "host_process": "agentcompass.environments.host_process:HostProcess",
    },
    "analyzer": {
        "empty_output": "agentcompass.analyzers.empty_output:EmptyOutput",
        "exceptions": "agentcompass.analyzers.exceptions:Exceptions",
        "latency": "agentcompass.analyzers.latency:Latencies",
        "repetition": "agentcompass.analyzers.repetition:Repetition",
        "time_cost": "agentcompass.analyzers.time_cost:TimeCosts",
        "tokens": "agentcompass.analyzers.tokens:Tokens",
        "tool_use": "agentcompass.analyzers.tool_use:ToolUse",
        "truncation": "agentcompass.analyzers.truncation:Truncation",
    },
    "recipe": {
        "offline_evaluation": "agentcompass.recipes.offline_evaluation:OfflineEvaluation",
        "task_image": "agentcompass.recipes.task_image:TaskImage",
    },
}
_BASES: Final[Mapping[Kind, type]] = {
    "benchmark": Benchmark,
    "harness": Harness,
    "environment": Environment,
    "analyzer": Analyzer,
    "recipe": Recipe,
}

_lock = threading.RLock()
_names: dict[Kind, dict[str, str]] = {}
_classes: dict[tuple[Kind, str, int], type] = {}
_instances: dict[tuple[type, str], Component] = {}


@overload
def load(
    kind: Literal["benchmark"], spec: ComponentSpec, *, trusted_roots: Sequence[Path] | None = None
) -> Benchmark[BaseModel]: ...
@overload
def load(
    kind: Literal["harness"], spec: ComponentSpec, *, trusted_roots: Sequence[Path] | None = None
) -> Harness[BaseModel]: ...
@overload
def load(
    kind: Literal["environment"],
    spec: ComponentSpec,
    *,
    trusted_roots: Sequence[Path] | None = None,
) -> Environment[BaseModel]: ...
@overload
def load(
    kind: Literal["analyzer"], spec: ComponentSpec, *, trusted_roots: Sequence[Path] | None = None
) -> Analyzer[BaseModel]: ...
@overload
def load(
    kind: Kind, spec: ComponentSpec, *, trusted_roots: Sequence[Path] | None = None
) -> Component: ...


def load(
    kind: Kind, spec: ComponentSpec, *, trusted_roots: Sequence[Path] | None = None
) -> Component:
    """Return the plug-in, built once per process; an environment is built anew each time.

    Args:
        kind: what it must be.
        spec: its id and parameters.
        trusted_roots: folders whose Python files may be executed; None trusts every file, which
            is right only for what the user has just typed.

    Raises:
        UnknownComponent: no plug-in has this id.
        UsageError: it cannot be imported, is of another kind, or refuses a parameter
            (named as `benchmark.x`).
    """
    with _lock:
        cls = find(kind, spec.id, trusted_roots=trusted_roots)
        if kind == "recipe":
            return cast("Component", cls())
        key = (cls, json.dumps(spec.params, sort_keys=True))
        if kind == "environment" or key not in _instances:
            _instances[key] = cls(validated_params(kind, cls, spec))
        return _instances[key]


def find(kind: Kind, name: str, *, trusted_roots: Sequence[Path] | None = None) -> type:
    """Return the plug-in's class without building it; raises as `load` does."""
    target = _names_of(kind).get(name, name)
    if ":" not in target:
        raise UnknownComponent(kind, name, tuple(_names_of(kind)))
    place, _, attribute = target.rpartition(":")
    is_file = place.endswith(".py")
    path = _trusted(Path(place), trusted_roots) if is_file else Path()
    key = (kind, target, path.stat().st_mtime_ns if is_file else 0)
    if key not in _classes:
        module = _import(kind, name, place, path if is_file else None)
        _classes[key] = _checked(kind, name, getattr(module, attribute, None))
    return _classes[key]


def validated_params(kind: Kind, cls: type, spec: ComponentSpec) -> BaseModel:
    """Return the plug-in's parameters; raises UsageError that names each wrong one."""
    model = cast("type[BaseModel]", cls.Params)  # type: ignore[attr-defined]  # checked by `find`
    try:
        return model.model_validate_json(json.dumps(spec.params))
    except ValidationError as error:
        problems = [_problem(kind, model, detail) for detail in error.errors(include_url=False)]
        known = ", ".join(f"{kind}.{name}" for name in model.model_fields) or "none"
        raise UsageError(
            f"parameter{'s' if len(problems) > 1 else ''} of {kind} {spec.id!r} refused: "
            + "; ".join(problems[:3]),
            where=f"--param {kind}.…",
            hint=f"its parameters: {known}",
        ) from error


def known(kind: Kind) -> list[tuple[str, str]]:
    """Return (id, one line about it) of every registered plug-in, sorted; never raises."""
    return [(name, _one_line(kind, name)) for name in sorted(_names_of(kind))]


def canonical_id(name: str, base: Path) -> str:
    """Return an id that means the same in every working directory: files become absolute."""
    place, colon, attribute = name.rpartition(":")
    if not colon or not place.endswith(".py"):
        return name
    return f"{(base / place).resolve()}:{attribute}"


def _names_of(kind: Kind) -> dict[str, str]:
    if kind not in _names:
        found: tuple[EntryPoint, ...] = tuple(entry_points(group=GROUPS[kind]))
        _names[kind] = {**BUILT_IN[kind], **{point.name: point.value for point in found}}
    return _names[kind]


def _trusted(path: Path, roots: Sequence[Path] | None) -> Path:
    try:
        real = path.resolve(strict=True)
    except OSError as error:
        raise UsageError(
            f"no plug-in file {path}: {error.strerror}", where=str(path.absolute())
        ) from error
    if roots is not None and not any(real.is_relative_to(root.resolve()) for root in roots):
        raise UsageError(
            f"plug-in file {path} is outside of the trusted folders",
            where=", ".join(str(root) for root in roots) or "there is none",
            hint="start the worker with the folder of the file among its trusted ones",
        )
    return real


def _import(kind: Kind, name: str, place: str, path: Path | None) -> ModuleType:
    try:
        return importlib.import_module(place) if path is None else _import_file(path)
    except (Exception, SystemExit) as error:  # foreign code may raise anything
        reason = " ".join(str(error).split())[:MESSAGE_LIMIT]
        raise UsageError(
            f"{kind} {name!r} cannot be loaded: {type(error).__name__}: {reason}", where=place
        ) from error


class _AsItStands(SourceFileLoader):
    """Compiles a plug-in's file each time.

    Kept bytecode is believed by the second and the size, so that an edit may go unseen; and it would be
    written beside the plug-in.
    """

    def path_stats(self, path: str) -> Mapping[str, object]:
        raise OSError(f"no bytecode is kept of {path}")


def _import_file(path: Path) -> ModuleType:
    digest = hashlib.sha256(str(path).encode()).hexdigest()[:12]
    module_name = f"agentcompass_file_{path.stem}_{digest}"
    loader = _AsItStands(module_name, str(path))
    spec = importlib.util.spec_from_file_location(module_name, path, loader=loader)
    if spec is None:
        raise ImportError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module  # dataclasses and pydantic look their module up
    try:
        loader.exec_module(module)
    except BaseException:
        del sys.modules[module_name]
        raise
    return module


def _checked(kind: Kind, name: str, found: object) -> type:
    base = _BASES[kind]
    if not isinstance(found, type) or not issubclass(found, base):
        raise UsageError(
            f"{name!r} is not a {kind}",
            where=f"--{kind}",
            hint=f"name a class that derives from {base.__module__}:{base.__name__}",
        )
    return found


def _problem(kind: Kind, model: type[BaseModel], detail: Mapping[str, object]) -> str:
    location = [str(part) for part in cast("Sequence[object]", detail["loc"])]
    path = ".".join([kind, *location])
    if detail["type"] != "extra_forbidden":
        return f"{path}: {detail['msg']}"
    near = get_close_matches(location[-1], list(model.model_fields), n=1, cutoff=0.5)
    return f"{path} is unknown" + (f" (did you mean {kind}.{near[0]}?)" if near else "")


def _one_line(kind: Kind, name: str) -> str:
    try:
        doc = find(kind, name).__doc__ or ""
    except UsageError as error:
        return f"({error.what})"
    return doc.strip().partition("\n")[0]
