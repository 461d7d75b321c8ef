"""Two runs on the same tasks: intervals and exact tests for the mean of paired differences.

Throughout: `n` tasks have a value in both runs, `d` are the differences second minus first.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import comb, erfc, exp, fsum, inf, lgamma, log, sqrt
from random import Random
from typing import Final

from agentcompass.metrics.formula.numbers import mean
from agentcompass.metrics.formula.uncertainty import Z_95, standard_error, t_975

_EXACT_SIGNS: Final = 14
"""2**14 sign patterns are enumerated; beyond, they are sampled."""
_SAMPLES: Final = 10_000
_MANY_SIGNS: Final = 500
_LARGEST_SHARE: Final = 0.05
_BIG_INTEGERS: Final = 1_000


def paired_share_interval(wins: int, losses: int, n: int) -> tuple[float, float]:
    """Return the 95 % interval of (wins - losses) / n for 0/1 values, n >= 1.

    The adjusted Wald interval of Bonett and Price 2012, Journal of Educational and Behavioral
    Statistics 37: one win and one loss are added, so that it stays honest without any change.
    """
    up, down = (wins + 1) / (n + 2), (losses + 1) / (n + 2)
    center = up - down
    half = Z_95 * sqrt((up + down - center * center) / (n + 2))
    return max(-1.0, center - half), min(1.0, center + half)


def paired_mean_interval(
    differences: Sequence[float], largest: float | None = None
) -> tuple[float, float] | None:
    """Return the 95 % interval mean +- t(n-1) * stderr; None for fewer than two pairs.

    Args:
        largest: the largest possible difference, where the interval is cut.
    """
    center = mean(differences)
    stderr = standard_error(differences, center)
    if stderr is None:
        return None
    half = t_975(len(differences) - 1) * stderr
    most = inf if largest is None else largest
    return max(-most, center - half), min(most, center + half)


def mcnemar_exact(wins: int, losses: int) -> float:
    """Return the two-sided p value of McNemar's exact test: wins ~ Binomial(wins + losses, 1/2).

    McNemar 1947, Psychometrika 12. Ties say nothing about the direction; 1.0 without a change.
    """
    n, fewer = wins + losses, min(wins, losses)
    if n > _BIG_INTEGERS:
        logs = (lgamma(n + 1) - lgamma(i + 1) - lgamma(n - i + 1) for i in range(fewer + 1))
        tail = fsum(exp(each - n * log(2)) for each in logs)
    else:
        tail = sum(comb(n, i) for i in range(fewer + 1)) / 2**n
    return min(1.0, 2 * tail)


def sign_flip(differences: Sequence[float], random: Random) -> tuple[float, str]:
    """Return the two-sided p value of the sign-flip permutation test, and which kind it was.

    Under the hypothesis that the runs do not differ each difference could as well have the other
    sign (Fisher 1935, The Design of Experiments). All patterns are enumerated for few changes, else
    10,000 are drawn and the observed one is counted among them (Phipson and Smyth 2010), so that p
    is never 0. The sum of very many, none of which dominates, is normal with variance sum(d**2).
    """
    changed = [each for each in differences if each != 0]
    observed = abs(fsum(changed))
    # A pattern as extreme as the observed one may round to a little less.
    least = observed * (1 - 1e-12)
    if len(changed) <= _EXACT_SIGNS:
        patterns = list(product((1, -1), repeat=len(changed)))
        extreme = sum(_signed_sum(changed, signs) >= least for signs in patterns)
        return extreme / len(patterns), "sign_flip_exact"
    squares = [each * each for each in changed]
    variance = fsum(squares)
    if len(changed) > _MANY_SIGNS and max(squares) <= _LARGEST_SHARE * variance:
        return erfc(observed / sqrt(2 * variance)), "sign_flip_normal"
    extreme = sum(
        _signed_sum(changed, random.choices((1, -1), k=len(changed))) >= least
        for _ in range(_SAMPLES)
    )
    return (extreme + 1) / (_SAMPLES + 1), "sign_flip_sampled"


def _signed_sum(values: Sequence[float], signs: Sequence[int]) -> float:
    return abs(fsum(value * sign for value, sign in zip(values, signs, strict=True)))


def holm(p_values: Sequence[float]) -> list[float]:
    """Return the p values adjusted for their number (Holm 1979, Scandinavian J. of Statistics 6)."""
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    adjusted = [1.0] * len(p_values)
    largest = 0.0
    for rank, position in enumerate(order):
        largest = max(largest, min(1.0, (len(order) - rank) * p_values[position]))
        adjusted[position] = largest
    return adjusted
