"""What was really executed, and whether it had to be."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from tests.support.chaos_deeds import Deed

DECIDED_S: Final = 2.0
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
        return cls([json.loads(line) for line in path.read_text().splitlines()])

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
            if (line["over_for_s"] or 0.0) > DECIDED_S:
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
    begin, end = min(deed.at, deed.until or deed.at), max(deed.at, deed.until)
    if begin > second_at:
        return False
    if first["token"] == second["token"]:  # a retry inside: what the agent had started was killed
        return end >= first_at
    if deed.forgets:
        return end >= first_at - FORGOTTEN_S
    return first["pid"] in deed.pids and end >= first_at - DYING_S
