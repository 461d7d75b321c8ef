"""What a queue may be called; apart, because who only starts workers needs no models."""

from __future__ import annotations

from typing import Final

QUEUE_PATTERN: Final = r"^[a-z][a-z0-9_]{0,31}$"
