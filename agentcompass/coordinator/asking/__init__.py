"""From a file and flags to a valid request, before anything is reserved."""

from __future__ import annotations

from typing import Final

BROKER_VARIABLE: Final = "AGENTCOMPASS_BROKER_URL"
"""The broker where neither a flag nor the file names one; workers read it, too."""
