"""Field reports S03, S13, S14: the mask never takes the place of a secret, nor of what is none."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from demo.scripted_server import Answer, Call
from tests.support.cluster import Cluster, Said
from tests.support.scripted_server import InOrder, ScriptedServer
from tests.support.tree import files_in, paths_in

pytestmark = pytest.mark.integration

FIRST: Final = "sk-first-4f1d0c9b8a7e6f5d"
SECOND: Final = "sk-second-71c20e9a5b3d8f46"
CONTENT: Final = "password=swordfish; token: abc; api_key: missing; https://u:p@host/?api_key=x"
SETTINGS: Final = {
    "max_tokens": 4096,
    "eos_token": "</s>",
    "num_key_value_heads": 8,
    "key_points": ["a"],
    "author": "me",
    "password_policy_enabled": True,
}


def ask(cluster: Cluster, server: ScriptedServer, **model: object) -> Said:
    """Run one question against the server, with settings of the model in the request file."""
    question = {"id": "q", "prompt": f"Say: {CONTENT}", "answer": CONTENT}
    (cluster.directory / "q.jsonl").write_text(json.dumps(question) + "\n")
    file = cluster.directory / "request.json"
    file.write_text(
        json.dumps(
            {
                "benchmark": {"id": "jsonl", "params": {"path": "q.jsonl"}},
                "harness": "openai_chat",
                "model": {"id": "m", "base_url": server.base_url, **model},
            }
        )
    )
    return cluster.call("run", "--config", str(file), "--results-dir", str(cluster.results))


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(InOrder(Answer("no", status=401), Answer(CONTENT))) as server:
        yield server


def keys_of(calls: Sequence[Call]) -> list[str]:
    return [call.headers.get("authorization", "") for call in calls]


def test_s03_resume_takes_the_live_key_and_without_one_sends_nothing(
    cluster: Cluster, server: ScriptedServer
) -> None:
    first = ask(cluster, server, api_key=FIRST)
    (cluster.directory / "request.json").unlink()
    again = ("resume", str(cluster.the_run()), "--rerun", "errored")

    absent = cluster.call(*again)
    calls = len(server.traffic.calls)
    present = cluster.call(*again, env={"AGENTCOMPASS_MODEL_API_KEY": SECOND})

    assert (first.code, absent.code, present.code) == (1, 2, 0), f"{first}{absent}{present}"
    assert "not set: AGENTCOMPASS_MODEL_API_KEY" in absent.err
    assert calls == 1
    assert keys_of(server.traffic.calls) == [f"Bearer {FIRST}", f"Bearer {SECOND}"]
    written = files_in(cluster.directory).values()
    assert not [data for data in written if FIRST[3:15].encode() in data]
    assert not [data for data in written if SECOND[3:15].encode() in data]


def test_s13_s14_what_is_no_secret_reaches_the_model_and_the_disk_as_it_was_written(
    cluster: Cluster,
) -> None:
    with ScriptedServer(InOrder(Answer(CONTENT))) as server:
        said = ask(cluster, server, params=SETTINGS)

    assert said.code == 0, said
    (call,) = server.traffic.calls
    assert call.prompt == f"Say: {CONTENT}"
    assert SETTINGS.items() <= dict(call.body).items()
    info = read(cluster.the_run() / "run_info.json")
    assert info["request"]["model"]["params"] == SETTINGS
    (path,) = paths_in(cluster.the_run(), "**/result.json")
    result = read(path)
    assert result["final_answer"] == CONTENT
    assert result["metrics"] == {"correct": True}
    assert result["issues"] == []
    assert result["trajectory"]["steps"][0]["assistant_content"]["content"] == CONTENT
    assert read(path.parents[1] / "task.json")["ground_truth"] == CONTENT
    assert CONTENT in json.loads((cluster.the_run() / "tasks.jsonl").read_text())["question"]


def read(path: Path) -> Any:
    return json.loads(path.read_bytes())
