"""Rules that no linter has. Each failure names the file, the line and the way out."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
PRODUCT: Final = ("agentcompass", "workers")
MAX_LINES: Final = 400

MAY_WRITE: Final = {
    "agentcompass/benchmarks/shell_tasks/benchmark.py": "a task's files, on their way into its environment",
    "agentcompass/store/atomic.py": "the one module that puts bytes under a final name",
    "agentcompass/runtime/values/live.py": "turns a closed stdout into /dev/null",
    "agentcompass/environments/docker/archives.py": "copies out of a container",
    "agentcompass/environments/files.py": "copies in and out of an attempt's working area",
    "agentcompass/environments/supervisor.py": "tells the kernel whom to kill first",
    "workers/keeping/instance.py": "why this worker refuses to go on, on its own disk",
    "workers/keeping/locks.py": "locks of the operating system on a worker's own disk",
    "workers/keeping/slips.py": "notes on a worker's own disk, gone with the worker",
    "workers/serving/nanny.py": "tells the embedded server's address, in its private folder",
    "workers/serving/server.py": "the embedded server's configuration, in its private folder",
}
"""Who else opens files to write, and why that needs no publication: scratch, locks, devices."""

FILE_CALLS: Final = {
    "write_text", "write_bytes", "rename", "renames", "hardlink_to", "symlink_to",
    "copy2", "copyfile", "copytree", "NamedTemporaryFile",
}  # fmt: skip
NAMES_OF_NO_REASON: Final = {"utils", "util", "helpers", "helper", "common", "manager", "misc"}

OF_ONE_MACHINE: Final = re.compile(
    r"(?<![\w.])/(?:[w]ork|[f]arm)/"  # the brackets keep this line from finding itself
    r"|/[r]oot/|/[t]mp/lab|/[t]mp/[a-z_]+/venv|/[h]ome/[a-z]+/|[.]pyenv/versions/\d"
    r"|\b(?:[p]ypi[.]org|[f]iles[.]pythonhosted|[d]eb[.]debian[.]org|[r]egistry[.]npmjs)"
)
PROSE: Final = ("*.md", "*.toml", "*.yaml", "*.yml", "*.txt", "Makefile", "Dockerfile")


def modules(*folders: str) -> Iterator[Path]:
    for folder in folders:
        yield from sorted((ROOT / folder).rglob("*.py"))


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def everything_we_wrote() -> Iterator[Path]:
    yield from modules(*PRODUCT, "tests", "demo", "bench")
    for pattern in PROSE:
        yield from sorted(ROOT.glob(pattern))
        yield from sorted((ROOT / "docs").rglob(pattern))
    yield ROOT / ".ci" / "run"


def test_a_module_is_read_in_one_sitting() -> None:
    lengths = {
        name_of(path): len(path.read_text(encoding="utf-8").splitlines())
        for path in modules(*PRODUCT, "tests", "demo", "bench")
    }

    too_long = {name: lines for name, lines in lengths.items() if lines > MAX_LINES}

    assert too_long == {}, "which two reasons to change live in it?"


def test_only_the_store_puts_bytes_under_a_name() -> None:
    found = [
        f"{name_of(path)}:{node.lineno}"
        for path in modules(*PRODUCT)
        if name_of(path) not in MAY_WRITE
        for node in ast.walk(ast.parse(path.read_bytes()))
        if isinstance(node, ast.Call) and writes_a_file(node)
    ]

    assert found == [], "use agentcompass.store.atomic, or give a reason in MAY_WRITE"


def test_tests_look_with_patience_where_others_write() -> None:
    found = [
        f"{name_of(path)}:{node.lineno}"
        for path in modules("tests/integration", "tests/support")
        for node in ast.walk(ast.parse(path.read_bytes()))
        if isinstance(node, ast.Attribute) and node.attr in {"glob", "rglob"}
    ]

    assert found == [], "use tests.support.tree.paths_in"


def writes_a_file(call: ast.Call) -> bool:
    owner, _, name = ast.unparse(call.func).rpartition(".")
    if name == "open":
        if owner == "os":
            return any(flag in ast.unparse(call) for flag in ("O_CREAT", "O_WRONLY", "O_RDWR"))
        return opens_to_write(call, position=0 if owner else 1)
    if name == "replace":  # of a path: the one of a string takes two
        return owner == "os" or (len(call.args) == 1 and not call.keywords)
    if name in {"copy", "link", "move", "symlink"}:
        return owner in {"os", "shutil"}
    return name in FILE_CALLS


def opens_to_write(call: ast.Call, *, position: int) -> bool:
    named = [word.value for word in call.keywords if word.arg == "mode"]
    modes = named or call.args[position : position + 1]
    return any(
        isinstance(mode, ast.Constant)
        and isinstance(mode.value, str)
        and re.fullmatch(r"[rwxabt+U]{1,4}", mode.value)
        and set(mode.value) & set("wxa+")
        for mode in modes
    )


def test_nobody_may_write_who_does_not() -> None:
    writers = {
        name_of(path)
        for path in modules(*PRODUCT)
        for node in ast.walk(ast.parse(path.read_bytes()))
        if isinstance(node, ast.Call) and writes_a_file(node)
    }

    assert MAY_WRITE.keys() - writers - {"agentcompass/store/atomic.py"} == set()


def test_nothing_names_the_machine_it_was_written_on() -> None:
    found = [
        f"{name_of(path)}:{number}: {line.strip()}"
        for path in everything_we_wrote()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if OF_ONE_MACHINE.search(line)
    ]

    assert found == []


def test_modules_are_named_after_a_reason() -> None:
    assert [name_of(path) for path in modules(*PRODUCT) if path.stem in NAMES_OF_NO_REASON] == []


def test_every_folder_of_python_is_a_package() -> None:
    folders = {path.parent for path in modules(*PRODUCT, "tests")}

    assert [name_of(folder) for folder in folders if not (folder / "__init__.py").is_file()] == []
