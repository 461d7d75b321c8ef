"""Paragraphs and tables, as Markdown and as plain text.

Content comes from benchmarks and agents: control characters never reach a terminal, and nothing in
it can become a table cell, a tag, a link or an image.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Final, Literal, TypeAlias
from unicodedata import combining, east_asian_width

Align: TypeAlias = Literal["left", "right"]
_CELL_LIMIT: Final = 120
_LINE: Final = 96
_SPECIAL: Final = re.compile(r"([\\|`*\[\]])")


@dataclass(frozen=True, slots=True)
class Paragraph:
    """One or more lines; each is a statement with an optional bold start."""

    lines: Sequence[tuple[str, str]]
    """(start, rest); the start may be empty."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table; `codes` are the columns that hold ids and are never prose."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    align: Sequence[Align]
    codes: frozenset[int] = frozenset()
    footer: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """A titled part; the first one has no title."""

    title: str
    blocks: Sequence[Paragraph | Table]


def as_markdown(title: str, sections: Iterable[Section]) -> str:
    """Return a Markdown document."""
    parts = [f"# {_prose(title)}"]
    for section in sections:
        if section.title:
            parts.append(f"## {_prose(section.title)}")
        parts.extend(
            _markdown_table(block) if isinstance(block, Table) else _markdown_lines(block)
            for block in section.blocks
        )
    return "\n\n".join(parts) + "\n"


def as_text(title: str, sections: Iterable[Section]) -> str:
    """Return plain text for a terminal: aligned, without colour."""
    parts = [_printable(title)]
    for section in sections:
        blocks = [
            _text_table(block) if isinstance(block, Table) else _text_lines(block)
            for block in section.blocks
        ]
        if section.title:
            blocks[0] = f"{_printable(section.title)}\n{blocks[0]}"
        parts.extend(blocks)
    return "\n\n".join(parts) + "\n"


def _markdown_lines(block: Paragraph) -> str:
    lines = [
        f"**{_prose(start)}** {_prose(rest)}" if start else _prose(rest)
        for start, rest in block.lines
    ]
    return "  \n".join(line.strip() for line in lines)


def _text_lines(block: Paragraph) -> str:
    return "\n".join(_printable(f"{start} {rest}".strip()) for start, rest in block.lines)


def _markdown_table(table: Table) -> str:
    rule = ["---:" if align == "right" else "---" for align in table.align]
    rows = [
        [_code(cell) if column in table.codes else _prose(cell) for column, cell in enumerate(row)]
        for row in table.rows
    ]
    lines = [f"| {' | '.join(row)} |" for row in ([_prose(h) for h in table.header], rule, *rows)]
    return "\n".join(lines) + (f"\n\n{_prose(table.footer)}" if table.footer else "")


def _text_table(table: Table) -> str:
    rows = [[_cut(_printable(cell)) for cell in row] for row in (table.header, *table.rows)]
    widths = [max(_width(row[column]) for row in rows) for column in range(len(table.header))]
    lines = [
        "  ".join(
            _padded(cell, width, align)
            for cell, width, align in zip(row, widths, table.align, strict=True)
        ).rstrip()
        for row in rows
    ]
    lines += wrap(_printable(table.footer), _LINE)
    return "\n".join(f"  {line}" for line in lines)


def _padded(cell: str, width: int, align: Align) -> str:
    space = " " * (width - _width(cell))
    return space + cell if align == "right" else cell + space


def _width(text: str) -> int:
    """Return the columns that a terminal uses: wide characters take two, accents none."""
    return sum(
        0 if combining(char) else 2 if east_asian_width(char) in {"W", "F"} else 1 for char in text
    )


def _cut(text: str) -> str:
    return text if len(text) <= _CELL_LIMIT else text[: _CELL_LIMIT - 1] + "…"


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def _prose(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", _printable(text)).replace("<", "&lt;")


def _code(text: str) -> str:
    """Return a code span; a cell's content cannot hold a back-tick or a bar and stay one."""
    inside = _printable(text).replace("`", "'").replace("|", "\\|")
    return f"`{inside}`" if inside.strip() else ""
