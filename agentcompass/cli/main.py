"""The entry point. Imports next to nothing: `--version` must not pay for what it does not use."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Final

from agentcompass import __version__
from agentcompass.errors import AgentCompassError

INCOMPLETE: Final = 3
"""Exit code of whatever was interrupted; see the table in the documentation."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Errors that we raise on purpose become their text and their exit code; anything else is a bug
    and keeps its traceback.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given == ["--version"]:
        sys.stdout.write(f"agentcompass {__version__}\n")
        return 0
    from agentcompass.runtime.values import live  # these cost more than all of --version
    from agentcompass.runtime.values.masking import secrets_of

    live.note(secrets_of(os.environ))
    with live.masked_output():
        return _called(given)


def _called(given: Sequence[str]) -> int:
    from agentcompass.cli.group import invoke

    try:
        return invoke(given)
    except AgentCompassError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        return INCOMPLETE
    except BrokenPipeError:  # `agentcompass … | head`: not our error, and no traceback at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


if __name__ == "__main__":
    sys.exit(main())
