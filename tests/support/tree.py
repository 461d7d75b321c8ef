"""What a folder holds at one moment, to be compared with a later one."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path


def tree_of(folder: Path) -> Mapping[str, str]:
    """Return relative path -> what stands there: a digest, a link's target, or that it is a folder."""
    return {str(path.relative_to(folder)): _what(path) for path in sorted(folder.rglob("*"))}


def _what(path: Path) -> str:
    if path.is_symlink():
        return f"link to {path.readlink()}"
    return "folder" if path.is_dir() else sha256(path.read_bytes()).hexdigest()
