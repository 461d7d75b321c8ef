"""How long to wait before a model is asked again; pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from random import Random

from agentcompass.llm.base import CallPolicy


def retry_after_s(headers: Mapping[str, str], now_s: float) -> float | None:
    """Return the wait that a server asks for, in seconds, at least 0; None if it asks for none.

    Read are `Retry-After-Ms` (what some providers send beside it) and then `Retry-After`, as a
    number of seconds or as an HTTP date. What is neither is as if it were not there.

    Args:
        headers: names in lower case, or a mapping that does not mind.
        now_s: seconds since the epoch. A date is measured from the server's own `Date` if it
            sends one, because its clock and ours need not agree.
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return max(0.0, milliseconds / 1_000)
    text = headers.get("retry-after")
    seconds = _number(text)
    if seconds is not None:
        return max(0.0, seconds)
    until = _timestamp(text)
    if until is None:
        return None
    said = _timestamp(headers.get("date"))
    return max(0.0, until - (now_s if said is None else said))


def _number(text: str | None) -> float | None:
    try:
        value = float(text) if text else None
    except ValueError:
        return None
    return value if value is not None and math.isfinite(value) else None


def _timestamp(text: str | None) -> float | None:
    if not text:
        return None
    try:
        date = parsedate_to_datetime(text)
        # RFC 9110 has all dates in GMT; the parser leaves "-0000" naive.
        return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def delay_s(retry: int, asked_s: float | None, policy: CallPolicy, rng: Random) -> float:
    """Return the wait before a retry, in seconds.

    Our own wait doubles up to `backoff_max_s` and is uniform in its upper half, so that those who
    failed together do not come back together. A server's wish is a lower bound, and gets up to a
    tenth (at most 1 s) on top for the same reason.

    Args:
        retry: 1 for the first retry.
        asked_s: the server's own wish.
        policy: base and maximum.
        rng: draws the jitter.
    """
    # The exponent is capped: 2.0 ** 1024 overflows.
    full = min(policy.backoff_max_s, policy.backoff_base_s * 2.0 ** min(retry - 1, 64))
    own = rng.uniform(full / 2, full)
    if asked_s is None:
        return own
    return max(own, asked_s + rng.uniform(0.0, min(1.0, asked_s / 10)))
