"""The one clock that our processes wait by."""

from __future__ import annotations

import time

sleep = time.sleep  # noqa: TID251 - processes wait for real; what tests need quick takes an argument
