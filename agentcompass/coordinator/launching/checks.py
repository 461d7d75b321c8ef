"""What requests of one suite must not do to one another, checked before anything is reserved."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from agentcompass.coordinator.launching.suite import NamedRequest, within
from agentcompass.coordinator.planning.plan import check_components
from agentcompass.coordinator.planning.start import check_place
from agentcompass.errors import RunExists, UsageError
from agentcompass.models.request import Request
from agentcompass.store import reserve
from agentcompass.store.names import namespace_of, safe_component


def check(requests: Sequence[NamedRequest], *, is_embedded: bool) -> None:
    """Refuse a suite whose requests get into each other's way, or name what is not there.

    Raises:
        UsageError: both requests are named; or the component or parameter of one.
    """
    _refuse_same_place(requests)
    _refuse_ambiguous_reuse(requests)
    if is_embedded:
        _refuse_mixed_pools(requests)
    for each in requests:
        try:
            check_place(each.request, each.name)
            check_components(each.request)
        except UsageError as error:
            raise within(each.where, error) from error


def refuse_taken(results_dir: Path, requests: Sequence[NamedRequest]) -> None:
    """Refuse explicit run ids that are in use.

    Raises:
        RunExists: naming the run.
    """
    for each in requests:
        run_id, namespace = each.request.output.run_id, namespace_of(each.request, each.name)
        if run_id is not None and reserve.is_taken(results_dir, namespace, run_id):
            raise RunExists(results_dir.joinpath(*namespace, safe_component(run_id)))


def _refuse_same_place(requests: Sequence[NamedRequest]) -> None:
    """Compare case-folded: a laptop could not tell the folders apart."""
    known: dict[tuple[str, ...], NamedRequest] = {}
    for each in requests:
        namespace = namespace_of(each.request, each.name)
        other = known.setdefault(_folded(namespace), each)
        if other is not each:
            raise UsageError(
                f"requests {other.name!r} and {each.name!r} have the same place "
                f"{'/'.join(namespace)!r}",
                where=f"{other.where} and {each.where}",
                hint="rename one: in a place everything but A-Z a-z 0-9 . _ = - becomes _",
            )
    for each in requests:
        run_id = each.request.output.run_id
        if run_id is None:
            continue
        run = _folded((*namespace_of(each.request, each.name), safe_component(run_id)))
        inner = next((known[place] for place in known if place[: len(run)] == run), None)
        if inner is not None:
            raise UsageError(
                f"request {inner.name!r} would lie inside of the run of request {each.name!r}",
                where=each.where,
                hint="choose another output.run_id or output.run_name",
            )


def _folded(place: Sequence[str]) -> tuple[str, ...]:
    return tuple(level.casefold() for level in place)


def _refuse_ambiguous_reuse(requests: Sequence[NamedRequest]) -> None:
    known: dict[tuple[str, str, str], NamedRequest] = {}
    for each in requests:
        if each.request.reuse is None or each.request.reuse.run_id:
            continue
        other = known.setdefault(_evaluated(each.request), each)
        if other is not each:
            raise UsageError(
                f"requests {other.name!r} and {each.name!r} evaluate the same benchmark, harness "
                "and model: which runs are whose source is ambiguous",
                where=f"reuse, {other.where} and {each.where}",
                hint="name the source of each: reuse: {run_id: …}",
            )


def _evaluated(request: Request) -> tuple[str, str, str]:
    return request.benchmark.id, request.harness.id, request.model.id


def _refuse_mixed_pools(requests: Sequence[NamedRequest]) -> None:
    """Local workers serve a queue with one pool: whoever takes a message executes it."""
    known: dict[str, NamedRequest] = {}
    for each in requests:
        other = known.setdefault(each.request.runtime.queue, each)
        one, two = other.request.runtime, each.request.runtime
        if one.pool != two.pool:
            raise UsageError(
                f"requests {other.name!r} ({one.pool}) and {each.name!r} ({two.pool}) want "
                f"different pools on one queue, {one.queue!r}",
                where=f"runtime.pool, {each.where}",
                hint="give one of them a queue of its own, such as runtime: {queue: chat}",
            )
