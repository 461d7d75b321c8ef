"""What an analyzer promises (contracts, §9)."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable
from typing import ClassVar, Generic, TypeVar

from pydantic import BaseModel

from agentcompass.models.base import JsonObject, NoParams
from agentcompass.models.result import AttemptResult

ParamsT = TypeVar("ParamsT", bound=BaseModel)


class Analyzer(Generic[ParamsT]):
    """Looks at finished attempts; what goes wrong in it is a WARNING, never the run's failure."""

    id: ClassVar[str]
    Params: ClassVar[type[BaseModel]] = NoParams

    def __init__(self, params: ParamsT) -> None:
        self.params = params

    def analyze(self, attempt: AttemptResult) -> JsonObject | Awaitable[JsonObject]:
        """Return what goes under `result.analysis_result[id]`.

        Args:
            attempt: the record as it is about to be published, verdict and trajectory included.
        """
        raise NotImplementedError

    def summarize(self, results: Iterable[JsonObject]) -> JsonObject | Awaitable[JsonObject]:
        """Return what goes under this id in `analysis_summary.json`; empty if there is none.

        Args:
            results: what `analyze` returned, of all attempts that have it, in the run's order. Can
                be iterated once; holds no more than one at a time.
        """
        return {}
