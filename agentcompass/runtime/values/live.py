"""The live secrets of this process, and what writes its lines without them.

Log lines, what plug-ins print, and the error messages of the command line belong to no attempt:
they are masked by everything that this process has come to know as a secret.
"""

from __future__ import annotations

import io
import logging
import os
import re
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final, TextIO

from agentcompass.runtime.redact import mask_urls
from agentcompass.runtime.values.masking import Masker

_STREAMS: Final = ("stdout", "stderr")
_STEERS: Final = re.compile(
    r"\x1b(?!\[[0-7;]*m)"  # all but plain colours, which tracebacks have
    r"|[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x9f]|[\u202a-\u202e\u2066-\u2069]"
)
_MOST: Final = 256
"""Secrets that are remembered; a worker that meets more of them forgets the oldest."""


class _Known:
    """What this process has come to know; replaced as a whole, so that threads may read it."""

    values: Mapping[str, str] = {}
    masker = Masker({})


def note(secrets: Mapping[str, str]) -> None:
    """Remember secrets (name -> value) for the rest of this process."""
    new = {name: value for name, value in secrets.items() if _Known.values.get(name) != value}
    if not new:
        return
    kept = [*_Known.values.items(), *new.items()][-_MOST:]
    _Known.values = dict(kept)
    _Known.masker = Masker(_Known.values)


def known() -> Mapping[str, str]:
    """Return what was noted: on a coordinator also the literal secrets of its requests."""
    return _Known.values


def masked(text: str) -> str:
    """Return text without live secrets and without the credentials of URLs."""
    return _Known.masker(mask_urls(text))


class MaskingFormatter(logging.Formatter):
    """Masks the finished text: messages, arguments, and tracebacks with causes and notes alike."""

    converter = staticmethod(time.gmtime)

    def format(self, record: logging.LogRecord) -> str:
        """Return the line that is written."""
        return masked(super().format(record))


class MaskedOutput(io.TextIOBase):
    """Stands for a standard stream of this process and masks each text that is written.

    It keeps nothing back: threads may print at once, and a fork inherits no half a line. A terminal
    gets nothing that steers it: ids come from data sets, messages from agents. Files get it all.
    Where nobody reads any more (`… | head -1`) the words go nowhere and what is done goes on: it
    may matter more than what it says.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._is_terminal = stream.isatty()

    def write(self, text: str) -> int:
        shown = masked(text)
        if self._is_terminal:
            shown = _STEERS.sub("\N{REPLACEMENT CHARACTER}", shown)
        try:
            self._stream.write(shown)
        except BrokenPipeError:
            _to_nowhere(self._stream)
        return len(text)

    def flush(self) -> None:
        if self._stream.closed:  # at the end of the process each object closes itself once more
            return
        try:
            self._stream.flush()
        except BrokenPipeError:
            _to_nowhere(self._stream)

    def isatty(self) -> bool:
        return self._stream.isatty()

    def fileno(self) -> int:
        return self._stream.fileno()

    def writable(self) -> bool:
        return True

    @property
    def buffer(self) -> object:
        """The stream of bytes below, for those who know what they do; it is not masked."""
        return self._stream.buffer

    @property
    def encoding(self) -> str:  # type: ignore[override]  # io has it as an attribute
        return self._stream.encoding


def _to_nowhere(stream: TextIO) -> None:
    """Let the stream's descriptor lead nowhere, for what is buffered and what comes."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def mask_output() -> None:
    """Put masks before the standard streams of this process; any number of times."""
    for name in _STREAMS:
        stream = getattr(sys, name)
        if stream is not None and not isinstance(stream, MaskedOutput):
            setattr(sys, name, MaskedOutput(stream))


@contextmanager
def masked_output() -> Iterator[None]:
    """Do so for a while; an error that leaves keeps the masks, for its traceback."""
    before = {name: getattr(sys, name) for name in _STREAMS}
    mask_output()
    yield
    for name, stream in before.items():
        setattr(sys, name, stream)
