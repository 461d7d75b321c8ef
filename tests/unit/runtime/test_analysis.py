"""What analyzers say of a run, written with its report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentcompass.models.request import ComponentSpec
from agentcompass.runtime import analysis
from agentcompass.runtime.finalize import Finalized, Incomplete, Wanted, finalize
from agentcompass.store.check import check_run
from tests.support.delivering import Lab, a_lab

STUB = ComponentSpec(id="tests.support.stubs:StubAnalyzer")
BROKEN = ComponentSpec(id=STUB.id, params={"script": {"summary": "raise"}})
TOKENS = ComponentSpec(id="tokens")


def a_run(tmp_path: Path, *analyzers: ComponentSpec) -> Lab:
    lab = a_lab(tmp_path, plan_update={"analyzers": analyzers})
    for task_id in lab.offsets:
        lab.deliver(task_id)
    return lab


def said(lab: Lab) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((lab.run_dir / "analysis_summary.json").read_bytes())
    return found


def files(lab: Lab) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in lab.run_dir.glob("analysis_summary.*")}


def done(lab: Lab, **wanted: Any) -> Finalized:
    found = finalize(lab.run_dir, wanted=Wanted(**wanted))
    assert isinstance(found, Finalized)
    return found


def test_a_run_without_analyzers_has_no_summary_of_them(tmp_path: Path) -> None:
    lab = a_run(tmp_path)

    assert done(lab).analysis is None
    assert files(lab) == {}


def test_it_is_made_of_what_they_said_of_each_attempt_and_opens_no_trajectory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = a_run(tmp_path, STUB, TOKENS)
    monkeypatch.setattr(analysis, "load_result", None)

    done(lab)

    found = said(lab)
    assert found["analyzers"]["stub"] == {
        "params": {},
        "attempts": 2,
        "failed": 0,
        "error": "",
        "summary": {"characters": [2, 2], "mean": None},
    }
    assert (found["attempts"], found["missing"], found["source"]) == (2, 0, "evaluation")
    assert found["analyzers"]["tokens"]["summary"]["steps"]["n"] == 2
    assert "## tokens" in (lab.run_dir / "analysis_summary.md").read_text()
    assert "What 2 analyzers saw" in (lab.run_dir / "summary.md").read_text()
    assert check_run(lab.run_dir) == []


def test_it_comes_with_the_report_and_doing_it_again_changes_nothing(tmp_path: Path) -> None:
    lab = a_run(tmp_path, STUB)
    done(lab)
    before = files(lab)

    done(lab)
    done(lab, is_anew=True)

    assert files(lab) == before


def test_one_that_is_lost_is_made_again(tmp_path: Path) -> None:
    lab = a_run(tmp_path, STUB)
    done(lab)
    before = files(lab)
    (lab.run_dir / "analysis_summary.json").write_bytes(b"{")

    done(lab)

    assert files(lab) == before


def test_a_summary_that_fails_is_said_and_fails_nothing(tmp_path: Path) -> None:
    lab = a_run(tmp_path, BROKEN, TOKENS)

    found = done(lab)

    assert found.info.status == "completed"
    assert said(lab)["analyzers"]["stub"]["error"] == "ValueError: the summary broke"
    assert said(lab)["analyzers"]["tokens"]["error"] == ""
    assert "Analyzer stub gave no summary: ValueError" in (lab.run_dir / "summary.md").read_text()


def test_an_analyzer_that_is_not_here_is_said_and_fails_nothing(tmp_path: Path) -> None:
    lab = a_run(tmp_path, STUB)
    path = lab.run_dir / "run_info.json"
    path.write_text(path.read_text().replace(STUB.id, "tests.support.gone:Analyzer"))

    found = done(lab)

    assert found.info.status == "completed"
    assert "cannot be loaded" in said(lab)["analyzers"]["tests.support.gone:Analyzer"]["error"]


def test_a_partial_report_says_of_how_many_attempts_it_is(tmp_path: Path) -> None:
    lab = a_lab(tmp_path, plan_update={"analyzers": (STUB,)})
    lab.deliver("t0")

    assert isinstance(finalize(lab.run_dir), Incomplete)
    assert files(lab) == {}
    done(lab, may_be_partial=True)

    assert (said(lab)["attempts"], said(lab)["missing"]) == (1, 1)


class TestAskedForAfterwards:
    def test_they_look_at_what_is_on_disk(self, tmp_path: Path) -> None:
        lab = a_run(tmp_path, TOKENS)
        before = {path: path.read_bytes() for path in lab.run_dir.rglob("result.json")}

        done(lab, is_anew=True, analyzers=(STUB,))

        assert list(said(lab)["analyzers"]) == ["tokens", "stub"]
        assert said(lab)["analyzers"]["stub"]["summary"]["characters"] == [2, 2]
        assert said(lab)["source"] == "report"
        assert {path: path.read_bytes() for path in before} == before

    def test_one_of_the_runs_own_looks_again_with_other_settings(self, tmp_path: Path) -> None:
        lab = a_run(tmp_path, BROKEN)

        done(lab, is_anew=True, analyzers=(STUB,))

        assert said(lab)["analyzers"]["stub"]["error"] == ""

    def test_where_it_fails_is_counted(self, tmp_path: Path) -> None:
        lab = a_run(tmp_path)
        fails = ComponentSpec(id=STUB.id, params={"script": {"*": "raise"}})

        done(lab, is_anew=True, analyzers=(fails,))

        stub = said(lab)["analyzers"]["stub"]
        assert (stub["attempts"], stub["failed"]) == (0, 2)

    def test_a_report_without_them_goes_back_to_the_runs_own(self, tmp_path: Path) -> None:
        lab = a_run(tmp_path)
        done(lab, is_anew=True, analyzers=(STUB,))

        done(lab, is_anew=True)

        assert files(lab) == {}
