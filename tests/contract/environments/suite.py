"""What every environment promises (`agentcompass.environments.base`).

A subclass provides `opened`, which starts one; nothing here knows what it is made of. Commands
use `sh` and what POSIX has.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest

from agentcompass.environments.base import EnvironmentHandle
from tests.support.waiting import wait_until

WAIT_S = 60.0
"""Less than what is asked to sleep, and more than anything takes."""


class Opened(EnvironmentHandle, Protocol):
    """A started environment whose calls block."""

    def quiesce(self) -> None: ...
    def close(self) -> None: ...


class Open(Protocol):
    """Starts an environment with these variables; it is closed when the test ends."""

    def __call__(self, **env: str) -> Opened: ...


class EnvironmentContract:
    """The suite."""

    OUTPUT_LIMIT = 4_096
    """What `opened` must set as the limit of each stream."""

    @pytest.fixture
    def opened(self, tmp_path: Path) -> Iterator[Open]:
        raise NotImplementedError

    @pytest.fixture
    def unopened(self) -> Opened:
        """Return an environment that was not started."""
        raise NotImplementedError

    def test_a_command_ends_with_its_code_and_its_outputs(self, opened: Open) -> None:
        found = opened().exec("echo out; echo err >&2; exit 3")

        assert (found.exit_code, found.stdout, found.stderr) == (3, "out\n", "err\n")
        assert (found.stdout_bytes, found.stderr_bytes, found.timed_out) == (4, 4, False)

    def test_a_sequence_is_run_as_it_is(self, opened: Open) -> None:
        assert opened().exec(["printf", "%s|", "a b", "$HOME", ";"]).stdout == "a b|$HOME|;|"

    def test_a_program_that_does_not_exist_ends_with_127(self, opened: Open) -> None:
        assert opened().exec(["no-such-program"]).exit_code == 127

    def test_a_signal_is_a_negative_code(self, opened: Open) -> None:
        assert opened().exec(["sh", "-c", "kill -9 $$"]).exit_code == -9

    def test_commands_share_a_working_directory(self, opened: Open) -> None:
        environment = opened()

        environment.exec("mkdir sub && echo x > sub/file")

        assert environment.exec("pwd").stdout.strip() == environment.work_dir
        assert environment.exec("cat file", cwd="sub").stdout == "x\n"
        assert environment.exec("cat file", cwd=f"{environment.work_dir}/sub").stdout == "x\n"

    def test_a_directory_that_does_not_exist_is_refused(self, opened: Open) -> None:
        with pytest.raises(FileNotFoundError):
            opened().exec("true", cwd="nowhere")

    def test_only_the_given_variables_are_seen(
        self, opened: Open, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("WORKER_API_KEY", "canary")
        environment = opened(TASK="task")

        assert "canary" not in environment.exec("env").stdout
        assert environment.exec("echo $TASK $OWN", env={"OWN": "own"}).stdout == "task own\n"

    def test_a_command_reads_what_it_is_given(self, opened: Open) -> None:
        environment = opened()

        assert environment.exec("cat", stdin="é\n" * 50_000).stdout_bytes == 150_000
        assert environment.exec("cat").stdout == ""

    def test_bytes_that_are_no_text_are_replaced(self, opened: Open) -> None:
        assert opened().exec(r"printf 'a\377b'").stdout == "a\ufffdb"

    def test_long_output_is_cut_in_the_middle_and_its_size_is_true(self, opened: Open) -> None:
        found = opened().exec("echo first; head -c 1000000 /dev/zero | tr '\\0' x; echo last")

        assert found.stdout_bytes == 1_000_011
        assert found.stdout.startswith("first\nxxx")
        assert found.stdout.endswith("xxxlast\n")
        assert "bytes cut" in found.stdout
        assert found.truncated
        assert len(found.stdout) <= self.OUTPUT_LIMIT + 100

    def test_output_of_just_the_limit_is_whole(self, opened: Open) -> None:
        found = opened().exec(f"head -c {self.OUTPUT_LIMIT} /dev/zero | tr '\\0' x")

        assert found.stdout == "x" * self.OUTPUT_LIMIT
        assert not found.truncated

    def test_a_flag_says_which_of_two_streams_was_cut_at_all(self, opened: Open) -> None:
        found = opened().exec("echo short; head -c 1000000 /dev/zero | tr '\\0' x >&2")

        assert (found.stdout, found.truncated) == ("short\n", True)

    def test_a_time_out_ends_the_command_and_what_it_started(self, opened: Open) -> None:
        environment = opened()
        ticker = "while :; do echo x >> ticks; sleep 0.02; done"
        started = time.monotonic()

        found = environment.exec(f"(setsid sh -c '{ticker}' &) ; sleep 100", timeout_s=0.5)

        assert found.timed_out
        assert time.monotonic() - started < WAIT_S
        assert not self.grows(environment, "ticks")

    def test_what_a_command_leaves_running_lives_until_it_is_quiesced(self, opened: Open) -> None:
        environment = opened()
        ticker = "while :; do echo x >> ticks; sleep 0.02; done"
        environment.exec(f"setsid sh -c '{ticker}' > /dev/null 2>&1 &")

        wait_until(lambda: self.grows(environment, "ticks"), "it writes")
        environment.quiesce()
        assert not self.grows(environment, "ticks")

    def test_a_command_ends_though_something_holds_its_output_open(self, opened: Open) -> None:
        environment = opened()
        started = time.monotonic()

        found = environment.exec("sleep 100 & echo done")

        assert found.stdout == "done\n"
        assert time.monotonic() - started < WAIT_S

    def test_a_command_ends_though_something_writes_without_end(self, opened: Open) -> None:
        found = opened().exec("yes & sleep 0.05; echo done >&2")

        assert (found.exit_code, found.stderr) == (0, "done\n")

    def test_commands_go_on_after_it_was_quiesced(self, opened: Open) -> None:
        environment = opened()
        environment.exec("echo x > file")

        environment.quiesce()

        assert environment.exec("cat file").stdout == "x\n"

    def test_files_and_folders_go_in_and_out(self, opened: Open, tmp_path: Path) -> None:
        environment, source, target = opened(), tmp_path / "in", tmp_path / "out"
        (source / "sub").mkdir(parents=True)
        (source / "sub" / "tool").write_text("#!/bin/sh\necho run\n", encoding="utf-8")
        (source / "sub" / "tool").chmod(0o755)

        environment.upload(source, "deep/folder")
        environment.upload(source / "sub" / "tool", f"{environment.work_dir}/one")

        assert environment.exec("deep/folder/sub/tool && ./one").stdout == "run\nrun\n"
        environment.download("deep", target)
        assert (target / "folder/sub/tool").read_text("utf-8") == "#!/bin/sh\necho run\n"

    def test_what_is_not_there_cannot_be_downloaded(self, opened: Open, tmp_path: Path) -> None:
        with pytest.raises(FileNotFoundError):
            opened().download("nothing", tmp_path / "out")

    def test_links_do_not_lead_out(self, opened: Open, tmp_path: Path) -> None:
        environment = opened()
        secret = tmp_path / "secret"
        secret.write_text("canary", encoding="utf-8")
        environment.exec(
            f"mkdir d; ln -s {secret} d/out; ln -s /etc d/etc; echo x > d/x; ln -s x d/in"
        )

        environment.download("d", tmp_path / "out")

        assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["in", "x"]
        assert (tmp_path / "out" / "in").read_text("utf-8") == "x\n"

    def test_pipes_and_devices_are_left_out(self, opened: Open, tmp_path: Path) -> None:
        environment = opened()
        environment.exec("mkdir d; mkfifo d/pipe; echo x > d/x")

        environment.download("d", tmp_path / "out")

        assert [path.name for path in (tmp_path / "out").iterdir()] == ["x"]

    def test_two_of_them_know_nothing_of_one_another(self, opened: Open) -> None:
        one, other = opened(), opened()
        one.exec("echo x > file; echo x > $TMPDIR/file")

        assert other.exec("cat file || cat ${TMPDIR:-/tmp}/file").exit_code != 0

    def test_closing_ends_everything_and_is_safe_to_repeat(self, opened: Open) -> None:
        environment = opened()
        environment.exec("sleep 100 & mkdir -p a/b; touch a/b/c; chmod 000 a/b a")

        environment.close()
        environment.close()

        with pytest.raises(Exception, match=r"."):
            environment.exec("true")

    def test_one_that_was_never_started_can_be_closed(self, unopened: Opened) -> None:
        unopened.close()

    def grows(self, environment: Opened, name: str) -> bool:
        """Return whether a file in the working directory gets longer within a moment."""
        script = (
            f"a=$(cat {name} 2>/dev/null | wc -c); n=0; while [ $n -lt 20 ]; do sleep 0.02; "
            f"b=$(cat {name} 2>/dev/null | wc -c); [ $a = $b ] || exit 0; n=$((n+1)); done; exit 1"
        )
        return environment.exec(script).exit_code == 0
