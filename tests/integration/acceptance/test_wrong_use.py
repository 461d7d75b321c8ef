"""Wrong use: at most five lines that say what, where and what to do, exit code 2, nothing reserved."""

from __future__ import annotations

import importlib
import json
import os
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from agentcompass.cli.main import main
from tests.support.cluster import REPOSITORY
from tests.support.modes import MODES_ARE_OBEYED, call_obediently
from tests.support.tree import tree_of

pytestmark = pytest.mark.integration

STUBS: Final = "tests.support.stubs"
PLUGINS: Final = "tests.integration.acceptance.plugins"
PASSWORD: Final = "hunter2-hunter2"
USUAL: Final = (
    *("--benchmark", f"{STUBS}:StubBenchmark", "--harness", f"{STUBS}:StubHarness"),
    *("--model", "m"),
)
TRUE_AND_ONE: Final = (True, 1)
QUESTION: Final = '{"id": "a", "prompt": "?", "answer": "!"}\n'
WRONG_K: Final = ("0", "-1", "1.5", "true", "1000000", "'3'", "null")
FILES: Final[Mapping[str, str | bytes]] = {
    **{f"k-{k}.yaml": f"execution: {{attempts: {{k: {k} }}}}" for k in WRONG_K},
    "not-utf8.yaml": b"model: \xff\xfe",
    "twice.yaml": "model: a\nmodel: b\n",
    "list.yaml": "- 1\n- 2\n",
    "typo.yaml": "execution: {atempts: {k: 2}}\n",
    "deep.json": "[" * 100_000,
    "deep.yaml": "[" * 3_000,
    "unclosed.toml": 'model = "a\n',
    "twins.jsonl": QUESTION + QUESTION,
    "number-and-text.jsonl": QUESTION.replace('"a"', "1") + QUESTION.replace('"a"', '"1"'),
    "padded.jsonl": QUESTION + QUESTION.replace('"a"', '" a"'),
    "null.jsonl": QUESTION.replace('"a"', "null"),
    "broken.jsonl": '{"id": "a", "prompt": \n',
    "binary.jsonl": b"\x00\xff\xfe",
    "syntax.py": "class Oops(:\n    pass\n",
    "raises.py": "raise RuntimeError('one\\ntwo\\nthree\\nfour\\nfive\\nsix\\nseven')\n",
    "exits.py": "import sys\nsys.exit(0)\n",
}


@dataclass(frozen=True)
class Case:
    """One mistake, and what the answer has to name."""

    name: str
    flags: Sequence[str]
    named: Sequence[str]
    """Regular expressions, each of which must be found in what is printed."""


def ids(*raw: object) -> Sequence[str]:
    return (
        *("--benchmark", f"{PLUGINS}:Ids", "--harness", f"{STUBS}:StubHarness"),
        *("--param", f"benchmark.ids={json.dumps(raw)}"),
    )


def jsonl(name: str) -> Sequence[str]:
    return (
        *("--benchmark", "jsonl", "--harness", "openai_chat", "--model", "m"),
        *("--param", f"benchmark.path={name}"),
    )


UNKNOWN = [
    Case("benchmark", ("--benchmark", "humanevall"), ["'humanevall'", "did you mean 'humaneval'"]),
    Case("harness", (*USUAL, "--harness", "openai-chat"), ["did you mean 'openai_chat'"]),
    Case("environment", (*USUAL, "--environment", "host"), ["did you mean 'host_process'"]),
    Case("strategy", (*USUAL, "--strategy", "avgg"), ["'avgg'", "did you mean 'avg'"]),
    Case("pool", (*USUAL, "--pool", "thread"), ["--pool", "'prefork' or 'threads'"]),
    Case("task id", (*USUAL, "--task-id", "t00"), ["'t00'", "did you mean 't0'"]),
    Case("parameter", (*USUAL, "--param", "benchmark.taks=[]"), ["did you mean benchmark.tasks"]),
    Case("component", (*USUAL, "--param", "bench.tasks=[]"), ["bench.tasks", "benchmark"]),
    Case("flag", (*USUAL, "--modle", "x"), ["--modle", "--model"]),
    Case("field", (*USUAL, "--config", "typo.yaml"), ["atempts", "did you mean 'attempts'"]),
    Case("module", ("--benchmark", "no.such:Thing", "--harness", "none"), ["no.such"]),
    Case("class", ("--benchmark", f"{STUBS}:StubBenchmrk"), ["StubBenchmrk", "not a benchmark"]),
    Case("another kind", ("--benchmark", f"{STUBS}:StubHarness"), ["not a benchmark"]),
    Case("plug-in file", ("--benchmark", "gone.py:Thing"), ["gone.py"]),
    Case("nothing at all", (), ["benchmark is missing"]),
    Case("no harness", ("--benchmark", "humaneval"), ["--harness"]),
    Case("needless harness", (*USUAL, "--benchmark", f"{STUBS}:HarnessFreeStub"), ["its own"]),
]
IDS = [
    Case("the same twice", ids("a", "b", "a"), ["'a'", "positions 1 and 3"]),
    Case("a number and its text", ids(1, "1"), ["is 1, not text", "position 1", "position 2"]),
    Case("a text and its number", ids("1", 1), ["is 1, not text", "position 2", "position 1"]),
    Case("true and one", ids(*TRUE_AND_ONE), ["True, not text", "position 1", "position 2"]),
    Case("none", ids(None), ["None, not text", "position 1"]),
    Case("empty", ids("a", ""), ["empty", "position 2"]),
    Case("two empty ones", ids("", "a", ""), ["empty", "position 1", "position 3"]),
    Case("only white space", ids("a", " "), ["padded|empty", "position 2"]),
    Case("padded", ids("a", "b "), ["'b '", "padded", "position 2"]),
    Case("padded twin", ids("a", "b", " a"), ["' a'", "padded", "position 3", "position 1"]),
    Case("a newline", ids("a\n"), ["padded", "position 1"]),
    Case("an object", ids({"a": 1}), ["not text", "position 1"]),
    Case(
        "equal after a filter",
        (*ids("x/a", "y/a"), "--param", "benchmark.drop_prefix=true"),
        ["'a'", "positions 1 and 2"],
    ),
    Case("lines of a file", jsonl("twins.jsonl"), ["'a'", "positions 1 and 2"]),
    Case("1 and '1' in a file", jsonl("number-and-text.jsonl"), ["'1'", "positions 1 and 2"]),
    Case("padded in a file", jsonl("padded.jsonl"), ["' a'", "padded", "line 2"]),
    Case("null in a file", jsonl("null.jsonl"), ["id", "line 1"]),
    Case("selected twice", (*USUAL, "--task-id", "t0", "--task-id", "t0"), ["positions 1 and 2"]),
]
NUMBERS = [
    *(Case(f"-k {k}", (*USUAL, "-k", k), ["-k"]) for k in ("0", "-1", "1.5", "true", "1000000")),
    *(
        Case(f"k: {k}", (*USUAL, "--config", f"k-{k}.yaml"), ["execution.attempts.k", "-k"])
        for k in WRONG_K
    ),
    Case("limit 0", (*USUAL, "--limit", "0"), ["--limit"]),
    Case("no time", (*USUAL, "--timeout", "0"), ["--timeout"]),
    Case("not a number of workers", (*USUAL, "--workers", "many"), ["--workers", "many"]),
]
UNREADABLE = [
    Case("no file", (*USUAL, "--config", "gone.yaml"), ["gone.yaml", "No such file"]),
    Case("a folder", (*USUAL, "--config", "."), ["cannot read the request file"]),
    Case("not UTF-8", (*USUAL, "--config", "not-utf8.yaml"), ["not-utf8.yaml", "UTF-8"]),
    Case("a key twice", (*USUAL, "--config", "twice.yaml"), ["twice.yaml", "'model'", "line 2"]),
    Case("no fields", (*USUAL, "--config", "list.yaml"), ["list.yaml", "fields"]),
    Case("deep JSON", (*USUAL, "--config", "deep.json"), ["deep.json", "100 levels deep"]),
    Case("deep YAML", (*USUAL, "--config", "deep.yaml"), ["deep.yaml", "nested too deeply"]),
    Case("broken TOML", (*USUAL, "--config", "unclosed.toml"), ["unclosed.toml", "line 1"]),
    Case("no questions", jsonl("gone.jsonl"), ["gone.jsonl"]),
    Case("questions that are a folder", jsonl("."), ["directory|folder"]),
    Case("broken questions", jsonl("broken.jsonl"), ["broken.jsonl", "line 1"]),
    Case("binary questions", jsonl("binary.jsonl"), ["binary.jsonl"]),
    Case("a plug-in's syntax", ("--benchmark", "syntax.py:Oops"), ["syntax.py", "SyntaxError"]),
    Case("a plug-in that raises", ("--benchmark", "raises.py:Oops"), ["raises.py", "one"]),
    Case("a plug-in that exits", ("--benchmark", "exits.py:Oops"), ["exits.py", "SystemExit"]),
    Case("data that raise", (*USUAL, "--benchmark", f"{PLUGINS}:Broken"), ["load its tasks"]),
]
PLACES = [
    Case("results in a file", (*USUAL, "--results-dir", "a-file"), ["a-file", "directory"]),
    Case("no parent", (*USUAL, "--results-dir", "no/results"), ["no/results", "does not exist"]),
    Case("below a file", (*USUAL, "--results-dir", "a-file/results"), ["a-file"]),
    Case("no run name", (*USUAL, "--run-name", "a/../b"), ["--run-name", "'a/../b'"]),
    Case("a long run name", (*USUAL, "--run-name", "x" * 150), ["160 bytes", "--run-name"]),
    Case("no name of a key", (*USUAL, "--api-key-env", PASSWORD), ["--api-key-env", "name"]),
    Case("no URL", (*USUAL, "--base-url", "localhost:8000"), ["--base-url", "http://"]),
    Case(
        "no such port",
        (*USUAL, "--base-url", f"http://u:{PASSWORD}@host:99999/v1"),
        ["--base-url", "port"],
    ),
    Case("no key", (*USUAL, "--api-key-env", "NO_SUCH_KEY"), ["NO_SUCH_KEY", "export"]),
    Case("a lane of nobody", (*USUAL, "--queue", "GPU!"), ["--queue", "GPU!"]),
    Case("detached from nothing", (*USUAL, "--detach"), ["--broker"]),
]
BROKERS = [
    Case("refuses", ("redis://:{pw}@127.0.0.1:1/0",), ["does not answer", "127.0.0.1:1"]),
    Case(
        "no host", ("redis://u:{pw}@no-such-host.invalid/0",), ["does not answer", "no-such-host"]
    ),
    Case("says nothing", ("redis://:{pw}@127.0.0.1:{mute}/0",), ["does not answer", "{mute}"]),
    Case("wants a password", ("redis://:{pw}@127.0.0.1:{denies}/0",), ["{denies}", "(?i)auth"]),
    Case("is no Redis", ("redis://:{pw}@127.0.0.1:{web}/0",), ["{web}"]),
    Case("wrong scheme", ("amqp://u:{pw}@host/0",), ["scheme 'amqp'", "redis://"]),
    Case("wrong port", ("redis://:{pw}@host:99999/0",), ["port"]),
    Case("half an address", ("redis://:{pw}@[::1",), ["Invalid IPv6"]),
    Case("two servers", ("redis://:{pw}@a;redis://:{pw}@b",), ["several"]),
]
NOWHERE = ("--broker", "redis://127.0.0.1:1")
OTHER_COMMANDS = [
    Case("no such command", ("rnu",), ["rnu", "did you mean 'run'|--help"]),
    Case("resume nothing", ("resume", "gone"), ["gone", "no run"]),
    Case("resume a folder", ("resume", "."), ["run_info.json|results folder"]),
    Case("status of nothing", ("status", "gone"), ["gone", "no run"]),
    Case("report of nothing", ("report", "gone"), ["gone", "no run"]),
    Case("check of nothing", ("check", "gone"), ["gone", "no run"]),
    Case("cancel of nothing", ("cancel", "gone"), ["gone", "no run"]),
    Case("worker without broker", ("worker",), ["broker", "--broker"]),
    Case("no slots", ("worker", *NOWHERE, "--concurrency", "0"), ["--concurrency", "0"]),
    Case("a worker's lane", ("worker", *NOWHERE, "--queue", "A B"), ["--queue", "'A B'"]),
    Case("a level", ("worker", *NOWHERE, "--log-level", "LOUD"), ["LOUD", "'debug'"]),
    Case("work in a file", ("worker", *NOWHERE, "--work-dir", "a-file"), ["a-file", "--work-dir"]),
    Case("results are a file", ("worker", *NOWHERE, "--results-dir", "a-file"), ["a-file"]),
    Case("an open Flower", ("flower", *NOWHERE, "--address", "0.0.0.0"), ["FLOWER_BASIC_AUTH"]),
    Case("no port", ("flower", *NOWHERE, "--port", "99999"), ["--port", "99999"]),
    Case("flower without broker", ("flower",), ["broker", "--broker"]),
    Case("watch without broker", ("watch", "gone"), ["broker", "--broker"]),
    Case("list of something else", ("list", "models"), ["models", "benchmarks"]),
]


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with the files that the mistakes are made with."""
    (tmp_path / "a-file").write_text("kept")
    for name, content in FILES.items():
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AGENTCOMPASS_BROKER_URL", raising=False)
    return tmp_path


@dataclass
class Answer:
    code: int
    out: str
    err: str


@pytest.fixture
def call(capfd: pytest.CaptureFixture[str]) -> Callable[..., Answer]:
    def call(*arguments: str) -> Answer:
        code = main(arguments)
        return Answer(code, *capfd.readouterr())

    return call


def check(answer: Answer, case: Case) -> None:
    """Hold one answer to what every answer to wrong use must be."""
    shown = f"{case.name}:\n{answer.err}"
    assert answer.code == 2, shown
    assert answer.out == "", shown
    assert 1 <= len(answer.err.splitlines()) <= 5, shown
    assert "Traceback" not in answer.err, shown
    assert PASSWORD not in answer.err, shown
    for pattern in case.named:
        assert re.search(pattern, answer.err), f"{pattern!r} is not in\n{shown}"


@pytest.mark.parametrize(
    "case",
    [*UNKNOWN, *IDS, *NUMBERS, *UNREADABLE, *PLACES],
    ids=lambda case: case.name,
)
def test_a_wrong_run_is_refused_by_name_and_reserves_nothing(
    desk: Path, call: Callable[..., Answer], case: Case
) -> None:
    before = tree_of(desk)

    check(call("run", *case.flags), case)

    assert tree_of(desk) == before


@pytest.mark.parametrize("case", OTHER_COMMANDS, ids=lambda case: case.name)
def test_other_commands_answer_likewise(
    desk: Path, call: Callable[..., Answer], case: Case
) -> None:
    before = tree_of(desk)

    check(call(*case.flags), case)

    assert tree_of(desk) == before


class Peers:
    """Ports on which something else than a broker answers, or nothing."""

    def __init__(self) -> None:
        replies = {
            "mute": b"",
            "denies": b"-NOAUTH Authentication required.\r\n",
            "web": b"HTTP/1.1 400 Bad Request\r\n\r\n",
        }
        self._sockets = {name: socket.create_server(("127.0.0.1", 0)) for name in replies}
        for name, reply in replies.items():
            threading.Thread(target=self._serve, args=(name, reply), daemon=True).start()

    @property
    def ports(self) -> dict[str, int]:
        return {name: each.getsockname()[1] for name, each in self._sockets.items()}

    def _serve(self, name: str, reply: bytes) -> None:
        with ExitStack() as kept:
            while True:
                try:
                    peer, _ = self._sockets[name].accept()
                except OSError:
                    return
                kept.enter_context(peer).sendall(reply * 3)

    def close(self) -> None:
        for each in self._sockets.values():
            each.shutdown(socket.SHUT_RDWR)
            each.close()


@pytest.fixture(scope="module")
def peers() -> Iterator[Peers]:
    importlib.import_module(
        "workers.dispatch"
    )  # seconds on a busy machine, and no part of the wait
    peers = Peers()
    yield peers
    peers.close()


@pytest.mark.parametrize("case", BROKERS, ids=lambda case: case.name)
@pytest.mark.timeout(120)
def test_a_broker_that_does_not_answer_is_told_in_time_without_its_password(
    desk: Path, call: Callable[..., Answer], peers: Peers, case: Case
) -> None:
    ports = {name: str(port) for name, port in peers.ports.items()}
    before, began_s = tree_of(desk), time.monotonic()

    answer = call("run", *USUAL, "--broker", case.flags[0].format(pw=PASSWORD, **ports))

    assert time.monotonic() - began_s < 25
    check(answer, Case(case.name, (), [named.format(**ports) for named in case.named]))
    assert tree_of(desk) == before


@pytest.mark.parametrize("asked_for", ["nightly", "NIGHTLY"])
def test_a_run_id_that_is_taken_is_refused_whatever_its_case(
    desk: Path, call: Callable[..., Answer], asked_for: str
) -> None:
    taken = desk / "results" / f"m_{STUBS}_StubBenchmark_{STUBS}_StubHarness" / "nightly"
    taken.mkdir(parents=True)
    flags = (*USUAL, "--run-id", asked_for)
    call("run", *flags)  # makes the results folder one of ours
    before = tree_of(desk)

    check(call("run", *flags), Case("taken", (), [f"'{asked_for}' exists", "--run-id", "resume"]))

    assert tree_of(desk) == before


@pytest.mark.skipif(not MODES_ARE_OBEYED, reason="root obeys no modes here")
@pytest.mark.parametrize(
    ("locked", "flags", "named"),
    [
        ("locked", ("--results-dir", "locked"), ["locked", "Permission denied", "writable"]),
        ("locked", ("--results-dir", "locked/results"), ["locked", "Permission denied"]),
        ("typo.yaml", ("--config", "typo.yaml"), ["typo.yaml", "not readable"]),
        ("twins.jsonl", jsonl("twins.jsonl"), ["twins.jsonl", "Permission denied"]),
    ],
)
def test_what_may_not_be_written_or_read_is_named(
    desk: Path, locked: str, flags: Sequence[str], named: Sequence[str]
) -> None:
    (desk / "locked").mkdir()
    before = tree_of(desk)
    (desk / locked).chmod(0o500 if locked == "locked" else 0)

    env = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    done = call_obediently("run", *USUAL, *flags, env=env)

    (desk / locked).chmod(0o700)
    check(
        Answer(done.returncode, done.stdout.decode(), done.stderr.decode()), Case(locked, (), named)
    )
    assert tree_of(desk) == before
