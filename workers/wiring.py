"""Where a worker process meets the runtime, the clock and the results folder."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from agentcompass.errors import AgentCompassError, ResultsDirUnusable, RunNotFound
from agentcompass.models.message import AttemptMessage, FinalizeMessage
from agentcompass.runtime.deliver import deliver
from agentcompass.runtime.ports import Delivered, Done, HandBack, Park
from agentcompass.runtime.site import Site
from agentcompass.store.root import ResultsRoot, find_root, resolve_ref
from workers import clock
from workers.broker.holdings import holds_anything
from workers.broker.parking import Parking
from workers.limits.redis_limits import RedisLimits
from workers.serving.celery_worker import Bench
from workers.tasks import ELSEWHERE_S, Complete, Elsewhere, NotYet, Parts

logger = logging.getLogger(__name__)

INVISIBLE_S: Final = 60.0
"""So long a share may hide what another machine has made."""
_LOOK_S: Final = 2.0


def now() -> datetime:
    """Return the time, UTC."""
    return datetime.now(UTC)  # noqa: TID251 - the wiring reads the clock, so that nobody else does


class RealParts:
    """Delivers and finalizes with the real runtime, in the one results folder of this worker."""

    def __init__(
        self,
        bench: Bench,
        *,
        limits: RedisLimits | None = None,
        invisible_s: float = INVISIBLE_S,
        sleep: Callable[[float], None] = clock.sleep,
    ) -> None:
        self._bench = bench
        self._path = bench.options.results_path
        self._trusted = bench.options.trusted_paths
        self._invisible_s = invisible_s
        self._sleep = sleep
        self._site: Site | None = None
        self._is_proven = False
        self._told: set[str] = set()
        self._limits = limits

    def deliver(self, message: AttemptMessage) -> Delivered:
        """Bring one attempt to its end, or say what is to become of its message."""
        root = self._root_of(message.root)
        if isinstance(root, HandBack):
            return self._elsewhere(root, message.root)
        site = self._site_in(root)
        if message.run in self._told:  # it was awaited once
            site = replace(site, invisible_s=0.0)
        found = deliver(message, site, self._bench.leases, self._bench.keeper)
        if isinstance(found, HandBack) and found.reason == "run_not_visible":
            return self._elsewhere(found, message.run)
        self._told.discard(message.run)
        if isinstance(found, Done) and not self._is_proven:
            self._is_proven = True
            self._bench.instance.prove(root.digest)
        return found

    def _elsewhere(self, back: HandBack, what: str) -> HandBack | Park:
        """Decide who is in the wrong place: a worker that has never done anything, or a message.

        With its folder still there, a worker that has brought attempts to their end leaves a
        message that it cannot place to others, now and then, and goes on with its own.
        """
        proven = self._bench.instance.proven_root()
        if not proven or self._own_root(proven) is None:
            return back
        if what not in self._told:
            self._told.add(what)
            logger.warning("left to other workers, time and again: %s", back.message)
        return Park(ELSEWHERE_S if back.reason == "other_root" else self._invisible_s, "elsewhere")

    def finalize(self, message: FinalizeMessage) -> Complete | NotYet | Elsewhere:
        """Complete one run, or say what it lacks.

        All queues share the lane of the callbacks, so another folder's says nothing against us.
        """
        # A quarter of what a worker would import, and the process for attempts never needs it.
        from agentcompass.runtime.finalize import Incomplete, finalize

        root = self._own_root(message.root)
        if root is None:
            return Elsewhere()
        try:
            found = finalize(resolve_ref(root, message.run), trusted_roots=self._trusted)
        except RunNotFound:
            return NotYet("the run is not visible here")
        except AgentCompassError as error:
            logger.error("%s cannot be finalized: %s", message.run, error)  # noqa: TRY400
            return NotYet("it cannot be finalized")
        if isinstance(found, Incomplete):
            return NotYet(f"{found.count} attempts have no result")
        logger.info("%s finalized", message.run)
        return Complete()

    def _site_in(self, root: ResultsRoot) -> Site:
        if self._site is None or self._site.root != root:
            self._site = Site(
                root=root,
                worker=self._bench.worker,
                work_dir=self._bench.instance.work,
                now=now,
                trusted_roots=self._trusted,
                invisible_s=self._invisible_s,
                secrets=self._bench.secrets,
                limits=self._limits,
            )
        return self._site

    def _own_root(self, digest: str) -> ResultsRoot | None:
        """Return our results folder if it is there and is the one that is meant; does not wait."""
        try:
            root = find_root(self._path)
        except ResultsDirUnusable:
            return None
        return root if root is not None and root.digest == digest else None

    def _root_of(self, digest: str) -> ResultsRoot | HandBack:
        """Return our results folder, if it is the one that the message means."""
        if self._site is not None and self._site.root.digest == digest:
            return self._site.root
        try:
            root = self._awaited_root()
        except ResultsDirUnusable as error:
            return HandBack("other_root", str(error).replace("\n", " "), stops_consuming=True)
        if root is not None and root.digest == digest:
            return root
        found = f"holds {root.digest}" if root is not None else "has no .agentcompass-root"
        text = f"messages are of results folder {digest}, but {self._path} {found}: is it mounted?"
        return HandBack("other_root", text, stops_consuming=True)

    def _awaited_root(self) -> ResultsRoot | None:
        waited_s = 0.0
        while (root := find_root(self._path)) is None and waited_s < self._invisible_s:
            self._sleep(_LOOK_S)
            waited_s += _LOOK_S
        return root


def real_parts(bench: Bench) -> Parts:
    """Wire the tasks of a worker process."""
    limits = RedisLimits(bench.client)
    parts = RealParts(bench, limits=limits)
    return Parts(
        deliver=parts.deliver,
        finalize=parts.finalize,
        is_held=lambda keys: holds_anything(bench.client, keys),
        parking=Parking(bench.client),
        refuse=bench.refusal.refuse,
        limits=limits,
        signer=bench.signer,
    )
