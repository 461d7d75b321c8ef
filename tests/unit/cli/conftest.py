"""A command line whose broker is in memory and whose workers do their work while it is sent."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from pydantic import JsonValue

from agentcompass.cli import attached, launch, resume, run
from agentcompass.cli.main import main
from agentcompass.coordinator.ports import PendingAttempt, RunAddress
from agentcompass.coordinator.watching.attach import Session
from agentcompass.models.result import AttemptResult
from agentcompass.store import control
from tests.builders import a_result
from tests.fakes.queue import FakeQueue
from tests.support.coordinated import MODULE
from tests.support.store_runs import begin, publish, write_report

ResultFor = Callable[[str, int, int], AttemptResult]


class WorkingQueue(FakeQueue):
    """Executes what is dispatched, and finalizes, before `dispatch` returns."""

    def __init__(self) -> None:
        super().__init__()
        self.result_for: ResultFor = lambda task, number, leg: a_result(task, number, leg=leg)
        self.executed: list[tuple[str, int]] = []

    def dispatch(
        self, run: RunAddress, leg: int, pending: Iterable[PendingAttempt], count: int
    ) -> None:
        super().dispatch(run, leg, pending, count)
        legs = control.legs(run.run_dir)
        for each in [message.attempt for message in self.lanes if message.ref == run.ref]:
            first = legs.valid_from_leg(each.task_id, each.attempt)
            token = f"token-{leg}-{each.attempt}"
            view = begin(
                run.run_dir, each.task_id, each.attempt, token=token, leg=leg, valid_from_leg=first
            )
            result = self.result_for(each.task_id, each.attempt, leg)
            publish(run.run_dir, view, result.model_copy(update={"token": token}))
            self.executed.append((each.task_id, each.attempt))
        self.lanes.clear()
        write_report(run.run_dir)


@dataclass
class LocalSession:
    queue: FakeQueue
    is_embedded: bool = True

    def stop_workers(self) -> None: ...

    def problem(self) -> str:
        return ""


@dataclass
class Shell:
    """Runs commands and keeps what they print."""

    capture: pytest.CaptureFixture[str]
    queue: WorkingQueue
    results: Path
    err: str = ""
    lines: list[str] = field(default_factory=list)

    def __call__(self, *arguments: str) -> int:
        code = main(list(arguments))
        output = self.capture.readouterr()
        self.lines, self.err = output.out.splitlines(), output.err
        return code

    def run(self, *more: str, ids: Sequence[str] = ("a", "b")) -> int:
        return self(
            "run",
            *("--benchmark", f"{MODULE}:Bench", "--param", f"benchmark.ids={json.dumps(ids)}"),
            *("--harness", f"{MODULE}:Agent", "--environment", f"{MODULE}:Place"),
            *("--model", "m", "--results-dir", str(self.results), *more),
        )

    def objects(self) -> list[dict[str, JsonValue]]:
        return [json.loads(line) for line in self.lines]

    def run_dir(self) -> Path:
        return next(path.parent for path in self.results.rglob("run_info.json"))


@pytest.fixture
def shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Shell:
    queue = WorkingQueue()

    @contextmanager
    def embedded(*_: object, **__: object) -> Iterator[Session]:
        yield LocalSession(queue)

    monkeypatch.delenv("AGENTCOMPASS_BROKER_URL", raising=False)
    monkeypatch.setattr(attached, "embedded", embedded)
    for module in (run, resume, launch):
        monkeypatch.setattr(module, "open_queue", lambda url: queue)
        monkeypatch.setattr(module, "require_server", lambda: None)
    return Shell(capsys, queue, tmp_path / "results")
