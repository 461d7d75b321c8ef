"""Named policies that plug-ins may add to: reducers and strategies."""

from __future__ import annotations

from difflib import get_close_matches
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, Protocol, TypeVar

from agentcompass.errors import UsageError


class Named(Protocol):
    """Anything with an id that is fixed for ever: reports on disk name it."""

    @property
    def id(self) -> str: ...


ItemT = TypeVar("ItemT", bound=Named)


class Registry(Generic[ItemT]):
    """Items by id. What is not built in is sought among the entry points of `group`, once."""

    def __init__(self, kind: str, group: str, builtin: tuple[ItemT, ...]) -> None:
        self._kind = kind
        self._group = group
        self._items: dict[str, ItemT] = {item.id: item for item in builtin}

    def register(self, item: ItemT) -> ItemT:
        """Add a policy; ValueError if the id belongs to a different one."""
        if self._items.setdefault(item.id, item) is not item:
            raise ValueError(f"{self._kind} {item.id!r} is registered already")
        return item

    def known(self) -> tuple[str, ...]:
        """Return all ids, those of installed plug-ins included."""
        return tuple(sorted({*self._items, *(point.name for point in self._plugins())}))

    def find(self, name: str) -> ItemT | None:
        """Return the item, or None if nobody has it."""
        if name not in self._items:
            for point in self._plugins():
                if point.name == name:
                    self.register(_checked(self._kind, point, point.load()))
        return self._items.get(name)

    def get(self, name: str) -> ItemT:
        """Return the item; UsageError with the known ids if nobody has it."""
        item = self.find(name)
        if item is None:
            known = self.known()
            near = get_close_matches(name, known, n=1, cutoff=0.5)
            guess = f"did you mean {near[0]!r}? " if near else ""
            raise UsageError(
                f"unknown {self._kind} {name!r}", hint=f"{guess}known: {', '.join(known)}"
            )
        return item

    def _plugins(self) -> tuple[EntryPoint, ...]:
        return tuple(entry_points(group=self._group))


def _checked(kind: str, point: EntryPoint, loaded: ItemT) -> ItemT:
    if getattr(loaded, "id", None) != point.name:
        raise UsageError(
            f"{kind} {point.name!r} of {point.value} has another id: {getattr(loaded, 'id', None)!r}",
            hint="make the name of the entry point and the id equal",
        )
    return loaded
