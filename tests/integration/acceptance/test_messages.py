"""What travels is small, and no secret travels: not to Redis, Flower, a log or the run directory."""

from __future__ import annotations

import base64
import json
import pickle
from pathlib import Path
from typing import Final

import pytest

from demo.scripted_server import Answer
from tests.integration.acceptance.conftest import KEY, LONG_ID, PASSWORD, Watched, arguments_of
from tests.support.cluster import Cluster
from tests.support.laboratory import Laboratory
from tests.support.scripted_server import InOrder, ScriptedServer
from tests.support.tree import files_in, paths_in
from workers.broker.wire import Envelope

pytestmark = pytest.mark.integration

PART: Final = KEY[:12]
"""So much of a secret is as good as all of it."""


def test_our_arguments_are_short_and_so_is_the_message(watched: Watched) -> None:
    sizes = [len(json.dumps(arguments_of(message)).encode()) for message in watched.messages]
    refs = {len(arguments_of(message)[0].encode()) for message in watched.messages}

    assert len(LONG_ID) == 300
    assert len(watched.messages) == len(watched.wanted.tasks) * 2
    assert refs == {160}
    assert max(sizes) < 256
    assert max(len(message) for message in watched.messages) < 2048


def test_messages_are_breadth_first_and_carry_places_instead_of_tasks(watched: Watched) -> None:
    # The end of the list is taken first.
    numbers = [arguments_of(message)[4] for message in reversed(watched.messages)]

    assert numbers == sorted(numbers)
    assert not any(b"say " in message for message in watched.messages)


def test_the_key_was_there_to_be_leaked(watched: Watched) -> None:
    (raises,) = paths_in(watched.run_dir, "details/*/raises--*/attempt-1/result.json")
    (says,) = paths_in(watched.run_dir, "details/*/says--*/attempt-1/result.json")

    assert "Bearer ********" in json.loads(raises.read_bytes())["error"]
    assert json.loads(says.read_bytes())["final_answer"].startswith("my key is ********")
    assert "the key is ******** indeed" in watched.cluster.log_text()


def test_the_key_is_nowhere_in_redis_and_flower_at_any_time(watched: Watched) -> None:
    assert len(watched.seen) == 8
    assert min(map(len, watched.seen.values())) > 100
    assert [where for where, text in watched.seen.items() if PART in text] == []


def test_the_key_is_nowhere_in_logs_and_in_the_run_directory(watched: Watched) -> None:
    files = files_in(watched.cluster.directory)

    assert len(files) > 50
    assert watched.cluster.log_text().count("slots for default") == 2
    assert [str(path) for path, data in files.items() if PART.encode() in data] == []


def test_the_brokers_password_is_nowhere_but_in_redis_itself(watched: Watched) -> None:
    files = files_in(watched.cluster.results)

    assert [str(path) for path, data in files.items() if PASSWORD.encode() in data] == []
    assert PASSWORD not in watched.cluster.log_text()
    assert [where for where, text in watched.seen.items() if PASSWORD in text] == []


class Bomb:
    """Whoever unpickles it makes a file."""

    def __init__(self, crater: Path) -> None:
        self._crater = crater

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self._crater,)


def test_no_worker_opens_a_pickle_wherever_it_arrives(laboratory: Laboratory) -> None:
    client, crater = laboratory.cluster.broker.client, laboratory.cluster.directory / "crater"
    laboratory.run("before-the-bombs")
    bomb = pickle.dumps([[Bomb(crater)], {}, {}])
    pickle.loads(bomb)
    crater.unlink()  # it goes off
    whole = json.loads(Envelope("eval.attempt", "id", (), "default.lane0", "").encode())
    whole |= {"body": base64.b64encode(bomb).decode(), "content-encoding": "binary"}
    whole |= {"content-type": "application/x-python-serialize"}

    for name in ("control", "default.lane0"):
        client.lpush(name, json.dumps(whole))
    heard = client.publish("/0.celery.pidbox", json.dumps(whole))
    run = laboratory.run("after-the-bombs")

    assert heard, "workers listen to commands"
    assert run.said.code == 0, run.said
    assert laboratory.cluster.log_text().count("refused") >= 2
    assert not crater.exists()


def test_a_real_client_sends_the_key_to_its_endpoint_and_nowhere_else(cluster: Cluster) -> None:
    (cluster.directory / "q.jsonl").write_text('{"prompt": "2+2?", "answer": "4"}\n')
    with ScriptedServer(InOrder(Answer("no", status=401), Answer("4"))) as server:
        said = cluster.call(
            "run", "--benchmark", "jsonl", "--param", "benchmark.path=q.jsonl",
            "--harness", "openai_chat", "--model", "m", "--base-url", server.base_url,
            "--api-key-env", "CANARY_KEY", "--results-dir", str(cluster.results), "--verbose",
            env={"CANARY_KEY": KEY, "OPENAI_LOG": "debug"},
        )  # fmt: skip

    assert said.code == 1, said
    assert server.traffic.calls[0].headers["authorization"] == f"Bearer {KEY}"
    assert PART not in str(said)
    files = files_in(cluster.results)
    assert [str(path) for path, data in files.items() if PART.encode() in data] == []
