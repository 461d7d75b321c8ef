"""What analyzers say of a whole run: their own words about each attempt, summarized.

A run's own analyzers have looked at every attempt before it was published, so no trajectory is read
again. Analyzers that somebody asks for afterwards look at what is on disk. Whatever an analyzer does
wrong is said in its place of the summary and stops nothing.
"""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final, Self

import orjson
from pydantic import BaseModel

from agentcompass.analyzers.base import Analyzer
from agentcompass.errors import StoreError, UsageError
from agentcompass.models.analysis import AnalysisSummary, AnalyzerSummary
from agentcompass.models.base import JsonObject
from agentcompass.models.issue import MESSAGE_LIMIT
from agentcompass.models.request import ComponentSpec
from agentcompass.models.result import AttemptResult
from agentcompass.runtime import components
from agentcompass.runtime.calling.awaited import awaited
from agentcompass.runtime.normalize import Normalizer
from agentcompass.runtime.values.live import masked
from agentcompass.runtime.values.references import as_far_as_known
from agentcompass.store import layout
from agentcompass.store.results import ResultHead, load_result
from agentcompass.store.scan import TaskHeads

logger: Final = logging.getLogger(__name__)

_IN_MEMORY_BYTES: Final = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Analyzers:
    """Which analyzers are to say something of a run."""

    own: Sequence[ComponentSpec] = ()
    """Of its request: what they said of each attempt is in the results."""
    asked_for: Sequence[ComponentSpec] = ()
    """Afterwards: they look at the attempts now; one of the run's own, if named, looks again."""
    trusted_roots: Sequence[Path] | None = None
    """As for `components.load`, of the run's own; who asks for others has just typed them."""

    def __bool__(self) -> bool:
        return bool(self.own or self.asked_for)


@dataclass(slots=True)
class _Voice:
    """One analyzer and what it said, attempt by attempt, kept in a file without a name."""

    spec: ComponentSpec
    analyzer: Analyzer[BaseModel] | None
    is_anew: bool
    file: IO[bytes]
    error: str = ""
    attempts: int = 0
    failed: int = 0

    @property
    def name(self) -> str:
        return self.analyzer.id if self.analyzer is not None else self.spec.id

    def hear(self, said: Mapping[str, object]) -> None:
        self.attempts += 1
        self.file.write(orjson.dumps(said, option=orjson.OPT_APPEND_NEWLINE))

    def ask(self, result: AttemptResult) -> None:
        if self.analyzer is None:
            return
        try:
            said = awaited(self.analyzer.analyze(result))
            self.hear(Normalizer().mapping(said, self.name))
        except Exception as error:  # noqa: BLE001 - a plug-in may raise anything; it is counted
            self.failed += 1
            logger.warning("analyzer %s failed: %s", self.name, _line(error))

    def summary(self) -> AnalyzerSummary:
        found: JsonObject | None = None
        error = self.error
        if self.analyzer is not None:
            try:
                said = awaited(self.analyzer.summarize(self._said()))
                found = Normalizer().mapping(said, self.name) or None
            except Exception as raised:  # noqa: BLE001 - a plug-in may raise anything; it is said
                error = _line(raised)
                logger.warning("analyzer %s gave no summary: %s", self.name, error)
        return AnalyzerSummary(
            params=self.spec.params,
            attempts=self.attempts,
            failed=self.failed,
            summary=found,
            error=error,
        )

    def _said(self) -> Iterator[JsonObject]:
        self.file.seek(0)
        for line in self.file:
            yield orjson.loads(line)


@dataclass(slots=True)
class AnalysisTally:
    """Takes in one run, task by task in its order; a context that ends with its files."""

    wanted: Analyzers
    _voices: list[_Voice] = field(default_factory=list)
    _files: ExitStack = field(default_factory=ExitStack)
    _attempts: int = 0
    _missing: int = 0

    def __enter__(self) -> Self:
        asked = {spec.id for spec in self.wanted.asked_for}
        with self._files:
            for spec in self.wanted.own:
                if spec.id not in asked:
                    self._add(spec, is_anew=False)
            for spec in self.wanted.asked_for:
                self._add(spec, is_anew=True)
            self._files = self._files.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._files.close()

    def see(self, task: TaskHeads) -> None:
        """Take in one task."""
        if not self._voices:
            return
        for number, head in enumerate(task.heads, start=1):
            if head is None:
                self._missing += 1
            else:
                self._attempts += 1
                self._see_attempt(task, number, head)

    def summary(self, run_id: str, results_sha256: str) -> AnalysisSummary | None:
        """Return what all of them say of the run; None if there are none."""
        if not self._voices:
            return None
        return AnalysisSummary(
            run_id=run_id,
            source="report" if self.wanted.asked_for else "evaluation",
            results_sha256=results_sha256,
            attempts=self._attempts,
            missing=self._missing,
            analyzers={voice.name: voice.summary() for voice in self._voices},
        )

    def _add(self, spec: ComponentSpec, *, is_anew: bool) -> None:
        file = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY_BYTES)  # noqa: SIM115 - see exit
        self._files.enter_context(file)
        try:
            analyzer = components.load(
                "analyzer",
                as_far_as_known(spec, os.environ),
                trusted_roots=None if is_anew else self.wanted.trusted_roots,
            )
        except UsageError as error:
            if is_anew:
                raise
            self._voices.append(_Voice(spec, None, is_anew, file, error=_line(error)))
        else:
            self._voices.append(_Voice(spec, analyzer, is_anew, file))

    def _see_attempt(self, task: TaskHeads, number: int, head: ResultHead) -> None:
        result: AttemptResult | None = None
        for voice in self._voices:
            if not voice.is_anew:
                said = head.analysis_result.get(voice.name)
                if isinstance(said, dict):
                    voice.hear(said)
            elif head.is_on_disk and task.directory is not None and not head.outcome.skipped:
                result = result or _whole(task.directory, number)
                if result is not None:
                    voice.ask(result)


def _whole(task_dir: str, number: int) -> AttemptResult | None:
    """Return a result with its trajectory; None if it cannot be read or was moved a moment ago."""
    path = Path(task_dir, layout.attempt_dirname(number), layout.RESULT)
    try:
        return load_result(path)
    except (FileNotFoundError, StoreError) as error:
        logger.warning("an attempt was not analyzed: %s", error)
        return None


def _line(error: Exception) -> str:
    text = f"{type(error).__name__}: {error}" if not isinstance(error, UsageError) else error.what
    return masked(" ".join(text.split()))[:MESSAGE_LIMIT]
