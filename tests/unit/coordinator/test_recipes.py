"""Which recipes a request has, in which order, and what they may make of a plan."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from agentcompass.coordinator.planning.recipes import Recipes, recipes_of
from agentcompass.errors import AttemptFailure, UsageError
from agentcompass.models.base import JsonObject
from agentcompass.models.plan import ExecutionPlan
from agentcompass.models.request import ComponentSpec, ModelSpec, Request
from agentcompass.models.task import TaskSpec
from agentcompass.recipes.base import Recipe
from tests.builders import a_plan, a_request
from tests.support.coordinated import request_fields
from tests.unit.coordinator.test_planning import planned
from tests.unit.coordinator.test_requests import BENCH, asked

TASK = TaskSpec(task_id="t")


class Longer(Recipe):
    """Doubles the run's deadline."""

    id: ClassVar[str] = "longer"

    def match(self, request: Request) -> bool:
        return request.benchmark.id == "bench"

    def apply(self, plan: ExecutionPlan, task: TaskSpec) -> ExecutionPlan:
        limits = plan.deadlines
        longer = limits.model_copy(update={"run_timeout_s": limits.run_timeout_s * 2})
        return plan.model_copy(update={"deadlines": longer})


class AMinute(Longer):
    """Sets it, so that the order matters."""

    id: ClassVar[str] = "a_minute"

    def apply(self, plan: ExecutionPlan, task: TaskSpec) -> ExecutionPlan:
        minute = plan.deadlines.model_copy(update={"run_timeout_s": 60.0})
        return plan.model_copy(update={"deadlines": minute})


class OnRequest(Longer):
    """Only where it is named."""

    id: ClassVar[str] = "on_request"
    is_automatic: ClassVar[bool] = False


class Breaks(Longer):
    """Fails on every request."""

    id: ClassVar[str] = "breaks"

    def match(self, request: Request) -> bool:
        raise KeyError("no such field")


KNOWN: dict[str, type[Recipe]] = {"on_request": OnRequest, "longer": Longer, "a_minute": AMinute}


def chosen(*named: str, all_that_match: bool = False, benchmark: str = "bench") -> Recipes:
    request = a_request(benchmark=benchmark)
    names = None if all_that_match else named
    execution = request.execution.model_copy(update={"recipes": names})
    request = request.model_copy(update={"execution": execution})
    known: dict[str, type[Recipe]] = {**KNOWN, "breaks": Breaks}
    return recipes_of(request, lambda name: known[name](), list(KNOWN), lambda _: None)


class TestChoice:
    def test_all_that_match_by_their_ids_but_those_that_want_to_be_named(self) -> None:
        assert chosen(all_that_match=True).ids == ("a_minute", "longer")
        assert chosen(all_that_match=True, benchmark="other").ids == ()

    def test_those_that_are_named_in_that_order(self) -> None:
        assert chosen("longer", "a_minute", "on_request").ids == (
            *("longer", "a_minute", "on_request"),
        )
        assert chosen().ids == ()

    def test_the_order_is_that_of_their_application(self) -> None:
        first, second = chosen("longer", "a_minute"), chosen("a_minute", "longer")

        assert first.applied(a_plan(), TASK).deadlines.run_timeout_s == 60
        assert second.applied(a_plan(), TASK).deadlines.run_timeout_s == 120

    def test_one_that_is_named_and_does_not_fit_is_refused(self) -> None:
        with pytest.raises(UsageError, match="recipe 'longer' does not fit"):
            chosen("longer", benchmark="other")

    def test_one_that_fails_on_the_request_is_refused_by_name(self) -> None:
        with pytest.raises(UsageError, match="recipe 'breaks' fails on this request: KeyError"):
            chosen("breaks")

    @pytest.mark.parametrize("written", ["none", ["none"], []])
    def test_none_is_a_choice(self, written: Any) -> None:
        flags: JsonObject = {**BENCH, "execution": {"recipes": written}}

        assert asked(flags).request.execution.recipes == ()


def other_model(plan: ExecutionPlan) -> object:
    return plan.model_copy(update={"model": ModelSpec(id="cheaper")})


def other_harness(plan: ExecutionPlan) -> object:
    return plan.model_copy(update={"harness": ComponentSpec(id="other")})


def own_name(plan: ExecutionPlan) -> object:
    return plan.model_copy(update={"recipes": ()})


def negative(plan: ExecutionPlan) -> object:
    limits = plan.deadlines.model_copy(update={"run_timeout_s": -1.0})
    return plan.model_copy(update={"deadlines": limits})


def nothing(plan: ExecutionPlan) -> object:
    return None


def raises(plan: ExecutionPlan) -> object:
    raise AttemptFailure("fatal", "setup", "no_image", "there is no image")


@pytest.mark.parametrize(
    ("apply", "code", "why"),
    [
        (other_model, "setup_failed", "it changed model"),
        (other_harness, "setup_failed", "it changed harness.id"),
        (own_name, "setup_failed", "it changed recipes"),
        (negative, "setup_failed", "deadlines.run_timeout_s: Input should be greater than 0"),
        (nothing, "setup_failed", "apply returned a NoneType, not a plan"),
        (raises, "no_image", "there is no image"),
    ],
)
def test_a_plan_that_is_wrong_is_its_tasks_failure(
    apply: Callable[[ExecutionPlan], object], code: str, why: str
) -> None:
    class Wrong(Longer):
        id: ClassVar[str] = "wrong"

        def apply(self, plan: ExecutionPlan, task: TaskSpec) -> ExecutionPlan:
            return apply(plan)  # type: ignore[return-value]  # that is the fault

    before = a_plan().model_copy(update={"recipes": ("wrong",)})

    failure = Recipes([Wrong()], lambda _: None).applied(before, TASK).failure

    assert failure is not None
    assert (failure.severity, failure.phase, failure.code) == ("fatal", "setup", code)
    assert failure.message.startswith(f"recipe wrong: {why}")


def test_a_parameter_that_the_environment_does_not_have_is_its_tasks_failure() -> None:
    def check(_: ExecutionPlan) -> None:
        raise UsageError("parameter of environment 'place' refused", where="--param")

    failure = Recipes([Longer()], check).applied(a_plan(), TASK).failure

    assert failure is not None
    assert failure.message == "recipe longer: parameter of environment 'place' refused"


def test_a_task_that_no_recipe_changes_keeps_the_default_plan() -> None:
    docker: JsonObject = {"id": "docker", "params": {"image": "base"}}
    fields: JsonObject = {**request_fields(), "environment": docker}

    with planned(fields) as got:
        assert got.plans.tasks == {}
        assert got.plans.plan_of("a", 1).recipes == ("task_image",)
