from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from celery.worker import state
from redis.exceptions import ConnectionError as RedisIsAway

from agentcompass.errors import UsageError
from agentcompass.models.message import AttemptMessage, FinalizeMessage
from agentcompass.runtime.ports import Execution, HandBack, LeaseKey
from agentcompass.runtime.values.live import MaskingFormatter
from agentcompass.store.root import open_root
from workers.flower_main import FlowerOptions, flags, run_flower
from workers.keeping import processes, slips
from workers.keeping.heartbeat import Heartbeat
from workers.keeping.instance import open_instance
from workers.keeping.keeper import SlipKeeper
from workers.keeping.reaper import bury
from workers.mends.consumer import MAX_BODY_BYTES, StrictConsumer
from workers.mends.visibility import keep_visible
from workers.serving.logs import LineHandler
from workers.serving.options import ServeOptions
from workers.serving.refusal import REFUSED, Refusal
from workers.serving.supervisor import REFUSED as REFUSED_BY_NUMBER
from workers.tasks import Elsewhere, NotYet
from workers.wiring import RealParts

CANARY = "canary-4711"


def test_options_survive_the_way_to_another_process() -> None:
    options = ServeOptions("attempts", "w@h", "/results", "/base", ("default", "gpu"), "threads", 7)
    trusting = ServeOptions("finalizers", "w@h", "/r", "/b", trusted_roots=("/plugins",))

    assert ServeOptions.from_json(options.to_json()) == options
    assert ServeOptions.from_json(trusting.to_json()) == trusting
    assert (options.trusted_paths, trusting.trusted_paths) == (None, (Path("/plugins"),))


def test_a_line_is_written_at_once_and_masked(capfd: pytest.CaptureFixture[str]) -> None:
    handler = LineHandler()
    handler.setFormatter(MaskingFormatter("%(levelname)s %(message)s"))

    record = logging.LogRecord(
        "x", logging.INFO, "f", 1, "at redis://:%s@host \udce9", (CANARY,), None
    )
    handler.emit(record)
    handler.emit(logging.LogRecord("x", logging.INFO, "f", 1, "%d", ("no number",), None))

    assert capfd.readouterr().err == "INFO at redis://********@host \\udce9\n%d\n"


def test_a_supervisor_knows_the_refusal_of_its_workers() -> None:
    assert REFUSED == REFUSED_BY_NUMBER


def test_flower_may_look_and_not_touch() -> None:
    given = flags(FlowerOptions("redis://:canary@h", port=1234, database=Path("/db")))

    assert "--read_only=True" in given
    assert "--port=1234" in given
    assert "--db=/db" in given
    assert not any("canary" in flag for flag in given)


def test_flower_is_not_opened_to_the_network_without_a_password() -> None:
    for address in ("0.0.0.0", "::", "10.1.2.3", "monitor.example"):
        with pytest.raises(UsageError, match="without a password"):
            run_flower(FlowerOptions("redis://h", address=address), {})


class Message:
    def __init__(self, body: str = "") -> None:
        self.body = body
        self.is_rejected = False

    def reject_log_error(self, *_: object) -> None:
        self.is_rejected = True


@pytest.mark.parametrize("how", ["unknown_message", "unknown_task", "invalid_task", "decode_error"])
def test_a_strange_message_is_rejected_and_not_shown(
    how: str, caplog: pytest.LogCaptureFixture
) -> None:
    consumer = StrictConsumer.__new__(StrictConsumer)
    consumer.connection_errors = ()
    message = Message(CANARY)
    arguments = {
        "unknown_message": (CANARY, message),
        "unknown_task": (CANARY, message, KeyError(CANARY)),
        "invalid_task": (CANARY, message, ValueError(CANARY)),
        "decode_error": (message, ValueError(CANARY)),
    }

    getattr(consumer, f"on_{how}")(*arguments[how])

    assert message.is_rejected
    assert "message refused" in caplog.text
    assert CANARY not in caplog.text


def test_a_large_body_is_not_even_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    accepted: list[Any] = []
    above = "celery.worker.consumer.Consumer.create_task_handler"
    monkeypatch.setattr(above, lambda self: accepted.append)
    consumer = StrictConsumer.__new__(StrictConsumer)
    consumer.connection_errors = ()
    small, large = Message("x" * MAX_BODY_BYTES), Message("x" * (MAX_BODY_BYTES + 1))

    handler = consumer.create_task_handler()
    handler(small)
    handler(large)

    assert accepted == [small]
    assert (small.is_rejected, large.is_rejected) == (False, True)


class FakeRedis:
    def __init__(self) -> None:
        self.visible: dict[str, float] = {}

    def zadd(self, name: str, scores: dict[str, float], *, xx: bool) -> None:
        assert (name, xx) == ("unacked_index", True)
        self.visible |= scores

    def register_script(self, _text: str) -> Any:
        return lambda **_: 0


def test_what_is_not_acknowledged_stays_invisible_to_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def request(tag: str, *, acknowledged: bool) -> Any:
        return SimpleNamespace(acknowledged=acknowledged, message=SimpleNamespace(delivery_tag=tag))

    waiting, running = request("a", acknowledged=False), request("b", acknowledged=False)
    done = request("c", acknowledged=True)
    monkeypatch.setattr(state, "reserved_requests", [waiting, running, done])
    monkeypatch.setattr(state, "active_requests", [running])
    redis: Any = FakeRedis()

    assert keep_visible(redis, 5.0) == 2
    assert redis.visible == {"a": 5.0, "b": 5.0}


class FakeLeases:
    def __init__(self) -> None:
        self.released: list[str] = []
        self.found: dict[str, str] = {}
        self.is_away = False
        self.meanwhile: Callable[[], object] = lambda: None

    def extend(self, holdings: list[Any]) -> dict[str, str]:
        if self.is_away:
            raise RedisIsAway
        self.meanwhile()
        return {each.token: self.found.get(each.token, "kept") for each in holdings}

    def release_by_name(self, _lease: str, token: str) -> None:
        self.released.append(token)


@pytest.fixture
def leases() -> FakeLeases:
    return FakeLeases()


def beating(leases: Any, directory: Path, stopped: list[Any], left: list[str]) -> Heartbeat:
    redis: Any = FakeRedis()
    return Heartbeat(
        redis,
        leases,
        directory,
        7.5,
        stop=lambda slip, reason: stopped.append((slip.token, reason)),
        left_behind=left.append,
    )


def an_execution(token: str, pid: int) -> Execution:
    key = LeaseKey("ab" * 4, "run-1", 0, 1)
    return Execution(key, token, "task-1", 1, Path("/run"), Path("/run/a"), pid)


def test_an_execution_whose_lease_another_token_holds_is_stopped(
    tmp_path: Path, leases: FakeLeases
) -> None:
    stopped: list[Any] = []
    leases.found = {"mine": "lost"}

    with SlipKeeper(tmp_path, "w").watch(an_execution("mine", 1)):
        beating(leases, tmp_path, stopped, []).tick(0.0)

    assert stopped == [("mine", "lease_lost")]


@pytest.mark.parametrize(("found", "released"), [("claimed_again", ["mine"]), ("lost", [])])
def test_of_what_ends_between_look_and_beat_no_lease_is_kept(
    tmp_path: Path, leases: FakeLeases, found: str, released: list[str]
) -> None:
    stopped: list[Any] = []
    leases.found = {"mine": found}
    slip = slips.OpenSlip(tmp_path, SlipKeeper(tmp_path, "w")._slip_of(an_execution("mine", 1)))
    leases.meanwhile = slip.close

    beating(leases, tmp_path, stopped, []).tick(0.0)

    assert (leases.released, stopped) == (released, [])


def test_a_lease_that_redis_forgot_is_kept_while_its_execution_lives(
    tmp_path: Path, leases: FakeLeases
) -> None:
    leases.found = {"mine": "claimed_again"}

    with SlipKeeper(tmp_path, "w").watch(an_execution("mine", 1)):
        beating(leases, tmp_path, [], []).tick(0.0)

    assert leases.released == []


def test_an_execution_goes_on_while_redis_is_away(
    tmp_path: Path, leases: FakeLeases, caplog: pytest.LogCaptureFixture
) -> None:
    stopped: list[Any] = []
    leases.is_away = True
    heartbeat = beating(leases, tmp_path, stopped, [])

    with SlipKeeper(tmp_path, "w").watch(an_execution("mine", 1)):
        heartbeat.tick(0.0)
        heartbeat.tick(1.0)

    assert stopped == []
    assert caplog.text.count("does not answer") == 1


def test_a_dead_process_is_buried_before_the_next_heartbeat(
    tmp_path: Path, leases: FakeLeases, monkeypatch: pytest.MonkeyPatch
) -> None:
    left: list[str] = []
    ended: list[str] = []
    slips.OpenSlip(tmp_path, SlipKeeper(tmp_path, "w")._slip_of(an_execution("mine", 1)))
    slips.leave_stop(tmp_path, "mine", "cancelled")
    monkeypatch.setattr(processes, "is_running", lambda pid, began: False)
    monkeypatch.setattr(processes, "kill_labelled", ended.extend)

    beating(leases, tmp_path, [], left).tick(0.0)

    assert (ended, leases.released, left) == (["mine"], ["mine"], ["mine"])
    assert list(tmp_path.iterdir()) == []


def test_a_refusal_closes_the_consumer_before_the_message_goes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cancelled: list[str] = []
    queues = SimpleNamespace(consume_from={"default.lane0": 1, "default.lane1": 1})
    consumer = SimpleNamespace(
        app=SimpleNamespace(amqp=SimpleNamespace(queues=queues)),
        call_soon=lambda act: act(),
        cancel_task_queue=cancelled.append,
    )
    monkeypatch.setattr(state, "should_stop", None)
    instance = open_instance(tmp_path, "w")
    refusal = Refusal(instance)
    refusal.tick(0.0)
    refusal.consumer = consumer
    refusal.tick(0.0)
    assert cancelled == []

    instance.refuse("another folder")
    refusal.tick(0.0)
    refusal.tick(0.0)
    refusal.refuse("again")  # returns at once: it is closed already

    assert cancelled == ["default.lane0", "default.lane1"]
    assert state.should_stop == REFUSED
    assert caplog.text.count("another folder") == 1
    bury(instance)


def parts_in(results: Path, tmp_path: Path) -> RealParts:
    options = ServeOptions("attempts", "w@h", str(results), str(tmp_path))
    bench: Any = SimpleNamespace(
        options=options, worker="w@h", leases=None, keeper=None, secrets={}
    )
    bench.instance = SimpleNamespace(work=tmp_path, proven_root=lambda: "")
    return RealParts(bench, invisible_s=4.0, sleep=lambda _: None)


@pytest.mark.parametrize("exists", [True, False])
def test_a_worker_without_the_messages_folder_can_do_nothing(
    tmp_path: Path, *, exists: bool
) -> None:
    results = tmp_path / "results"
    if exists:
        open_root(results)
    parts = parts_in(results, tmp_path)

    back = parts.deliver(AttemptMessage(run="r", root="0" * 8, leg=1, offset=0, attempt=1))
    finalizer = parts.finalize(FinalizeMessage(run="r", root="0" * 8, leg=1))

    assert isinstance(back, HandBack)
    assert back.stops_consuming
    assert str(results) in back.message
    assert "\n" not in back.message
    assert finalizer == Elsewhere(), "other queues share its lane"


def test_a_folder_that_is_none_is_said_in_one_line(tmp_path: Path) -> None:
    (tmp_path / ".agentcompass-root").write_text("what is this?")

    parts = parts_in(tmp_path, tmp_path)

    back = parts.deliver(AttemptMessage(run="r", root="0" * 8, leg=1, offset=0, attempt=1))

    assert parts.finalize(FinalizeMessage(run="r", root="0" * 8, leg=1)) == Elsewhere()
    assert isinstance(back, HandBack)
    assert "\n" not in back.message


def test_a_run_that_is_not_there_yet_is_finalized_later(tmp_path: Path) -> None:
    root = open_root(tmp_path / "results")

    found = parts_in(root.path, tmp_path).finalize(
        FinalizeMessage(run="run-1", root=root.digest, leg=1)
    )

    assert found == NotYet("the run is not visible here")


def test_a_run_that_cannot_be_read_is_left_to_people(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    root = open_root(tmp_path / "results")
    (root.path / "run-1").mkdir()
    (root.path / "run-1" / "run_info.json").write_text("{")

    found = parts_in(root.path, tmp_path).finalize(
        FinalizeMessage(run="run-1", root=root.digest, leg=1)
    )

    assert found == NotYet("it cannot be finalized")
    assert "run-1 cannot be finalized" in caplog.text
