"""A scripted stand-in for a model that calls tools: it works on the tasks of `shell_tasks`.

It looks around, writes a first draft, tries it, and goes by what the tools return: it corrects the
draft only when it has seen it fail, and submits only what it has seen work. Some tasks it gets wrong
on purpose. It plays both harnesses, `tool_loop` and `mini_swe_agent`, in every protocol.

    python -m demo.scripted_agent --wrong fix-ini --stuck log-summary --clumsy csv-total

prints `{"base_url": …}` on one line and serves until its standard input is closed.
"""

from __future__ import annotations

import argparse
import json
import shlex
from collections.abc import Collection, Sequence

from agentcompass.benchmarks.shell_tasks.exercises import Exercise, exercises
from demo.scripted_server import ScriptedServer, serve_until_stdin_closes
from demo.scripted_wires import Answer, Call, Heard, ToolCall

_DRAFT = "exit 3\n"
_SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"


class AgentScript:
    """Solves every task but those that it is told not to.

    Args:
        wrong: submits a draft that it has seen fail.
        stuck: looks around for ever.
        clumsy: its first call is malformed; then solves the task.
    """

    def __init__(
        self,
        wrong: Collection[str] = (),
        stuck: Collection[str] = (),
        clumsy: Collection[str] = (),
    ) -> None:
        self._known = tuple(exercises())
        self._wrong = frozenset(wrong)
        self._stuck = frozenset(stuck)
        self._clumsy = frozenset(clumsy)

    def answer(self, call: Call) -> Answer:
        """Do the next thing, by what the last one came to; an unknown task is refused with 400."""
        heard = call.heard
        task = next((one for one in self._known if one.prompt.strip() in heard.first), None)
        if task is None:
            return Answer("the script does not know this task", status=400)
        calls = self._next(task, heard)
        if not calls:
            return Answer("I cannot find the files of the task.")
        named = tuple(
            ToolCall(each.name, each.arguments, id=f"call-{heard.turns}-{number}")
            for number, each in enumerate(calls)
        )
        return Answer(
            f"Step {heard.turns + 1}.", tool_calls=named, reasoning="One thing at a time."
        )

    def _next(self, task: Exercise, heard: Heard) -> Sequence[ToolCall]:
        if heard.turns == 0 or task.id in self._stuck:
            # One harness shows the model its malformed answer, the other only what was wrong with it.
            is_first = "Tool call error" not in heard.last
            clumsy = task.id in self._clumsy and heard.turns == 0 and is_first
            return [ToolCall("bash", "{not json") if clumsy else _look(task)]
        if "CHECKED " in heard.last:
            is_good = _has_passed(task, heard.last) or task.id in self._wrong
            return [_submit(heard)] if is_good else _written(task, heard)
        if "WROTE" in heard.last or "wrote " in heard.last:
            return [_check(task)]
        if "LOOKED" in heard.last:
            return [_draft(task)] if _has_seen(task, heard.last) else []
        return [_look(task)]


def _bash(command: str) -> ToolCall:
    return ToolCall("bash", {"command": command})


def _look(task: Exercise) -> ToolCall:
    return _bash("; ".join(["ls -R .", *(f"cat {name}" for name in task.files), "echo LOOKED"]))


def _has_seen(task: Exercise, said: str) -> bool:
    """Return True if every file of the task was shown."""
    return all(_shows(said, text.splitlines()[0]) for text in task.files.values())


def _draft(task: Exercise) -> ToolCall:
    return _bash("; ".join([*_heredocs(dict.fromkeys(task.solution, _DRAFT)), "echo WROTE"]))


def _written(task: Exercise, heard: Heard) -> Sequence[ToolCall]:
    if "write_file" in heard.tools:
        return [
            ToolCall("write_file", {"path": name, "content": text})
            for name, text in task.solution.items()
        ]
    return [_bash("; ".join([*_heredocs(task.solution), "echo WROTE"]))]


def _heredocs(files: dict[str, str]) -> Sequence[str]:
    return [
        f"mkdir -p $(dirname {name}); printf '%s' {shlex.quote(text)} >{name}"
        for name, text in files.items()
    ]


def _check(task: Exercise) -> ToolCall:
    case = task.cases[0]
    return _bash(f"printf '%s' {shlex.quote(case.stdin)} | ({case.run}); echo CHECKED $?")


def _has_passed(task: Exercise, said: str) -> bool:
    case = task.cases[0]
    return _shows(said, f"{case.expected}CHECKED {case.exit_code}")


def _shows(said: str, text: str) -> bool:
    """Return True if a text is in what a tool returned, which may have it as JSON for HTML."""
    escaped = json.dumps(text)[1:-1]
    for sign in "<>&'":
        escaped = escaped.replace(sign, f"\\u{ord(sign):04x}")
    return text in said or escaped in said


def _submit(heard: Heard) -> ToolCall:
    return ToolCall("submit", {}) if "submit" in heard.tools else _bash(_SUBMIT)


def main() -> None:
    """Serve until standard input is closed."""
    parser = argparse.ArgumentParser(description="Serve a scripted agent for shell_tasks.")
    for name in ("wrong", "stuck", "clumsy"):
        parser.add_argument(f"--{name}", action="append", default=[], metavar="TASK")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    options = parser.parse_args()
    script = AgentScript(options.wrong, options.stuck, options.clumsy)
    serve_until_stdin_closes(ScriptedServer(script, port=options.port))


if __name__ == "__main__":
    main()
