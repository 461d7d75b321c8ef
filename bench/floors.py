"""Floors that are commands: what any program would have to do, and nothing more.

python -m bench.floors (scan | parse | read) RUN
python -m bench.floors infos FOLDER
python -m bench.floors copy RUN FOLDER
python -m bench.floors files FOLDER COUNT
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import orjson

_CHUNK: Final = 1 << 20
_RECORD: Final = b"x" * 800


def scan(run_dir: str) -> int:
    """Import what a resume imports, and list every directory of the run once."""
    import agentcompass.cli.resume  # noqa: F401

    return sum(1 for _ in _below(os.path.join(run_dir, "details")))


def infos(folder: str) -> int:
    """Import what a listing imports, and read what each run says about itself."""
    import agentcompass.cli.ls  # noqa: F401

    paths = (path for path in _below(folder) if path.endswith("/run_info.json"))
    return sum(len(orjson.loads(Path(path).read_bytes())) for path in paths)


def parse(run_dir: str) -> int:
    """Read every result and parse it."""
    return sum(len(orjson.loads(Path(path).read_bytes())) for path in _results(run_dir))


def read(run_dir: str) -> int:
    """Read every byte of every result."""
    total = 0
    for path in _results(run_dir):
        with Path(path).open("rb", buffering=0) as file:
            while chunk := file.read(_CHUNK):
                total += len(chunk)
    return total


def copy(run_dir: str, folder: str) -> None:
    """Copy the directory of every task, each file and each directory synced."""
    os.makedirs(folder)
    for state in os.scandir(os.path.join(run_dir, "details")):
        for task in os.scandir(state.path):
            _copied(task.path, os.path.join(folder, task.name))
    _synced(folder)


def _copied(source: str, target: str) -> None:
    os.mkdir(target)
    for entry in os.scandir(source):
        place = os.path.join(target, entry.name)
        if entry.is_dir(follow_symlinks=False):
            _copied(entry.path, place)
        else:
            _written(place, Path(entry.path).read_bytes(), is_durable=True)
    _synced(target)


def files(folder: str, count: int) -> None:
    """Do with the disk what an attempt of a k=1 task does: 7 fsyncs, 4 links or renames, 4 files."""
    running, filed = f"{folder}/running", f"{folder}/normal"
    os.makedirs(running)
    os.makedirs(filed)
    for number in range(count):
        task = f"{running}/task-{number}"
        attempt = f"{task}/attempt-1"
        os.mkdir(task)
        _linked(f"{task}/task.json")
        os.mkdir(attempt)
        _written(f"{attempt}/started.json")
        _replaced(f"{attempt}/checkpoint.json")
        _synced(attempt)
        _synced(task)
        _linked(f"{attempt}/result.json")
        _synced(attempt)
        os.rename(task, f"{filed}/task-{number}")
        _synced(filed)


def _linked(path: str) -> None:
    _written(f"{path}.tmp", is_durable=True)
    os.link(f"{path}.tmp", path)
    os.unlink(f"{path}.tmp")


def _replaced(path: str) -> None:
    _written(f"{path}.tmp", is_durable=True)
    os.rename(f"{path}.tmp", path)


def _written(path: str, data: bytes = _RECORD, *, is_durable: bool = False) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    os.write(descriptor, data)
    if is_durable:
        os.fsync(descriptor)
    os.close(descriptor)


def _synced(directory: str) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def _results(run_dir: str) -> Iterator[str]:
    details = os.path.join(run_dir, "details")
    return (path for path in _below(details) if path.endswith("/result.json"))


def _below(folder: str) -> Iterator[str]:
    for entry in os.scandir(folder):
        yield entry.path
        if entry.is_dir(follow_symlinks=False):
            yield from _below(entry.path)


def main(what: str, *arguments: str) -> None:
    """Do one of them."""
    match what:
        case "scan":
            scan(arguments[0])
        case "infos":
            infos(arguments[0])
        case "parse":
            parse(arguments[0])
        case "read":
            read(arguments[0])
        case "copy":
            copy(arguments[0], arguments[1])
        case "files":
            files(arguments[0], int(arguments[1]))
        case _:
            raise ValueError(what)


if __name__ == "__main__":
    main(*sys.argv[1:])
