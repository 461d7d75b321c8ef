from __future__ import annotations

import pytest
from pydantic import JsonValue

from agentcompass.errors import AttemptFailure
from agentcompass.models.request import ComponentSpec, ModelSpec
from agentcompass.runtime.values.references import as_far_as_known, in_place, on_worker, references
from agentcompass.runtime.values.secrets import endpoint

ENVIRON = {"KEY": "value-1", "MY_TOKEN": "value-2", "HOME": "/home/x"}


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"api_key": "${KEY}"}, {"api_key": "value-1"}),
        ({"judges": [{"api_key": {"env": "KEY"}}]}, {"judges": [{"api_key": "value-1"}]}),
        ({"x": {"env": "KEY"}}, {"x": "value-1"}),
        ({"x": "${MY_TOKEN}"}, {"x": "value-2"}),
        ({"headers": {"X-Y": "Bearer ${KEY}"}}, {"headers": {"X-Y": "Bearer value-1"}}),
        ({"url": "https://${KEY}@h/p?token=${KEY}"}, {"url": "https://value-1@h/p?token=value-1"}),
        ({"url": "https://me:${KEY}@h"}, {"url": "https://me:value-1@h"}),
        ({"extra": '{"api_key": "${KEY}"}'}, {"extra": '{"api_key": "value-1"}'}),
    ],
)
def test_a_reference_is_replaced_where_a_secret_is_meant(
    params: dict[str, JsonValue], expected: JsonValue
) -> None:
    spec = ComponentSpec(id="x", params=params)

    assert on_worker(spec, ENVIRON).params == expected


@pytest.mark.parametrize(
    "params",
    [
        {"command": "curl -H ${MY_TOKEN} ${HOME}/x"},
        {"env": "KEY"},
        {"mode": "${HOME}"},
        {"url": "https://h/${KEY}"},
        {"text": '{"a": "${KEY}"}'},
        {"max_tokens": 5, "list": [1, "a"]},
    ],
)
def test_everything_else_reaches_the_plug_in_as_it_is(params: dict[str, JsonValue]) -> None:
    spec = ComponentSpec(id="x", params=params)

    assert on_worker(spec, ENVIRON) is spec


def test_a_secret_in_a_command_is_known_although_the_shell_puts_it_in_place() -> None:
    assert list(references({"command": "curl -H ${MY_TOKEN} ${HOME}"})) == ["MY_TOKEN"]
    assert list(references({"url": "https://me:${KEY}@h"})) == ["KEY"]


def test_a_worker_without_the_variable_says_its_name() -> None:
    spec = ComponentSpec(id="x", params={"api_key": "${GONE}"})

    with pytest.raises(AttemptFailure, match="variable GONE is not set"):
        on_worker(spec, ENVIRON)
    assert as_far_as_known(spec, ENVIRON).params == {"api_key": "${GONE}"}


def test_a_models_url_and_parameters_are_resolved() -> None:
    spec = ModelSpec(
        id="m",
        base_url="https://${KEY}@host/v1",
        params={"extra_headers": {"X": "${KEY}"}, "max_tokens": 4096},
    )

    found = endpoint(spec, ENVIRON).spec

    assert found.base_url == "https://value-1@host/v1"
    assert found.params == {"extra_headers": {"X": "value-1"}, "max_tokens": 4096}


def test_a_value_without_references_is_not_copied() -> None:
    value: JsonValue = {"a": [{"b": "text"}], "password": "${KEY}"}
    plain: JsonValue = {"a": [{"b": "text"}]}

    assert in_place(plain, ENVIRON.__getitem__) is plain
    assert in_place(value, ENVIRON.__getitem__) == {"a": [{"b": "text"}], "password": "value-1"}
