"""Standard errors and intervals: known values, undefined ones, and coverage by simulation."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from agentcompass.metrics.extras import category_uncertainty, uncertainty
from agentcompass.metrics.formula.numbers import mean
from agentcompass.metrics.formula.uncertainty import (
    Scale,
    Uncertainty,
    combine,
    combine_shares,
    interval,
    of_mean,
    t_975,
    wilson,
)
from agentcompass.metrics.report import build_report
from agentcompass.models.request import AttemptPlan
from agentcompass.models.result import AttemptOutcome
from tests.builders import a_contract
from tests.support.metrics import ERROR, FATAL, RIGHT, WRONG, report_of, rich_report

VERDICTS = Scale(is_indicator=True, is_share=False, bounds=(0.0, 1.0), attempts=1)
SHARES = Scale(is_indicator=False, is_share=True, bounds=(0.0, 1.0), attempts=4)
GRADES = Scale(is_indicator=False, is_share=False, bounds=(0.0, 10.0), attempts=1)
NUMBERS = Scale(is_indicator=False, is_share=False, bounds=None, attempts=1)


@pytest.mark.parametrize(
    ("df", "quantile"),
    [  # as printed in tables
        (1, 12.7062047),
        (2, 4.3026527),
        (3, 3.1824463),
        (10, 2.2281389),
        (100, 1.9839715),
        (120, 1.9799304),
        (1000, 1.9623391),
    ],
)
def test_students_quantile(df: int, quantile: float) -> None:
    assert t_975(df) == pytest.approx(quantile, abs=5e-8)


@pytest.mark.parametrize(
    ("p", "n", "low", "high"),
    [(0.5, 10, 0.23659, 0.76341), (0.0, 10, 0.0, 0.27753), (1.0, 1, 0.20655, 1.0)],
)
def test_wilson_interval(p: float, n: int, low: float, high: float) -> None:
    assert wilson(p, n) == pytest.approx((low, high), abs=1e-5)


class TestUndefined:
    def test_one_task_has_no_standard_error(self) -> None:
        found = of_mean([0.5], GRADES)

        assert (found.stderr, found.ci95, found.n) == (None, None, 1)

    def test_no_task_has_nothing(self) -> None:
        found = of_mean([], VERDICTS)

        assert (found.stderr, found.ci95, found.n) == (None, None, 0)

    def test_values_beyond_the_range_of_floats_have_no_error(self) -> None:
        for value in (1.7e308, 1.1e154):  # the second overflows in the sum of squares only
            found = of_mean([value, -value], NUMBERS)

            assert (found.stderr, found.ci95) == (None, None)

    def test_limits_beyond_the_range_of_floats_are_null(self) -> None:
        huge = Uncertainty(stderr=1.7e308, ci95=(-1.7e308, 1.7e308), method="clustered_t", n=2)

        assert interval(1e308, 1e308, 3, NUMBERS) is None
        assert combine([(0.9, 1.7e308, huge)]).ci95 is None

    @pytest.mark.parametrize("outcome", [RIGHT, ERROR, FATAL])
    def test_a_report_over_one_task_holds_nulls_and_no_nan(self, outcome: AttemptOutcome) -> None:
        text = report_of(outcome).model_dump_json()

        assert '"stderr":null' in text
        assert "NaN" not in text

    def test_an_empty_report_has_no_interval(self) -> None:
        for aggregation in ("micro_weighted", "category_mean"):
            report = build_report(a_contract(), AttemptPlan(), [], aggregation=aggregation)
            found = uncertainty(report.headline)

            assert found is not None
            assert (found.stderr, found.ci95, found.n) == (None, None, 0)

    def test_a_category_without_an_error_leaves_the_whole_without_one(self) -> None:
        one, many = of_mean([0.5], GRADES), of_mean([0.1, 0.2, 0.3], GRADES)

        assert combine([(0.5, 0.5, one), (0.5, 0.2, many)]).ci95 is None

    def test_a_single_verdict_lends_its_interval_but_no_standard_error(self) -> None:
        one, many = of_mean([1.0], VERDICTS), of_mean([0.0, 1.0], VERDICTS)

        found = combine([(0.5, 1.0, one), (0.5, 0.5, many)])

        assert found.stderr is None
        assert found.ci95 is not None

    def test_no_category_at_all_has_nothing(self) -> None:
        assert combine_shares({}, {}, {}).ci95 is None


class TestMethods:
    @pytest.mark.parametrize(
        ("values", "scale", "method"),
        [
            ([1.0, 0.0], VERDICTS, "wilson"),
            ([0.25, 0.5], SHARES, "clustered_wilson"),
            ([2.5, 3.0], GRADES, "clustered_t"),
        ],
    )
    def test_the_method_is_named(self, values: list[float], scale: Scale, method: str) -> None:
        assert of_mean(values, scale).method == method

    def test_several_attempts_of_a_task_do_not_count_as_several_tasks(self) -> None:
        once = report_of(RIGHT, WRONG, RIGHT, WRONG).headline
        always = report_of(*[(RIGHT,) * 4, (WRONG,) * 4] * 2).headline

        first, second = uncertainty(once), uncertainty(always)

        assert first is not None
        assert second is not None
        assert first.stderr == second.stderr
        assert first.n == second.n == 4

    def test_an_interval_stays_inside_the_declared_bounds(self) -> None:
        found = of_mean([0.0, 0.0, 9.0], GRADES)

        assert found.ci95 is not None
        assert found.ci95[0] == 0.0
        assert found.ci95[1] <= 10.0

    def test_agreement_of_all_tasks_is_no_certainty(self) -> None:
        found = of_mean([1.0] * 10, SHARES)

        assert found.stderr == 0.0
        assert found.ci95 == pytest.approx((0.7225, 1.0), abs=1e-4)

    def test_equal_shares_within_are_no_more_than_independent_attempts(self) -> None:
        found = of_mean([0.5] * 10, SHARES)

        assert found.ci95 is not None
        assert found.ci95[1] - found.ci95[0] > 0.3

    def test_the_error_of_a_reference_value_is_reported_too(self) -> None:
        found = uncertainty(report_of(RIGHT, WRONG, FATAL).headline)

        assert found is not None
        assert found.n == 2
        assert found.ci95 is not None

    def test_every_category_has_its_own(self) -> None:
        report, _ = rich_report("category_hierarchy")

        found = category_uncertainty(report.headline)

        assert found is not None
        assert list(found) == list(report.headline.categories)
        whole = uncertainty(report.headline)
        assert whole is not None
        assert whole.method == "mover"

    def test_a_mean_of_independent_categories_propagates_their_errors(self) -> None:
        first, second = of_mean([1.0, 3.0], NUMBERS), of_mean([5.0, 6.0], NUMBERS)

        found = combine([(0.5, 2.0, first), (0.5, 5.5, second)])

        assert found.stderr == pytest.approx((0.25 * 1.0 + 0.25 * 0.25) ** 0.5)


def coverage(truth: float, sample: Callable[[], Uncertainty], repeats: int = 4_000) -> float:
    """Return how often the interval of a sample holds the truth."""
    hits = 0
    for _ in range(repeats):
        found = sample().ci95
        hits += found is not None and found[0] <= truth <= found[1]
    return hits / repeats


def share_of(random: Random, a: float, b: float, attempts: int = 4) -> float:
    """Return the share of successes of a task whose difficulty is drawn from Beta(a, b)."""
    chance = random.betavariate(a, b)
    return sum(random.random() < chance for _ in range(attempts)) / attempts


class TestCoverage:
    """95 % nominal, which a discrete outcome cannot hit; 4,000 repeats are good to 0.4 points."""

    @pytest.mark.parametrize("p", [0.1, 0.5, 0.8])
    def test_of_verdicts(self, p: float) -> None:
        random = Random(1)

        found = coverage(
            p, lambda: of_mean([float(random.random() < p) for _ in range(40)], VERDICTS)
        )

        assert 0.925 <= found <= 0.975

    @pytest.mark.parametrize(("a", "b"), [(0.5, 0.5), (2, 2), (0.2, 1.8), (9, 1)])
    def test_of_shares_of_easy_and_hard_tasks(self, a: float, b: float) -> None:
        random = Random(2)

        found = coverage(
            a / (a + b), lambda: of_mean([share_of(random, a, b) for _ in range(40)], SHARES)
        )

        assert 0.925 <= found <= 0.985

    def test_of_scalars(self) -> None:
        random = Random(3)

        found = coverage(5, lambda: of_mean([random.gauss(5, 2) for _ in range(12)], NUMBERS))

        assert 0.935 <= found <= 0.97

    def test_of_a_mean_of_categories_one_of_them_near_the_border(self) -> None:
        random = Random(4)
        chances = (0.98, 0.5, 0.7)

        def sample() -> Uncertainty:
            values = [[float(random.random() < p) for _ in range(25)] for p in chances]
            return combine([(1 / 3, mean(v), of_mean(v, VERDICTS)) for v in values])

        assert 0.935 <= coverage(mean(chances), sample) <= 0.98

    def test_of_a_mean_of_categories_of_scalars(self) -> None:
        random = Random(5)

        def sample() -> Uncertainty:
            values = [[random.gauss(m, 1) for _ in range(15)] for m in (1, 2)]
            return combine([(0.5, mean(v), of_mean(v, NUMBERS)) for v in values])

        assert 0.935 <= coverage(1.5, sample) <= 0.975


def test_a_report_names_the_method_of_each_series() -> None:
    report, _ = rich_report()

    found = [uncertainty(series) for series in report.series]

    assert [each.method if each else "" for each in found[:3]] == [
        "clustered_wilson",
        "wilson",
        "wilson",
    ]
