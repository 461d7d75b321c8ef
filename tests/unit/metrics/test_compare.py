"""Runs paired by task."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import product
from math import comb, fsum
from random import Random

import pytest

from agentcompass.metrics.compare import ComparisonRefused, Side, compare, pairs, side_of
from agentcompass.metrics.formula.numbers import mean
from agentcompass.metrics.formula.paired import (
    holm,
    mcnemar_exact,
    paired_mean_interval,
    paired_share_interval,
    sign_flip,
)
from agentcompass.metrics.per_task.tasks import TaskReducer
from agentcompass.metrics.text.compare_part import (
    ComparedRun,
    comparison_markdown,
    comparison_text,
)
from agentcompass.models.request import AttemptPlan
from agentcompass.models.result import AttemptOutcome, TaskOutcomes
from tests.builders import a_contract, an_outcome
from tests.support.metrics import ERROR, RIGHT, WRONG


def a_side(
    name: str,
    outcomes: Mapping[str, AttemptOutcome | None],
    *,
    benchmark: str = "bench",
    scalar: bool = False,
    k: int = 1,
) -> Side:
    tasks = [
        TaskOutcomes(task_id=task, category="c", attempts=(outcome,) * k)
        for task, outcome in outcomes.items()
    ]
    contract = a_contract("scalar") if scalar else a_contract()
    return side_of(name, benchmark, TaskReducer(contract, AttemptPlan(k=k)), tasks)


def verdicts(text: str) -> dict[str, AttemptOutcome | None]:
    """Return outcomes of tasks a, b, c, … from a word: 1 right, 0 wrong, e an error."""
    outcomes = {"1": RIGHT, "0": WRONG, "e": ERROR}
    return {chr(ord("a") + number): outcomes[each] for number, each in enumerate(text)}


def scores(*values: float) -> dict[str, AttemptOutcome | None]:
    return {f"t{number:02}": an_outcome(score=value) for number, value in enumerate(values)}


class TestCompare:
    def test_flips_and_the_missing_task_are_listed_and_n_is_told(self) -> None:
        first, second = a_side("A", verdicts("1111100000")), a_side("B", verdicts("001111000"))

        (found,) = compare(first, [second], on_intersection=True)

        assert [(p.task_id, p.state) for p in found.changed] == [
            ("a", "loss"),
            ("b", "loss"),
            ("f", "win"),
        ]
        assert found.only_in_first == ("j",)
        assert (found.paired, found.wins, found.losses, found.ties) == (9, 1, 2, 6)
        assert found.difference == pytest.approx(-1 / 9)

    def test_a_task_without_a_value_is_not_paired(self) -> None:
        (found,) = compare(a_side("A", verdicts("11e")), [a_side("B", verdicts("1e0"))])

        assert found.paired == 1
        assert found.without_value == ("b", "c")
        assert (found.first_mean, found.second_mean) == (1.0, 1.0)

    def test_runs_without_a_common_value_differ_by_nothing_known(self) -> None:
        for scalar in (False, True):
            first = a_side("A", {"a": ERROR}, scalar=scalar)
            second = a_side("B", {"a": ERROR}, scalar=scalar)

            (found,) = compare(first, [second])

            assert (found.difference, found.p_value, found.ci95) == (None, None, None)

    def test_scalars_get_a_paired_interval_and_a_permutation_test(self) -> None:
        first, second = scores(1, 2, 3, 4), scores(2, 3, 4, 5.5)

        (found,) = compare(a_side("A", first, scalar=True), [a_side("B", second, scalar=True)])

        assert found.interval_method == "paired_t"
        assert found.test == "sign_flip_exact"
        assert found.p_value == 2 / 2**4
        assert found.changed[0].task_id == "t03"

    def test_several_runs_get_an_adjusted_p_value(self) -> None:
        first = a_side("A", verdicts("0" * 8))
        others = [a_side("B", verdicts("1" * 8)), a_side("C", verdicts("1" * 6 + "00"))]

        found = compare(first, others)

        assert [each.p_value for each in found] == [2 / 2**8, 2 / 2**6]
        assert [each.p_holm for each in found] == [4 / 2**8, 2 / 2**6]

    def test_a_run_without_pairs_leaves_the_others_unadjusted(self) -> None:
        first = a_side("A", verdicts("00"))

        found = compare(first, [a_side("B", verdicts("11")), a_side("C", verdicts("ee"))])

        assert [each.p_holm for each in found] == [None, None]

    def test_every_task_of_either_run_is_a_pair(self) -> None:
        first, second = a_side("A", verdicts("10")), a_side("B", {"b": WRONG, "z": RIGHT})

        assert [(p.task_id, p.state) for p in pairs(first, second)] == [
            ("a", "only in first"),
            ("b", "tie"),
            ("z", "only in second"),
        ]


class TestRefusals:
    @pytest.mark.parametrize(
        ("other", "reason"),
        [
            (a_side("B", verdicts("1"), benchmark="other"), "the benchmark differs: bench in A"),
            (a_side("B", verdicts("1"), k=2), "the attempt plan differs: k=1 avg in A, k=2 avg"),
            (a_side("B", {"z": RIGHT}), "the task sets differ"),
        ],
    )
    def test_runs_that_are_not_comparable_are_refused(self, other: Side, reason: str) -> None:
        with pytest.raises(ComparisonRefused, match=reason):
            compare(a_side("A", verdicts("1")), [other])

    def test_another_series_is_refused(self) -> None:
        other = a_side("B", scores(1.0), scalar=True)

        with pytest.raises(ComparisonRefused, match="the series differs"):
            compare(a_side("A", verdicts("1")), [other])

    def test_the_tasks_that_only_one_run_has_are_named(self) -> None:
        first, second = a_side("A", verdicts("1111111")), a_side("B", {"a": RIGHT, "z": RIGHT})

        with pytest.raises(
            ComparisonRefused, match="6 only in A: b, c, d, e, f, …; 1 only in B: z"
        ):
            compare(first, [second])

    def test_an_empty_intersection_is_refused(self) -> None:
        with pytest.raises(ComparisonRefused, match="no task in common"):
            compare(a_side("A", verdicts("1")), [a_side("B", {"z": RIGHT})], on_intersection=True)

    def test_an_unknown_series_lists_those_of_the_run(self) -> None:
        reducer = TaskReducer(a_contract(), AttemptPlan())

        with pytest.raises(ComparisonRefused, match=r"it has correct\.native@1"):
            side_of("A", "bench", reducer, [], "cost.native@1")


class TestStatistics:
    @pytest.mark.parametrize(
        ("wins", "losses", "p"), [(0, 0, 1.0), (1, 0, 1.0), (5, 0, 2 / 32), (9, 1, 22 / 1024)]
    )
    def test_mcnemar(self, wins: int, losses: int, p: float) -> None:
        assert mcnemar_exact(wins, losses) == mcnemar_exact(losses, wins) == p

    def test_mcnemar_of_many_changes_agrees_with_big_integers(self) -> None:
        exact = 2 * sum(comb(1_200, i) for i in range(551)) / 2**1_200

        assert mcnemar_exact(650, 550) == pytest.approx(exact, rel=1e-9)

    def test_sign_flips_are_all_tried_when_there_are_few(self) -> None:
        differences = [0.5, -0.25, 1.0, 0.0]
        observed = abs(fsum(differences))
        patterns = product((1, -1), repeat=3)
        extreme = sum(abs(s[0] * 0.5 - s[1] * 0.25 + s[2] * 1.0) >= observed for s in patterns)

        assert sign_flip(differences, Random(1)) == (extreme / 8, "sign_flip_exact")

    def test_many_differences_are_sampled_with_the_given_randomness(self) -> None:
        differences = [float(n) for n in range(-5, 30)]

        first, second = sign_flip(differences, Random(1)), sign_flip(differences, Random(1))

        assert first == second
        assert first[1] == "sign_flip_sampled"
        assert 0 < first[0] < 0.001

    def test_very_many_differences_none_of_which_dominates_are_normal(self) -> None:
        random = Random(3)
        differences = [random.gauss(0.05, 1.0) for _ in range(600)]

        p_value, test = sign_flip(differences, Random(1))
        sampled = sum(
            abs(fsum(d * random.choice((1, -1)) for d in differences)) >= abs(fsum(differences))
            for _ in range(2_000)
        )

        assert test == "sign_flip_normal"
        assert p_value == pytest.approx(sampled / 2_000, abs=0.04)

    def test_one_difference_that_dominates_is_sampled(self) -> None:
        assert sign_flip([*[0.01] * 600, 50.0], Random(1))[1] == "sign_flip_sampled"

    def test_one_pair_has_no_interval(self) -> None:
        assert paired_mean_interval([1.0]) is None

    def test_an_interval_ends_where_no_difference_can_be(self) -> None:
        first, second = a_side("A", verdicts("000"), k=2), a_side("B", verdicts("110"), k=2)

        (found,) = compare(first, [second])

        assert found.interval_method == "paired_t"
        assert found.ci95 is not None
        assert found.ci95[1] == 1.0
        assert paired_mean_interval([0.0, 1.0, 1.0]) != found.ci95

    def test_no_change_at_all_is_no_certainty(self) -> None:
        low, high = paired_share_interval(0, 0, 20)

        assert low == -high
        assert high > 0.1

    def test_holm_keeps_the_order(self) -> None:
        assert holm([0.04, 0.01, 0.03]) == [0.06, 0.03, 0.06]
        assert holm([0.9, 0.8]) == [1.0, 1.0]
        assert holm([]) == []

    def test_the_paired_interval_of_verdicts_covers_the_truth(self) -> None:
        random = Random(7)

        def one() -> bool:
            draws = [random.random() for _ in range(40)]
            wins, losses = sum(d < 0.25 for d in draws), sum(d > 0.9 for d in draws)
            low, high = paired_share_interval(wins, losses, 40)
            return low <= 0.15 <= high

        assert 0.935 <= mean([float(one()) for _ in range(4_000)]) <= 0.97


Show = Callable[..., str]


@pytest.mark.parametrize("show", [comparison_text, comparison_markdown])
class TestShown:
    def test_everything_that_is_known_is_told(self, show: Show) -> None:
        first, second = a_side("A", verdicts("110e")), a_side("B", {**verdicts("0111"), "z": RIGHT})

        text = show(compare(first, [second, second], on_intersection=True))

        assert "3 tasks with a value in both runs, 0.6667 to 0.6667" in text
        assert "1 higher, 1 lower, 1 equal" in text
        assert "adjusted for several runs (Holm)" in text
        assert "Only in B:" in text

    def test_a_difference_has_its_sign(self, show: Show) -> None:
        text = show(compare(a_side("A", verdicts("00")), [a_side("B", verdicts("11"))]))

        assert "+1.0000, 95 % interval" in text

    def test_without_pairs_nothing_is_claimed(self, show: Show) -> None:
        text = show(compare(a_side("A", verdicts("e")), [a_side("B", verdicts("e"))]))

        assert "0 tasks with a value in both runs, – to –" in text
        assert "Difference" not in text

    def test_one_pair_of_scalars_has_a_difference_and_no_interval(self, show: Show) -> None:
        first, second = a_side("A", scores(1), scalar=True), a_side("B", scores(2), scalar=True)

        text = show(compare(first, [second]))

        assert "+1.0000 (paired" in text.replace("\\", "")

    def test_the_runs_and_what_to_beware_of_come_first(self, show: Show) -> None:
        run = ComparedRun(
            name="B",
            path="results/B",
            state="running",
            benchmark="bench",
            harness="h",
            environment="e",
            model="org/m",
            k=1,
            strategy="avg",
            tasks=2,
            with_value=1,
            missing_attempts=1,
        )
        found = compare(a_side("A", verdicts("11")), [a_side("B", verdicts("1e"))])

        text = show(found, [run], ["B is partial"])

        assert text.index("B is partial") < text.index("org/m") < text.index("Paired:")

    def test_long_lists_are_cut_and_counted(self, show: Show) -> None:
        ids = [f"t{number}" for number in range(60)]
        first = a_side("A", dict.fromkeys(ids, RIGHT))
        second = a_side("B", {**dict.fromkeys(ids, WRONG), **{f"z{n}": RIGHT for n in range(55)}})

        text = show(compare(first, [second], on_intersection=True))

        assert "And 10 more tasks, see --json." in text
        assert "And 5 more tasks, see --json." in text
