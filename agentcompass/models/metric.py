"""The metric contract of a benchmark and the report that is computed from it (contracts, §7)."""

from __future__ import annotations

from typing import Final, Literal, Self

from pydantic import Field, JsonValue, model_validator

from agentcompass.models.base import Frozen

MetricKind = Literal["binary_success", "scalar"]
PRIMARY_OF_KIND: Final[dict[str, str]] = {"binary_success": "correct", "scalar": "score"}


class MetricDisplay(Frozen):
    """How a series is shown; decides nothing."""

    label: str | None = None
    description: str | None = None
    unit: str | None = None
    precision: int | None = None


class MetricSpec(Frozen):
    """One observation that the benchmark's `evaluate` may fill."""

    metric_id: str = Field(pattern=r"^[A-Za-z0-9_.:-]{1,100}$")
    kind: MetricKind
    reducers: tuple[str, ...] = ("native", "avg", "pass")
    """Ids of the reducers that make sense for it; `pass` needs `binary_success`."""
    primary: bool = False
    bounds: tuple[float, float] | None = None
    """Smallest and largest possible value; null means unbounded. Binary is always (0, 1)."""
    display: MetricDisplay = MetricDisplay()


class MetricContract(Frozen):
    """What a benchmark measures: exactly one primary, `correct` (binary) or `score` (scalar)."""

    metrics: tuple[MetricSpec, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _has_one_primary_of_the_right_name(self) -> Self:
        ids = [metric.metric_id for metric in self.metrics]
        if len(set(ids)) != len(ids):
            raise ValueError(f"metric ids are not distinct: {ids}")
        primary = [metric for metric in self.metrics if metric.primary]
        if len(primary) != 1:
            raise ValueError(f"exactly one metric must be primary, not {len(primary)}")
        expected = PRIMARY_OF_KIND[primary[0].kind]
        if primary[0].metric_id != expected:
            raise ValueError(f"a primary {primary[0].kind} metric must be called {expected!r}")
        return self

    @property
    def primary(self) -> MetricSpec:
        """The metric of the headline."""
        return next(metric for metric in self.metrics if metric.primary)

    def get(self, metric_id: str) -> MetricSpec | None:
        """Return the declared metric, or None if it is not declared."""
        return next((m for m in self.metrics if m.metric_id == metric_id), None)


class Counts(Frozen):
    """What a number covers, in tasks: evaluated + unavailable + invalidated = total.

    `error` counts tasks with an ERROR or FATAL issue and overlaps the other three.
    """

    total: int = Field(ge=0)
    evaluated: int = Field(ge=0)
    error: int = Field(ge=0)
    unavailable: int = Field(ge=0)
    invalidated: int = Field(ge=0)

    @model_validator(mode="after")
    def _adds_up(self) -> Self:
        if self.evaluated + self.unavailable + self.invalidated != self.total:
            raise ValueError(
                f"evaluated {self.evaluated} + unavailable {self.unavailable} + invalidated "
                f"{self.invalidated} is not total {self.total}"
            )
        if self.error > self.total:
            raise ValueError(f"error {self.error} exceeds total {self.total}")
        if self.invalidated > self.error:
            raise ValueError(f"invalidated {self.invalidated} exceeds error {self.error}")
        return self


class CategoryValue(Frozen):
    """The value of one category or hierarchy node."""

    value: float | None
    reference_value: float | None
    counts: Counts
    aggregation_weight: float | None = None


class MetricSeries(Frozen):
    """One metric reduced over the k attempts of each task and aggregated over the tasks."""

    series_id: str
    metric_id: str
    kind: MetricKind
    reducer: str
    role: Literal["headline", "auxiliary"]
    aggregation: str
    k: int = Field(ge=1)
    value: float | None
    reference_value: float | None
    counts: Counts
    categories: dict[str, CategoryValue] = Field(default_factory=dict)
    hierarchy: dict[str, CategoryValue] = Field(default_factory=dict)
    display: MetricDisplay = MetricDisplay()
    extra: dict[str, JsonValue] = Field(default_factory=dict)


class MetricReport(Frozen):
    """`metrics.json`: every number of a run with its counts; holds no time, place or retry count."""

    schema_version: Literal["agentcompass.metric_report.v1"] = "agentcompass.metric_report.v1"
    k: int = Field(ge=1)
    strategy: str
    aggregation: str
    evaluation_failed: bool
    series: tuple[MetricSeries, ...] = Field(min_length=1)
    extra: dict[str, JsonValue] = Field(default_factory=dict)

    @property
    def headline(self) -> MetricSeries:
        """The first series of the primary metric."""
        return next(series for series in self.series if series.role == "headline")
