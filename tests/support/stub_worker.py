"""`python -m tests.support.stub_worker OPTIONS`: a real worker process whose attempts are scripted.

Everything but the life of an attempt is the real thing: Celery, leases, keeper, parking. What an
attempt does stands in `<results>/<run>/script.json`; what was done is appended to `ledger`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Any

from agentcompass.models.message import AttemptMessage, FinalizeMessage
from agentcompass.runtime.ports import (
    Delivered,
    Done,
    Execution,
    HandBack,
    LeaseHeld,
    LeaseKey,
    Park,
    Stale,
)
from tests.support.tree import paths_in
from workers import tasks
from workers.broker.holdings import holds_anything
from workers.broker.parking import Parking
from workers.keeping.processes import LABEL, kill_labelled
from workers.serving.celery_worker import Bench, main


def note(run_dir: Path, *words: object) -> None:
    with run_dir.joinpath("ledger").open("a") as file:
        file.write(" ".join(map(str, words)) + "\n")


def results(run_dir: Path) -> int:
    return len(paths_in(run_dir, "result-*"))


def after_stop(execution: Execution) -> Delivered:
    match execution.stop.reason:
        case "handed_back":
            return HandBack("handed_back")
        case "lease_lost":
            return Park(1.0, "lease_lost")
        case _:
            return Stale("cancelled")


class Scripted:
    """Delivers and finalizes as the runtime does, with attempts that follow a script."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.root = bench.options.results_path

    def deliver(self, message: AttemptMessage) -> Delivered:
        run_dir = self.root / message.run
        if not run_dir.is_dir():
            return HandBack("run_not_visible", "no such run here", stops_consuming=True)
        key = LeaseKey(message.root, message.run, message.offset, message.attempt)
        token = uuid.uuid4().hex
        held = self.bench.leases.take(key, token, worker=self.bench.worker)
        if isinstance(held, LeaseHeld):
            note(run_dir, "held", message.offset)
            return Park(held.remaining_s)
        try:
            return self._with_lease(message, run_dir, key, token)
        finally:
            self.bench.leases.release(key, token)

    def _with_lease(
        self, message: AttemptMessage, run_dir: Path, key: LeaseKey, token: str
    ) -> Delivered:
        result = run_dir / f"result-{message.offset}-{message.attempt}"
        if result.exists():
            return Done("was_published")
        if paths_in(run_dir, "killed-*.json"):
            result.write_text("killed")
            return Done()
        execution = Execution(
            key, token, f"task-{message.offset}", message.leg, run_dir, run_dir, os.getpid()
        )
        note(run_dir, "start", message.offset, os.getpid(), self.bench.worker, time.time())
        with self.bench.keeper.watch(execution) as watch:
            step = json.loads(run_dir.joinpath("script.json").read_text())
            own = step.get(str(message.offset), {})
            watch.until(time.monotonic() + float(own.get("deadline", 1e9)), "run_timeout")
            stopped = self._act(own, run_dir, message, execution)
            kill_labelled([token])  # as environments do when they close
        if stopped is not None:
            note(run_dir, "stopped", message.offset, execution.stop.reason)
            return stopped
        result.write_text(token)
        note(run_dir, "end", message.offset)
        return Done()

    def _act(
        self, own: dict[str, Any], run_dir: Path, message: AttemptMessage, execution: Execution
    ) -> Delivered | None:
        is_first = (run_dir / "ledger").read_text().count(f"start {message.offset} ") == 1
        match own.get("do") if is_first or own.get("always") else None:
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "memory":
                raise MemoryError
            case "exit":
                raise SystemExit(3)
            case "child":
                env = os.environ | {LABEL: execution.token}
                child = subprocess.Popen(["sleep", "600"], env=env, start_new_session=True)
                note(run_dir, "child", child.pid)
            case _:
                pass
        seconds = float(own.get("seconds", 0))
        awaited = run_dir / own["until"] if "until" in own else None
        while not execution.stop.wait(seconds):
            if awaited is None or awaited.exists():
                return None
            seconds = 0.05
        return after_stop(execution)

    def finalize(self, message: FinalizeMessage) -> tasks.Complete | tasks.NotYet:
        run_dir = self.root / message.run
        wanted = json.loads(run_dir.joinpath("script.json").read_text())["count"]
        note(run_dir, "finalize", results(run_dir))
        if results(run_dir) < wanted:
            return tasks.NotYet(f"{results(run_dir)} of {wanted}")
        return tasks.Complete()


def scripted_parts(bench: Bench) -> tasks.Parts:
    scripted = Scripted(bench)
    return tasks.Parts(
        deliver=scripted.deliver,
        finalize=scripted.finalize,
        is_held=lambda keys: holds_anything(bench.client, keys),
        parking=Parking(bench.client),
        refuse=bench.refusal.refuse,
        signer=bench.signer,
    )


if __name__ == "__main__":
    main(sys.argv[1], scripted_parts)
