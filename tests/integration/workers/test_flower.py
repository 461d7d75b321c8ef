"""Flower finds every attempt by name, and nobody finds the broker's password."""

from __future__ import annotations

import base64
import json
import sys
import urllib.error
import urllib.request

import pytest

from tests.support.broker import free_port
from tests.support.cluster import PATIENCE_S
from tests.support.worker_lab import WorkerLab, ledger, until

pytestmark = pytest.mark.integration
CANARY = "canary-4711"


@pytest.fixture
def flower(lab: WorkerLab) -> str:
    lab.broker.protect(CANARY)
    lab.reconnect()
    port = free_port()
    argv = [sys.executable, "-m", "tests.support.stub_flower", str(port)]
    lab.start(argv, "flower", {"FLOWER_BASIC_AUTH": "user:pass"})
    address = f"http://127.0.0.1:{port}"
    until(lambda: "OK" in fetch(f"{address}/healthcheck"), PATIENCE_S)
    until(
        lambda: lab.broker.client.pubsub_numpat(), PATIENCE_S
    )  # what it did not hear, it never shows
    return address


def fetch(url: str, user: str = "user:pass", method: str = "GET") -> str:
    request = urllib.request.Request(url, method=method)
    request.add_header("Authorization", "Basic " + base64.b64encode(user.encode()).decode())
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            return str(answer.read().decode())
    except urllib.error.HTTPError as error:
        return f"HTTP {error.code}"
    except OSError as error:
        return f"nobody there: {error}"


def test_every_attempt_is_found_by_run_task_and_number(lab: WorkerLab, flower: str) -> None:
    def tasks() -> list[dict[str, str]]:
        found = json.loads(fetch(f"{flower}/api/tasks")).values()
        return [task for task in found if task["name"] == "eval.attempt"]

    run = lab.run(3, s2={"seconds": 600})
    lab.dispatch(run, 3)
    waiting = ["PENDING"] * 3  # nobody serves yet
    until(lambda: [task["state"] for task in tasks()] == waiting, PATIENCE_S)

    lab.worker(slots=2, AGENTCOMPASS_LEASE_S="60", AGENTCOMPASS_VISIBILITY_S="60")
    lab.finalizer()

    seen = ["STARTED", "SUCCESS", "SUCCESS"]
    until(lambda: sorted(task["state"] for task in tasks()) == seen, PATIENCE_S)
    assert {task["uuid"].split("-")[0] for task in tasks()} == {"run"}
    assert sorted(task["args"] for task in tasks()) == [f"task-{n} attempt 1/1" for n in range(3)]
    assert {task["kwargs"] for task in tasks()} == {"run=run-1 model=model"}


def test_the_password_is_nowhere_and_the_host_is(lab: WorkerLab, flower: str) -> None:
    run = lab.run(1)
    lab.dispatch(run, 1)
    worker = lab.worker()
    lab.finalizer()
    until(lambda: ledger(run, "finalize"), PATIENCE_S)
    name = "attempts-1@lab"
    until(lambda: name in fetch(f"{flower}/api/workers?refresh=1"), PATIENCE_S)

    pages = ["/", "/tasks", "/broker", f"/worker/{name}", "/api/workers?refresh=1", "/api/tasks"]
    seen = {page: fetch(flower + page) for page in pages}
    lab.broker.kill()
    until(lambda: "Connection refused" in lab.log(), PATIENCE_S)

    assert [page for page, text in seen.items() if CANARY in text] == []
    assert CANARY not in lab.log()
    assert "127.0.0.1" in seen["/api/workers?refresh=1"]
    assert worker.poll() is None


def test_it_wants_a_password_and_lets_nobody_revoke(lab: WorkerLab, flower: str) -> None:
    assert fetch(f"{flower}/api/tasks", user="user:wrong") == "HTTP 401"
    assert fetch(f"{flower}/api/task/revoke/some-id", method="POST") == "HTTP 403"
