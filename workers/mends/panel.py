"""Remote commands that would go around the run directory are not answered.

A revoked message is gone while its attempt is still wanted: the watchdog would send it again for
ever, to workers that remember the revocation. Whoever wants to cancel says so in the run
(`agentcompass cancel`), where every worker, watchdog and report sees it.
"""

from __future__ import annotations

from typing import Final

from celery.worker.control import Panel

WITHDRAWN: Final = (
    "revoke",
    "revoke_by_stamped_headers",
    "terminate",
    # Attempts have deadlines of their own; Celery's would fail their chord.
    "time_limit",
    "rate_limit",
)


def apply() -> None:
    """Withdraw them from this process; any number of times."""
    for name in WITHDRAWN:
        Panel.data.pop(name, None)
        Panel.meta.pop(name, None)
