from __future__ import annotations

import os
import signal

import pytest

from agentcompass.cli.wiring import Stops, need_broker, watch_policy
from agentcompass.errors import UsageError


class TestStops:
    def test_ctrl_c_is_a_request_and_cuts_the_waiting_short(self) -> None:
        with Stops() as stops:
            os.kill(os.getpid(), signal.SIGINT)
            stops.wait(60)

            assert (stops.is_asked(), stops.is_interrupt, stops.is_urgent) == (True, True, False)

    def test_after_the_first_request_waiting_is_waiting_again(self) -> None:
        with Stops() as stops:
            os.kill(os.getpid(), signal.SIGINT)
            stops.wait(60)
            before = stops.monotonic()

            stops.wait(0.05)

            assert stops.monotonic() - before >= 0.05

    def test_the_second_request_is_urgent_and_the_third_is_pythons_own(self) -> None:
        with Stops() as stops:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)
            assert stops.is_urgent

            with pytest.raises(KeyboardInterrupt):
                os.kill(os.getpid(), signal.SIGINT)

    def test_sigterm_is_no_ctrl_c(self) -> None:
        with Stops() as stops:
            os.kill(os.getpid(), signal.SIGTERM)
            stops.wait(60)

            assert (stops.is_asked(), stops.is_interrupt) == (True, False)

    def test_afterwards_signals_mean_what_they_meant_before(self) -> None:
        before = signal.getsignal(signal.SIGTERM)

        with Stops():
            pass

        assert signal.getsignal(signal.SIGTERM) is before


class TestBroker:
    def test_the_option_wins_over_the_environment(self) -> None:
        environ = {"AGENTCOMPASS_BROKER_URL": "redis://env"}

        assert need_broker("redis://option", environ) == "redis://option"
        assert need_broker(None, environ) == "redis://env"

    def test_without_any_the_user_is_told_how_to_name_one(self) -> None:
        with pytest.raises(UsageError, match="--broker"):
            need_broker(None, {})


def test_watchdogs_are_as_patient_as_the_leases_are_long() -> None:
    policy = watch_policy({"AGENTCOMPASS_LEASE_S": "4"})

    assert (policy.lease_s, policy.look_every_s, policy.finalize_after_s) == (4, 8, 4)
