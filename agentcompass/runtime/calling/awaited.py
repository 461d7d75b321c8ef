"""Methods of plug-ins that may be `def` or `async def`, called where nothing has to be bounded."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable


def awaited(value: object) -> object:
    """Return what a method gave, awaited if it has to be."""
    if not inspect.isawaitable(value):
        return value
    import asyncio  # a report that awaits nothing does without

    return asyncio.run(_await(value))


async def _await(value: Awaitable[object]) -> object:
    return await value
