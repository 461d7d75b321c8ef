"""Fuzzes one reader: `python -m tests.support.fuzzing NAME SECONDS`, a name of `READERS`.

Needs atheris, which is not among our dependencies: its wheel exists for few systems. It starts from
`tests/corpus/NAME` and leaves there what breaks the reader, where every test run reads it again.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import atheris  # type: ignore[import-not-found,import-untyped,unused-ignore]

with atheris.instrument_imports(include=["agentcompass", "workers"]):
    from tests.support.readers import CORPUS, READERS, attempt, seed, template


def main(name: str, seconds: str) -> None:
    """Fuzz until the time is over or something breaks."""
    reader, run_dir = READERS[name], template(Path(tempfile.mkdtemp(prefix="readers-")))
    found = Path(tempfile.mkdtemp(prefix=f"found-{name}-"))
    (found / "seed").write_bytes(seed(name, run_dir))

    def once(data: bytes) -> None:
        attempt(reader, run_dir, data)

    known = CORPUS / name
    known.mkdir(exist_ok=True)
    limits = [f"-max_total_time={seconds}", "-max_len=8192", "-rss_limit_mb=1500", "-timeout=60"]
    # New inputs go to the first folder, the second is only read; what breaks goes to the prefix.
    places = [f"-artifact_prefix={known}/", str(found), str(known)]
    atheris.Setup([sys.argv[0], *limits, *places], once)
    atheris.Fuzz()


if __name__ == "__main__":
    main(*sys.argv[1:])
