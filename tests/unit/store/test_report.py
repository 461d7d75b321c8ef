from __future__ import annotations

from array import array
from pathlib import Path

import pytest

from agentcompass.errors import FormatUnknown, RecordCorrupt
from agentcompass.metrics.builder import Terms, series_like, sum_of, with_series
from agentcompass.metrics.report import build_report
from agentcompass.metrics.seal import sealed
from agentcompass.metrics.text.summary import SummaryContext
from agentcompass.metrics.validate import ReportInvalid
from agentcompass.models.metric import MetricReport
from agentcompass.models.request import AttemptPlan
from agentcompass.store import layout, records, report, run_info, scan
from agentcompass.store.check import check_run
from tests.builders import T0
from tests.support.store_runs import a_run, execute, reduce, write_report

COVERAGE = scan.Coverage("a" * 64, T0)


def files(run_dir: Path) -> dict[str, tuple[int, bytes]]:
    names = (layout.METRICS, layout.SUMMARY, layout.COVERED, layout.RUN_INFO)
    return {name: ((run_dir / name).stat().st_ino, (run_dir / name).read_bytes()) for name in names}


def test_a_report_reads_back_equal_with_what_it_covers(tmp_path: Path) -> None:
    run_dir = a_run(tmp_path)
    execute(run_dir)
    made = reduce(run_dir)

    artifacts = report.write_report(run_dir, made, "# summary\n", coverage=COVERAGE)

    assert report.load_report(run_dir) == sealed(made)
    assert report.load_covered(run_dir) == artifacts
    assert (artifacts.results_sha256, artifacts.generated_at) == ("a" * 64, T0)
    assert (run_dir / layout.SUMMARY).read_text() == "# summary\n"


def test_finalizing_twice_leaves_the_very_same_files(tmp_path: Path) -> None:
    run_dir = a_run(tmp_path)
    execute(run_dir)
    write_report(run_dir)
    before = files(run_dir)

    write_report(run_dir)

    assert files(run_dir) == before


def test_a_report_that_contradicts_itself_is_not_written(tmp_path: Path) -> None:
    run_dir = a_run(tmp_path)
    execute(run_dir)
    made = reduce(run_dir)
    (series,) = made.series[:1]
    wrong = made.model_copy(update={"series": (series.model_copy(update={"value": 7.0}),)})

    with pytest.raises(ReportInvalid):
        report.write_report(run_dir, wrong, "", coverage=COVERAGE)
    assert not (run_dir / layout.METRICS).exists()


def test_before_it_is_written_there_is_none(tmp_path: Path) -> None:
    run_dir = a_run(tmp_path)

    assert report.load_report(run_dir) is None
    assert report.load_covered(run_dir) is None


@pytest.mark.parametrize("length", [0, 1, 50])
def test_a_torn_report_is_refused_by_name(length: int, tmp_path: Path) -> None:
    run_dir = a_run(tmp_path)
    execute(run_dir)
    write_report(run_dir)
    path = run_dir / layout.METRICS
    path.write_bytes(path.read_bytes()[:length])

    with pytest.raises(RecordCorrupt, match=r"metrics\.json"):
        report.load_report(run_dir)
    assert report.load_covered(run_dir) is None


def test_a_newer_report_is_refused_by_name(tmp_path: Path) -> None:
    run_dir = a_run(tmp_path)
    execute(run_dir)
    write_report(run_dir)
    path = run_dir / layout.METRICS
    path.write_bytes(path.read_bytes().replace(b"metric_report.v1", b"metric_report.v2"))

    with pytest.raises(FormatUnknown, match=r"metric_report\.v2"):
        report.load_report(run_dir)


def test_a_note_about_other_bytes_says_nothing(tmp_path: Path) -> None:
    run_dir = a_run(tmp_path)
    execute(run_dir)
    write_report(run_dir)
    path = run_dir / layout.METRICS
    path.write_bytes(path.read_bytes() + b"\n")

    assert report.load_covered(run_dir) is None


def test_a_report_is_held_against_the_frozen_plan(tmp_path: Path) -> None:
    run_dir = a_run(tmp_path, "a")
    execute(run_dir, "a")
    write_report(run_dir)
    info = run_info.load(run_dir)
    two_tasks = report.expected_of(info.model_copy(update={"task_count": 2}))

    assert report.load_report(run_dir, report.expected_of(info)) is not None
    with pytest.raises(ReportInvalid):
        report.load_report(run_dir, two_tasks)


def test_before_the_plan_nothing_is_expected(tmp_path: Path) -> None:
    info = run_info.load(a_run(tmp_path)).model_copy(update={"metric_contract": None})

    assert report.expected_of(info) is None


def test_a_report_of_ours_without_its_seal_is_not_believed(tmp_path: Path) -> None:
    run_dir = a_run(tmp_path)
    execute(run_dir)
    made = reduce(run_dir)
    (run_dir / layout.METRICS).write_bytes(records.pretty(made))
    expected = report.expected_of(run_info.load(run_dir))

    assert report.load_report(run_dir) == made
    with pytest.raises(ReportInvalid, match="never sealed"):
        report.load_report(run_dir, expected)


def test_a_series_that_nobody_planned_needs_a_benchmark_that_aggregates_by_itself(
    tmp_path: Path,
) -> None:
    run_dir = a_run(tmp_path)
    execute(run_dir)
    made = reduce(run_dir)
    terms = Terms(array("d", [1.0]), array("d", [1.0]), made.headline.counts, is_failed=False)
    more = with_series(made, sum_of(terms, series_like(made, "tests")))
    report.write_report(run_dir, more, "", coverage=COVERAGE)
    info = run_info.load(run_dir)
    announced = info.model_copy(update={"custom_aggregation": True})

    assert report.load_report(run_dir, report.expected_of(announced)) == sealed(more)
    with pytest.raises(ReportInvalid, match="nobody planned this series"):
        report.load_report(run_dir, report.expected_of(info))


class TestAnotherFormula:
    OTHER = report.Override("category_mean")

    def write(self, tmp_path: Path) -> Path:
        run_dir = a_run(tmp_path)
        execute(run_dir)
        info = run_info.load(run_dir)
        assert info.metric_contract is not None
        made = build_report(
            info.metric_contract,
            AttemptPlan(),
            scan.outcomes(run_dir, info),
            aggregation="category_mean",
        )
        coverage = scan.Coverage(scan.results_digest(scan.scan(run_dir)), T0)
        report.write_report(run_dir, made, "", coverage=coverage, override=self.OTHER)
        return run_dir

    def test_it_is_recorded_and_takes_the_place_of_the_frozen_one(self, tmp_path: Path) -> None:
        run_dir = self.write(tmp_path)
        artifacts = run_info.refresh(run_dir).metric_artifacts

        assert artifacts is not None
        assert (artifacts.source, artifacts.report.aggregation) == ("report", "category_mean")
        assert report.override_of(artifacts) == self.OTHER
        assert run_info.load(run_dir).status == "completed"
        assert run_info.load(run_dir).aggregation == "micro_weighted"
        assert check_run(run_dir) == []

    def test_without_its_record_it_is_held_against_the_formula_that_it_names(
        self, tmp_path: Path
    ) -> None:
        run_dir = self.write(tmp_path)
        (run_dir / layout.COVERED).unlink()
        info = run_info.load(run_dir)

        written = report.load_written(run_dir, report.expected_of(info))

        assert written is not None
        assert (written.report.aggregation, written.covered) == ("category_mean", None)
        assert run_info.refresh(run_dir).status == "running"

    def test_without_its_record_it_has_to_be_what_it_says(self, tmp_path: Path) -> None:
        run_dir = self.write(tmp_path)
        (run_dir / layout.COVERED).unlink()
        path = run_dir / layout.METRICS
        made = records.read(path, MetricReport)
        wrong = [each.model_copy(update={"value": 0.25}) for each in made.series]
        path.write_bytes(records.pretty(sealed(made.model_copy(update={"series": tuple(wrong)}))))

        with pytest.raises(ReportInvalid):
            report.load_report(run_dir, report.expected_of(run_info.load(run_dir)))

    def test_a_record_of_the_report_before_it_says_nothing(self, tmp_path: Path) -> None:
        run_dir = self.write(tmp_path)
        note = (run_dir / layout.COVERED).read_bytes()
        write_report(run_dir)
        (run_dir / layout.COVERED).write_bytes(note)

        assert report.load_covered(run_dir) is None
        assert check_run(run_dir) == []


class TestContext:
    CONTEXT = SummaryContext(run_id="run-1", model="m", notes=("a", "b"))

    def write(self, tmp_path: Path) -> Path:
        run_dir = a_run(tmp_path)
        execute(run_dir)
        made = reduce(run_dir)
        report.write_report(run_dir, made, "", coverage=COVERAGE, context=self.CONTEXT)
        return run_dir

    def test_what_the_summary_says_besides_is_read_back(self, tmp_path: Path) -> None:
        assert report.load_context(self.write(tmp_path)) == self.CONTEXT

    def test_it_speaks_of_one_report_only(self, tmp_path: Path) -> None:
        run_dir = self.write(tmp_path)
        path = run_dir / layout.METRICS
        path.write_bytes(path.read_bytes() + b"\n")

        assert report.load_context(run_dir) is None

    @pytest.mark.parametrize("content", [b"", b"{}", b'{"schema_version": "newer"}'])
    def test_what_cannot_be_read_says_nothing(self, tmp_path: Path, content: bytes) -> None:
        run_dir = self.write(tmp_path)
        (run_dir / layout.CONTEXT).write_bytes(content)

        assert report.load_context(run_dir) is None
        (run_dir / layout.CONTEXT).unlink()
        assert report.load_context(run_dir) is None
