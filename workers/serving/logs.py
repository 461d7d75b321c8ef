"""Plain log lines on stderr, without any live secret or password of a URL."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from agentcompass.runtime.values.forms import secret_parts
from agentcompass.runtime.values.live import MaskingFormatter, mask_output, masked, note
from agentcompass.runtime.values.masking import secrets_of
from workers.urls import BROKER_URL_VARIABLE

_OURS: Final = ("agentcompass", "workers")
_QUIET: Final = {
    # A traceback for each message that our tasks put back; they have said so themselves.
    "celery.app.trace": logging.ERROR,
    # A message that arrives while we stop goes back to its lane: nothing to warn of.
    "kombu.transport.virtual.base": logging.ERROR,
}


class LineHandler(logging.Handler):
    """Writes each record with one system call.

    The processes of a worker share one stderr, so that a line must not be torn; and a child that
    is forked while another thread logs must not inherit the lock of a buffer.
    """

    def emit(self, record: logging.LogRecord) -> None:
        """Write the line; neither a stderr that is gone nor a wrong record takes anything down."""
        try:
            text = self.format(record)
        except (ValueError, TypeError):  # arguments that do not fit: say at least what it was about
            text = masked(str(record.msg))
        with suppress(OSError):
            os.write(2, text.encode(errors="backslashreplace") + b"\n")


def held_by(env: Mapping[str, str]) -> dict[str, str]:
    """Return the secrets of a worker itself: its broker's password, and what is named like one."""
    url = env.get(BROKER_URL_VARIABLE, "")
    of_broker = {
        f"{BROKER_URL_VARIABLE}_{number}": part
        for number, part in enumerate(secret_parts(url) if "@" in url else ())
    }
    return secrets_of(env) | of_broker


def set_up(level: str, who: str, env: Mapping[str, str] = os.environ) -> None:
    """Log to stderr: ours from `level` on, the libraries' from WARNING on.

    What `env` holds of secrets appears in no line, nor in what plug-ins print.
    """
    note(held_by(env))
    mask_output()
    handler = LineHandler()
    text = f"%(asctime)s.%(msecs)03dZ %(levelname)-7s {who}: %(message)s"
    handler.setFormatter(MaskingFormatter(text, datefmt="%Y-%m-%dT%H:%M:%S"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    for name in _OURS:
        logging.getLogger(name).setLevel(level.upper())
    for name, from_level in _QUIET.items():
        logging.getLogger(name).setLevel(from_level)
