from __future__ import annotations

import pytest

from agentcompass.coordinator.asking.validation import request_of
from agentcompass.coordinator.planning import plan as planning
from agentcompass.coordinator.planning.plan import Machine, Planned, digest_of
from agentcompass.errors import UnknownComponent, UsageError
from agentcompass.models.base import JsonObject
from agentcompass.models.issue import Issue
from agentcompass.models.plan import ExecutionPlan
from agentcompass.models.request import ComponentSpec, Request
from agentcompass.models.task import TaskSpec
from agentcompass.recipes.base import Recipe
from agentcompass.runtime import components
from tests.support.coordinated import MODULE, request_fields


def planned(content: JsonObject | None = None, **known: int) -> Planned:
    request = request_of(content or request_fields(), where="test")
    return planning.plan(request, machine=Machine(**known))


def layer(**over: object) -> JsonObject:
    return {**request_fields(), **over}  # type: ignore[dict-item]


class TestPlans:
    def test_every_attempt_of_plain_tasks_has_the_default_plan(self) -> None:
        with planned() as got:
            assert [task.task_id for task in got.tasks] == ["a", "b"]
            assert got.plans.tasks == {}
            assert list(got.plans.plans) == [got.plans.default]

    def test_a_plan_is_named_by_the_digest_of_its_content(self) -> None:
        with planned() as got:
            assert got.plans.default == digest_of(got.plans.plan_of("a", 1))

    def test_only_what_differs_from_the_default_is_listed_for_each_attempt(self) -> None:
        content = layer(execution={"attempts": {"k": 2}, "timeout_multiplier": 2.0})
        content["benchmark"] = request_fields(slow=["b"])["benchmark"]

        with planned(content) as got:
            assert set(got.plans.tasks) == {"b"}
            assert list(got.plans.tasks["b"].attempts) == ["1", "2"]
            assert got.plans.plan_of("b", 2).deadlines.run_timeout_s == 14
            assert got.plans.plan_of("a", 2).deadlines.run_timeout_s == 7_200
            assert got.attempt_count == 4

    def test_a_task_that_cannot_run_here_is_frozen_with_its_failure_and_the_others_run(
        self,
    ) -> None:
        with planned(request_fields(gpus=["b"]), gpus=0) as got:
            failure = got.plans.plan_of("b", 1).failure
            assert failure == Issue(
                severity="fatal",
                phase="setup",
                code="setup_failed",
                message="the task needs 1 GPUs, and this machine has 0",
            )
            assert got.plans.plan_of("a", 1).failure is None

    def test_on_unknown_machines_no_resource_is_judged(self) -> None:
        with planned(request_fields(gpus=["b"])) as got:
            assert got.plans.tasks == {}

    def test_tasks_may_be_loaded_asynchronously(self) -> None:
        with planned(layer(benchmark={"id": f"{MODULE}:AsyncBench"})) as got:
            assert len(got.tasks) == 2


class Doubling(Recipe):
    id = "doubling"

    def match(self, request: Request) -> bool:
        return True

    def apply(self, plan: ExecutionPlan, task: TaskSpec) -> ExecutionPlan:
        if task.task_id == "b":
            raise RuntimeError("cannot adapt b")
        limits = plan.deadlines.model_copy(update={"run_timeout_s": 7.0})
        return plan.model_copy(update={"deadlines": limits})


@pytest.fixture
def doubling(monkeypatch: pytest.MonkeyPatch) -> None:
    real = components.load

    def load(kind: components.Kind, spec: ComponentSpec, **rest: object) -> object:
        return Doubling() if kind == "recipe" else real(kind, spec)

    monkeypatch.setattr(components, "known", lambda kind: [("doubling", "")])
    monkeypatch.setattr(components, "load", load)


@pytest.mark.usefixtures("doubling")
class TestRecipes:
    def test_a_recipe_adapts_the_plan_of_each_task_and_is_recorded(self) -> None:
        with planned() as got:
            own = got.plans.plan_of("a", 1)
            assert own.deadlines.run_timeout_s == 7
            assert own.recipes == ("doubling",)

    def test_a_recipe_that_fails_fails_its_task_alone(self) -> None:
        with planned() as got:
            failure = got.plans.plan_of("b", 1).failure
            assert failure is not None
            assert failure.message == "recipe doubling: RuntimeError: cannot adapt b"


class TestRefusals:
    def test_an_analyzer_asked_for_twice_is_refused(self) -> None:
        with pytest.raises(UsageError, match="'tokens' is asked for twice"):
            planned(layer(execution={"analyzers": [{"id": "tokens"}, {"id": "tokens"}]}))

    @pytest.mark.parametrize("kind", ["benchmark", "harness", "environment"])
    def test_an_unknown_component_names_the_known_ones(self, kind: str) -> None:
        with pytest.raises(UnknownComponent, match=f"unknown {kind} 'nope'"):
            planned(layer(**{kind: {"id": "nope"}}))

    def test_an_unknown_parameter_is_named(self) -> None:
        with pytest.raises(UsageError, match=r"harness\.sizes"):
            planned(layer(harness={"id": f"{MODULE}:Agent", "params": {"sizes": 2}}))

    def test_a_benchmark_with_an_agent_of_its_own_takes_no_harness(self) -> None:
        with pytest.raises(UsageError, match="brings its own agent"):
            planned(layer(benchmark={"id": f"{MODULE}:FreeBench"}))

    def test_a_benchmark_without_an_agent_needs_a_harness(self) -> None:
        with pytest.raises(UsageError, match="has no agent of its own"):
            planned(layer(harness={"id": "none"}))

    def test_what_a_benchmark_raises_while_loading_is_one_line(self) -> None:
        with pytest.raises(UsageError, match="cannot load its tasks: OSError: the data set"):
            planned(request_fields(breaks=True))

    def test_a_benchmark_without_tasks_is_refused(self) -> None:
        with pytest.raises(UsageError, match="has no tasks"):
            planned(request_fields(ids=[]))

    def test_a_duplicate_id_is_refused_with_both_positions(self) -> None:
        with pytest.raises(UsageError, match="positions 1 and 2"):
            planned(request_fields(ids=["a", "a"]))

    def test_a_strategy_without_a_series_for_the_primary_metric_is_refused(self) -> None:
        with pytest.raises(UsageError, match="unknown strategy"):
            planned(layer(execution={"attempts": {"k": 2, "strategy": "best"}}))
