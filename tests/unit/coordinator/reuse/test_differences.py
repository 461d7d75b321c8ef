from __future__ import annotations

from agentcompass.coordinator.reuse.differences import differences, said
from agentcompass.models.request import ComponentSpec, ModelSpec, OutputSettings, SecretRef
from tests.builders import a_request


def test_equal_requests_do_not_differ_wherever_and_under_whatever_name_they_run() -> None:
    source = a_request().model_dump(mode="json")
    now = a_request().model_copy(update={"output": OutputSettings(run_id="other")})

    assert differences(source, now, is_ours=True) == []


def test_ids_come_first_and_each_field_has_its_path() -> None:
    now = a_request().model_copy(
        update={
            "benchmark": ComponentSpec(id="bench", params={"split": "test"}),
            "model": ModelSpec(id="other"),
        }
    )

    assert differences(a_request().model_dump(mode="json"), now, is_ours=True) == [
        {"field": "model.id", "source": "model", "now": "other"},
        {"field": "benchmark.params.split", "source": None, "now": "test"},
    ]


def test_a_secret_is_never_told() -> None:
    source = a_request().model_dump(mode="json")
    source["model"]["params"] = {"auth_token": "sk-live-12345678", "n": 1}
    now = a_request().model_copy(
        update={"model": ModelSpec(id="model", api_key=SecretRef(env="KEY"), params={"n": 2})}
    )

    found = differences(source, now, is_ours=True)

    assert "sk-live" not in str(found)
    assert {"field": "model.params.n", "source": 1, "now": 2} in found


def test_of_another_writers_request_only_what_both_say_is_compared() -> None:
    theirs = {
        "benchmark": {"id": "bench", "params": {}},
        "harness": {"id": "theirs"},
        "execution": {"attempts": {"k": 1, "strategy": "avg"}, "task_concurrency": 32},
        "model": {"id": "model", "api_key": "********", "wrap_api_key": False},
    }

    found = differences(theirs, a_request(), is_ours=False)  # type: ignore[arg-type]

    assert found == [{"field": "harness.id", "source": "theirs", "now": "none"}]


def test_a_difference_is_said_in_a_line() -> None:
    assert said({"field": "model.id", "source": "a", "now": None}) == 'model.id was "a", is null'
    long = said({"field": "f", "source": "x" * 100, "now": 1})
    assert len(long) < 100
    many = said({"field": "tasks", "changed": [f"t{n}" for n in range(25)]})
    assert many.endswith("t19 and 5 more")
