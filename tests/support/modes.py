"""Lets a program obey file modes even where tests are run by root."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Mapping
from typing import Final

_PR_CAPBSET_DROP: Final = 24
_CAP_DAC_OVERRIDE: Final = 1
_CAP_DAC_READ_SEARCH: Final = 2

MODES_ARE_OBEYED = sys.platform.startswith("linux")
"""False where nobody can be made to obey them."""


def call_obediently(*arguments: str, env: Mapping[str, str]) -> subprocess.CompletedProcess[bytes]:
    """Run one `agentcompass` command that may not do what its modes forbid."""
    return subprocess.run(
        [sys.executable, "-m", "agentcompass.cli.main", *arguments],
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        preexec_fn=_obey,
    )


def _obey() -> None:
    libc = ctypes.CDLL(None)
    for capability in (_CAP_DAC_OVERRIDE, _CAP_DAC_READ_SEARCH):
        libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
