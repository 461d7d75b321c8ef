from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from celery import Celery

from agentcompass.coordinator.ports import PendingAttempt, RunAddress
from agentcompass.models.message import MAX_RUN_REF_BYTES
from agentcompass.store.root import ResultsRoot
from workers.broker.keys import RunKeys
from workers.broker.wire import Envelope, envelope_of_signature, signature_of
from workers.dispatch import callback_of, headers

ROOT = ResultsRoot(Path("/results"), "ab" * 16)


def an_address(ref: str = "bench/run-1", *, k: int = 3) -> RunAddress:
    return RunAddress(ROOT, ref, Path("/results") / ref, "default", k, "model")


def header(address: RunAddress, task_id: str = "task/1", attempt: int = 2) -> Envelope:
    pending = [PendingAttempt(731, attempt, task_id)]
    return next(headers(address, 1, pending, "default.lane0"))


def body_of(raw: str) -> Any:
    return json.loads(base64.b64decode(json.loads(raw)["body"]))


def from_celery(envelope: Envelope) -> dict[str, Any]:
    """What Celery and kombu put on the list for the same message."""
    put: list[dict[str, Any]] = []
    app = Celery(broker="memory://", set_as_current=False)
    with app.connection() as connection:
        channel: Any = connection.default_channel
        channel._put = lambda queue, message, **_: put.append(message)
        app.send_task(
            envelope.task,
            envelope.args,
            task_id=envelope.message_id,
            queue=envelope.queue,
            group_id=envelope.group,
            group_index=0,
            chord=dict(envelope.chord or {}),
            argsrepr=envelope.shown,
            kwargsrepr=envelope.shown_more,
            ignore_result=True,
            root_id=envelope.group,
            producer=app.amqp.Producer(channel),
        )
    return put[0]


def test_a_header_is_what_celery_itself_would_send() -> None:
    envelope = header(an_address())
    ours, theirs = json.loads(envelope.encode()), from_celery(envelope)

    own = {"compass", "origin"}
    assert {k: v for k, v in ours["headers"].items() if k not in own}.items() <= theirs[
        "headers"
    ].items()
    assert ours["properties"].keys() <= theirs["properties"].keys() | {"delivery_tag"}
    assert ours["properties"]["delivery_info"] == theirs["properties"]["delivery_info"]
    assert ours["properties"]["body_encoding"] == theirs["properties"]["body_encoding"]
    assert (ours["content-type"], ours["content-encoding"]) == (
        theirs["content-type"],
        theirs["content-encoding"],
    )
    args, kwargs, embedded = json.loads(base64.b64decode(theirs["body"]))
    assert body_of(envelope.encode()) == [args, kwargs, {"chord": embedded["chord"]}]


def test_arguments_name_the_attempt_and_nothing_else() -> None:
    args, kwargs, embedded = body_of(header(an_address()).encode())

    assert (args, kwargs) == (["bench/run-1", "abababab", 1, 731, 2], {})
    assert embedded["chord"]["args"] == ["bench/run-1", "abababab", 1]
    assert embedded["chord"]["immutable"] is True


@pytest.mark.parametrize("letter", ["x", "é", "\U0001f600", '"'])
def test_the_largest_message_stays_small(letter: str) -> None:
    address = an_address("y" * MAX_RUN_REF_BYTES, k=10_000)
    address = RunAddress(ROOT, address.ref, address.run_dir, "q" * 32, 10_000, letter * 500)
    envelope = header(address, letter * 1_000, 10_000)

    assert len(json.dumps(body_of(envelope.encode())[0])) < 256
    assert len(envelope.encode().encode()) < 2_048


def test_every_encoding_has_a_delivery_tag_of_its_own() -> None:
    envelope = header(an_address())
    tags = {json.loads(envelope.encode())["properties"]["delivery_tag"] for _ in range(100)}

    assert len(tags) == 100


def test_ids_are_readable_deterministic_and_unique() -> None:
    one = header(an_address("model-a/run-1"), "HumanEval/7").message_id
    again = header(an_address("model-a/run-1"), "HumanEval/7").message_id
    other_run = header(an_address("model-b/run-1"), "HumanEval/7").message_id
    like_it = header(an_address("model-a/run-1"), "HumanEval_7").message_id

    assert one.startswith("run-1:HumanEval_7-")
    assert one.endswith(":a2:l1")
    assert one == again
    assert len({one, other_run, like_it}) == 3


def test_a_callback_survives_the_way_through_its_signature() -> None:
    callback = callback_of(RunKeys("abababab", "bench/run-1"), 2)
    back = envelope_of_signature(json.loads(json.dumps(signature_of(callback))))

    assert (back.task, list(back.args), back.queue) == (
        "eval.finalize",
        ["bench/run-1", "abababab", 2],
        "control",
    )
    assert back.message_id == callback.message_id
