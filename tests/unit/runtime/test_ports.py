from __future__ import annotations

import threading
import time

from agentcompass.runtime.ports import StopSignal


def test_the_first_reason_stays() -> None:
    stop = StopSignal()

    stop.request("lease_lost")
    stop.request("cancelled")

    assert stop.reason == "lease_lost"


def test_listeners_hear_of_a_stop_also_if_they_come_late() -> None:
    stop, heard = StopSignal(), list[str]()
    stop.listen(lambda: heard.append("early"))
    stop.request("cancelled")

    stop.listen(lambda: heard.append("late"))

    assert heard == ["early", "late"]


def test_a_forgotten_listener_hears_nothing() -> None:
    stop, heard = StopSignal(), list[str]()

    def listener() -> None:
        heard.append("heard")

    stop.listen(listener)
    stop.unlisten(listener)
    stop.unlisten(listener)
    stop.request("cancelled")

    assert heard == []


def test_a_wait_ends_with_its_time_or_with_a_stop() -> None:
    stop, started = StopSignal(), time.monotonic()

    assert not stop.wait(0.01)
    threading.Timer(0.05, stop.request, args=("cancelled",)).start()
    assert stop.wait(30)
    assert stop.wait(30)
    assert time.monotonic() - started < 10
