"""`agentcompass flower`: the monitor, set up for attempts.

It shows what it heard: best effort, and never what `status` or a report is computed from.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from agentcompass.errors import UsageError
from workers.app import make_app
from workers.serving import logs
from workers.urls import BROKER_URL_VARIABLE

AUTH_VARIABLES: Final = ("FLOWER_BASIC_AUTH", "FLOWER_AUTH")
"""Flower's own, `user:password` and a pattern of e-mail addresses; never arguments."""
MAX_TASKS: Final = 100_000


@dataclass(frozen=True, slots=True)
class FlowerOptions:
    """What `agentcompass flower` is told."""

    broker_url: str
    address: str = "127.0.0.1"
    port: int = 5555
    database: Path | None = None
    """Where Flower keeps what it heard over a restart; null: nowhere."""


def run_flower(options: FlowerOptions, env: Mapping[str, str] = os.environ) -> int:
    """Serve until SIGTERM or Ctrl-C; call it in the main thread of a process of its own.

    Raises:
        UsageError: it would be open to the network without a password.
    """
    _check_auth(options, env)
    logs.set_up("INFO", "flower", {**env, BROKER_URL_VARIABLE: options.broker_url})
    app = make_app(options.broker_url)
    app.start(["--quiet", "flower", *flags(options)])
    return 0


def flags(options: FlowerOptions) -> Sequence[str]:
    """Return Flower's arguments; none of them is a secret."""
    chosen = {
        "address": options.address,
        "port": options.port,
        # Whoever may look may not revoke: a cancelled attempt is a control record of its run.
        "read_only": True,
        "tasks_columns": "name,uuid,state,args,kwargs,received,started,runtime,worker",
        "max_tasks": MAX_TASKS,
        # Attempts take minutes; Flower's own buckets end at ten seconds.
        "task_runtime_metric_buckets": "1,10,60,300,600,1800,3600,7200",
    }
    if options.database is not None:
        chosen |= {"persistent": True, "db": options.database}
    return [f"--{name}={value}" for name, value in chosen.items()]


def _check_auth(options: FlowerOptions, env: Mapping[str, str]) -> None:
    if _is_loopback(options.address) or any(env.get(name) for name in AUTH_VARIABLES):
        return
    raise UsageError(
        "Flower would be open to the network without a password",
        where=f"--address {options.address}",
        hint="set FLOWER_BASIC_AUTH=user:password, or leave --address at 127.0.0.1",
    )


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"
