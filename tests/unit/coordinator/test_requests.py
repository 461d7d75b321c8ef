from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from agentcompass.coordinator.asking.requests import Asked, ask, parse_param
from agentcompass.errors import UsageError
from agentcompass.models.base import JsonObject
from agentcompass.models.request import SecretRef

BENCH: JsonObject = {"benchmark": {"id": "bench"}}


ALIAS_BOMB = "a: &a0 [lol]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 13)
)


def asked(
    flags: JsonObject,
    *params: str,
    file: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> Asked:
    return ask(flags, file=file, params=params, environ=environ or {}, base=Path("/here"))


def with_attempts(**attempts: object) -> JsonObject:
    return {**BENCH, "execution": {"attempts": attempts}}  # type: ignore[dict-item]


class TestWhereItComesFrom:
    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("r.yaml", "benchmark: {id: bench, params: {a: 1, b: 2}}\nmodel: m\n"),
            ("r.toml", 'model = "m"\n[benchmark]\nid = "bench"\nparams = {a = 1, b = 2}\n'),
            ("r.json", '{"benchmark": {"id": "bench", "params": {"a": 1, "b": 2}}, "model": "m"}'),
        ],
    )
    def test_flags_win_over_the_file_field_by_field(
        self, name: str, text: str, tmp_path: Path
    ) -> None:
        file = tmp_path / name
        file.write_text(text)

        request = asked({"model": {"id": "other"}}, "benchmark.b=3", file=file).request

        assert request.benchmark.params == {"a": 1, "b": 3}
        assert request.model.id == "other"

    def test_places_are_read_from_the_file_and_are_no_part_of_the_request(
        self, tmp_path: Path
    ) -> None:
        file = tmp_path / "r.yaml"
        file.write_text("benchmark: bench\nresults_dir: out\nbroker: ${BROKER}\n")

        got = asked({}, file=file, environ={"BROKER": "redis://h"})

        assert (got.results_dir, got.broker) == (Path("out"), "redis://h")

    def test_a_plugin_file_means_the_same_on_a_worker_elsewhere(self) -> None:
        request = asked({"benchmark": {"id": "mine.py:Bench"}}).request

        assert request.benchmark.id == "/here/mine.py:Bench"

    @pytest.mark.parametrize(
        ("text", "complaint"),
        [
            ("benchmark: a\nbenchmark: b\n", "'benchmark' is given twice in line 2"),
            ("1: a\n", "not text"),
            ("benchmark: [a\n", "line 2"),
            ("- a\n", "must hold fields"),
            ("benchmark: &a [*a]\n", "more than 100 levels deep"),
            (f"benchmark: {'[' * 100_000}", "nested too deeply"),
            (ALIAS_BOMB, "more than 10,000,000 values"),
            ("benchmark: {id: b, params: {x: .nan}}", "benchmark.params.x is not a finite number"),
        ],
    )
    def test_a_file_that_says_something_else_than_it_seems_is_refused(
        self, text: str, complaint: str, tmp_path: Path
    ) -> None:
        file = tmp_path / "r.yaml"
        file.write_text(text)

        with pytest.raises(UsageError, match=complaint):
            asked({}, file=file)

    @pytest.mark.parametrize("make", [lambda p: None, lambda p: p.mkdir()])
    def test_an_unreadable_file_is_named(self, make: object, tmp_path: Path) -> None:
        file = tmp_path / "r.yaml"
        make(file)  # type: ignore[operator]

        with pytest.raises(UsageError, match="cannot read") as caught:
            asked({}, file=file)

        assert str(file) in str(caught.value)

    def test_a_date_stays_the_text_that_was_written(self, tmp_path: Path) -> None:
        file = tmp_path / "r.yaml"
        file.write_text("benchmark: {id: bench, params: {day: 2026-01-02}}\n")

        assert asked({}, file=file).request.benchmark.params == {"day": "2026-01-02"}


class TestParam:
    @pytest.mark.parametrize(
        ("text", "layer"),
        [
            ("benchmark.x=1", {"benchmark": {"params": {"x": 1}}}),
            ("model.a.b=[true]", {"model": {"params": {"a": {"b": [True]}}}}),
            ("harness.name=plain text", {"harness": {"params": {"name": "plain text"}}}),
            ("harness.x=NaN", {"harness": {"params": {"x": "NaN"}}}),
            ("harness.x=a=b", {"harness": {"params": {"x": "a=b"}}}),
        ],
    )
    def test_a_value_is_json_or_else_text(self, text: str, layer: JsonObject) -> None:
        assert parse_param(text) == layer

    @pytest.mark.parametrize(
        "text", ["x=1", "benchmark=1", "benchmark.x", "runtime.pool=x", "a..b=1"]
    )
    def test_what_names_no_parameter_is_refused(self, text: str) -> None:
        with pytest.raises(UsageError, match=r"component\.key=value"):
            parse_param(text)

    @pytest.mark.parametrize("depth", [101, 5_000, 100_000])
    def test_a_value_that_is_too_deep_is_not_taken_for_text(self, depth: int) -> None:
        with pytest.raises(UsageError, match="100 levels deep") as caught:
            parse_param("benchmark.x=" + "[" * depth + "1" + "]" * depth)

        assert len(str(caught.value)) < 200


class TestWhatIsRefused:
    @pytest.mark.parametrize("k", [0, -1, 1.5, "3", True, 10**6, None])
    def test_k_is_an_integer_within_bounds(self, k: object) -> None:
        with pytest.raises(UsageError, match=r"execution\.attempts\.k") as caught:
            asked(with_attempts(k=k))

        text = str(caught.value)
        assert len(text.splitlines()) <= 5
        assert "-k" in text

    def test_an_unknown_field_is_named_with_the_nearest_one(self) -> None:
        with pytest.raises(UsageError, match=r"unknown field selection\.limitt") as caught:
            asked({**BENCH, "selection": {"limitt": 3}})

        assert "did you mean 'limit'" in str(caught.value)

    @pytest.mark.parametrize("seconds", [0, -1, 1e300, float("inf"), float("nan"), 31_536_001])
    def test_a_deadline_is_positive_and_at_most_a_year(self, seconds: float) -> None:
        with pytest.raises(UsageError, match=r"execution\.run_timeout_s") as caught:
            asked({**BENCH, "execution": {"run_timeout_s": seconds}})

        assert "--timeout" in str(caught.value)

    @pytest.mark.parametrize("run_id", ["", " ", ".", ".."])
    def test_a_run_id_that_is_no_name_is_not_renamed_but_refused(self, run_id: str) -> None:
        with pytest.raises(UsageError, match=r"output\.run_id"):
            asked({**BENCH, "output": {"run_id": run_id}})

    def test_an_unknown_strategy_lists_the_known_ones(self) -> None:
        with pytest.raises(UsageError, match="avg, pass"):
            asked(with_attempts(strategy="best"))

    def test_many_problems_still_fit_on_five_lines(self) -> None:
        flags: JsonObject = {"benchmark": {"id": ""}, "a": 1, "b": 2, "selection": {"limit": 0}}

        with pytest.raises(UsageError) as caught:
            asked(flags)

        assert len(str(caught.value).splitlines()) <= 5

    def test_without_a_benchmark_the_flag_is_named(self) -> None:
        with pytest.raises(UsageError, match="--benchmark"):
            asked({})


class TestSecrets:
    def test_a_reference_to_the_key_is_frozen_as_its_name(self) -> None:
        flags: JsonObject = {**BENCH, "model": {"api_key": "${KEY}"}}

        got = asked(flags, environ={"KEY": "value"})

        assert got.request.model.api_key == SecretRef(env="KEY")
        assert got.secrets == {}

    def test_literals_leave_the_request_and_go_to_local_workers(self) -> None:
        flags: JsonObject = {
            **BENCH,
            "model": {"api_key": "sk-1", "headers": {"X-Api-Key": "sk-2", "Accept": "json"}},
            "harness": {"id": "h", "params": {"nested": [{"refreshToken": "sk-3"}]}},
            "metadata": {"password": "sk-4"},
        }

        got = asked(flags)

        assert "sk-" not in got.request.model_dump_json()
        assert sorted(got.secrets.values()) == ["sk-1", "sk-2", "sk-3"]
        assert got.request.model.headers["Accept"] == "json"
        assert got.request.harness.params == {
            "nested": [{"refreshToken": "${AGENTCOMPASS_HARNESS_PARAMS_NESTED_0_REFRESHTOKEN}"}]
        }

    def test_with_a_broker_a_literal_is_refused_with_the_lines_that_do_it_right(self) -> None:
        flags: JsonObject = {**BENCH, "broker": "redis://h", "model": {"api_key": "sk-secret"}}

        with pytest.raises(UsageError, match=r"model\.api_key is a literal secret") as caught:
            asked(flags)

        text = str(caught.value)
        assert "sk-secret" not in text
        assert "export AGENTCOMPASS_MODEL_API_KEY" in text
        assert "--api-key-env AGENTCOMPASS_MODEL_API_KEY" in text

    def test_a_missing_reference_is_refused_where_the_workers_are_local(self) -> None:
        flags: JsonObject = {**BENCH, "model": {"api_key": {"env": "KEY"}}}

        with pytest.raises(UsageError, match="not set: KEY"):
            asked(flags)

        assert asked({**flags, "broker": "redis://h"}).request.model.api_key is not None

    @pytest.mark.parametrize("broker", [None, "redis://h"])
    @pytest.mark.parametrize("key", ["hf_nRzTkWqLxYbVmCdPsGjHuAe", "AKIA0O1SF9DNN7EXAM2L"])
    def test_a_key_in_the_place_of_its_name_is_refused_and_not_shown(
        self, key: str, broker: str | None
    ) -> None:
        flags: JsonObject = {**BENCH, "model": {"api_key": {"env": key}}, "broker": broker}

        with pytest.raises(UsageError, match="looks like a secret") as refused:
            asked(flags)

        assert key[:8] not in str(refused.value)
        assert asked(flags, environ={key: "value"}).request.model.api_key is not None

    def test_the_mask_is_never_taken_for_a_secret(self) -> None:
        with pytest.raises(UsageError, match="mask"):
            asked({**BENCH, "model": {"api_key": "********"}})

    def test_credentials_of_a_url_become_references_and_its_host_stays(self) -> None:
        url = "https://u:pw-1@host/v1?api_key=pw-2&page=2"

        got = asked({**BENCH, "model": {"base_url": url}})

        name = "AGENTCOMPASS_MODEL_BASE_URL"
        assert got.request.model.base_url == (
            f"https://${{{name}}}@host/v1?api_key=${{{name}_2}}&page=2"
        )
        assert got.secrets == {name: "u:pw-1", f"{name}_2": "pw-2"}

    @pytest.mark.parametrize("user_info", ["${KEY}", "me:${KEY}", "${ME}:${KEY}"])
    def test_a_url_may_refer_to_its_password(self, user_info: str) -> None:
        flags: JsonObject = {**BENCH, "model": {"base_url": f"https://{user_info}@host/v1"}}

        got = asked({**flags, "broker": "redis://h"})

        assert (got.secrets, got.request.model.base_url) == ({}, f"https://{user_info}@host/v1")
        with pytest.raises(UsageError, match=r"not set: .*KEY"):
            asked(flags)

    def test_with_a_broker_a_url_with_a_password_is_refused_without_showing_it(self) -> None:
        model: JsonObject = {"base_url": "https://u:pw-1@host/v1"}

        with pytest.raises(UsageError, match=r"model\.base_url is a literal secret") as caught:
            asked({**BENCH, "broker": "redis://h", "model": model})

        assert "pw-1" not in str(caught.value)

    def test_secrets_in_a_text_that_is_json_are_found(self) -> None:
        text = '{"headers": [{"Authorization": "Bearer sk-5", "Content-Type": "a/b"}]}'

        got = asked({**BENCH, "harness": {"id": "h", "params": {"extra": text}}})

        written = json.loads(str(got.request.harness.params["extra"]))
        assert list(got.secrets.values()) == ["Bearer sk-5"]
        assert written["headers"][0]["Content-Type"] == "a/b"
        assert written["headers"][0]["Authorization"].startswith("${AGENTCOMPASS_")

    def test_a_number_under_a_secrets_name_is_refused(self) -> None:
        flags: JsonObject = {**BENCH, "harness": {"id": "h", "params": {"password": 12345678}}}

        with pytest.raises(UsageError, match="put it in quotes"):
            asked(flags)

    @pytest.mark.parametrize("name", ["max_tokens", "eos_token", "sort_key", "author"])
    def test_what_only_sounds_like_a_secret_stays(self, name: str) -> None:
        flags: JsonObject = {**BENCH, "model": {"params": {name: "text"}}}

        assert asked(flags).request.model.params == {name: "text"}

    def test_parameters_may_be_called_env(self) -> None:
        flags: JsonObject = {"benchmark": {"id": "bench", "params": {"env": "prod"}}}

        assert asked(flags).request.benchmark.params == {"env": "prod"}


class TestAnalyzers:
    def test_an_id_alone_is_one_without_settings(self, tmp_path: Path) -> None:
        file = tmp_path / "r.yaml"
        file.write_text("benchmark: b\nexecution: {analyzers: [tokens, {id: x, params: {a: 1}}]}\n")

        found = asked({}, file=file).request.execution.analyzers

        assert [(each.id, each.params) for each in found] == [("tokens", {}), ("x", {"a": 1})]

    def test_settings_are_given_to_the_one_that_they_name(self) -> None:
        flags: JsonObject = {**BENCH, "execution": {"analyzers": ["pkg.mod:A", "tokens"]}}

        params = ("analyzer.pkg.mod:A.depth=3", "analyzer.tokens.name=x")
        found = asked(flags, *params).request.execution.analyzers

        assert [each.params for each in found] == [{"depth": 3}, {"name": "x"}]

    @pytest.mark.parametrize("param", ["analyzer.other.x=1", "analyzer.tokens=1", "analyzer.=1"])
    def test_settings_of_nobody_are_refused(self, param: str) -> None:
        flags: JsonObject = {**BENCH, "execution": {"analyzers": ["tokens"]}}

        with pytest.raises(UsageError, match="no analyzer is asked for"):
            asked(flags, param)

    @pytest.mark.parametrize("param", ["analyzer.tokens.x", "analyzer.tokens.=1"])
    def test_settings_that_cannot_be_read_are_refused(self, param: str) -> None:
        flags: JsonObject = {**BENCH, "execution": {"analyzers": ["tokens"]}}

        with pytest.raises(UsageError, match="cannot read the parameter"):
            asked(flags, param)

    def test_settings_without_any_analyzer_are_refused(self) -> None:
        with pytest.raises(UsageError, match="asked for: none"):
            asked(BENCH, "analyzer.tokens.x=1")
