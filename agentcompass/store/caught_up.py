"""A listing that shows less than the report beside it covers: a share's cache is behind, or results are gone.

Only the former passes, so whoever is about to say *missing* lists again for a while. A run that simply
is not over has no report on all of its results in these legs, and nobody waits for it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Final

from agentcompass.errors import StoreError
from agentcompass.models.run_info import RunInfo
from agentcompass.store.layout import STATES
from agentcompass.store.names import task_dirname
from agentcompass.store.report import load_covered
from agentcompass.store.scan import RunScan, TaskScan, pending, results_digest, scan

logger: Final = logging.getLogger(__name__)

WAITS_S: Final = (0.5, 1.0, 2.0, 4.0, 7.5, 15.0, 30.0)
"""A minute, which is what shares cache names for."""
_NOTHING: Final = TaskScan(STATES[0], frozenset(), frozenset())


def caught_up(
    run_dir: Path,
    info: RunInfo,
    found: RunScan,
    sleep: Callable[[float], object] | None = None,
) -> RunScan:
    """Return a listing that shows all that the present report covers, or the last of a minute.

    Args:
        found: a listing that was just made; returned at once if it is not known to be behind.
    """
    for wait_s in WAITS_S:
        if not _is_behind(run_dir, info, found):
            break
        if wait_s == WAITS_S[0]:
            logger.warning(
                "%s shows fewer results than its report covers: the share is behind, or they are "
                "gone; looking again for up to a minute",
                run_dir,
            )
        (sleep or Event().wait)(wait_s)
        found = scan(run_dir)
    return found


def _is_behind(run_dir: Path, info: RunInfo, found: RunScan) -> bool:
    """Return whether attempts are missing and a report is there that was made of all of them.

    A result that counts never goes, so the report knows better. One of other legs does not.
    """
    if not any(True for _ in pending(run_dir, info, found)):
        return False
    try:
        covered = load_covered(run_dir)
    except StoreError:
        return False  # then it says nothing that could be believed
    if covered is None:
        return False
    tasks = dict(found.tasks)
    for entry, left in pending(run_dir, info, found):
        known = found.get(entry.task_id) or _NOTHING
        tasks[task_dirname(entry.task_id)] = replace(known, published=known.published.union(left))
    return results_digest(RunScan(tasks, found.legs)) == covered.results_sha256
