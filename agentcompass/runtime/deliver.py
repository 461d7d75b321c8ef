"""Works on one message: take the lease, then look, then decide, then act, then let go.

```
locate the run -> leg open? -> lower attempts over? -> lease -> start mark and listing -> decide
    -> publish without executing | evaluate | execute (alone, if need be)
    -> still ours? -> publish -> release
```

Whatever an attempt does is its own issue. What is returned tells the queue's side what to do with
the message; what is raised is a bug of ours.
"""

from __future__ import annotations

import logging
from threading import Event
from typing import Final
from uuid import uuid4

from agentcompass.errors import RunNotFound, StoreError
from agentcompass.metrics.per_task.strategies import STRATEGIES
from agentcompass.models.message import AttemptMessage
from agentcompass.models.result import AttemptOutcome
from agentcompass.runtime.bookkeeping import bookkeeping
from agentcompass.runtime.delivery.held import Held, not_recorded
from agentcompass.runtime.delivery.job import Job
from agentcompass.runtime.delivery.run_cache import LoadedRun, awaited, located
from agentcompass.runtime.ports import (
    Delivered,
    Done,
    HandBack,
    Keeper,
    LeaseHeld,
    LeaseKey,
    Leases,
    LeasesUnreachable,
    LimitsUnreachable,
    Park,
    Stale,
)
from agentcompass.runtime.site import Site
from agentcompass.store import attempts, control, tasks
from agentcompass.store.legs import Legs

__all__ = ["Delivered", "Done", "HandBack", "Park", "Site", "Stale", "deliver"]

logger: Final = logging.getLogger(__name__)

EARLIER_S: Final = 60.0
"""A message that waits for a lower attempt is woken by it; this is for a wake-up that got lost."""
FULL_S: Final = 60.0
"""As above, of a message that waits for any other attempt of its run."""


def deliver(message: AttemptMessage, site: Site, leases: Leases, keeper: Keeper) -> Delivered:
    """Bring one attempt to its end, or say what is to become of the message.

    Safe for any message in any order, any number of times, on any number of workers at once.

    Raises:
        Exception: only what is a bug of ours; never because of what an attempt did.
    """
    try:
        with bookkeeping():
            found = _job(message, site)
            return _counted(found, leases, keeper) if isinstance(found, Job) else found
    except LeasesUnreachable as error:
        return HandBack("leases_unreachable", str(error))
    except (StoreError, RunNotFound) as error:
        return Stale(str(error))
    except OSError as error:
        return not_recorded(error, site.work_dir)


def _job(message: AttemptMessage, site: Site) -> Job | Delivered:
    """Locate the attempt and say whether it is wanted now."""
    run = _run(message, site)
    if not isinstance(run, LoadedRun):
        return run
    legs = control.legs(run.run_dir)
    if not legs.is_open(message.leg):
        _pass_on(message, run, legs, site)
        return Stale(f"leg {message.leg} is closed")
    if message.attempt > run.attempt_plan.k:
        return Stale(f"the run plans {run.attempt_plan.k} attempts of each task")
    spec = tasks.read_at(run.run_dir, message.offset)
    return Job(
        message=message,
        run=run,
        spec=spec,
        plan=run.plan_of(spec, message.attempt, legs),
        legs=legs,
        token=uuid4().hex,
        site=site,
        started_at=site.now(),
    )


def _pass_on(message: AttemptMessage, run: LoadedRun, legs: Legs, site: Site) -> None:
    """Let another parked attempt begin: this one may have been woken, and will not."""
    at_most = run.settings_under(legs).task_concurrency
    if site.limits is not None and at_most is not None:
        key = LeaseKey(message.root, message.run, message.offset, message.attempt)
        site.limits.end(key, "", at_most)


def _run(message: AttemptMessage, site: Site) -> LoadedRun | HandBack:
    if message.root != site.root.digest:
        text = (
            f"run {message.run} is in another results folder than {site.root.path} "
            f"({message.root}, not {site.root.digest}): mount it, or start the worker with its path"
        )
        return HandBack("other_root", text, stops_consuming=True)
    run_dir = located(site.root, message.run)
    run = awaited(run_dir, site.invisible_s, site.sleep or Event().wait)
    if run is None:
        text = f"no run at {run_dir} after {site.invisible_s:g} s: is the results folder mounted?"
        return HandBack("run_not_visible", text, stops_consuming=True)
    return run


def _counted(job: Job, leases: Leases, keeper: Keeper) -> Delivered:
    """Deliver, and whatever came of it, let the next attempt begin if the run limits them."""
    limits, at_most = job.site.limits, job.run.settings_under(job.legs).task_concurrency
    if limits is None or at_most is None:
        return _leased(job, leases, keeper)
    try:
        return _leased(job, leases, keeper)
    finally:
        limits.end(job.key, job.token, at_most)


def _leased(job: Job, leases: Leases, keeper: Keeper) -> Delivered:
    task_id, number = job.spec.task_id, job.message.attempt
    if job.legs.is_closed(task_id, number):
        return Done("closed", _wakes(job))
    lower = _lower_outcomes(job)
    if lower is None:
        return Park(EARLIER_S, "earlier_attempt")
    held = leases.take(job.key, job.token, worker=job.site.worker)
    if isinstance(held, LeaseHeld):
        if attempts.is_published(job.run.run_dir, task_id, number, job.valid_from_leg):
            return Done("was_published", _wakes(job))
        return Park(max(held.remaining_s, 1.0), "held")
    try:
        full = _full(job)
        return full or Held(job, leases, keeper, _is_needed(job, lower), _wakes(job)).work()
    finally:
        leases.release(job.key, job.token)


def _full(job: Job) -> Delivered | None:
    """Return what becomes of the message if enough attempts of its run execute; no mark is made."""
    limits, at_most = job.site.limits, job.run.settings_under(job.legs).task_concurrency
    if limits is None or at_most is None:
        return None
    try:
        if limits.begin(job.key, job.token, at_most):
            return None
    except LimitsUnreachable as error:
        logger.warning("attempts of %s cannot be counted now: %s", job.message.run, error)
        return None
    own = job.message
    if attempts.is_published(job.run.run_dir, job.spec.task_id, own.attempt, job.valid_from_leg):
        return Done("was_published", _wakes(job))
    return Park(FULL_S, "run_is_full", at_most)


def _lower_outcomes(job: Job) -> list[AttemptOutcome | None] | None:
    """Return the outcomes of the lower attempts if the strategy asks for them; None: wait."""
    if not STRATEGIES.get(job.run.attempt_plan.strategy).is_sequential:
        return []
    found: list[AttemptOutcome | None] = []
    for number in range(1, job.message.attempt):
        if job.legs.is_closed(job.spec.task_id, number):
            found.append(None)
            continue
        head = attempts.find_head(job.run.run_dir, job.spec.task_id, number)
        first_leg = job.legs.valid_from_leg(job.spec.task_id, number)
        if head is None or not head.is_terminal or head.leg < first_leg:
            return None
        found.append(head.outcome)
    return found


def _is_needed(job: Job, lower: list[AttemptOutcome | None]) -> bool:
    if not lower:
        return True
    strategy = STRATEGIES.get(job.run.attempt_plan.strategy)
    return strategy.needed(job.run.contract, [*lower, None]) > len(lower)


def _wakes(job: Job) -> tuple[LeaseKey, ...]:
    """Return the next attempt if its message waits for this one's end."""
    plan, number = job.run.attempt_plan, job.message.attempt
    if number >= plan.k or not STRATEGIES.get(plan.strategy).is_sequential:
        return ()
    key = job.key
    return (LeaseKey(key.root_digest, key.run_ref, key.offset, number + 1),)
