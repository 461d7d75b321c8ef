"""Runs of scripted stubs on real parts, and what they left; one cluster serves many of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.support.cluster import Cluster, Said, series_of
from tests.support.stubs import executions
from tests.support.tree import paths_in

STUBS = "tests.support.stubs"


@dataclass(frozen=True)
class Wanted:
    """A run over stubs; everything has a default."""

    tasks: Sequence[str] = ("t0", "t1")
    k: int = 1
    agent: Mapping[str, str] = field(default_factory=dict)
    evaluator: Mapping[str, str] = field(default_factory=dict)
    benchmark: str = f"{STUBS}:StubBenchmark"
    harness: str = f"{STUBS}:StubHarness"
    environment: str = f"{STUBS}:StubEnvironment"
    model: str = "m"
    more: Sequence[str] = ()

    def flags(self, ledger: Path) -> Sequence[str]:
        params = {
            "benchmark.tasks": json.dumps(list(self.tasks)),
            "benchmark.script": json.dumps(self.evaluator),
            "benchmark.ledger": str(ledger),
            "harness.script": json.dumps(self.agent),
            "harness.ledger": str(ledger),
        }
        given = [word for item in params.items() for word in ("--param", "=".join(item))]
        return (
            *("--benchmark", self.benchmark, "--harness", self.harness),
            *("--environment", self.environment, "--model", self.model, "-k", str(self.k)),
            *("--max-retries", "0", *given, *self.more),
        )


@dataclass(frozen=True)
class Evaluated:
    """A run that was started, what the command said, and what is on disk."""

    said: Said
    ledger: Path

    @cached_property
    def events(self) -> Sequence[Mapping[str, Any]]:
        """The lines of `--json`, read as any program would."""
        return [strict_json(line) for line in self.said.out.encode().splitlines()]

    @property
    def directory(self) -> Path:
        return Path(self.events[0]["path"])

    @property
    def series(self) -> Mapping[str, Any]:
        return series_of(self.directory)

    def counts(self, series_id: str | None = None) -> Mapping[str, int]:
        """Of one series, the headline without a name."""
        found = self.series.values()
        return next(
            dict(each["counts"])
            for each in found
            if each["series_id"] == (series_id or each["series_id"])
            and (series_id or each["role"] == "headline")
        )

    def results(self) -> Mapping[tuple[str, int], Mapping[str, Any]]:
        """Return (task id, attempt) -> content of every published result."""
        found = [strict_json(path.read_bytes()) for path in self.result_files()]
        return {(str(each["task_id"]), int(each["attempt"])): each for each in found}

    def result_files(self) -> Sequence[Path]:
        return paths_in(self.directory, "details/*/*/attempt-*/result.json")

    def task_rows(self) -> Sequence[str]:
        """Return the lines of the summary's table of tasks."""
        section = (self.directory / "summary.md").read_text().partition("## Tasks")[2]
        lines = section.partition("\n## ")[0].splitlines()
        return [line for line in lines if line.startswith("| `")]

    def codes(self) -> Mapping[str, Sequence[str]]:
        """Return task id -> the codes of its first attempt's issues."""
        return {
            task_id: [issue["code"] for issue in found["issues"]]
            for (task_id, attempt), found in self.results().items()
            if attempt == 1
        }

    def executed(self, task_id: str | None = None, who: str = "agent") -> int:
        return executions(self.ledger, who, task_id)


class Laboratory:
    """A broker with a worker, and a results folder that all runs share."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    @property
    def broker(self) -> tuple[str, str]:
        return "--broker", self.cluster.broker.url

    def run(self, name: str, wanted: Wanted | None = None, *more: str) -> Evaluated:
        """Evaluate to the end, through the broker."""
        return self.run_with(name, wanted or Wanted(), *self.broker, *more)

    def run_with(self, name: str, wanted: Wanted, *more: str) -> Evaluated:
        """Evaluate with these flags; without a broker the command brings its own."""
        ledger = self.ledger(name)
        said = self.cluster.call("run", *self.flags(name, wanted), "--json", *more)
        return Evaluated(said, ledger)

    def flags(self, name: str, wanted: Wanted) -> Sequence[str]:
        return (
            *wanted.flags(self.ledger(name)),
            *("--results-dir", str(self.cluster.results), "--run-name", name),
        )

    def ledger(self, name: str) -> Path:
        return self.cluster.directory / f"{quote(name, safe='')}.jsonl"


def strict_json(raw: bytes) -> Any:
    """Read JSON as the strictest of our users' readers: UTF-8, no NaN, no key twice."""
    return json.loads(raw.decode("utf-8"), parse_constant=_refuse, object_pairs_hook=_distinct)


def _refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is not JSON")


def _distinct(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    assert len(dict(pairs)) == len(pairs), f"a key twice: {[key for key, _ in pairs]}"
    return dict(pairs)
