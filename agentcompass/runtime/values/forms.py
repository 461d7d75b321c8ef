"""The forms in which a live secret may turn up in text, and where in a text they do.

A value is looked for as it is, URL-encoded, escaped for JSON, Python or HTML, in base64 at any
alignment, and in hexadecimal; white space and escaped line ends between its characters, as of a
wrapped line, do not matter. Long values are found by a run of their characters, too.
"""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final
from urllib.parse import parse_qsl, quote, quote_plus, unquote, urlsplit

from agentcompass.models.extent import json_value
from agentcompass.runtime.redact import is_secret_name

MIN_LENGTH: Final = 8
"""Characters; shorter values are not masked, because masking `abc` would ruin ordinary text."""
RUN_LENGTH: Final = 12
"""So many consecutive characters of a value are as good as all of it."""

_LONG_SEGMENT: Final = 16
"""A webhook's URL is a secret by a part of its path that nobody could guess."""
_SCHEME: Final = re.compile(r"(Basic|Bearer|Token|ApiKey)\s+(\S+)", re.IGNORECASE)
"""How a header that names a credential begins."""
_ARMOUR: Final = re.compile(r"-----(?:BEGIN|END) [A-Z0-9 ]+-----")
WRAPPING: Final = re.compile(r"(?:\s|\\+[nrt])+")
_SPACES: Final = b" \t\r\n"


@dataclass(frozen=True, slots=True)
class Form:
    """One spelling of one secret."""

    name: str
    """The variable that holds it."""
    number: int
    """Tells the spellings of one variable apart; 0 is the value itself."""
    text: str
    """Without white space."""
    run: int
    """Shortest part that counts."""

    def blocks(self) -> Iterator[str]:
        """Yield aligned parts of which every run holds at least one whole."""
        size = self.run // 2
        if len(self.text) < 2 * size:
            yield self.text
            return
        for at in range(0, len(self.text) - size + 1, size):
            yield self.text[at : at + size]


@dataclass(frozen=True, slots=True)
class Found:
    """A part of a form in a text."""

    start: int
    end: int
    form: Form
    at: int
    """Where the part begins in the form."""


@dataclass(frozen=True, slots=True)
class Forms:
    """All forms of several secrets."""

    all: tuple[Form, ...]
    _texts: tuple[str, ...]
    _bytes: tuple[bytes, ...]

    def may_be_in(self, text: str) -> bool:
        """Return False if there is surely nothing to mask: a few substring searches."""
        bare = unwrapped(text)
        return any(block in bare for block in self._texts)

    def may_be_in_bytes(self, data: bytes) -> bool:
        """Do the same for UTF-8 text, serialized JSON included."""
        bare = data.translate(None, _SPACES)
        if b"\\" in bare:
            bare = _unescaped(bare)
        return any(block in bare for block in self._bytes)

    def find(self, text: str) -> list[Found]:
        """Return everything that is to be masked, in order, without overlaps."""
        bare, places = _unwrapped_with_places(text)
        hits = [hit for form in self.all for hit in _hits(form, bare)]
        hits.sort(key=lambda hit: (hit.start, -hit.end))
        found: list[Found] = []
        end = 0
        for hit in hits:
            if hit.end <= end:
                continue
            skipped = max(end - hit.start, 0)
            start = hit.start + skipped
            end = hit.end
            found.append(Found(places[start], places[end - 1] + 1, hit.form, hit.at + skipped))
        return found


@lru_cache(maxsize=256)
def forms_of(secrets: tuple[tuple[str, str], ...]) -> Forms:
    """Return all forms of (name, value) pairs; the same object for the same secrets."""
    forms = tuple(form for name, value in secrets for form in _forms(name, value))
    blocks = dict.fromkeys(block for form in forms for block in form.blocks())
    return Forms(forms, tuple(blocks), tuple(block.encode("utf-8", "replace") for block in blocks))


def unwrapped(text: str) -> str:
    """Return text without white space and without escaped line ends."""
    bare = "".join(text.split())
    return WRAPPING.sub("", bare) if "\\" in bare else bare


def secret_parts(value: str) -> list[str]:
    """Return what of a value is secret: of a URL not its host, of a key file not its field names."""
    if "://" in value and not any(char.isspace() for char in value):
        return _url_parts(value)
    scheme = _SCHEME.fullmatch(value)
    if scheme is not None:
        return _header_parts(scheme[1], scheme[2])
    if value.lstrip().startswith("{"):
        try:
            return list(dict.fromkeys(_secret_leaves(json_value(value), is_secret=False)))
        except ValueError:
            return [value]
    return [value]


def _header_parts(scheme: str, credential: str) -> list[str]:
    if scheme.lower() != "basic":
        return [credential]
    try:
        user_and_password = base64.b64decode(credential, validate=True).decode()
    except ValueError:
        return [credential]
    return [credential, user_and_password, user_and_password.partition(":")[2]]


def _url_parts(url: str) -> list[str]:
    try:
        parts = urlsplit(url)
        user_info = parts.netloc.rpartition("@")[0].removeprefix(":")
        password = parts.password or ""
    except ValueError:
        return [url]
    asked = [value for name, value in parse_qsl(parts.query) if is_secret_name(name)]
    long = [part for part in parts.path.split("/") if len(part) >= _LONG_SEGMENT]
    found = [part for part in (user_info, password, unquote(password), *asked) if part] or long
    return list(dict.fromkeys(found))


def _secret_leaves(value: object, *, is_secret: bool) -> Iterator[str]:
    if isinstance(value, str) and is_secret:
        yield value
    elif isinstance(value, list):
        for member in value:
            yield from _secret_leaves(member, is_secret=is_secret)
    elif isinstance(value, dict):
        for name, member in value.items():
            yield from _secret_leaves(member, is_secret=is_secret or is_secret_name(name))


def _forms(name: str, value: str) -> Iterator[Form]:
    bodies = _ARMOUR.split(value) if "-----BEGIN" in value else [value]
    spellings: dict[str, int] = {}
    for body in (body for body in bodies if len(unwrapped(body)) >= MIN_LENGTH):
        spellings.setdefault(unwrapped(body), RUN_LENGTH)
        for text in _escaped(body):
            spellings.setdefault(unwrapped(text), RUN_LENGTH)
        for text in _in_base64(body.encode("utf-8", "surrogatepass")):
            spellings.setdefault(text, RUN_LENGTH * 4 // 3)
        spellings.setdefault(body.encode("utf-8", "surrogatepass").hex(), RUN_LENGTH * 2)
    for number, (text, run) in enumerate(spellings.items()):
        yield Form(name, number, text, run)


def _escaped(value: str) -> Iterator[str]:
    in_url = quote(value, safe="", errors="surrogatepass")
    yield in_url
    yield re.sub(r"%..", lambda code: code[0].lower(), in_url)
    yield quote_plus(value, errors="surrogatepass")
    in_json = json.dumps(value)[1:-1]
    yield in_json
    yield json.dumps(value, ensure_ascii=False)[1:-1]
    yield json.dumps(in_json)[1:-1]
    yield repr(value)[1:-1]
    yield html.escape(value)
    yield unquote(value)


def _in_base64(data: bytes) -> Iterator[str]:
    for before in range(3):
        encoded = base64.b64encode(b"\0" * before + data).decode()
        # Only the characters that the secret alone decides: not those that it shares with
        # what stands before and behind it.
        core = encoded[(before * 8 + 5) // 6 : (before + len(data)) * 8 // 6]
        if len(core) >= MIN_LENGTH:
            yield core
            yield core.translate({ord("+"): "-", ord("/"): "_"})


def _hits(form: Form, bare: str) -> Iterator[Found]:
    """Yield the longest parts of a form in a text, each wherever it occurs."""
    shortest = min(form.run, len(form.text))
    seen: dict[int, int] = {}
    for at in range(len(form.text) - shortest + 1):
        part = form.text[at : at + shortest]
        place = bare.find(part)
        while place >= 0:
            # What begins inside of an earlier part, and in step with it, belongs to that one.
            if seen.get(place - at, 0) <= place:
                length = shortest
                while _same(form.text, at + length, bare, place + length):
                    length += 1
                seen[place - at] = place + length
                yield Found(place, place + length, form, at)
            place = bare.find(part, place + 1)


def _same(one: str, at: int, other: str, place: int) -> bool:
    return at < len(one) and place < len(other) and one[at] == other[place]


def _unwrapped_with_places(text: str) -> tuple[str, list[int]]:
    """Return the text without wrapping, and where each of its characters stood."""
    kept: list[str] = []
    places: list[int] = []
    last = 0
    for gap in WRAPPING.finditer(text):
        kept.append(text[last : gap.start()])
        places.extend(range(last, gap.start()))
        last = gap.end()
    kept.append(text[last:])
    places.extend(range(last, len(text)))
    return "".join(kept), places


def _unescaped(data: bytes) -> bytes:
    if b"\\\\" in data:
        return re.sub(rb"\\+([nrt]?)", lambda gap: b"" if gap[1] else b"\\", data)
    return data.replace(b"\\n", b"").replace(b"\\r", b"").replace(b"\\t", b"")
