"""`python -m tests.support.endless_coordinator ARGUMENTS…`: the command line; after Ctrl-C it waits for ever."""

from __future__ import annotations

import sys

from agentcompass.cli.main import main
from agentcompass.coordinator.watching import attach

if __name__ == "__main__":
    attach.IDLE_WITHIN_S = float("inf")  # type: ignore[misc]  # that is the fault
    sys.exit(main())
