"""Standard error and 95 % interval of a printed number (`extra.uncertainty`).

The unit that is sampled is the task: attempts of one task are not independent, so all formulas use
one value per task (clustering by task, Miller 2024, "Adding Error Bars to Evals", arXiv:2411.00640).
The intervals are about tasks like these, not about running these tasks again. Throughout: `n`
tasks were evaluated, `m` is their mean, `s` their standard deviation with n - 1; stderr = s / sqrt(n).

Methods:
    wilson            tasks that are 0 or 1: Wilson 1927, "Probable Inference, the Law of
                      Succession, and Statistical Inference", JASA 22.
    clustered_wilson  tasks in [0, 1] (several binary attempts each): Wilson's interval for the
                      effective number of tasks m(1-m)/stderr**2, times (z/t)**2 for its own
                      uncertainty: Korn and Graubard 1998, Survey Methodology 24; Dean and Pagano
                      2015, JSSAM 3, find its coverage good where m +- 2 stderr leaves [0, 1].
    clustered_t       scalars: m +- t(n-1) stderr, cut at the declared bounds.
    mover             weighted means of categories: recovered variances, see `combine`.
    custom            a benchmark's own formula; the benchmark says how.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import atan, cos, fsum, isfinite, pi, sin, sqrt
from typing import Final

from pydantic import Field

from agentcompass.metrics.formula.numbers import mean, weighted_mean
from agentcompass.models.base import Frozen

Z_95: Final = 1.959963984540054
"""The 0.975 quantile of the normal distribution."""
_LEVEL: Final = 0.95
_EXACT_DF: Final = 100


class Uncertainty(Frozen):
    """As reported; None where undefined."""

    stderr: float | None = Field(ge=0)
    ci95: tuple[float, float] | None
    method: str
    n: int = Field(ge=0)
    """Evaluated tasks."""


@dataclass(frozen=True, slots=True)
class Scale:
    """What is known about the values of tasks before there are any."""

    is_indicator: bool
    """Every value is 0 or 1."""
    is_share: bool
    """Every value is a share of binary attempts, or estimated from one."""
    bounds: tuple[float, float] | None
    """Smallest and largest possible value."""
    attempts: int
    """Attempts behind one value; limits how much a task can tell."""

    @property
    def is_binary(self) -> bool:
        """Every value is between 0 and 1."""
        return self.is_indicator or self.is_share

    @property
    def method(self) -> str:
        """The method for a plain mean on this scale."""
        if self.is_indicator:
            return "wilson"
        return "clustered_wilson" if self.is_share else "clustered_t"


def of_mean(values: Sequence[float], scale: Scale) -> Uncertainty:
    """Return the uncertainty of the mean of independent tasks."""
    n = len(values)
    if n == 0:
        return _undefined(scale.method, 0)
    center = mean(values)
    stderr = standard_error(values, center)
    limits = interval(center, stderr, n, scale)
    return Uncertainty(stderr=stderr, ci95=limits, method=scale.method, n=n)


def _undefined(method: str, n: int) -> Uncertainty:
    return Uncertainty(stderr=None, ci95=None, method=method, n=n)


def standard_error(values: Sequence[float], center: float) -> float | None:
    """Return s / sqrt(n); None for fewer than two values or beyond the range of floats."""
    n = len(values)
    if n < 2:
        return None
    squares = _sum_or_inf((value - center) * (value - center) for value in values)
    return _finite(sqrt(squares / (n - 1) / n))


def _finite(value: float) -> float | None:
    return value if isfinite(value) else None


def interval(
    center: float, stderr: float | None, n: int, scale: Scale
) -> tuple[float, float] | None:
    """Return the 95 % interval that follows from mean, standard error and number of tasks."""
    if scale.is_indicator:
        return wilson(center, n)
    if stderr is None:
        return None
    if scale.is_share:
        return wilson(center, _effective_tasks(center, stderr, n, scale.attempts))
    half = t_975(n - 1) * stderr
    low, high = scale.bounds or (-float("inf"), float("inf"))
    limits = max(low, center - half), min(high, center + half)
    return limits if all(map(isfinite, limits)) else None


def wilson(p: float, n: float) -> tuple[float, float]:
    """Return the Wilson score interval of a share p of n independent tasks; n may be effective."""
    z2 = Z_95 * Z_95
    middle = (p + z2 / (2 * n)) / (1 + z2 / n)
    half = Z_95 * sqrt(max(0.0, p * (1 - p)) / n + z2 / (4 * n * n)) / (1 + z2 / n)
    # At p = 0 and p = 1 the formula touches the border but for rounding.
    return max(0.0, min(p, middle - half)), min(1.0, max(p, middle + half))


def _effective_tasks(p: float, stderr: float, n: int, attempts: int) -> float:
    """Return the number of independent 0/1 tasks that would give this standard error.

    Between n - 1 and all attempts. Where all tasks agree on 0 or on 1 the sample says nothing about
    the spread, and each task counts once.
    """
    variance = p * (1 - p)
    if variance <= 0:
        return float(n)
    most = float(n * attempts)
    tasks = min(most, variance / (stderr * stderr)) if stderr * stderr > 0 else most
    return tasks * (Z_95 / t_975(n - 1)) ** 2


def combine(parts: Sequence[tuple[float, float, Uncertainty]]) -> Uncertainty:
    """Return the uncertainty of sum(w*m) over independent categories (weight, mean, uncertainty).

    The standard error is sqrt(sum(w**2 * stderr**2)). The limits are MOVER's: each category lends
    the distance from its mean to its own limit, so that the result stays inside the bounds and
    keeps its coverage where a category is all 0 or all 1 (Newcombe 2001, Statistics in Medicine
    20; Zou and Donner 2008, Statistics in Medicine 27). Weights count as known, sum 1.
    """
    n = sum(part.n for _, _, part in parts)
    center = weighted_mean([(weight, value) for weight, value, _ in parts])
    below: list[float] = []
    above: list[float] = []
    errors: list[float] = []
    for weight, value, part in parts:
        if part.ci95 is None:
            return _undefined("mover", n)
        below.append(weight * (value - part.ci95[0]))
        above.append(weight * (part.ci95[1] - value))
        if part.stderr is not None:
            errors.append(weight * part.stderr)
    if center is None:
        return _undefined("mover", n)
    stderr = _finite(_root_of_squares(errors)) if len(errors) == len(parts) else None
    low, high = center - _root_of_squares(below), center + _root_of_squares(above)
    limits = (low, high) if isfinite(low) and isfinite(high) else None
    return Uncertainty(stderr=stderr, ci95=limits, method="mover", n=n)


def _root_of_squares(values: Sequence[float]) -> float:
    return sqrt(_sum_or_inf(value * value for value in values))


def combine_shares(
    weights: Mapping[str, float], means: Mapping[str, float | None], by: Mapping[str, Uncertainty]
) -> Uncertainty:
    """Return `combine` over the categories that have a value, weights scaled to a sum of 1."""
    used = {name: m for name, m in means.items() if m is not None and weights[name] > 0}
    total = fsum(weights[name] for name in used)
    return combine([(weights[name] / total, m, by[name]) for name, m in used.items()])


def _sum_or_inf(values: Iterable[float]) -> float:
    """Return the exact sum, or infinity where a float cannot hold it."""
    try:
        return fsum(values)
    except OverflowError:
        return float("inf")


@lru_cache(maxsize=1024)
def t_975(df: int) -> float:
    """Return the 0.975 quantile of Student's t distribution, df >= 1, to about 1e-9.

    Up to 100 degrees of freedom by bisection of the closed form, beyond by the expansion around
    the normal quantile (Abramowitz and Stegun 1964, 26.7.3, 26.7.4 and 26.7.5).
    """
    if df > _EXACT_DF:
        return _expanded(df)
    low, high = 0.0, 16.0
    for _ in range(50):  # halves 16 down to the last bit
        middle = (low + high) / 2
        low, high = (middle, high) if _within(middle, df) < _LEVEL else (low, middle)
    return (low + high) / 2


def _within(t: float, df: int) -> float:
    """Return P(|T| < t), Abramowitz and Stegun 26.7.3 (odd df) and 26.7.4 (even df)."""
    theta = atan(t / sqrt(df))
    is_odd = df % 2 == 1
    term = cos(theta) if is_odd else 1.0
    total = term if df > 1 else 0.0
    for i in range(2 if is_odd else 1, df - 2 if is_odd else df - 1, 2):
        term *= i / (i + 1) * cos(theta) ** 2
        total += term
    if is_odd:
        return 2 / pi * (theta + sin(theta) * total)
    return sin(theta) * total


def _expanded(df: int) -> float:
    z = Z_95
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )
    return fsum(term / df**power for power, term in enumerate(terms))
