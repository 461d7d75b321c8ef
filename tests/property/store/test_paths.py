"""Whatever users, data sets and agents call their things: every path stays inside and is short enough."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from hypothesis import example, given, reject, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from agentcompass.environments import files
from agentcompass.errors import UsageError
from agentcompass.models.request import ComponentSpec, ModelSpec, OutputSettings
from agentcompass.models.task import TaskSpec
from agentcompass.store import artifacts, names
from agentcompass.store.reserve import reserve
from agentcompass.store.root import ResultsRoot, open_root, resolve_ref
from tests.builders import T0, a_request
from tests.support.store_runs import a_run, begin

HOSTILE = st.sampled_from(
    [
        "../x", "/etc/x", "a/../../b", "..", ".", "a\x00b", "C:\\x", "-rf", "con", "x.", "a\nb",
        "~", "$HOME", "*", "é" * 100, "漢" * 200, "x" * 300, "task--" + "0" * 64, ".tmp-x",
        "\u202e", "a" * 189, "a" * 190, "..%2f..%2fx", "\\\\host\\share", "a;b|c", "NUL", "a:b",
    ]
)  # fmt: skip
TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=300) | HOSTILE


def is_legal(task_id: str) -> bool:
    try:
        TaskSpec(task_id=task_id)
    except ValidationError:
        return False
    return True


TASK_IDS = TEXT.filter(is_legal)


@contextmanager
def a_folder() -> Iterator[Path]:
    """Yield a folder inside of one that nothing but this test writes to."""
    with tempfile.TemporaryDirectory() as outside:
        inside = Path(outside) / "inside"
        inside.mkdir()
        yield inside


def made(folder: Path) -> list[Path]:
    return [Path(root, name) for root, dirs, found in os.walk(folder) for name in (*dirs, *found)]


def assert_all_inside(folder: Path, allowed: Path) -> None:
    for path in made(folder):
        assert path == allowed or path.is_relative_to(allowed) or allowed.is_relative_to(path)
        assert len(os.fsencode(path.name)) <= 255
        assert not path.is_symlink()


@given(st.lists(TASK_IDS, min_size=2, max_size=8, unique=True))
def test_distinct_ids_never_share_a_directory(ids: list[str]) -> None:
    dirnames = [names.task_dirname(task_id) for task_id in ids]

    assert len({name.casefold() for name in dirnames}) == len(ids)
    assert all(len(name.encode()) <= 255 and "/" not in name for name in dirnames)


@settings(max_examples=12, deadline=None)
@given(st.lists(TASK_IDS, min_size=1, max_size=4, unique=True))
@example(["../x", "/etc/x", "a/../../b", "..", "."])
@example(["a\x00b", "C:\\x", "-rf", "con", "a\nb", "x."])
def test_what_an_attempt_makes_lies_inside_of_its_run(ids: list[str]) -> None:
    with a_folder() as folder:
        run_dir = a_run(folder, *ids)

        directories = {begin(run_dir, task_id).directory.parent for task_id in ids}

        assert len(directories) == len(ids)
        assert_all_inside(folder.parent, run_dir.parents[2])
        assert all(path.is_relative_to(run_dir) for path in directories)


@settings(max_examples=20, deadline=None)
@given(TEXT, TEXT, TEXT, TEXT)
def test_a_run_directory_lies_inside_of_the_results_folder(
    run_name: str, model: str, benchmark: str, run_id: str
) -> None:
    try:
        output = OutputSettings(run_name=run_name)
    except ValidationError:
        reject()
    request = a_request().model_copy(
        update={
            "output": output,
            "model": ModelSpec(id=model),
            "benchmark": ComponentSpec(id=benchmark),
        }
    )
    with a_folder() as folder:
        root = open_root(folder / "results")
        with suppress(UsageError):  # longer than a message's reference may be: said before mkdir
            run_dir = reserve(root, names.namespace_of(request), run_id, T0)
            assert run_dir.resolve().is_relative_to(root.path.resolve())
        assert_all_inside(folder.parent, root.path)


@given(TEXT)
def test_a_reference_of_a_message_never_leaves_the_results_folder(ref: str) -> None:
    root = ResultsRoot(Path("/results/here"), "ab" * 16)

    with suppress(UsageError, ValueError):
        assert resolve_ref(root, ref).is_relative_to(root.path)


@settings(max_examples=20, deadline=None)
@given(st.lists(TEXT, min_size=1, max_size=5))
def test_a_file_of_an_agent_is_taken_from_inside_only(wanted: list[str]) -> None:
    with a_folder() as folder:
        (folder / "work").mkdir()
        (folder.parent / "secret").write_text("secret")
        inside = partial(files.inside, folder, folder / "work")
        for number, name in enumerate(wanted):
            with suppress(ValueError, OSError):
                real = files.inside(folder, folder / "work", name)
                assert real.is_relative_to(folder.resolve())
                files.copy_out(real, folder.parent / f"copy-{number}", inside)


NAMES = st.text(st.characters(exclude_characters="/\0"), min_size=1, max_size=40).filter(
    lambda name: (
        name not in {".", ".."} and len(name.encode("utf-8", "surrogateescape")) <= 200
        if not any("\ud800" <= char <= "\udfff" for char in name)
        else False
    )
)
LINKS = st.sampled_from(["../../secret", "/etc/passwd", "..", ".", "loop", "a", "/proc/self/root"])


@settings(max_examples=20, deadline=None)
@given(st.dictionaries(NAMES, LINKS, max_size=5), st.lists(NAMES, max_size=4, unique=True))
def test_links_that_an_agent_left_are_not_followed(links: dict[str, str], plain: list[str]) -> None:
    with a_folder() as folder:
        left, copy, kept = folder / "left", folder / "copy", folder / "kept"
        left.mkdir()
        (folder.parent / "secret").write_text("a secret of the machine")
        for name in plain:
            left.joinpath(name).write_text("mine")
        for name, target in links.items():
            with suppress(FileExistsError):
                left.joinpath(name).symlink_to(target)

        files.copy_out(left.resolve(), copy, partial(files.inside, folder, left))
        found = artifacts.collect_tree(copy, kept)

        assert found.file_count == len([path for path in made(kept) if path.is_file()])
        contents = {path.read_text() for path in made(kept) if path.is_file()}
        assert contents <= {"mine"}
        assert_all_inside(kept, kept)
