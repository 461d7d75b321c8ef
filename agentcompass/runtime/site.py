"""The place where deliveries are worked on: one worker process, as the wiring makes it."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from agentcompass.runtime.ports import Limits
from agentcompass.store.root import ResultsRoot


def _nobody(_line: str) -> None:
    """Report progress to nobody."""


@dataclass(frozen=True, slots=True)
class Site:
    """What a worker lends to every attempt."""

    root: ResultsRoot
    worker: str
    """Its name in start marks, results and Flower."""
    work_dir: Path
    """On a disk of its own, private; each execution has a folder there for as long as it lasts."""
    now: Callable[[], datetime]
    """Aware, UTC."""
    trusted_roots: Sequence[Path] | None = ()
    """Folders whose Python files may be executed as plug-ins; None trusts every file."""
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    """Where secrets are taken from."""
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    """What is a secret on this worker whether or not a run refers to it: name -> value."""
    sleep: Callable[[float], object] | None = None
    """Waits before retries; None waits for real, and ends when the execution is to stop."""
    random: random.Random = field(default_factory=random.Random)  # noqa: S311 - spreads retries
    progress: Callable[[str], None] = _nobody
    """Gets the one-line reports of harnesses; must be cheap and must not raise."""
    invisible_s: float = 60.0
    """How long a share may hide a run that another machine has made."""
    limits: Limits | None = None
    """What all workers share; asked only where a run limits something. None: nobody counts."""
