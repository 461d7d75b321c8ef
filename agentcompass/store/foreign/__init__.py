"""Runs of other writers, read-only: AgentCompass 1.0.1 and the two layouts before it.

Such a run has no frozen task list, so the denominator is what it planned united with what it
left; no contract, so kinds come from its `metrics.json` or from its observations; and, under
strategy `pass`, no record of the attempts that it did not need.
"""

from agentcompass.store.foreign.head import MixedLayouts, is_foreign
from agentcompass.store.foreign.run import (
    ForeignRun,
    ForeignTask,
    foreign_heads,
    foreign_outcomes,
    foreign_scan,
    open_foreign,
)

__all__ = [
    "ForeignRun",
    "ForeignTask",
    "MixedLayouts",
    "foreign_heads",
    "foreign_outcomes",
    "foreign_scan",
    "is_foreign",
    "open_foreign",
]
