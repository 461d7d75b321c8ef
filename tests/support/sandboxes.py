"""Whether this machine can make a sandbox of namespaces."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache

import pytest


@cache
def why_no_bubblewrap() -> str:
    """Return why there are no sandboxes here, "" if there are."""
    if shutil.which("bwrap") is None:
        return "bwrap is not installed"
    command = ["bwrap", "--unshare-user", "--unshare-pid", "--unshare-net", "--ro-bind", "/", "/"]
    tried = subprocess.run([*command, "true"], capture_output=True, text=True, check=False)
    return tried.stderr.strip() if tried.returncode else ""


needs_bubblewrap = pytest.mark.skipif(bool(why_no_bubblewrap()), reason=why_no_bubblewrap())
