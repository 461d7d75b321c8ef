"""`python -m tests.integration.chaos --seed 7 --attempts 300`: one hostile week, told as it was."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.support.chaos_week import Outcome, Plan, live_through


def main() -> int:
    parser = argparse.ArgumentParser(description="One hostile week in a minute.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--attempts", type=int, default=300, help="a multiple of 3")
    parser.add_argument("--keep", type=Path, help="a folder to be made, and kept, for all files")
    parser.add_argument("--strategy", choices=["avg", "pass"], default="avg")
    parser.add_argument("--rounds", type=int, default=1, help="how often everything happens")
    given = parser.parse_args()
    plan = Plan(given.seed, given.attempts, given.strategy, given.rounds)
    if given.keep is not None:
        outcome = live_through(given.keep.absolute(), plan)
    else:
        with tempfile.TemporaryDirectory(prefix="chaos-") as folder:
            outcome = live_through(Path(folder) / "week", plan)
    sys.stdout.write(told(outcome))
    return int(bool(outcome.wrong))


def told(outcome: Outcome) -> str:
    first = outcome.deeds[0].at if outcome.deeds else 0.0
    lines = [f"{deed.at - first:6.1f} s  {deed.name}" for deed in outcome.deeds]
    lines += [f"{kind} ended with {code}" for kind, code in outcome.ended]
    lines.append(
        f"seed {outcome.seed}: {outcome.executions} executions, {outcome.played} scenes, "
        f"{outcome.seconds:.0f} s; {len(outcome.wrong)} things are wrong"
    )
    return "\n".join([*lines, *outcome.wrong, ""])


if __name__ == "__main__":
    sys.exit(main())
