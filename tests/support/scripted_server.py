"""Scripts for the scripted model server: whom to answer what, and how to misbehave.

The server itself is the demonstration's. In a test:

    with ScriptedServer(InOrder(rate_limited(), Answer("42"))) as server:
        … server.base_url … server.traffic.most_active …

and as a process of its own, for workers in other processes:

    python -m tests.support.scripted_server --solved 100 --rate-limit-every 10 --retry-after 1

prints `{"base_url": …}` and serves HumanEval until its standard input is closed; `GET /_traffic` at
the server's root tells the number of calls and how many were in flight at once.
"""

from __future__ import annotations

import argparse
import itertools
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace

from demo.scripted_server import (
    Answer,
    Call,
    HumanEvalScript,
    Script,
    ScriptedServer,
    ToolCall,
    Traffic,
    humaneval_script,
    serve_until_stdin_closes,
)

__all__ = [
    "Answer",
    "ByPrompt",
    "Call",
    "HumanEvalScript",
    "InOrder",
    "Misbehaving",
    "PerAttempt",
    "Script",
    "ScriptedServer",
    "ToolCall",
    "Traffic",
    "humaneval_script",
    "rate_limited",
]


def rate_limited(retry_after: str | None = "0", *, status: int = 429) -> Answer:
    """Refuse for now; `retry_after` is sent as it is, None sends no such header."""
    headers = {} if retry_after is None else {"Retry-After": retry_after}
    return Answer("slow down", status=status, headers=headers)


class InOrder:
    """Gives each prompt the answers one after the other, and then the last one for ever."""

    def __init__(self, *answers: Answer) -> None:
        self._answers = answers

    def answer(self, call: Call) -> Answer:
        return self._answers[min(call.seen, len(self._answers)) - 1]


class ByPrompt:
    """Answers by the first key that the prompt contains."""

    def __init__(self, answers: Mapping[str, Answer], otherwise: Answer) -> None:
        self._answers = dict(answers)
        self._otherwise = otherwise

    def answer(self, call: Call) -> Answer:
        hits = (answer for key, answer in self._answers.items() if key in call.prompt)
        return next(hits, self._otherwise)


class PerAttempt:
    """Answers by task and attempt; needs `--param harness.identify=true`."""

    def __init__(self, decide: Callable[[str, int, Call], Answer]) -> None:
        self._decide = decide

    def answer(self, call: Call) -> Answer:
        task_id = call.headers.get("x-agentcompass-task", "")
        attempt = int(call.headers.get("x-agentcompass-attempt", "0"))
        return self._decide(task_id, attempt, call)


class Misbehaving:
    """Lets another script answer, but every n-th call fails or waits first."""

    def __init__(
        self, inner: Script, failures: Mapping[int, Answer], *, delay_s: float = 0.0
    ) -> None:
        """`failures`: n -> what every n-th call gets instead; the smallest matching n wins."""
        self._inner = inner
        self._failures = sorted(failures.items())
        self._delay_s = delay_s
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()

    def answer(self, call: Call) -> Answer:
        with self._lock:
            number = next(self._numbers)
        for every, failure in self._failures:
            if number % every == 0:
                return failure
        return replace(self._inner.answer(call), delay_s=self._delay_s)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--solved", type=int, default=100)
    parser.add_argument("--late", type=int, default=0)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--delay-s", type=float, default=0.0)
    parser.add_argument("--rate-limit-every", type=int, default=0)
    parser.add_argument("--retry-after", default="0")
    parser.add_argument("--error-every", type=int, default=0)
    parser.add_argument("--stall-every", type=int, default=0)
    options = parser.parse_args()
    failures = {
        options.rate_limit_every: rate_limited(options.retry_after),
        options.error_every: Answer("down", status=503),
        options.stall_every: Answer(stall=True),
    }
    failures.pop(0, None)
    inner = humaneval_script(options.solved, options.late)
    script = Misbehaving(inner, failures, delay_s=options.delay_s)
    serve_until_stdin_closes(ScriptedServer(script, port=options.port))


if __name__ == "__main__":
    main()
