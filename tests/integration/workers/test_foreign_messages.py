"""Messages that are not ours are refused without a trace of what was in them."""

from __future__ import annotations

import base64
import json

import pytest

from tests.support.worker_lab import WorkerLab, ledger, until
from workers.broker.lanes import lanes_of
from workers.broker.signing import Signer
from workers.broker.wire import Envelope
from workers.dispatch import RedisQueue

pytestmark = pytest.mark.integration
CANARY = "canary-4711"


def strange_messages() -> list[str]:
    attempt = Envelope("eval.attempt", "id-1", ("../etc", CANARY, 1, 0, 1), "default.lane0", CANARY)
    other = Envelope("other.task", "id-2", (CANARY,), "default.lane0", CANARY)
    large = Envelope("eval.attempt", "id-3", (CANARY * 1_000,), "default.lane0", "")
    pickled = json.loads(other.encode()) | {"content-type": "application/x-python-serialize"}
    bare = json.loads(other.encode()) | {"headers": {}, "body": base64.b64encode(b"[1]").decode()}
    extra = json.loads(attempt.encode())
    extra["body"] = base64.b64encode(json.dumps([[], {CANARY: 1}, {}]).encode()).decode()
    broken = json.loads(attempt.encode()) | {"body": base64.b64encode(CANARY.encode()).decode()}
    messages = [json.dumps(each) for each in (pickled, bare, extra, broken)]
    return [attempt.encode(), other.encode(), large.encode(), *messages]


def test_strange_messages_are_refused_without_content_and_end_nothing(lab: WorkerLab) -> None:
    run = lab.run(1)
    worker = lab.worker()
    until(lambda: "ready" in lab.log())

    for message in [*strange_messages(), CANARY, "[]", "\xff"]:
        lab.broker.client.lpush("default.lane0", message)
    lab.dispatch(run, 1)

    until(lambda: ledger(run, "end"))
    until(lambda: not lab.broker.client.exists("unacked", *lanes_of("default")))
    assert lab.log().count("refused") >= 6
    assert CANARY not in lab.log()
    assert worker.poll() is None


def misshapen() -> list[object]:
    """Return JSON that is nearly a message: each lacks something, or has something else there."""
    whole = json.loads(Envelope("other.task", "id", (CANARY,), "default.lane0", CANARY).encode())
    parts = [{name: whole[name] for name in whole if name != left_out} for left_out in whole]
    wrong: list[object] = [None, 5, "x", [CANARY], {}, {CANARY: CANARY}]
    exchanged = [{**whole, name: value} for name in whole for value in wrong]
    properties = [
        {**whole, "properties": {**whole["properties"], name: value}}
        for name in whole["properties"]
        for value in wrong
    ]
    headers = [
        {**whole, "headers": {**whole["headers"], "task": "eval.attempt", name: value}}
        for name in whole["headers"]
        for value in wrong
    ]
    return [{}, {CANARY: 1}, None, 7, *parts, *exchanged, *properties, *headers]


def test_what_is_nearly_a_message_costs_neither_connection_nor_worker(lab: WorkerLab) -> None:
    run = lab.run(1)
    worker = lab.worker()
    until(lambda: "ready" in lab.log())

    for each in misshapen():
        lab.broker.client.lpush("default.lane0", json.dumps(each))
    lab.dispatch(run, 1)

    until(lambda: ledger(run, "end"), 60)
    until(lambda: not lab.broker.client.exists("unacked", *lanes_of("default")), 60)
    assert CANARY not in lab.log()
    assert "onnection" not in lab.log()
    assert "Traceback" not in lab.log()
    assert worker.poll() is None


def test_a_worker_with_a_key_obeys_its_own_coordinator_only(lab: WorkerLab) -> None:
    signer, run, other = Signer("a key of this cluster"), lab.run(2), lab.run(1, "run-2")
    lab.worker(AGENTCOMPASS_MESSAGE_KEY="a key of this cluster")
    lab.worker(role="finalizers", AGENTCOMPASS_MESSAGE_KEY="a key of this cluster")
    lab.dispatch(other, 1)

    until(lambda: "has signed it" in lab.log())
    lab.queue.close()
    lab.queue = RedisQueue(lab.broker.url, signer)
    lab.dispatch(run, 2)

    until(lambda: ledger(run, "finalize 2"))
    assert ledger(other) == []
    assert "a key of this" not in lab.log()
