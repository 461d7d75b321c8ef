"""Everything of ours that reads bytes which others wrote, and what it may raise about them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from celery.exceptions import Reject

from agentcompass.benchmarks.jsonl import JsonlBenchmark, JsonlParams
from agentcompass.coordinator.asking.request_file import read_request_file
from agentcompass.coordinator.asking.validation import request_of
from agentcompass.coordinator.launching.suite import read_suite
from agentcompass.errors import AgentCompassError
from agentcompass.llm.anthropic_messages import read_message
from agentcompass.llm.base import CallFailed, Reply
from agentcompass.llm.openai_responses import read_response
from agentcompass.llm.replies import read_reply
from agentcompass.runtime.values.forms import forms_of, secret_parts
from agentcompass.runtime.values.references import in_place
from agentcompass.store import (
    attempts,
    control,
    launches,
    layout,
    marks,
    report,
    results,
    run_info,
    scan,
    tasks,
)
from agentcompass.store.check import check_run
from agentcompass.store.foreign.run import foreign_heads, open_foreign
from tests.support import golden_runs as theirs
from tests.support.store_runs import a_checkpoint, a_run, begin, decide, publish
from tests.support.tree import paths_in
from workers import tasks as worker_tasks

CORPUS: Final = Path(__file__).parents[1] / "corpus"
Reader = Callable[[Path, bytes], object]
"""A sealed run with a published result, and what a file of it holds instead."""


def _request_file(suffix: str) -> Reader:
    def read(run_dir: Path, data: bytes) -> object:
        path = run_dir / f"request{suffix}"
        path.write_bytes(data)
        return request_of(read_request_file(path), where="a file")

    return read


def _of_attempt(name: str, load: Callable[[Path], object]) -> Reader:
    def read(run_dir: Path, data: bytes) -> object:
        path = paths_in(run_dir, f"details/*/*/attempt-1/{name}")[0]
        path.write_bytes(data)
        return load(path)

    return read


def _of_run(name: str, load: Callable[[Path], object]) -> Reader:
    def read(run_dir: Path, data: bytes) -> object:
        (run_dir / name).write_bytes(data)
        return load(run_dir)

    return read


def _task_line(run_dir: Path, data: bytes) -> object:
    (run_dir / layout.TASKS).write_bytes(data)
    return [tasks.read_at(run_dir, entry.offset) for entry in tasks.entries(run_dir)]


def _foreign(run_dir: Path, data: bytes) -> object:
    (run_dir / layout.RUN_INFO).write_bytes(data)
    return list(foreign_heads(open_foreign(run_dir)))


def _foreign_part(name: str, schema: str) -> Reader:
    """Read one file of another writer's run; the rest of it is good."""

    def read(run_dir: Path, data: bytes) -> object:
        other = run_dir / "theirs"
        theirs.their_run_info(other, "a", schema=schema)
        if name.startswith("a--"):
            theirs.their_task(other / "details", "a", theirs.their_result(correct=True))
        path = next(iter(paths_in(other, f"details/{name}")), other / "details" / name)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
        return list(foreign_heads(open_foreign(other)))

    return read


def _launch(run_dir: Path, data: bytes) -> object:
    path = launches.path_of(run_dir.parents[1], "20260102_030405")
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    return launches.load(path)


def _suite(run_dir: Path, data: bytes) -> object:
    path = run_dir / "suite.yaml"
    path.write_bytes(data)
    return read_suite(path, {}, environ={}, base=run_dir)


def _questions(run_dir: Path, data: bytes) -> object:
    path = run_dir / "questions.jsonl"
    path.write_bytes(data)
    return list(JsonlBenchmark(JsonlParams(path=str(path))).load_tasks())


def _reply(read: Callable[[bytes], Reply]) -> Reader:
    def reader(_run_dir: Path, data: bytes) -> object:
        with suppress(CallFailed):
            return read(data)
        return None

    return reader


def _message(_run_dir: Path, data: bytes) -> object:
    args: list[Any] = data.decode("utf-8", "surrogateescape").split("\n")
    args = [
        int(each) if each.isdecimal() and each.isascii() and len(each) < 9 else each
        for each in args
    ]
    with suppress(Reject):
        worker_tasks._attempt_message(args, {})
    with suppress(Reject):
        worker_tasks._finalize_message(args[:3], {})
    return None


def _secret(_run_dir: Path, data: bytes) -> object:
    # As Python reads an environment.
    value, _, text = data.decode("utf-8", "surrogateescape").partition("\n")
    pairs = tuple((f"K{n}", part) for n, part in enumerate(secret_parts(value)))
    in_place(text, lambda name: name)
    return forms_of(pairs).find(text)


def _marks(path: Path) -> object:
    folder = path.parent
    return marks.read(str(folder), [each.name for each in folder.iterdir()])


READERS: Final[Mapping[str, Reader]] = {
    "result": _of_attempt("result.json", results.load_result),
    "outcome": _of_attempt("result.json", results.load_outcome),
    "head": _of_attempt("result.json", results.load_without_trajectory),
    "checkpoint": _of_attempt(
        "checkpoint.json", lambda path: attempts.load_checkpoint(path.parent)
    ),
    "mark": _of_attempt("started-*.json", _marks),
    "run_info": _of_run(layout.RUN_INFO, run_info.load),
    "scan": _of_run(layout.RUN_INFO, lambda run_dir: scan.scan(run_dir, control.legs(run_dir))),
    "tasks": _task_line,
    "legs": _of_run("control/0001.json", control.legs),
    "metrics": _of_run(layout.METRICS, report.load_report),
    "check": _of_attempt("result.json", lambda path: check_run(path.parents[4])),
    "foreign": _foreign,
    "foreign_task": _foreign_part("a--*/task.json", "agentcompass.run_info.v2"),
    "foreign_result": _foreign_part("a--*/attempt-1/result.json", "agentcompass.run_info.v2"),
    "oldest_detail": _foreign_part("a.json", "agentcompass.run_info.v1"),
    "launch": _launch,
    "suite": _suite,
    "questions": _questions,
    "chat_reply": _reply(read_reply),
    "responses_reply": _reply(read_response),
    "anthropic_reply": _reply(read_message),
    "yaml": _request_file(".yaml"),
    "toml": _request_file(".toml"),
    "json": _request_file(".json"),
    "message": _message,
    "secret": _secret,
}


def template(folder: Path) -> Path:
    """Return a sealed run with one finished attempt of two, a checkpoint and a control record."""
    run_dir = a_run(folder, "task-1", "task-2")
    view = begin(run_dir)
    begin(run_dir, token="u" * 16)
    attempts.write_snapshot(view, a_checkpoint(view))
    publish(run_dir, view)
    decide(run_dir, "resume")
    return run_dir


def seed(name: str, run_dir: Path) -> bytes:
    """Return good bytes for a reader, from the template."""
    patterns = {
        "result": "result.json", "outcome": "result.json", "head": "result.json",
        "check": "result.json", "checkpoint": "checkpoint.json", "mark": "started-u*.json",
        "run_info": "run_info.json", "scan": "run_info.json", "foreign": "run_info.json",
        "tasks": "tasks.jsonl", "legs": "0001.json", "metrics": "metrics.json",
    }  # fmt: skip
    found = next(iter(paths_in(run_dir, f"**/{patterns.get(name, 'nothing')}")), None)
    plain: Mapping[str, bytes] = {
        "yaml": b"benchmark: {id: humaneval, params: {a: [1, 2.5, null]}}\nmodel: gpt\n",
        "toml": b'[benchmark]\nid = "humaneval"\n[model]\nid = "m"\nheaders = {a = "b"}\n',
        "json": b'{"benchmark": "humaneval", "model": {"id": "m", "api_key": {"env": "KEY"}}}',
        "message": b"space/run-1\nabababab\n1\n0\n1",
        "foreign_task": b'{"schema_version":"agentcompass.task.v3","task_id":"a","category":"x",'
        b'"attempts":{"1":"attempt-1"},"attempt_plan":{"k":1,"strategy":"avg"}}',
        "foreign_result": json.dumps(theirs.their_result(correct=True)).encode(),
        "oldest_detail": b'{"task_id":"a","category":null,"k":2,"attempts_tried":2,'
        b'"attempts":{"1":{"correct":true},"2":{"error":"boom"}}}',
        "launch": b'{"schema_version":"agentcompass.launch.v1","launch_id":"20260102_030405",'
        b'"name":"n","status":"running","started_at":"2026-01-02T03:04:05+00:00","requests":[{"name":'
        b'"one","run":"one/20260102_030405","state":"running","request":{"benchmark":{"id":"b"}}}]}',
        "suite": b"version: 1\nname: n\ndefaults: {model: m, harness: h}\n"
        b"requests: [{name: a, benchmark: {id: b, params: {x: 1}}, output: {run_id: r}}]\n",
        "questions": b'{"id":"a","prompt":"p","answer":"x","category":"c","choices":["x","y"]}\n',
        "chat_reply": b'{"model":"m","choices":[{"finish_reason":"stop","message":{"content":[{"type":'
        b'"text","text":"a"}],"tool_calls":[{"id":"1","function":{"name":"f","arguments":"{}"}}]}}],'
        b'"usage":{"prompt_tokens":1,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":1}}}',
        "responses_reply": b'{"model":"m","status":"completed","output":[{"type":"message","content":'
        b'[{"type":"output_text","text":"a"}]},{"type":"function_call","name":"f","arguments":"{}",'
        b'"call_id":"1"}],"usage":{"input_tokens":1,"output_tokens":2}}',
        "anthropic_reply": b'{"model":"m","stop_reason":"end_turn","content":[{"type":"text","text":"a"},'
        b'{"type":"tool_use","id":"1","name":"f","input":{}}],"usage":{"input_tokens":1,"output_tokens":2}}',
        "secret": b'https://me:pass@host/?token=abc\n{"a": "${KEY}", "b": "pass\\n"}',
        "metrics": b'{"schema_version":"agentcompass.metric_report.v1","k":1,"series":[]}',
    }
    return found.read_bytes() if found else plain.get(name, b"")


def attempt(reader: Reader, run_dir: Path, data: bytes) -> None:
    """Let a reader read; only our own errors and those of the file system are allowed."""
    with suppress(AgentCompassError, FileNotFoundError):
        reader(run_dir, data)
