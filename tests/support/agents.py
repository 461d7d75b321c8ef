"""Runs of real agents on `shell_tasks`, with a scripted model that gets some tasks wrong."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from demo.scripted_server import ScriptedServer
from tests.support.cluster import Cluster, Said, series_of
from tests.support.docker_engine import IMAGE
from tests.support.sandboxes import why_no_bubblewrap
from tests.support.tree import paths_in

WRONG = ("fix-ini", "roman-numerals")
STUCK = ("log-summary",)
CLUMSY = ("csv-total",)
MAX_STEPS = 8
"""Enough for a solution with one malformed call; the stuck one meets it."""


@dataclass(frozen=True)
class AgentRun:
    """A run that has ended."""

    said: Said

    @cached_property
    def directory(self) -> Path:
        return Path(json.loads(self.said.out.splitlines()[0])["path"])

    @cached_property
    def series(self) -> Mapping[str, Any]:
        return series_of(self.directory)

    @cached_property
    def results(self) -> Mapping[str, Any]:
        """Return task id -> content of its result."""
        found = [
            json.loads(path.read_bytes())
            for path in paths_in(self.directory, "details/*/*/*/result.json")
        ]
        return {each["task_id"]: each for each in found}

    def telemetry(self, name: str) -> Mapping[str, Any]:
        """Return task id -> what its harness tells under this name."""
        return {
            task_id: found["meta"]["harness"]["telemetry"][name]
            for task_id, found in self.results.items()
        }


@dataclass(frozen=True)
class AgentLab:
    """Workers, a model, and the home of the user that they run as."""

    cluster: Cluster
    server: ScriptedServer
    home: Path
    engine: str
    why_no_engine: str

    def run(self, name: str, harness: str, environment: str, mode: str, *more: str) -> AgentRun:
        """Evaluate all ten tasks."""
        if environment == "docker" and self.why_no_engine:
            pytest.skip(self.why_no_engine)
        if environment == "bubblewrap" and why_no_bubblewrap():
            pytest.skip(why_no_bubblewrap())
        image = ("--param", f"environment.image={IMAGE}", "--param", "environment.pull=never")
        said = self.cluster.call(
            "run", "--benchmark", "shell_tasks", "--harness", harness, "--environment", environment,
            "--model", "scripted", "--base-url", self.server.base_url, "--run-name", name,
            "--param", f"benchmark.evaluation={mode}", "--param", f"harness.max_steps={MAX_STEPS}",
            *(image if environment == "docker" else ()),
            "--results-dir", str(self.cluster.results), "--broker", self.cluster.broker.url,
            "--json", *more, timeout_s=240,
        )  # fmt: skip
        assert said.code == 0, f"{said}\n{self.cluster.log_text()[-3_000:]}"
        return AgentRun(said)
