"""The one place where the command line meets the clock, the signals and the workers.

`workers` is imported inside of functions: it brings Celery, which half of the commands never need.
So is what brings the models: `agentcompass worker` hands over to processes that need neither.
"""

from __future__ import annotations

import getpass
import os
import signal
import socket
import threading
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Literal, Self, TypeAlias

from agentcompass.coordinator.asking import BROKER_VARIABLE
from agentcompass.errors import UsageError

if TYPE_CHECKING:
    from agentcompass.coordinator.planning.plan import Machine
    from agentcompass.coordinator.ports import Queue
    from agentcompass.coordinator.watching.decide import WatchPolicy

PING_S = 6.0
"""Wrong use is answered within ten seconds, starting Python included."""

StopReason: TypeAlias = Literal["interrupt", "terminate"]


def now() -> datetime:
    """Return the time, UTC."""
    return datetime.now(UTC)  # noqa: TID251 - the wiring reads the clock, so that nobody else does


def by() -> str:
    """Return who acts, as control records name them."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container without a user database
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"


class Stops:
    """Ctrl-C and SIGTERM as requests that a loop asks for; also the clock that they wake up.

    The second Ctrl-C makes what still waits leave at once; the third one is Python's own.
    """

    def __init__(self) -> None:
        self.reason: StopReason | None = None
        self.is_urgent = False
        self._woken = threading.Event()
        self._before: dict[int, object] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            self._before[number] = signal.signal(number, self._asked)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]  # what signal() returned

    @property
    def is_interrupt(self) -> bool:
        """True for Ctrl-C."""
        return self.reason == "interrupt"

    def is_asked(self) -> bool:
        """Return whether somebody wants us to go."""
        return self.reason is not None

    def now(self) -> datetime:
        return now()

    def monotonic(self) -> float:
        return time.monotonic()

    def wait(self, seconds: float) -> None:
        """Wait; the first request cuts it short, later ones only if they are urgent."""
        self._woken.wait(seconds)
        if self.reason is not None and not self.is_urgent:
            self._woken.clear()

    def _asked(self, number: int, _frame: FrameType | None) -> None:
        if self.reason is None:
            self.reason = "interrupt" if number == signal.SIGINT else "terminate"
        else:
            self.is_urgent = True
            signal.signal(signal.SIGINT, signal.default_int_handler)
        self._woken.set()


def open_queue(url: str) -> Queue:
    """Return the broker at `url`; BrokerUnreachable if it does not answer in time."""
    from workers.broker.signing import signer_from
    from workers.dispatch import RedisQueue  # Celery

    if "@" in url:
        from agentcompass.runtime.values.forms import secret_parts
        from agentcompass.runtime.values.live import note

        note({f"{BROKER_VARIABLE}_{n}": part for n, part in enumerate(secret_parts(url))})
    queue = RedisQueue(url, signer_from(os.environ))
    queue.ping(PING_S)
    return queue


def broker_of(given: str | None, environ: Mapping[str, str]) -> str | None:
    """Return the broker to use: the option, else the environment, else none (embedded)."""
    return given or environ.get(BROKER_VARIABLE) or None


def need_broker(given: str | None, environ: Mapping[str, str]) -> str:
    """Return the broker to use.

    Raises:
        UsageError: there is none.
    """
    url = broker_of(given, environ)
    if url is None:
        raise UsageError(
            "this needs a broker",
            hint=f"give --broker redis://HOST:PORT, or set {BROKER_VARIABLE}",
        )
    return url


def this_machine() -> Machine:
    """Return what we know of this machine; a GPU that is not NVIDIA's makes it unknown."""
    from agentcompass.coordinator.planning.plan import Machine

    devices = Path("/dev")
    if not devices.is_dir() or (devices / "kfd").exists() or (devices / "dxg").exists():
        return Machine()
    return Machine(gpus=sum(path.name[6:].isdigit() for path in devices.glob("nvidia*")))


def watch_policy(environ: Mapping[str, str]) -> WatchPolicy:
    """Return a policy that fits the leases of the workers."""
    from agentcompass.coordinator.watching.decide import WatchPolicy
    from workers.settings import Clocks  # with the other imports of workers

    lease_s = Clocks.from_env(environ).lease_s
    return WatchPolicy(
        lease_s=lease_s,
        look_every_s=2 * lease_s,
        resend_limit_s=16 * lease_s,
        finalize_after_s=min(10.0, lease_s),
    )
