from __future__ import annotations

import os
import sys
import tomllib
from pathlib import Path

import pytest

from agentcompass.errors import UnknownComponent, UsageError
from agentcompass.models.request import ComponentSpec
from agentcompass.runtime import components
from tests.support.stubs import StubBenchmark, StubEnvironment, StubHarness

ROOT = Path(__file__).resolve().parents[3]
STUB = "tests.support.stubs:StubBenchmark"
PLUG_IN = '''
from pydantic import BaseModel
from agentcompass.harnesses.base import Harness

class Params(BaseModel):
    model_config = {"extra": "forbid"}
    folder: tuple[int, ...] = ()

class Mine(Harness):
    """Does it my way.

    More about it.
    """
    id = "mine"
    Params = Params

not_a_class = 1
'''


@pytest.fixture
def plug_in(tmp_path: Path) -> Path:
    path = tmp_path / "plug_in.py"
    path.write_text(PLUG_IN, encoding="utf-8")
    return path


def test_a_class_is_found_in_a_module_and_built_once() -> None:
    spec = ComponentSpec(id=STUB, params={"tasks": ["a"]})

    first = components.load("benchmark", spec)

    assert isinstance(first, StubBenchmark)
    assert first.params.tasks == ("a",)
    assert components.load("benchmark", spec.model_copy()) is first
    assert components.load("benchmark", ComponentSpec(id=STUB)) is not first


def test_an_environment_is_built_anew_for_each_attempt() -> None:
    spec = ComponentSpec(id="tests.support.stubs:StubEnvironment")

    first, second = (components.load("environment", spec) for _ in range(2))

    assert isinstance(first, StubEnvironment)
    assert first is not second


def test_a_class_is_found_in_a_file(plug_in: Path) -> None:
    spec = ComponentSpec(id=f"{plug_in}:Mine", params={"folder": [1, 2]})

    assert components.load("harness", spec, trusted_roots=[plug_in.parent]).id == "mine"


@pytest.mark.parametrize("roots", [[], [Path("/nowhere")]])
def test_a_file_outside_of_the_trusted_folders_is_not_executed(
    plug_in: Path, roots: list[Path]
) -> None:
    plug_in.write_text("raise SystemExit('executed')", encoding="utf-8")

    with pytest.raises(UsageError, match="outside of the trusted folders"):
        components.load("harness", ComponentSpec(id=f"{plug_in}:Mine"), trusted_roots=roots)


def test_a_link_does_not_lead_into_a_trusted_folder_and_out_again(
    plug_in: Path, tmp_path: Path
) -> None:
    trusted = tmp_path / "trusted"
    trusted.mkdir()
    (trusted / "link.py").symlink_to(plug_in)

    with pytest.raises(UsageError, match="outside"):
        components.find("harness", f"{trusted / 'link.py'}:Mine", trusted_roots=[trusted])


def test_a_file_that_has_changed_is_read_again_even_within_a_second_to_the_same_size(
    plug_in: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    name, at_s = f"{plug_in}:Mine", int(plug_in.stat().st_mtime)
    os.utime(plug_in, ns=(at_s * 10**9, at_s * 10**9))
    before = components.find("harness", name)
    plug_in.write_text(PLUG_IN.replace('"mine"', '"ours"'), encoding="utf-8")
    os.utime(plug_in, ns=(at_s * 10**9 + 1, at_s * 10**9 + 1))

    assert (before.id, components.find("harness", name).id) == ("mine", "ours")  # type: ignore[attr-defined]
    assert [path.name for path in plug_in.parent.iterdir()] == [plug_in.name]


def test_an_unknown_id_gets_the_nearest_name() -> None:
    with pytest.raises(UnknownComponent, match="did you mean 'humaneval'"):
        components.load("benchmark", ComponentSpec(id="human-eval"))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nowhere.at.all:Thing", "cannot be loaded: ModuleNotFoundError"),
        ("tests.support.stubs:Nothing", "is not a benchmark"),
        ("tests.support.stubs:StubHarness", "is not a benchmark"),
        ("tests.support.stubs:StubParams", "is not a benchmark"),
        ("/no/such/file.py:Thing", "no plug-in file"),
    ],
)
def test_what_is_no_plug_in_is_refused(name: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        components.load("benchmark", ComponentSpec(id=name))


def test_a_file_that_raises_is_refused_with_its_error(plug_in: Path) -> None:
    plug_in.write_text("raise SystemExit(3)", encoding="utf-8")

    with pytest.raises(UsageError, match="cannot be loaded: SystemExit: 3"):
        components.load("harness", ComponentSpec(id=f"{plug_in}:Mine"))


def test_every_wrong_parameter_is_named() -> None:
    spec = ComponentSpec(id=STUB, params={"ledgr": "x", "script": 3})

    with pytest.raises(UsageError) as caught:
        components.load("benchmark", spec)

    assert "benchmark.ledgr is unknown (did you mean benchmark.ledger?)" in str(caught.value)
    assert "benchmark.script: Input should be an object" in str(caught.value)
    assert len(str(caught.value).splitlines()) <= 5


def test_files_become_absolute_and_other_ids_stay(tmp_path: Path) -> None:
    assert components.canonical_id("sub/a.py:B", tmp_path) == f"{tmp_path}/sub/a.py:B"
    assert components.canonical_id("package.module:B", tmp_path) == "package.module:B"
    assert components.canonical_id("humaneval", tmp_path) == "humaneval"


def test_the_list_has_one_line_of_each_and_says_what_cannot_be_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = {"stub": "tests.support.stubs:StubHarness", "gone": "nowhere.at.all:Thing"}
    monkeypatch.setitem(components._names, "harness", names)

    listed = dict(components.known("harness"))

    assert listed["stub"] == (StubHarness.__doc__ or "").strip()
    assert "cannot be loaded" in listed["gone"]


def test_the_built_in_table_is_what_the_package_registers() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    registered = project["entry-points"]

    for kind, group in components.GROUPS.items():
        assert dict(components.BUILT_IN[kind]) == registered.get(group, {})
