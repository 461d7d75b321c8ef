from __future__ import annotations

import logging

import pytest

from agentcompass.errors import UsageError
from agentcompass.runtime.values.live import MaskingFormatter
from workers.app import make_app
from workers.settings import Clocks
from workers.urls import checked, from_environment, masked


@pytest.mark.parametrize(
    "url",
    [
        "redis://localhost",
        "redis://localhost:6379/3",
        "redis://:secret@host/0",
        "rediss://user:s%40cret@host:6380/0?ssl_cert_reqs=required",
        "redis://[::1]:6379/0",
    ],
)
def test_a_plain_server_is_accepted(url: str) -> None:
    assert checked(url) == url


@pytest.mark.parametrize(
    ("url", "query"),
    [
        ("rediss://host/0", "ssl_cert_reqs=required"),
        ("rediss://host/0?ssl_ca_certs=/ca", "ssl_ca_certs=/ca&ssl_cert_reqs=required"),
        ("rediss://host/0?ssl_cert_reqs=optional", "ssl_cert_reqs=optional"),
    ],
)
def test_over_tls_the_certificate_is_verified_unless_somebody_wants_otherwise(
    url: str, query: str
) -> None:
    assert checked(url) == f"rediss://host/0?{query}"
    assert checked(checked(url)) == checked(url)


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("", "scheme"),
        ("amqp://host", "scheme"),
        ("redis://", "no host"),
        ("redis://:canary@host:99999/0", "port"),
        ("redis://:canary@host:0/0", "port"),
        ("redis://:canary@host/first", "not a number"),
        ("redis://:canary@a/0;redis://:canary@b/0", "several"),
        ("redis://host/0?password=canary", "credentials"),
    ],
)
def test_any_other_is_refused_without_showing_its_password(url: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem) as raised:
        checked(url)
    assert "canary" not in str(raised.value)
    assert len(str(raised.value).splitlines()) <= 5


def test_without_a_broker_it_says_which_variable() -> None:
    with pytest.raises(UsageError, match="AGENTCOMPASS_BROKER_URL"):
        from_environment({})
    assert from_environment({"AGENTCOMPASS_BROKER_URL": "redis://h"}) == "redis://h"


@pytest.mark.parametrize(
    "text",
    [
        "redis://:canary@host:1/0",
        "redis://user:canary@host",
        "rediss://user:can@ary@host and redis://:canary@other",
        "Error connecting to redis://x:canary@h/0.",
        "redis://h/0?password=canary&x=1",
    ],
)
def test_masked_text_shows_hosts_and_no_password(text: str) -> None:
    assert "canary" not in masked(text)
    assert "ary" not in masked(text)
    assert "h" in masked(text)


def test_tracebacks_are_masked_too() -> None:
    error = ValueError("redis://:canary@host")
    info = (ValueError, error, None)
    record = logging.LogRecord("x", logging.ERROR, "f", 1, "%s", ("redis://:canary@h",), info)

    assert "canary" not in MaskingFormatter().format(record)


def test_clocks_come_from_the_environment() -> None:
    clocks = Clocks.from_env({"AGENTCOMPASS_LEASE_S": "8", "AGENTCOMPASS_GRACE_S": "0.5"})

    assert (clocks.lease_s, clocks.grace_s, clocks.beat_s) == (8.0, 0.5, 2.0)
    assert Clocks.from_env({}) == Clocks()


@pytest.mark.parametrize("value", ["0", "-1", "nan", "inf", "soon", ""])
def test_a_clock_that_does_not_run_is_refused(value: str) -> None:
    with pytest.raises(UsageError, match="AGENTCOMPASS_TICK_S"):
        Clocks.from_env({"AGENTCOMPASS_TICK_S": value})


def test_a_dead_worker_is_noticed_within_a_minute_by_default() -> None:
    clocks = Clocks()
    options = make_app("redis://h", clocks).conf.broker_transport_options
    swept_every_s = options["unacked_restore_interval"] * options["unacked_restore_throttle"]

    redelivered_s = clocks.visibility_s + swept_every_s + options["unacked_mutex_expire"]
    assert redelivered_s + clocks.tick_s < 60
    assert clocks.lease_s + clocks.tick_s < 60


def test_nothing_but_json_is_ever_unpacked() -> None:
    conf = make_app("redis://h").conf

    assert conf.accept_content == ["json"]
    assert conf.result_accept_content == ["json"]
    assert {conf.task_serializer, conf.result_serializer, conf.event_serializer} == {"json"}


def test_the_configuration_that_monitors_may_ask_for_has_no_password() -> None:
    conf = make_app("redis://user:canary@host/0").conf

    assert "canary" not in conf.humanize(with_defaults=False, censored=True)


def test_a_worker_takes_from_the_lanes_of_all_its_queues() -> None:
    queues = make_app("redis://h", queues=("default", "gpu")).amqp.queues

    assert set(queues) >= {"control", "default.lane0", "default.lane7", "gpu.lane0", "gpu.lane7"}
