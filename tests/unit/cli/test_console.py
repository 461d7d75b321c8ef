from __future__ import annotations

import io
from pathlib import Path

import pytest

from agentcompass.cli.console import Console, duration
from agentcompass.coordinator.planning.start import SealedRun
from agentcompass.coordinator.ports import RunAddress
from agentcompass.coordinator.watching.progress import Pace, Progress
from agentcompass.store.root import ResultsRoot
from tests.builders import a_run_info

ROOT = ResultsRoot(Path("results"), "0" * 32)
RUN = SealedRun(RunAddress(ROOT, "run-1", Path("results/run-1")), a_run_info())


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_one_bar_that_is_redrawn_and_removed() -> None:
    stream = Terminal()
    console = Console(stream)

    console.progress(RUN, Progress(1, 4, 0))
    console.progress(RUN, Progress(2, 4, 1, eta_s=65))
    console.clear()

    first, second, blank, end = stream.getvalue().split("\r")[1:]
    assert first == "[######..................] 1/4 attempts"
    assert second.startswith(
        "[############............] 2/4 attempts, 1 tasks with errors, about 1:05"
    )
    assert (blank.strip(), end) == ("", "")


def test_a_message_stands_above_the_bar() -> None:
    stream = Terminal()
    console = Console(stream)
    console.progress(RUN, Progress(1, 4, 0))

    console.say(RUN, "2 attempts were lost")

    assert "2 attempts were lost\n" in stream.getvalue()
    assert stream.getvalue().endswith("1/4 attempts")


def test_elsewhere_there_are_plain_lines_for_news_only() -> None:
    stream = io.StringIO()
    console = Console(stream)

    for done in (0, 0, 1, 2, 4, 4):
        console.progress(RUN, Progress(done, 4, 0))

    assert stream.getvalue().splitlines() == ["0/4 attempts", "4/4 attempts"]


def test_several_runs_are_told_apart() -> None:
    stream = Terminal()
    console = Console(stream, several=True)

    console.progress(RUN, Progress(1, 4, 0))
    console.say(RUN, "paused")

    assert stream.getvalue() == "run-1: 1/4 attempts\nrun-1: paused\n"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.4, "0 s"), (59.4, "59 s"), (59.6, "1:00 min"), (3_600, "1:00 h"), (200_000, "2 d")],
)
def test_durations_are_said_as_people_say_them(seconds: float, words: str) -> None:
    assert duration(seconds) == words


class TestPace:
    def test_nothing_is_estimated_before_anything_was_done(self) -> None:
        assert Pace(6, 0.0).eta_s(6, 8, 100.0) is None

    def test_what_was_done_before_we_came_does_not_count(self) -> None:
        assert Pace(6, 0.0).eta_s(7, 10, 30.0) == 90
