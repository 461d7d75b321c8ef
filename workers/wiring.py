"""Where a worker process meets the runtime, the clock and the results folder."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from agentcompass.errors import AgentCompassError, ResultsDirUnusable, RunNotFound
from agentcompass.models.message import AttemptMessage, FinalizeMessage
from agentcompass.runtime.deliver import deliver
from agentcompass.runtime.ports import Delivered, HandBack
from agentcompass.runtime.site import Site
from agentcompass.store.root import ResultsRoot, find_root, resolve_ref
from workers import clock
from workers.broker.holdings import holds_anything
from workers.broker.parking import Parking
from workers.serving.celery_worker import Bench
from workers.tasks import Complete, NotYet, Parts

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
        invisible_s: float = INVISIBLE_S,
        sleep: Callable[[float], None] = clock.sleep,
    ) -> None:
        self._bench = bench
        self._path = bench.options.results_path
        self._trusted = bench.options.trusted_paths
        self._invisible_s = invisible_s
        self._sleep = sleep
        self._site: Site | None = None

    def deliver(self, message: AttemptMessage) -> Delivered:
        """Bring one attempt to its end, or say what is to become of its message."""
        root = self._root_of(message.root)
        if isinstance(root, HandBack):
            return root
        return deliver(message, self._site_in(root), self._bench.leases, self._bench.keeper)

    def finalize(self, message: FinalizeMessage) -> Complete | NotYet | HandBack:
        """Complete one run, or say what it lacks."""
        # A quarter of what a worker would import, and the process for attempts never needs it.
        from agentcompass.runtime.finalize import Incomplete, finalize

        root = self._root_of(message.root)
        if isinstance(root, HandBack):
            return root
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
        if self._site is None:
            self._site = Site(
                root=root,
                worker=self._bench.worker,
                work_dir=self._bench.instance.work,
                now=now,
                trusted_roots=self._trusted,
                invisible_s=self._invisible_s,
                secrets=self._bench.secrets,
            )
        return self._site

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
    parts = RealParts(bench)
    return Parts(
        deliver=parts.deliver,
        finalize=parts.finalize,
        is_held=lambda keys: holds_anything(bench.client, keys),
        parking=Parking(bench.client),
        refuse=bench.refusal.refuse,
        signer=bench.signer,
    )
