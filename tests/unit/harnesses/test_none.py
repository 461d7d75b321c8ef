from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from agentcompass.errors import AttemptFailure
from agentcompass.harnesses.none import NoHarness
from agentcompass.models.base import NoParams
from agentcompass.models.context import AttemptContext, ModelEndpoint
from agentcompass.models.request import ModelSpec
from agentcompass.models.task import PreparedTask
from tests.support.process_environment import ProcessEnvironment


def test_a_benchmark_without_an_agent_of_its_own_is_told_to_name_one(
    a_context: Callable[..., AttemptContext],
) -> None:
    with pytest.raises(AttemptFailure, match="--harness"):
        NoHarness(NoParams()).run_task(
            PreparedTask(task_id="t"),
            ProcessEnvironment(Path()),
            ModelEndpoint(spec=ModelSpec()),
            a_context(),
        )
