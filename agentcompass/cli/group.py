"""The command group: knows every command by name and loads only the one that is called."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from importlib import import_module
from typing import Final

import click

from agentcompass import __version__
from agentcompass.errors import UsageError

COMMANDS: Final = {
    "run": ("run", "Evaluate: benchmark x harness x model x environment."),
    "launch": ("launch", "Start many named requests of one file, and see them through together."),
    "evaluate": ("evaluate", "Evaluate a run again, in a new run and without its agents."),
    "resume": ("resume", "Go on with runs, whatever stopped them."),
    "status": ("status", "Show how far runs are, from their directories alone."),
    "report": ("report", "Compute a run's report again from its directory; nothing is executed."),
    "ls": ("ls", "List the runs below a results folder, newest first."),
    "show": ("show", "Show a run, a task or one attempt with its trajectory."),
    "compare": ("compare", "Compare runs with the first one, task by task."),
    "export": ("export", "Write a run's attempts or tasks as rows of a table."),
    "list": ("listing", "List benchmarks, harnesses, environments and other plug-ins."),
    "watch": ("watch", "Find lost attempts of runs and complete their reports."),
    "cancel": ("cancel", "Stop a run, a task or one attempt; keep every result."),
    "pause": ("pause", "Hand out nothing more of a run until it is resumed."),
    "worker": ("worker", "Execute attempts that a broker hands out."),
    "flower": ("flower", "Show workers and attempts in the browser."),
    "check": ("check", "Verify that a run directory keeps its invariants."),
}
"""Name -> (module with an attribute `command`, one line). The line is here, so that `--help`
imports no command; a test holds it equal to the command's own."""

_WIDTH: Final = 100


class LazyGroup(click.Group):
    """Lists all commands without importing them."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        module, _ = COMMANDS[cmd_name]
        gc.disable()  # imports make many objects and no garbage: to look for it costs a tenth of them
        try:
            command = import_module(f"agentcompass.cli.{module}").command
        finally:
            gc.enable()
        return command if isinstance(command, click.Command) else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


@click.command(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": _WIDTH},
    epilog="Exit codes: 0 complete; 1 finished, but with errors or without an official value; "
    "2 wrong use, refused or corrupt input; 3 not complete.",
)
@click.version_option(__version__, prog_name="agentcompass", message="%(prog)s %(version)s")
def cli() -> None:
    """Evaluate agents on benchmarks: every attempt counted once, on any number of workers."""


def invoke(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code.

    Raises:
        UsageError: click refused the arguments.
    """
    try:
        code: object = cli.main(list(arguments), prog_name="agentcompass", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return UsageError.exit_code
    except click.ClickException as error:
        raise _as_ours(error) from None
    except click.Abort as error:
        raise KeyboardInterrupt from error
    return code if isinstance(code, int) else 0


def _as_ours(error: click.ClickException) -> UsageError:
    context = getattr(error, "ctx", None)
    path = context.command_path if context else "agentcompass"
    message = " ".join(error.format_message().split())
    return UsageError(message[:1].lower() + message[1:], hint=f"see `{path} --help`")
