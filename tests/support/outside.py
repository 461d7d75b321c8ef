"""An environment that leaves something outside: a file for each execution, in a folder of the test."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from typing import ClassVar

from agentcompass.environments.base import Environment
from agentcompass.models.base import NoParams


class OutsideEnvironment(Environment[NoParams]):
    """Removes what the tokens name."""

    id: ClassVar[str] = "outside"

    @classmethod
    def reap(cls, dead_tokens: Collection[str]) -> int:
        for token in dead_tokens:
            Path(os.environ["TEST_OUTSIDE"], token).unlink()
        return len(dead_tokens)
