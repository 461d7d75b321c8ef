"""Names in Redis and in Celery: where a run's leases, messages and parked deliveries are found."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from agentcompass.runtime.ports import LeaseKey
from agentcompass.store.names import readable

PREFIX: Final = "ac:"
PARKED: Final = f"{PREFIX}parked"
"""Sorted set: id of a parked delivery -> server time at which it is due."""
PARKED_MESSAGES: Final = f"{PREFIX}parked:messages"
"""Hash: id of a parked delivery -> who it waits for, its lane, and the message."""
UNACKED: Final = "unacked"
UNACKED_INDEX: Final = "unacked_index"
"""Kombu's own: delivery tag -> message, and delivery tag -> Unix time of delivery."""

_RUN_ID_CHARACTERS: Final = 40
_TASK_CHARACTERS: Final = 40


def digest_of(text: str, length: int) -> str:
    """Return the first `length` hex digits of the SHA-256 of `text`."""
    return hashlib.sha256(text.encode()).hexdigest()[:length]


@dataclass(frozen=True, slots=True)
class RunKeys:
    """Everything that one run is called, on every machine alike."""

    root_digest: str
    ref: str
    digest: str = field(init=False)
    """12 hex digits of the reference: run ids repeat below other namespaces, this does not."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "digest", digest_of(self.ref, 12))

    @property
    def run_id(self) -> str:
        """The run's own name, cut so that ids stay short; only for people."""
        return self.ref.rsplit("/", 1)[-1][:_RUN_ID_CHARACTERS]

    @property
    def prefix(self) -> str:
        """Of all Redis keys of this run."""
        return f"{PREFIX}{self.root_digest}:{self.digest}:"

    @property
    def known(self) -> str:
        """Exists while the broker remembers the run; its value is the run's lane."""
        return f"{self.prefix}lane"

    @property
    def nudges(self) -> str:
        """Counts the nudges: control/ of this run changed."""
        return f"{self.prefix}nudges"

    def lease(self, offset: int, attempt: int) -> str:
        """Key of one attempt's lease."""
        return f"{self.prefix}lease:{offset}:{attempt}"

    def group(self, leg: int) -> str:
        """Group id of the leg's chord."""
        return f"{self.run_id}.{self.digest}.l{leg}"

    def message_id(self, task_id: str, attempt: int, leg: int) -> str:
        """Celery's task id of one attempt: readable, deterministic, unique on the broker."""
        label = readable(task_id)[:_TASK_CHARACTERS]
        unique = digest_of(f"{self.root_digest}/{self.ref}\0{task_id}", 8)
        return f"{self.run_id}:{label}-{unique}:a{attempt}:l{leg}"

    def tag(self, offset: int, attempt: int) -> str:
        """What a message carries so that holdings find it without decoding it."""
        return f"{self.root_digest}.{self.digest}:{offset}:{attempt}"


@lru_cache(maxsize=128)
def keys_of(root_digest: str, ref: str) -> RunKeys:
    """Return the keys of a run; every attempt needs them several times."""
    return RunKeys(root_digest, ref)


def lease_key(key: LeaseKey) -> str:
    """Return the Redis key of a lease."""
    return keys_of(key.root_digest, key.run_ref).lease(key.offset, key.attempt)


def waiters_key(lease: str) -> str:
    """Return the key of the set of parked deliveries that a release of `lease` makes due."""
    return f"{lease}:waiters"


def place_key(place: str) -> str:
    """Return what the keys of a shared place begin with."""
    return f"{PREFIX}at:{place}"


def running_keys(run: RunKeys) -> tuple[str, str]:
    """Return the keys of the attempts that execute, and of the parked ones that wait for them."""
    return f"{run.prefix}running", f"{run.prefix}waiting"
