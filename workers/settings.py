"""Every Celery setting that is not the default, each with its reason, and a worker's clocks."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Final

from agentcompass.errors import UsageError

TASK_ATTEMPT: Final = "eval.attempt"
TASK_FINALIZE: Final = "eval.finalize"
CONTROL_QUEUE: Final = "control"
"""Finalizers only; every worker serves it with a process of its own, so they never wait."""

CHORD_EXPIRES_S: Final = 30 * 86_400
_PREFIX: Final = "AGENTCOMPASS_"


@dataclass(frozen=True, slots=True)
class Clocks:
    """How fast a worker notices things, in seconds; `AGENTCOMPASS_LEASE_S` and so on change them."""

    lease_s: float = 30.0
    """After a holder's last sign of life its attempt may start elsewhere."""
    visibility_s: float = 30.0
    """After a worker's last sign of life Redis hands its messages to others. Shorter than an
    attempt on purpose: the heartbeat keeps what lives, and what is dead is back within a minute."""
    tick_s: float = 1.0
    """Dead children, cancelled attempts and parked deliveries are noticed at this rhythm."""
    control_s: float = 5.0
    """How often the share is asked for control records when nobody nudged."""
    grace_s: float = 60.0
    """SIGTERM: attempts may finish for so long, then they are handed back."""
    stop_s: float = 10.0
    """Between the polite request to stop and SIGKILL."""

    @property
    def beat_s(self) -> float:
        """Rhythm of the heartbeats: four chances before anything expires."""
        return min(self.lease_s, self.visibility_s) / 4

    @classmethod
    def from_env(cls, env: Mapping[str, str]) -> Clocks:
        """Read what the environment changes; UsageError for anything but a positive number."""
        return cls(
            **{
                field.name: _seconds(_PREFIX + field.name.upper(), env)
                for field in fields(cls)
                if _PREFIX + field.name.upper() in env
            }
        )


def _seconds(name: str, env: Mapping[str, str]) -> float:
    try:
        value = float(env[name])
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise UsageError(f"{name} is not a positive number of seconds: {env[name]!r}")
    return value


def celery_settings(clocks: Clocks) -> dict[str, object]:
    """Return the configuration of the Celery app, without the URLs."""
    return _messages() | _delivery() | _connections(clocks) | _worker()


def _messages() -> dict[str, object]:
    return {
        # Never unpickle what came over the network, and never put it there.
        "task_serializer": "json",
        "result_serializer": "json",
        "event_serializer": "json",
        "accept_content": ["json"],
        "result_accept_content": ["json"],
        # The directory is the truth; results in Redis could only disagree with it.
        "task_ignore_result": True,
        # What only the chord keeps in Redis must outlast a run that pauses over a holiday: the
        # default is one day, after which a chord hangs for ever.
        "result_chord_expires": CHORD_EXPIRES_S,
        # Nothing of ours is sent without a queue; what is, is no attempt.
        "task_default_queue": CONTROL_QUEUE,
    }


def _delivery() -> dict[str, object]:
    return {
        # Acknowledge after the result is on disk, and give back the message of a child that was
        # killed. Safe, because a delivery looks at the directory before it executes, and bounded,
        # because start marks count the deaths: Redis has no delivery count of its own.
        "task_acks_late": True,
        "task_reject_on_worker_lost": True,
        # Attempts take minutes to hours: a worker that hoards messages starves the others.
        "worker_prefetch_multiplier": 1,
        # The lease and the directory tell duplicates apart, not a memory of finished ids.
        "worker_deduplicate_successful_tasks": False,
        # Attempts bring their own deadlines: Celery's would fail the chord from the parent.
        "task_time_limit": None,
        "task_soft_time_limit": None,
        # Limits per worker mean nothing to an endpoint; their bookkeeping costs every message.
        "worker_disable_rate_limits": True,
    }


def _connections(clocks: Clocks) -> dict[str, object]:
    return {
        "broker_transport_options": {
            "visibility_timeout": clocks.visibility_s,
            # One sweep per interval. The defaults (10 s, every tenth) leave a SIGKILLed worker's
            # messages lying for 100 s on top.
            "unacked_restore_interval": max(1, min(5, int(clocks.visibility_s / 4))),
            "unacked_restore_throttle": 1,
            # A sweeper that dies holds this lock; the default stops all sweeps for 5 minutes.
            "unacked_mutex_expire": 10,
            # We use no priorities: one Redis list per lane instead of four.
            "priority_steps": [0],
            # Acknowledgements of many slots at once; the default of 10 loses some of them.
            "max_connections": 200,
            # A half-open connection is noticed instead of waited for. Longer than BRPOP blocks.
            "socket_timeout": 30,
            "socket_connect_timeout": 5,
            "socket_keepalive": True,
            "health_check_interval": 25,
        },
        "redis_socket_timeout": 30.0,
        "redis_socket_connect_timeout": 5.0,
        "redis_socket_keepalive": True,
        # Redis may come up after its workers, and go away for as long as it likes.
        "broker_connection_retry_on_startup": True,
        "broker_connection_max_retries": None,
        # An attempt that runs while Redis is away goes on; its lease and the directory protect it.
        "worker_cancel_long_running_tasks_on_connection_loss": False,
    }


def _worker() -> dict[str, object]:
    return {
        # Flower lists what it hears of. Costs about 0.9 ms of CPU per attempt.
        "worker_send_task_events": True,
        # Dispatch announces what it sends by itself, in batches.
        "task_send_sent_event": False,
        # Our log lines are ours, with passwords masked; what plug-ins print stays what it is.
        "worker_hijack_root_logger": False,
        "worker_redirect_stdouts": False,
        # A child that starts on a busy machine is slow, not dead (default 4 s).
        "worker_proc_alive_timeout": 60.0,
        # How long a killed child's message waits in case its result is still in the pipe (10 s).
        "worker_lost_wait": 1.0,
        # Children share the parent's imports; spawn would pay for them once per slot.
        "worker_pool_start_method": "fork",
        # Says without content what it refuses; the default logs the body of foreign messages.
        "worker_consumer": "workers.mends.consumer:StrictConsumer",
    }
