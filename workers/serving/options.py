"""How one Celery worker process is to serve; travels as JSON in its argument, so no secret."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

Role = Literal["attempts", "finalizers"]
Pool = Literal["prefork", "threads"]


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """One worker process. The broker's URL is in its environment."""

    role: Role
    name: str
    results_dir: str
    base: str
    """Folder of all worker instances of this machine."""
    queues: tuple[str, ...] = ("default",)
    pool: Pool = "prefork"
    concurrency: int = 1
    log_level: str = "INFO"
    trusted_roots: tuple[str, ...] | None = None
    """Folders whose Python files may be executed as plug-ins; null trusts every file."""

    @property
    def results_path(self) -> Path:
        """The results folder, as this machine mounts it."""
        return Path(self.results_dir)

    @property
    def base_path(self) -> Path:
        """The folder of all instances."""
        return Path(self.base)

    @property
    def trusted_paths(self) -> tuple[Path, ...] | None:
        """The trusted folders, or None for all."""
        return None if self.trusted_roots is None else tuple(map(Path, self.trusted_roots))

    def to_json(self) -> str:
        """Return what `from_json` reads."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> ServeOptions:
        """Read what `to_json` wrote."""
        fields: Any = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in json.loads(text).items()
        }
        return cls(**fields)
