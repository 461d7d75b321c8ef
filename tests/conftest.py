"""How thorough Hypothesis is: `HYPOTHESIS_PROFILE` names one of three."""

from __future__ import annotations

import os

from hypothesis import settings

# No deadline in any: on a busy machine it tells about the machine.
settings.register_profile("dev", max_examples=100, deadline=None)
settings.register_profile("ci", max_examples=1_000, deadline=None, derandomize=True)
settings.register_profile("nightly", max_examples=50_000, deadline=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))
