"""Which recipes a request has, and what they make of a task's plan."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pydantic import ValidationError

from agentcompass.errors import AttemptFailure, UsageError
from agentcompass.models.issue import MESSAGE_LIMIT, Issue
from agentcompass.models.plan import ExecutionPlan
from agentcompass.models.request import Request
from agentcompass.models.task import TaskSpec
from agentcompass.recipes.base import Recipe
from agentcompass.runtime.values import live

_FIXED: Final = ("model", "analyzers", "recipes", "failure")
_FIXED_IDS: Final = ("benchmark", "harness")


class RecipeBroken(Exception):
    """A recipe made a plan that cannot be executed, or is not its to make."""


@dataclass(frozen=True, slots=True)
class Recipes:
    """The recipes of one request, in the order in which they are applied."""

    recipes: Sequence[Recipe]
    check: Callable[[ExecutionPlan], object]
    """Raises UsageError for components or parameters that cannot be had."""

    @property
    def ids(self) -> tuple[str, ...]:
        """What the plans record."""
        return tuple(recipe.id for recipe in self.recipes)

    def applied(self, plan: ExecutionPlan, task: TaskSpec) -> ExecutionPlan:
        """Return the adapted plan; with the failure of the task if a recipe fails."""
        for recipe in self.recipes:
            try:
                adapted = self._checked(plan, recipe.apply(plan, task))
            except Exception as error:  # noqa: BLE001  a recipe's failure is its task's failure
                return plan.model_copy(update={"failure": _failure(error, recipe.id)})
            plan = adapted
        return plan

    def _checked(self, before: ExecutionPlan, adapted: object) -> ExecutionPlan:
        if adapted is before:
            return before
        if not isinstance(adapted, ExecutionPlan):
            raise RecipeBroken(f"apply returned a {type(adapted).__name__}, not a plan")
        # A copy with other values is not validated by itself.
        plan = ExecutionPlan.model_validate_json(adapted.model_dump_json())
        for name in (*_changed(before, plan, _FIXED), *_changed_ids(before, plan)):
            raise RecipeBroken(f"it changed {name}, which is not a recipe's to change")
        self.check(plan)
        return plan


def recipes_of(
    request: Request,
    load: Callable[[str], Recipe],
    known: Sequence[str],
    check: Callable[[ExecutionPlan], object],
) -> Recipes:
    """Return the recipes that the request names, in its order; else all that match, by their ids.

    Args:
        load: returns a recipe by its id.
        known: ids of all that are registered.

    Raises:
        UsageError: one that was named does not fit, or one fails on the request.
    """
    named = request.execution.recipes
    found: Mapping[str, Recipe] = {name: load(name) for name in (known if named is None else named)}
    if named is None:
        automatic = {name: recipe for name, recipe in found.items() if recipe.is_automatic}
        matching = [r for name, r in sorted(automatic.items()) if _matches(r, name, request)]
        return Recipes(matching, check)
    for name, recipe in found.items():
        if not _matches(recipe, name, request):
            raise UsageError(
                f"recipe {name!r} does not fit this request",
                where="--recipe",
                hint="leave it out, or see `agentcompass list recipes`",
            )
    return Recipes(list(found.values()), check)


def setup_failed(message: str, code: str = "setup_failed") -> Issue:
    """Return the issue of a task whose planning failed (contracts, §10)."""
    line = live.masked(" ".join(message.split()))[:MESSAGE_LIMIT]
    return Issue(severity="fatal", phase="setup", code=code, message=line)


def _matches(recipe: Recipe, name: str, request: Request) -> bool:
    try:
        return bool(recipe.match(request))
    except Exception as error:  # a plug-in may raise anything
        reason = live.masked(" ".join(f"{type(error).__name__}: {error}".split()))[:MESSAGE_LIMIT]
        raise UsageError(
            f"recipe {name!r} fails on this request: {reason}",
            where="--recipe",
            hint="name the ones you want with --recipe, or `--recipe none`",
        ) from error


def _changed(before: ExecutionPlan, plan: ExecutionPlan, names: Sequence[str]) -> Iterator[str]:
    yield from (name for name in names if getattr(before, name) != getattr(plan, name))


def _changed_ids(before: ExecutionPlan, plan: ExecutionPlan) -> Iterator[str]:
    for name in _FIXED_IDS:
        if getattr(before, name).id != getattr(plan, name).id:
            yield f"{name}.id"


def _failure(error: Exception, recipe: str) -> Issue:
    if isinstance(error, AttemptFailure):
        return setup_failed(f"recipe {recipe}: {error.message}", error.code)
    if isinstance(error, UsageError):
        return setup_failed(f"recipe {recipe}: {error.what}")
    if isinstance(error, ValidationError):
        detail = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(map(str, detail["loc"]))
        return setup_failed(f"recipe {recipe}: {field}: {detail['msg']}")
    name = "" if isinstance(error, RecipeBroken) else f"{type(error).__name__}: "
    return setup_failed(f"recipe {recipe}: {name}{error}")
