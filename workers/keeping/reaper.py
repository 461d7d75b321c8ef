"""Clears up after worker instances of this machine that died without doing it themselves."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from workers.keeping import leftovers, processes, slips
from workers.keeping.instance import Instance, close_instance, dead_instances

logger = logging.getLogger(__name__)


def reap(base: Path, release: Callable[[str, str], None]) -> int:
    """End what dead instances left running, release their leases, remove their directories.

    Args:
        release: takes the Redis key of a lease and the token that held it.

    Returns:
        How many executions were found.
    """
    count = 0
    for instance in dead_instances(base):
        try:
            count += _reap(instance, release)
        finally:
            close_instance(instance)
    return count


def bury(instance: Instance) -> None:
    """Remove our own directory at the end of a worker that ended in peace."""
    tokens = [slip.token for slip, _ in slips.read_all(instance.slips)]
    _kill(instance, tokens)
    leftovers.clear(instance.work, tokens)
    shutil.rmtree(instance.path, ignore_errors=True)
    close_instance(instance)


def _kill(instance: Instance, tokens: Sequence[str]) -> int:
    """End what the executions have left, and what their code has started inside of the worker."""
    killed = processes.kill_labelled(tokens)
    return killed + processes.kill_labelled([instance.path.name], processes.WORKER_LABEL)


def _reap(instance: Instance, release: Callable[[str, str], None]) -> int:
    found = [slip for slip, _ in slips.read_all(instance.slips)]
    tokens = [slip.token for slip in found]
    killed = _kill(instance, tokens)
    leftovers.clear(instance.work, tokens)
    for slip in found:
        release(slip.lease, slip.token)
    if found:
        logger.warning(
            "a dead worker left %d executions and %d processes; cleared", len(found), killed
        )
    shutil.rmtree(instance.path, ignore_errors=True)
    return len(found)
