"""`python -m workers.serving.local OPTIONS`: workers on the leash of a coordinator."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from workers.serving import logs
from workers.serving.options import ServeOptions
from workers.serving.supervisor import PROGRAM, Supervisor


def main(argument: str, program: Sequence[str] = PROGRAM) -> int:
    """Supervise until the leash is cut; returns the exit code."""
    options = ServeOptions.from_json(argument)
    # Nobody reads the other end of our standard output: what plug-ins print would fill that pipe,
    # and then stop them for ever.
    os.dup2(2, 1)
    logs.set_up(options.log_level, options.name)
    return Supervisor(options, os.environ, program=program, on_leash=True).run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
