"""A digest of the whole report in its own `extra`: what no rule can check, it can.

Rules find numbers that contradict each other. A label, a failure count or a changed example
contradicts nothing, but its report no longer has the digest.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import sha256
from typing import Final

from agentcompass.models.metric import MetricReport

KEY: Final = "sha256"


def sealed(report: MetricReport) -> MetricReport:
    """Return the report with its digest; the last step before it is written."""
    return report.model_copy(update={"extra": {**report.extra, KEY: digest(report)}})


def digest(report: MetricReport) -> str:
    """Return the digest of everything but the digest: SHA-256 of compact JSON with sorted keys."""
    content = report.model_dump(mode="json")
    content["extra"].pop(KEY, None)
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return sha256(text.encode("ascii")).hexdigest()


def seal_problems(report: MetricReport) -> Iterator[str]:
    """Yield that the content is not what was sealed; a report without a digest is as good as its rules."""
    if KEY in report.extra and report.extra[KEY] != digest(report):
        yield f"extra.{KEY}: the report was changed after it was sealed"
