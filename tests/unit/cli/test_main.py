"""The entry point: light, and plain about errors."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import import_module

import click
import pytest

from agentcompass import __version__
from agentcompass.cli.group import COMMANDS
from agentcompass.cli.main import main


def run_python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout


class TestLightness:
    def test_the_version_is_told_without_importing_anything_heavy(self) -> None:
        code = (
            "import sys; from agentcompass.cli.main import main; main(['--version']);"
            "print([m for m in ('click', 'pydantic', 'yaml', 'celery') if m in sys.modules])"
        )

        assert run_python(code).splitlines() == [f"agentcompass {__version__}", "[]"]

    def test_help_imports_no_command(self) -> None:
        code = (
            "import sys; from agentcompass.cli.main import main; main(['--help']);"
            "print([m for m in ('pydantic', 'yaml', 'celery') if m in sys.modules])"
        )

        assert run_python(code).splitlines()[-1] == "[]"

    @pytest.mark.parametrize(
        "name", ["status", "list", "check", "report", "cancel", "compare", "export"]
    )
    def test_commands_that_need_no_broker_do_not_import_celery(self, name: str) -> None:
        module, _ = COMMANDS[name]
        code = f"import sys, agentcompass.cli.{module}; print('celery' in sys.modules)"

        assert run_python(code).strip() == "False"


@pytest.mark.parametrize("name", list(COMMANDS))
def test_a_commands_line_in_the_list_is_the_beginning_of_its_own_help(name: str) -> None:
    module, line = COMMANDS[name]
    command = import_module(f"agentcompass.cli.{module}").command

    assert isinstance(command, click.Command)
    assert command.name == name
    assert command.help is not None
    first = " ".join(command.help.split("\n\n")[0].split())
    assert first.startswith(line.rstrip("."))


class TestErrors:
    @pytest.mark.parametrize(
        "arguments",
        [["rum"], ["run", "--nope"], ["run", "-k", "1.5"], ["run", "-k", "true"], ["list", "x"]],
    )
    def test_wrong_use_is_a_few_lines_and_exit_code_2(
        self, arguments: list[str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(arguments) == 2

        output = capsys.readouterr()
        assert output.out == ""
        assert output.err.startswith("error: ")
        assert len(output.err.splitlines()) <= 5

    def test_without_a_command_the_help_is_shown(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main([]) == 2
        assert "Commands:" in capsys.readouterr().err

    def test_ctrl_c_outside_of_a_run_is_no_traceback(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr("agentcompass.cli.group.invoke", _interrupted)

        assert main(["list"]) == 3
        assert capsys.readouterr().err == "interrupted\n"

    def test_a_closed_pipe_is_no_traceback(self) -> None:
        command = f"{sys.executable} -m agentcompass.cli.main --help | true"

        done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)

        assert "Traceback" not in done.stderr


def _interrupted(arguments: list[str]) -> int:
    raise KeyboardInterrupt


def test_the_module_can_be_run_as_a_program() -> None:
    command = [sys.executable, "-m", "agentcompass.cli.main", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=dict(os.environ))

    assert done.stdout == f"agentcompass {__version__}\n"
