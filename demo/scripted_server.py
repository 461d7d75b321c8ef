"""A scripted stand-in for a model: a server whose answers are written down.

It speaks `/v1/chat/completions`, `/v1/responses` and `/v1/messages` (without streaming) and
`/v1/models` over real HTTP, keeps connections alive, counts what it sees, and asks a `Script` for
every answer. On its own it plays HumanEval with the reference solutions:

    python -m demo.scripted_server --solved 100 --late 32

prints `{"base_url": …}` on one line and serves until its standard input is closed, so that it
never outlives whoever started it.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import MappingProxyType, TracebackType
from typing import Protocol, Self, cast

from agentcompass.benchmarks.humaneval_data import Problem, problems
from demo.scripted_wires import (
    Answer,
    Call,
    JsonMap,
    ToolCall,
    heard,
    last_user_text,
    protocol_of,
    said,
)

__all__ = ["Answer", "Call", "ScriptedServer", "ToolCall", "last_user_text"]


class Script(Protocol):
    """Decides every answer; called from many threads at once."""

    def answer(self, call: Call) -> Answer:
        """Return what the model says to this call."""


@dataclass
class Traffic:
    """What a server has seen; guarded by the server's lock."""

    calls: list[Call] = field(default_factory=list)
    active: int = 0
    most_active: int = 0
    """The largest number of calls in flight at once."""


class ScriptedServer:
    """A running server; use it as a context manager."""

    def __init__(
        self, script: Script, *, host: str = "127.0.0.1", port: int = 0, model: str = "scripted"
    ) -> None:
        self.script = script
        self.model = model
        self.traffic = Traffic()
        self.stopping = threading.Event()
        self._seen: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._http = _Http((host, port), self)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True)

    @property
    def base_url(self) -> str:
        """What goes to `--base-url`."""
        host, port = self._http.server_address[:2]
        return f"http://{host!s}:{port}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stopping.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def begin(self, protocol: str, body: JsonMap, headers: Mapping[str, str]) -> Call:
        """Count a call in."""
        prompt = last_user_text(body)
        with self._lock:
            self._seen[prompt] += 1
            call = Call(prompt, body, headers, self._seen[prompt], heard(protocol, body))
            self.traffic.calls.append(call)
            self.traffic.active += 1
            self.traffic.most_active = max(self.traffic.most_active, self.traffic.active)
        return call

    def summary(self) -> JsonMap:
        """Return what `GET /_traffic` tells: how much was asked, and how much at once."""
        with self._lock:
            return {
                "calls": len(self.traffic.calls),
                "most_active": self.traffic.most_active,
                "prompts": len(self._seen),
            }

    def end(self) -> None:
        """Count a call out."""
        with self._lock:
            self.traffic.active -= 1


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Header and body in one segment: in two, delayed acknowledgements cost 40 ms a call.
    wbufsize = -1
    disable_nagle_algorithm = True

    @property
    def owner(self) -> ScriptedServer:
        return cast("_Http", self.server).owner

    def log_message(self, *_: object) -> None:
        """One line per call would drown what matters."""

    def do_GET(self) -> None:
        if self.path.rstrip("/").endswith("/models"):
            model = {"id": self.owner.model, "object": "model", "created": 0, "owned_by": "script"}
            self._send(200, _json({"object": "list", "data": [model]}))
        elif self.path == "/_traffic":
            self._send(200, _json(self.owner.summary()))
        else:
            self._send(404, _error(404, "no such page"))

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        protocol = protocol_of(self.path)
        if protocol is None:
            self._send(404, _error(404, "no such page"))
            return
        headers = {k.lower(): v for k, v in self.headers.items()}
        call = self.owner.begin(protocol, json.loads(raw), headers)
        try:
            answer = self.owner.script.answer(call)
            self.owner.stopping.wait(None if answer.stall else answer.delay_s)
        finally:
            # Before the answer leaves: whoever has it may already be asking for the next.
            self.owner.end()
        if answer.stall:
            self.close_connection = True
            return
        self._send(answer.status, _payload(protocol, answer, call), answer.headers)

    def _send(
        self, status: int, payload: bytes, headers: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(payload)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(payload)
        self.wfile.flush()


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    # Hundreds of clients connect at once; the default backlog of 5 resets most of them.
    request_queue_size = 1024

    def __init__(self, address: tuple[str, int], owner: ScriptedServer) -> None:
        self.owner = owner
        super().__init__(address, _Handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes away is no news."""


def _payload(protocol: str, answer: Answer, call: Call) -> bytes:
    if answer.body is not None:
        return answer.body
    if answer.status != 200:
        return _error(answer.status, answer.content or "scripted failure")
    return _json(said(protocol, answer, call))


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


def _error(status: int, message: str) -> bytes:
    return _json({"error": {"message": message, "type": "scripted", "code": str(status)}})


class HumanEvalScript:
    """Solves some HumanEval problems with the reference solution and answers wrong otherwise.

    Args:
        known: the problems, in the order of the data set.
        solved: ids that are always solved.
        late: ids that are answered wrong the first time and solved after that.
    """

    def __init__(
        self, known: Sequence[Problem], solved: frozenset[str], late: frozenset[str] = frozenset()
    ) -> None:
        self._known = tuple(known)
        self._solved = solved
        self._late = late

    def answer(self, call: Call) -> Answer:
        """Find the problem that the prompt quotes; an unknown one is refused with 400."""
        problem = next((p for p in self._known if p.prompt in call.prompt), None)
        if problem is None:
            return Answer("the script does not know this prompt", status=400)
        is_late = problem.task_id in self._late and call.seen > 1
        right = problem.task_id in self._solved or is_late
        body = problem.canonical_solution if right else "    pass\n"
        return Answer(f"Here you are.\n\n```python\n{problem.prompt}{body}```\n")


def humaneval_script(solved: int, late: int = 0) -> HumanEvalScript:
    """Solve the first `solved` problems always and the next `late` from the second time on."""
    known = list(problems())
    ids = [problem.task_id for problem in known]
    return HumanEvalScript(known, frozenset(ids[:solved]), frozenset(ids[solved : solved + late]))


def main() -> None:
    """Serve HumanEval until standard input is closed."""
    parser = argparse.ArgumentParser(description="Serve scripted HumanEval answers.")
    parser.add_argument("--solved", type=int, default=100, help="problems solved every time")
    parser.add_argument("--late", type=int, default=0, help="problems solved from the second time")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    options = parser.parse_args()
    script = humaneval_script(options.solved, options.late)
    serve_until_stdin_closes(ScriptedServer(script, port=options.port))


def serve_until_stdin_closes(server: ScriptedServer) -> None:
    """Announce the address on one line of standard output and serve."""
    with server:
        sys.stdout.write(json.dumps({"base_url": server.base_url}) + "\n")
        sys.stdout.flush()
        try:
            sys.stdin.read()
        except KeyboardInterrupt:
            return


if __name__ == "__main__":
    main()
