"""Benchmarks with a formula of their own, and what can be wrong with one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import ClassVar

from agentcompass.benchmarks.base import Benchmark
from agentcompass.metrics.builder import (
    collect,
    ratio_of_sums,
    series_like,
    sum_of,
    with_series,
)
from agentcompass.models.metric import MetricReport
from agentcompass.models.result import AttemptResult
from tests.builders import a_contract
from tests.support.coordinated import BenchParams

MODULE = "tests.support.formulas"


def _tests(detail: AttemptResult) -> tuple[float, float] | None:
    usage = detail.meta.harness.get("telemetry")
    passed, total = (usage.get(name) if isinstance(usage, dict) else None for name in ("ok", "of"))
    if not isinstance(passed, int | float) or not isinstance(total, int | float):
        return None
    return float(passed), float(total)


class Ratio(Benchmark[BenchParams]):
    """Its headline is the ratio of sums of tests; it appends how many there were."""

    id: ClassVar[str] = "ratio"
    Params = BenchParams
    contract = a_contract("scalar")

    def aggregate_metrics(
        self, details: Iterator[AttemptResult], report: MetricReport
    ) -> MetricReport:
        terms = collect(details, report, self.contract, _tests)
        return with_series(
            report,
            ratio_of_sums(terms, report.headline),
            sum_of(terms, series_like(report, "tests", label="Tests passed")),
        )


class AsyncRatio(Ratio):
    """The same as a coroutine."""

    async def aggregate_metrics(  # type: ignore[override]  # both are allowed
        self, details: Iterator[AttemptResult], report: MetricReport
    ) -> MetricReport:
        await asyncio.sleep(0)
        return super().aggregate_metrics(details, report)


class Failing(Ratio):
    """Raises."""

    def aggregate_metrics(
        self, details: Iterator[AttemptResult], report: MetricReport
    ) -> MetricReport:
        raise ZeroDivisionError("nobody\npassed")


class Forgetful(Ratio):
    """Returns nothing."""

    def aggregate_metrics(
        self, details: Iterator[AttemptResult], report: MetricReport
    ) -> MetricReport:
        return None  # type: ignore[return-value]  # that is the fault


class Silent(Ratio):
    """Drops what the report says about itself, and claims what is not so."""

    def aggregate_metrics(
        self, details: Iterator[AttemptResult], report: MetricReport
    ) -> MetricReport:
        extra = {"mine": 1, "partial": {"status": "imagined", "missing": 9}}
        return report.model_copy(update={"extra": extra})
