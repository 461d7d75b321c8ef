"""Keeps the two Celery worker processes of one `agentcompass worker` running, and ends them.

Small on purpose: no Celery, no thread, nothing that attempts could break.
"""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from workers import clock
from workers.keeping.instance import has_instance
from workers.keeping.reaper import reap
from workers.serving import leash
from workers.serving.options import Role, ServeOptions
from workers.settings import Clocks
from workers.urls import from_environment

logger = logging.getLogger(__name__)

PROGRAM: Final = ("-m", "workers.attempt_worker")
REFUSED: Final = 78
"""`workers.serving.refusal.REFUSED`, without importing Celery."""

_LOOK_S: Final = 0.2
_LOOK_AGAIN_S: Final = 0.02
_DYING_S: Final = 5.0
_STARTS_AT_MOST: Final = 5
_HEALTHY_AFTER_S: Final = 15.0
_CUT_LEASH_S: Final = 3.0
"""How long processes whose coordinator is gone may take to hand back what they execute."""


@dataclass(slots=True)
class _Child:
    options: ServeOptions
    process: subprocess.Popen[bytes] | None = None
    started_s: float = 0.0
    failures: int = 0
    start_at_s: float = 0.0
    terms: int = field(default=0)
    """How many SIGTERMs this process got."""

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None


class Supervisor:
    """Runs in the main thread of a process of its own."""

    def __init__(
        self,
        options: ServeOptions,
        env: Mapping[str, str],
        *,
        program: Sequence[str] = PROGRAM,
        on_leash: bool = False,
    ) -> None:
        self._env = env
        self._clocks = Clocks.from_env(env)
        self._base = options.base_path
        self._program = [sys.executable, *program]
        self._on_leash = on_leash
        names: dict[Role, str] = {
            "attempts": options.name,
            "finalizers": f"finalizer.{options.name}",
        }
        self._attempts, self._finalizers = (
            _Child(replace(options, role=role, name=name)) for role, name in names.items()
        )
        self._stops = 0
        self._stopped_s = 0.0
        self._exit_code = 0

    def run(self) -> int:
        """Supervise until told to stop; returns 0, 1 (does not start) or 2 (refuses its messages)."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        try:
            while self._tick():
                self._wait()
        finally:
            self._reap(self._kill_all())
        return self._exit_code

    def _on_signal(self, *_: object) -> None:
        self._stop()

    def _stop(self) -> None:
        self._stops += 1
        self._stopped_s = self._stopped_s or time.monotonic()

    def _tick(self) -> bool:
        now_s = time.monotonic()
        if not self._stops:
            for child in (self._attempts, self._finalizers):
                self._keep_running(child, now_s)
            return True
        # Attempts first: the last one may complete a run, whose finalizer is still there then.
        self._terminate(self._attempts)
        if not self._attempts.is_running or self._stops > 1:
            self._terminate(self._finalizers)
        is_over = not self._attempts.is_running and not self._finalizers.is_running
        return not is_over and now_s < self._stopped_s + self._patience_s()

    def _wait(self) -> None:
        if not self._on_leash:
            clock.sleep(_LOOK_S)
        elif (word := leash.heard(_LOOK_S)) is not None:
            if word != leash.GOODBYE:
                logger.warning("the coordinator is gone; ending")
            self._on_leash = False
            self._stops, self._stopped_s = 2, time.monotonic() - self._patience_s() + _CUT_LEASH_S

    def _patience_s(self) -> float:
        """Until SIGKILL: the workers' own patience with attempts, and some for themselves."""
        grace_s = self._clocks.grace_s if self._stops == 1 else 0.0
        return grace_s + 2.5 * self._clocks.stop_s

    def _keep_running(self, child: _Child, now_s: float) -> None:
        if child.is_running or now_s < child.start_at_s:
            return
        if child.process is not None and not self._may_start_again(child, now_s):
            return
        argv = [*self._program, child.options.to_json()]
        child.process, child.started_s = leash.start_mortal(argv, self._env), now_s

    def _may_start_again(self, child: _Child, now_s: float) -> bool:
        """Decide what an unexpected end means; at most five quick ones in a row."""
        code = child.process.returncode if child.process else 0
        child.process = None
        if code == REFUSED:
            self._exit_code = 2
            self._stop()
            return False
        is_quick = now_s < child.started_s + _HEALTHY_AFTER_S
        child.failures = child.failures + 1 if is_quick else 1
        logger.warning("worker process %s ended with code %s", child.options.name, code)
        if child.failures >= _STARTS_AT_MOST:
            logger.error("worker process %s does not start; giving up", child.options.name)
            self._exit_code = 1
            self._stop()
            return False
        child.start_at_s = now_s + self._clocks.tick_s * (2.0 ** (child.failures - 1) - 1)
        return now_s >= child.start_at_s

    def _terminate(self, child: _Child) -> None:
        """Pass on each request to stop: the second one makes a worker hand back at once."""
        if child.process is not None and child.is_running and child.terms < min(self._stops, 2):
            child.terms += 1
            child.process.send_signal(signal.SIGTERM)

    def _kill_all(self) -> list[int]:
        killed = []
        for child in (self._attempts, self._finalizers):
            if child.process is not None and child.is_running:
                child.process.kill()
                child.process.wait()
                killed.append(child.process.pid)
        return killed

    def _reap(self, killed: Collection[int]) -> None:
        """Clear up what killed workers left; their leases end by themselves if Redis is gone.

        The children of their pools have the lock, too, and die a moment later.
        """
        give_up_at = time.monotonic() + _DYING_S
        while True:
            reap(self._base, _releaser(self._env))
            if not has_instance(self._base, killed) or time.monotonic() >= give_up_at:
                return
            clock.sleep(_LOOK_AGAIN_S)


def _releaser(env: Mapping[str, str]) -> Callable[[str, str], None]:
    def release(lease: str, token: str) -> None:
        # Only after a worker was killed, so only then this process pays for the import.
        from workers.broker.client import connect
        from workers.broker.leases import RedisLeases

        client = connect(from_environment(env), timeout_s=1.0)
        RedisLeases(client, ttl_s=1.0).release_by_name(lease, token)
        client.close()

    return release
