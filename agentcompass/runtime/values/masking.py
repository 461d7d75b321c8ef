"""Live secrets masked in text.

A secret is *live* while an attempt that refers to it executes, and so is what the worker itself
holds: its broker's password, and what its environment names a secret and nobody could guess. See
`forms` for what is found of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from agentcompass.errors import AttemptFailure
from agentcompass.models.secret import MASK
from agentcompass.runtime.redact import is_secret_name
from agentcompass.runtime.values.forms import (
    WRAPPING,
    Form,
    Forms,
    Found,
    forms_of,
    secret_parts,
)

_UNGUESSABLE: Final = 16
_MARK: Final = "${agentcompass:"
_PUT_BACK: Final = re.compile(
    r"\$\{agentcompass:(?:([A-Za-z_][A-Za-z0-9_]*)(?:\.(\d+))?:(\d+):(\d+))?\}"
)
_NOT_SECRETS: Final = frozenset({"PWD", "OLDPWD"})

Replacement = Callable[[Form, int, int], str]
"""Form, start and end of the part of it that was found -> what is written in its place."""


def missing(name: str) -> AttemptFailure:
    """Return the failure of an attempt whose secret this worker does not have."""
    return AttemptFailure(
        "fatal",
        "setup",
        "secret_missing",
        f"environment variable {name} is not set on this worker: export it there and run the "
        "attempt again",
    )


def secrets_of(environ: Mapping[str, str]) -> dict[str, str]:
    """Return what in an environment is a secret, whether or not a run refers to it.

    Only what nobody could guess: a development database's password may be `postgres`, which must
    not disappear from every text. Values that a run refers to are another matter.
    """
    found: dict[str, str] = {}
    for name, value in environ.items():
        has_credentials = "://" in value and "@" in value
        if (is_secret_name(name) and name not in _NOT_SECRETS) or has_credentials:
            found |= {each: part for each, part in _parts(name, value) if _is_unguessable(part)}
    return found


def _is_unguessable(value: str) -> bool:
    is_mixed = not value.isalpha() or not (value.islower() or value.isupper())
    return len(value) >= _UNGUESSABLE and len(set(value)) >= _UNGUESSABLE // 2 and is_mixed


def _parts(name: str, value: str) -> Iterator[tuple[str, str]]:
    for number, part in enumerate(secret_parts(value)):
        yield (f"{name}_part{number}" if number else name), part


def _in_place_of_a_secret(_form: Form, _start: int, _end: int) -> str:
    return MASK


@dataclass(slots=True)
class Masker:
    """Masks live secrets in text; remembers whether it ever had to.

    Calling it is the text rule of a `Normalizer`. `for_snapshot` writes references that
    `put_back` replaces by the value again, so that an evaluation that is resumed from disk sees
    what a first one sees.
    """

    values: Mapping[str, str]
    """Variable name -> live value; what the attempt refers to."""
    hidden: Mapping[str, str] = field(default_factory=dict)
    """More of it, which is masked but never put back: it is not the attempt's."""
    found: bool = False
    _forms: Forms = field(init=False)

    def __post_init__(self) -> None:
        own = [part for name, value in self.values.items() for part in _parts(name, value)]
        more = [(n, v) for n, v in self.hidden.items() if n not in self.values]
        self._forms = forms_of((*own, *more))

    def __bool__(self) -> bool:
        return bool(self._forms.all)

    def __call__(self, text: str) -> str:
        return self._replaced(text, _in_place_of_a_secret)

    def may_be_in(self, data: bytes) -> bool:
        """Return False if serialized text surely holds nothing to mask or to escape."""
        return _MARK.encode() in data or self._forms.may_be_in_bytes(data)

    def for_snapshot(self, text: str) -> str:
        """Return text with references for secrets; text that looks like one is escaped."""
        escaped = text.replace(_MARK, f"{_MARK}}}") if _MARK in text else text
        return self._replaced(escaped, self._reference)

    def put_back(self, text: str) -> str:
        """Undo `for_snapshot`.

        Raises:
            AttemptFailure: FATAL setup `secret_missing`.
        """
        if _MARK not in text:
            return text
        return _PUT_BACK.sub(self._value_of, text)

    def filter_chunks(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        """Mask a file on its way to the disk; one with a NUL byte at its beginning is not text."""
        first = next(chunks, b"")
        if b"\0" in first:
            yield first
            yield from chunks
            return
        as_latin = Masker(_in_latin(self.values), _in_latin(self.hidden))
        # Wrapped over lines, a form is no longer than this; it must not be cut in two.
        longest = 4 * max((len(form.text) for form in self._forms.all), default=0)
        waiting = first
        for chunk in chunks:
            done, waiting = as_latin._beginning(waiting, longest)
            yield done
            waiting += chunk
        yield as_latin(waiting.decode("latin-1")).encode("latin-1")
        self.found = self.found or as_latin.found

    def _beginning(self, data: bytes, kept: int) -> tuple[bytes, bytes]:
        """Mask all of `data` but its end, which the next chunk may complete; return both."""
        cut = max(len(data) - kept, 0)
        if self._forms.may_be_in_bytes(data):
            for found in self._forms.find(data.decode("latin-1")):
                if found.start < cut < found.end:
                    cut = found.start
        return self(data[:cut].decode("latin-1")).encode("latin-1"), data[cut:]

    def _reference(self, form: Form, start: int, end: int) -> str:
        if form.name in self.hidden and form.name not in self.values:
            return MASK
        number = f".{form.number}" if form.number else ""
        return f"{_MARK}{form.name}{number}:{start}:{end}}}"

    def _value_of(self, match: re.Match[str]) -> str:
        name, number = match[1], int(match[2] or 0)
        if name is None:
            return _MARK
        known = (each for each in self._forms.all if (each.name, each.number) == (name, number))
        form = next(known, None)
        if form is None:
            raise missing(name)
        return form.text[int(match[3]) : int(match[4])]

    def _replaced(self, text: str, replacement: Replacement) -> str:
        if not self._forms.all or not self._forms.may_be_in(text):
            return text
        hits = self._forms.find(text)
        if not hits:
            return text
        self.found = True
        written: list[str] = []
        last = 0
        for hit in hits:
            written += (text[last : hit.start], _one(text, hit, replacement))
            last = hit.end
        return "".join((*written, text[last:]))


def _one(text: str, hit: Found, replacement: Replacement) -> str:
    """Return what stands for one find; one that is wrapped over lines stays wrapped if it must."""
    if replacement is _in_place_of_a_secret:
        return MASK
    found, at, last = text[hit.start : hit.end], hit.at, 0
    written: list[str] = []
    for gap in WRAPPING.finditer(found):
        size = gap.start() - last
        written += (replacement(hit.form, at, at + size), gap[0])
        at, last = at + size, gap.end()
    return "".join((*written, replacement(hit.form, at, at + len(found) - last)))


def _in_latin(values: Mapping[str, str]) -> dict[str, str]:
    return {name: value.encode().decode("latin-1") for name, value in values.items()}
