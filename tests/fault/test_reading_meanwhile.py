"""Readers look at a run while others write it: the other's move is made at the worst moment."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agentcompass.cli import watch
from agentcompass.coordinator.report import read
from agentcompass.coordinator.runs import opened
from agentcompass.coordinator.spending.account import Account
from agentcompass.models.result import AttemptMeta
from agentcompass.store import attempts, disk, run_info, scan
from agentcompass.store.check import check_run
from tests.builders import T0, a_result
from tests.support.store_runs import a_run, begin, decide, execute, publish


class Other:
    """Somebody else, who makes one move right before our nth call of a function."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._patch = patch
        self.has_moved = False

    def moves(
        self,
        move: Callable[[], object],
        owner: object,
        name: str,
        when: Callable[..., bool] = lambda *_, **__: True,
        *,
        nth: int = 1,
    ) -> None:
        """Let `move` happen once, before the nth call with such arguments."""
        real, calls = getattr(owner, name), 0

        def moved(*args: object, **kwargs: object) -> object:
            nonlocal calls
            if not self.has_moved and when(*args, **kwargs):
                calls += 1
                if calls == nth:
                    self.has_moved = True
                    move()
            return real(*args, **kwargs)

        self._patch.setattr(owner, name, moved)


@pytest.fixture
def other(monkeypatch: pytest.MonkeyPatch) -> Iterator[Other]:
    """Somebody who has made a move when the test is over."""
    one = Other(monkeypatch)
    yield one
    assert one.has_moved


def of(*parts: str) -> Callable[..., bool]:
    """Return whether a call's first argument names all of these."""
    return lambda path, *_, **__: all(part in str(path) for part in parts)


class TestCheck:
    def test_a_decision_is_published_while_the_others_are_listed(
        self, tmp_path: Path, other: Other
    ) -> None:
        run_dir = a_run(tmp_path)
        decide(run_dir, "resume")
        other.moves(lambda: decide(run_dir, "pause"), os, "scandir", of("/control"), nth=2)

        assert check_run(run_dir) == []

    def test_records_of_odd_names_are_a_gap(self, tmp_path: Path) -> None:
        run_dir = a_run(tmp_path)
        decide(run_dir, "resume")
        control = run_dir / "control"
        (control / "0000.json").write_bytes((control / "0001.json").read_bytes())

        assert {each.invariant for each in check_run(run_dir)} == {"INV-7"}


def test_a_result_is_filed_to_where_it_was_looked_for_first(tmp_path: Path, other: Other) -> None:
    run_dir = a_run(tmp_path, k=2)
    execute(run_dir, attempt=1)
    other.moves(lambda: execute(run_dir, attempt=2), disk, "find")

    (task,) = scan.heads(run_dir, run_info.load(run_dir))

    assert None not in task.heads


@pytest.fixture
def retried(tmp_path: Path) -> Path:
    """A run of one task with two attempts: one is published, after a try that was discarded."""
    run_dir = a_run(tmp_path, k=2)
    view = begin(run_dir)
    result = a_result(token=view.token)
    meta = AttemptMeta(harness={"telemetry": {"cost_usd": 5.0}})
    paid = result.model_copy(update={"meta": meta})
    attempts.keep_retry(view, 1, paid)
    publish(run_dir, view, paid)
    return run_dir


@pytest.mark.parametrize(
    ("name", "what"),
    [("is_directory", "running"), ("directories", "/retries"), ("names", "retry-1")],
)
class TestDiscardedTries:
    """The task is filed while what it holds besides its results is looked at."""

    def test_a_report_counts_what_they_cost(
        self, retried: Path, other: Other, name: str, what: str
    ) -> None:
        other.moves(lambda: execute(retried, attempt=2), disk, name, of(what, "attempt-1"))

        made = read(retried)

        assert not made.is_over
        assert "10.0" in made.text

    def test_an_account_knows_what_they_cost(
        self, retried: Path, other: Other, name: str, what: str
    ) -> None:
        account = Account(retried, run_info.load(retried))
        found = scan.scan(retried)
        other.moves(lambda: execute(retried, attempt=2), disk, name, of(what, "attempt-1"))

        assert account.spent(found, T0).cost_usd == 10.0


def test_a_partial_report_that_cannot_be_made_ends_no_watching(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = opened(a_run(tmp_path))
    decide(run.address.run_dir, "pause")

    def gone(_run_dir: Path) -> None:
        raise FileNotFoundError("details")

    monkeypatch.setattr(watch, "report", gone)
    watch._report_if_stopped(run)

    assert "no partial report: details" in capsys.readouterr().err
