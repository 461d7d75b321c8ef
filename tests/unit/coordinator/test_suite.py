"""A suite file is refused as a whole, by the path of the field, before anything is reserved."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from agentcompass.coordinator.launching.checks import check, refuse_taken
from agentcompass.coordinator.launching.suite import Suite, read_suite
from agentcompass.errors import RunExists, UsageError
from agentcompass.models.base import JsonObject
from tests.support.coordinated import request_fields

DEFAULTS = request_fields()


def a_suite(*requests: object, **fields: object) -> JsonObject:
    content = {"version": 1, "defaults": DEFAULTS, "requests": list(requests), **fields}
    return {name: value for name, value in content.items() if value is not None}  # type: ignore[misc]


def read(
    tmp_path: Path,
    content: object,
    over: JsonObject | None = None,
    environ: Mapping[str, str] | None = None,
) -> Suite:
    file = tmp_path / "nightly.json"
    file.write_text(json.dumps(content))
    return read_suite(file, over or {}, environ=environ or {}, base=Path("/here"))


def read_and_check(tmp_path: Path, content: object, environ: Mapping[str, str] | None) -> None:
    suite = read(tmp_path, content, environ=environ)
    check(suite.requests, is_embedded=suite.broker is None)


def complaint(tmp_path: Path, content: object, environ: Mapping[str, str] | None = None) -> str:
    with pytest.raises(UsageError) as refused:
        read_and_check(tmp_path, content, environ)
    assert len(str(refused.value).splitlines()) <= 5
    return str(refused.value)


class TestReading:
    def test_yaml_gives_every_request_the_defaults_and_its_own_fields(self, tmp_path: Path) -> None:
        file = tmp_path / "nightly.yaml"
        file.write_text(
            "version: 1\ndefaults: {benchmark: b, model: {id: m, params: {temperature: 0}}}\n"
            "requests:\n- {name: one}\n- {name: two, model: {id: n}, execution: {attempts: {k: 3}}}\n"
        )

        suite = read_suite(file, {}, environ={}, base=Path("/here"))

        one, two = (each.request for each in suite.requests)
        assert suite.name == "nightly"
        assert (one.model.id, one.execution.attempts.k) == ("m", 1)
        assert (two.model.id, two.model.params, two.execution.attempts.k) == (
            "n",
            {"temperature": 0},
            3,
        )

    def test_another_benchmark_does_not_get_the_default_ones_parameters(
        self, tmp_path: Path
    ) -> None:
        defaults = {"benchmark": {"id": "b", "params": {"path": "x"}}}
        suite = read(
            tmp_path,
            a_suite({"name": "one"}, {"name": "two", "benchmark": "c"}, defaults=defaults),
        )

        assert [each.request.benchmark.params for each in suite.requests] == [{"path": "x"}, {}]

    def test_flags_win_in_every_request(self, tmp_path: Path) -> None:
        content = a_suite({"name": "one", "runtime": {"workers": 2}}, {"name": "two"})

        suite = read(tmp_path, content, {"runtime": {"workers": 7}, "results_dir": "elsewhere"})

        assert [each.request.runtime.workers for each in suite.requests] == [7, 7]
        assert suite.results_dir == Path("elsewhere")

    def test_references_are_filled_in_where_no_secret_can_be(self, tmp_path: Path) -> None:
        model = {"id": "m-${SIZE}", "base_url": "${URL}/v1", "api_key": "${KEY}"}
        content = a_suite({"name": "one", "model": model}, results_dir="${OUT}")
        environ = {"SIZE": "7b", "URL": "http://h", "KEY": "sk-canary", "OUT": "/out"}

        suite = read(tmp_path, content, environ=environ)

        request = suite.requests[0].request
        assert (request.model.id, request.model.base_url) == ("m-7b", "http://h/v1")
        assert suite.results_dir == Path("/out")
        assert "sk-canary" not in request.model_dump_json()

    def test_literal_secrets_of_several_requests_get_variables_of_their_own(
        self, tmp_path: Path
    ) -> None:
        keys = ("sk-one", "sk-two", "sk-one")
        requests = [
            {"name": f"r{at}", "model": {"id": "m", "api_key": key}} for at, key in enumerate(keys)
        ]

        suite = read(tmp_path, a_suite(*requests))

        texts = [each.request.model_dump_json() for each in suite.requests]
        assert sorted(suite.secrets.values()) == ["sk-one", "sk-two"]
        assert texts[0] == texts[2] != texts[1]
        assert "sk-" not in "".join(texts)


ONE: JsonObject = {"name": "one"}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (a_suite(ONE, version=None), "version is missing"),
        (a_suite(ONE, version=2), "version 2 is not known"),
        (a_suite(ONE, version=True), "version True is not known"),
        (a_suite(ONE, request=[]), "did you mean 'requests'"),
        (a_suite(ONE, name=7), "name must be text"),
        (a_suite(), "requests must be a list of at least one"),
        (a_suite(requests={"one": {}}), "requests must be a list of at least one"),
        (a_suite(ONE, "two"), "requests[1] must hold fields"),
        (a_suite(ONE, {}), "requests[1].name must be text"),
        (a_suite(ONE, {"name": " "}), "requests[1].name must be text"),
        (
            a_suite(ONE, {"name": "two"}, ONE),
            "requests[0] and requests[2] have the same name 'one'",
        ),
        (a_suite(ONE, defaults={"name": "x"}), "defaults.name"),
        (a_suite(ONE, defaults={"modle": {}}), "unknown field defaults.modle"),
        (
            a_suite(ONE, defaults={**DEFAULTS, "runtime": {"wrkers": 1}}),
            "unknown field defaults.runtime.wrkers",
        ),
        (
            a_suite(ONE, ONE | {"name": "x"}, {"name": "y", "model": {"tempreature": 0}}),
            "unknown field requests[2].model.tempreature",
        ),
        (a_suite({**ONE, "broker": "redis://h"}), "unknown field requests[0].broker"),
        (
            a_suite({**ONE, "execution": {"attempts": {"k": 0}}}),
            "requests[0].execution.attempts.k",
        ),
        (a_suite({**ONE, "execution": {"attempts": {"strategy": "best"}}}), "avg, pass"),
        (a_suite(ONE, defaults={}), "requests[0].benchmark is missing"),
        (a_suite({**ONE, "benchmark": "humanevall"}), "did you mean 'humaneval'"),
        (
            a_suite(ONE, {"name": "two", "benchmark": {"params": {"idz": []}}}),
            "benchmark.idz is unknown (did you mean benchmark.ids?)",
        ),
        (a_suite({**ONE, "model": {"api_key": "${NOT_SET}"}}), "not set: NOT_SET"),
        (a_suite({**ONE, "model": {"base_url": "${NOT_SET}"}}), "not set: NOT_SET"),
        (a_suite({**ONE, "model": {"base_url": "${MY_API_KEY}"}}), "the name of a secret"),
        (a_suite({**ONE, "model": {"api_key": "sk-x"}}, broker="redis://h"), "is a literal secret"),
        (a_suite({**ONE, "output": {"run_name": "a/../b"}}), "requests[0].output.run_name"),
        (
            a_suite(ONE, {"name": "two", "runtime": {"pool": "threads"}}),
            "'one' (prefork) and 'two' (threads) want different pools on one queue",
        ),
    ],
)
def test_what_is_wrong_is_named_by_its_path(tmp_path: Path, content: object, said: str) -> None:
    assert said in complaint(tmp_path, content)


def test_the_request_is_named_beside_the_component_that_is_wrong(tmp_path: Path) -> None:
    said = complaint(tmp_path, a_suite(ONE, {"name": "two", "harness": "nope"}))

    assert "requests[1] ('two')" in said


class TestPlaces:
    @pytest.mark.parametrize(
        ("one", "other", "place"),
        [
            ({"name": "a b"}, {"name": "a/b"}, "a_b"),
            ({"name": "a_b"}, {"name": "a b", "output": {"run_id": "other"}}, "a_b"),
            ({"name": "x"}, {"name": "X"}, "X"),
            (
                {"name": "n", "output": {"run_name": "a b"}},
                {"name": "n ", "output": {"run_name": "a_b"}},
                None,
            ),
        ],
    )
    def test_names_that_become_one_place_are_refused_together(
        self, tmp_path: Path, one: JsonObject, other: JsonObject, place: str | None
    ) -> None:
        if place is None:
            check(read(tmp_path, a_suite(one, other)).requests, is_embedded=True)
            return
        said = complaint(tmp_path, a_suite(one, other))

        assert f"{one['name']!r} and {other['name']!r} have the same place {place!r}" in said

    def test_distinct_places_may_share_a_run_id(self, tmp_path: Path) -> None:
        output = {"output": {"run_id": "night"}}
        suite = read(tmp_path, a_suite({**ONE, **output}, {"name": "two", **output}))

        check(suite.requests, is_embedded=True)

    def test_a_request_inside_of_the_run_of_another_one_is_refused(self, tmp_path: Path) -> None:
        outer = {"name": "a", "output": {"run_id": "b"}}
        inner = {"name": "b", "output": {"run_name": "a"}}

        assert "'b' would lie inside of the run of request 'a'" in complaint(
            tmp_path, a_suite(outer, inner)
        )

    def test_a_run_id_that_is_in_use_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "one" / "Night").mkdir(parents=True)
        suite = read(tmp_path, a_suite({**ONE, "output": {"run_id": "night"}}))

        with pytest.raises(RunExists, match="night"):
            refuse_taken(tmp_path, suite.requests)


class TestReuse:
    def test_two_implicit_sources_of_one_benchmark_and_model_are_ambiguous(
        self, tmp_path: Path
    ) -> None:
        content = a_suite({**ONE, "reuse": True}, {"name": "two", "reuse": {}})

        assert "'one' and 'two' evaluate the same benchmark" in complaint(tmp_path, content)

    @pytest.mark.parametrize(
        "two", [{"reuse": {"run_id": "night"}}, {"model": {"id": "n"}, "reuse": True}, {}]
    )
    def test_named_sources_and_other_models_are_not(self, tmp_path: Path, two: JsonObject) -> None:
        content = a_suite({**ONE, "reuse": True}, {"name": "two", **two})

        check(read(tmp_path, content).requests, is_embedded=True)


def test_pools_may_differ_between_queues_and_with_a_broker(tmp_path: Path) -> None:
    own = {"name": "two", "runtime": {"pool": "threads", "queue": "chat"}}
    mixed = {"name": "two", "runtime": {"pool": "threads"}}

    check(read(tmp_path, a_suite(ONE, own)).requests, is_embedded=True)
    check(read(tmp_path, a_suite(ONE, mixed)).requests, is_embedded=False)


def test_the_example_of_the_documentation_is_valid(tmp_path: Path) -> None:
    page = Path(__file__).parents[3] / "docs" / "launch.md"
    file = tmp_path / "nightly.yaml"
    file.write_text(page.read_text(encoding="utf-8").split("```yaml\n")[1].split("```")[0])
    environ = {"MODEL_URL": "http://h/v1", "OPENAI_API_KEY": "sk-canary"}

    suite = read_suite(file, {}, environ=environ, base=tmp_path)
    check(suite.requests, is_embedded=True)

    models = [each.request.model for each in suite.requests]
    assert [(model.id, model.base_url) for model in models] == [
        ("gpt-4.1-mini", "http://h/v1"),
        ("gpt-4.1", "http://h/v1"),
    ]
