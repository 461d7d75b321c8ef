"""The entry point. Imports next to nothing: `--version` must not pay for what it does not use."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from agentcompass import __version__
from agentcompass.errors import AgentCompassError

INCOMPLETE: Final = 3
"""Exit code of whatever was interrupted; see the table in the documentation."""


_OF_THE_DISK: Final = {
    errno.EROFS: "mount it for writing, or work on a copy",
    errno.ENOSPC: "free some space, then say it again",
    errno.EDQUOT: "free some space, then say it again",
    errno.EACCES: "say it as somebody who may, or change the permissions",
    errno.EPERM: "say it as somebody who may, or change the permissions",
}
"""Errors of files that the user can do something about: no bug of ours."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Errors that we raise on purpose become their text and their exit code; anything else is a bug
    and keeps its traceback.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given == ["--version"]:
        with suppress(BrokenPipeError):
            os.write(sys.stdout.fileno(), f"agentcompass {__version__}\n".encode())
        return 0
    from agentcompass.runtime.values import live  # these cost more than all of --version
    from agentcompass.runtime.values.masking import secrets_of

    live.note(secrets_of(os.environ))
    with live.masked_output():
        code = _called(given)
        sys.stdout.flush()
    return code


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
    except OSError as error:
        if error.errno not in _OF_THE_DISK:
            raise
        sys.stderr.write(f"error: {_of_the_disk(error)}\n")
        return 2


def _of_the_disk(error: OSError) -> str:
    place = error.filename2 or error.filename
    where = f"\n  where: {os.fsdecode(place)}" if isinstance(place, str | bytes) else ""
    return f"{error.strerror}{where}\n  do: {_OF_THE_DISK[error.errno or 0]}"


if __name__ == "__main__":
    sys.exit(main())
