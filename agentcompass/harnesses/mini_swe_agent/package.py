"""Loads the package mini-swe-agent, an extra, without what it does when it is imported.

It would print a banner, make a folder in the user's home, read settings from there into the process's
environment, and log to the terminal. `litellm`, which it brings along, is never imported: our own
client asks the model.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import yaml

from agentcompass.errors import PermanentFailure
from agentcompass.models.base import JsonObject

_SETTINGS: Final = "mini.yaml"
_guard: Final = threading.Lock()
_loaded: list[MiniSweAgent] = []


@dataclass(frozen=True, slots=True)
class MiniSweAgent:
    """What we use of the package."""

    version: str
    agent: Callable[..., Any]
    """Its `DefaultAgent`."""
    submitted: Callable[[Mapping[str, Any]], Exception]
    time_exceeded: Callable[[Mapping[str, Any]], Exception]
    bash_tool: JsonObject
    parse_calls: Callable[..., list[dict[str, Any]]]
    observations: Callable[..., list[dict[str, Any]]]
    settings: Mapping[str, Mapping[str, Any]]
    """Its own settings for an agent with tool calls: prompts and templates."""


def load(folder: Path) -> MiniSweAgent:
    """Return the package; the first call of a process imports it.

    Args:
        folder: what it may take for the folder of the user's settings; of the first call only.

    Raises:
        PermanentFailure: it is not installed; says what to install.
    """
    with _guard:
        if not _loaded:
            with _quietly(folder):
                _loaded.append(_imported())
        return _loaded[0]


@contextmanager
def _quietly(folder: Path) -> Iterator[None]:
    ours = {"MSWEA_SILENT_STARTUP": "1", "MSWEA_GLOBAL_CONFIG_DIR": str(folder)}
    before = {name: os.environ.get(name) for name in ours}
    os.environ.update(ours)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
        logging.getLogger("minisweagent").handlers.clear()


def _imported() -> MiniSweAgent:
    try:
        import minisweagent
        from minisweagent.agents.default import DefaultAgent
        from minisweagent.config import builtin_config_dir
        from minisweagent.exceptions import Submitted, TimeExceeded
        from minisweagent.models.utils import actions_toolcall
    except ModuleNotFoundError as error:
        raise PermanentFailure(
            "fatal",
            "setup",
            "setup_failed",
            "the harness mini_swe_agent needs a package: "
            f"pip install 'agentcompass-distributed[mini-swe-agent]' ({error})",
        ) from error
    return MiniSweAgent(
        version=minisweagent.__version__,
        agent=DefaultAgent,
        submitted=lambda message: Submitted(dict(message)),
        time_exceeded=lambda message: TimeExceeded(dict(message)),
        bash_tool=cast("JsonObject", actions_toolcall.BASH_TOOL),
        parse_calls=actions_toolcall.parse_toolcall_actions,
        observations=actions_toolcall.format_toolcall_observation_messages,
        settings=yaml.safe_load((builtin_config_dir / _SETTINGS).read_text(encoding="utf-8")),
    )
