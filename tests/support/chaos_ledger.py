"""What was really executed, and whether it had to be."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from tests.support.chaos_deeds import Deed

DECIDED_S: Final = 5.0
"""Between a look at the directory and the agent's first step lies the start of a process."""

DYING_S: Final = 1.0
"""Who was hit may begin something before he falls."""
FORGOTTEN_S: Final = 5.0
"""So long a holder of a lease that was forgotten may not have claimed it again."""


@dataclass(frozen=True, slots=True)
class Ledger:
    """One line per execution of an agent or a judge, in the order of their beginnings."""

    lines: Sequence[dict[str, Any]]

    @classmethod
    def read(cls, path: Path) -> Ledger:
        if not path.exists():
            return cls([])
        text = path.read_text()
        whole = text[: text.rfind("\n") + 1]  # what is just appended may be read in part
        return cls([json.loads(line) for line in whole.splitlines()])

    @property
    def agents(self) -> list[dict[str, Any]]:
        return [line for line in self.lines if line["what"] == "agent"]

    @property
    def tokens(self) -> set[str]:
        return {line["token"] for line in self.agents}

    def open_pids(self) -> set[int]:
        """Return the processes whose agents have begun and not ended, dead or alive."""
        ended = {line["token"] for line in self.lines if line["what"] == "agent_end"}
        return {line["pid"] for line in self.agents if line["token"] not in ended}

    @property
    def attempts(self) -> set[tuple[str, int]]:
        """Return what was executed at all."""
        return {(line["task"], line["attempt"]) for line in self.agents}

    def problems(self, deeds: Sequence[Deed], expected: Set[tuple[str, int]]) -> Iterator[str]:
        """Yield what should not have been executed: what was over, and what nobody had hit."""
        by_attempt: dict[tuple[str, int], list[dict[str, Any]]] = defaultdict(list)
        for line in self.agents:
            by_attempt[line["task"], line["attempt"]].append(line)
            slept_s = sum(deed.end - deed.begin for deed in deeds if woke(deed, line))
            if (line["over_for_s"] or 0.0) > DECIDED_S + slept_s:
                yield f"executed although it was over: {line}"
        if self.attempts != expected:
            yield f"other attempts than in a kind world: {sorted(self.attempts ^ expected)}"
        for which, lines in by_attempt.items():
            for first, second in pairwise(lines):
                if not any(explains(deed, first, second) for deed in deeds):
                    yield f"{which} was executed again for no reason: {first}, then {second}"


def explains(deed: Deed, first: dict[str, Any], second: dict[str, Any]) -> bool:
    """Return whether a deed is why an attempt was executed a second time."""
    first_at, second_at = float(first["at"]), float(second["at"])
    if deed.begin > second_at:
        return False
    if first["token"] == second["token"]:  # a retry inside: what the agent had started was killed
        return first_at <= deed.end < math.inf
    if deed.forgets:
        return deed.end >= first_at - FORGOTTEN_S
    return (deed.hit(first) and deed.end >= first_at - DYING_S) or woke(deed, second)


def woke(deed: Deed, line: Mapping[str, Any]) -> bool:
    """Return whether who executed this had stood still after he decided to."""
    is_just_over = deed.end <= float(line["at"]) <= deed.end + DECIDED_S
    return deed.begin < deed.end and deed.hit(line) and is_just_over
