"""Whatever an attempt does, it is recorded and bounded, and the next one on that worker is fine.

Field reports Q12, Q22, Q24, C12.
"""

from __future__ import annotations

import os

import pytest

from tests.support.chaos_house import POOLS, House
from tests.support.cluster import until
from tests.support.processes import marked_with
from tests.support.tree import paths_in

pytestmark = pytest.mark.integration
NAP = f"605.{os.getpid()}"
BOTH = pytest.mark.parametrize("pool", POOLS)

STRANGE = (
    "raise", "lock", "init", "str", "group", "exit", "interrupt", "memory", "cancelled", "none",
    "other_task", "status", "empty", "surrogate", "nan", "odd", "lambda", "deep", "huge",
)  # fmt: skip
NEVER_ENDING = {
    "prefork": ("stubborn", "c_wait", "sleep", "c_hang", "stop_itself"),
    "threads": ("stubborn", "c_wait", "sleep"),
}
# Apart: whoever kills the process above takes siblings along, perhaps before they have begun.
DEADLY = pytest.mark.parametrize("deadly", [("die", "kill", "segfault"), ("kill_parent",)])
FINE = tuple(f"fine{number}" for number in range(5))


@BOTH
def test_every_strange_end_is_that_attempts_own(house: House, pool: str) -> None:
    script = {name: name for name in STRANGE}

    run, said = house.run([*STRANGE, "ok"], "--max-retries", "0", script=script, pool=pool)

    assert said.code == 1, said
    assert (run.results(), run.executed(), run.check()) == (20, 20, [])
    assert run.codes("ok") == []
    for name, word in {"init": "NeedsArgument", "lock": "HoldsLock", "str": "BadText"}.items():
        assert word in run.result(name).error


@BOTH
def test_what_does_not_end_is_ended_at_its_deadline(house: House, pool: str) -> None:
    acts = NEVER_ENDING[pool]
    script = {name: name for name in acts}

    run, said = house.run(
        [*acts, *FINE], "--max-retries", "0", "--timeout", "2", script=script, pool=pool,
        benchmark="tests.support.chaos_agents:PatientBenchmark",
    )  # fmt: skip

    assert said.code == 1, said
    assert {name: run.codes(name) for name in acts} == {
        name: ["error run run_timeout"] for name in acts
    }
    assert [run.codes(name) for name in FINE] == [[]] * 5
    assert (run.executed(), run.check()) == (len(acts) + 5, [])


@DEADLY
def test_what_ends_its_process_every_time_is_lost_and_blames_nobody(
    house: House, deadly: tuple[str, ...]
) -> None:
    script = {name: name for name in deadly}

    run, said = house.run([*deadly, *FINE], script=script)

    assert said.code == 1, said
    for name in deadly:
        assert (run.codes(name), run.executed(name)) == (["fatal run worker_lost"], 4)
    assert [run.codes(name) for name in FINE] == [[]] * 5
    assert run.check() == []


@DEADLY
def test_what_ends_its_process_once_is_executed_again(
    house: House, deadly: tuple[str, ...]
) -> None:
    script = {name: f"{name}|ok" for name in deadly}

    run, said = house.run([*deadly, *FINE], script=script)

    assert said.code == 0, said
    assert [run.executed(name) for name in deadly] == [2] * len(deadly)
    assert run.check() == []


def test_a_thread_that_ends_its_worker_is_lost_and_its_neighbours_are_not(house: House) -> None:
    script = {"t0": "kill", **dict.fromkeys(FINE, "sleep:1")}

    run, said = house.run(["t0", *FINE], script=script, pool="threads")

    assert said.code == 1, said
    assert (run.codes("t0"), run.executed("t0")) == (["fatal run worker_lost"], 4)
    assert [run.codes(name) for name in FINE] == [[]] * 5
    assert run.check() == []


def test_memory_without_bound_ends_in_an_error(house: House) -> None:
    run, _ = house.run(1, "--max-retries", "0", script={"t0": "allocate"})

    assert run.codes("t0") == ["error run run_failed"]
    assert "MemoryError" in run.result("t0").error


@BOTH
def test_half_a_gigabyte_of_output_is_counted_and_cut(house: House, pool: str) -> None:
    run, _ = house.run(1, script={"t0": "print:500000000"}, pool=pool)

    size, _, kept = str(run.result("t0").final_answer).split(" ", 2)
    assert (run.codes("t0"), size) == ([], "500000000")
    assert int(kept.split()[-1]) < 1_100_000


@pytest.mark.parametrize(
    ("pool", "acts"),
    [("prefork", ("child", "daemon", "daemon_inside")), ("threads", ("daemon_inside",))],
)
def test_what_it_leaves_running_dies_with_it(
    house: House, pool: str, acts: tuple[str, ...]
) -> None:
    run, said = house.run([*acts], script={name: f"{name}:{NAP}" for name in acts}, pool=pool)

    assert said.code == 0, said
    until(lambda: not marked_with([NAP]), "what was left ends", 40)
    assert run.check() == []


@BOTH
def test_what_it_forks_does_not_come_back_as_a_second_worker(house: House, pool: str) -> None:
    acts = ("twin", "twin_exit")

    run, said = house.run([*acts, *FINE], script={name: name for name in acts}, pool=pool)

    assert said.code == 0, said
    assert (run.results(), run.executed(), run.check()) == (7, 7, [])
    assert not any(paths_in(run.dir, "**/retries/execution-*"))


@BOTH
def test_a_writer_that_is_left_writes_nothing_once_the_evaluation_has_begun(
    house: House, pool: str
) -> None:
    write_on = "(while :; do echo x >> out; sleep 0.05; done) >/dev/null 2>&1 &"
    written = "until test -s out; do sleep 0.05; done"
    same = 'size=$(wc -c < out); sleep 1; test "$size" = "$(wc -c < out)"'
    writes = f"run:{write_on} {written}"
    script = {"fine_end": writes, "is_late": f"{writes}; sleep 600"}

    run, _ = house.run(
        [*script], "--timeout", "6", "--max-retries", "0", script=script, pool=pool,
        judge={"*": f"run:test -s out && {same}"},
        benchmark="tests.support.chaos_agents:WatchedBenchmark",
    )  # fmt: skip

    assert [run.result(name).metrics["correct"] for name in script] == [True, True]
    assert (run.codes("fine_end"), run.codes("is_late")) == ([], ["error run run_timeout"])
    assert run.check() == []


@BOTH
def test_after_all_that_the_workers_are_the_same_and_fine(house: House, pool: str) -> None:
    run, said = house.run(8, pool=pool)

    assert (said.code, run.executed()) == (0, 8), said
    assert [process.poll() for process in house.cluster.processes[:2]] == [None, None]
