"""Containers whose execution has died: who owns one, and how the ownerless are removed."""

from __future__ import annotations

import os
import time
from collections.abc import Collection
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from docker import APIClient

TOKEN: Final = "agentcompass.token"  # noqa: S105 - the name of a label
OWNER: Final = "agentcompass.owner"
_PROC: Final = Path("/proc")
_COMING_S: Final = 0.2
_ENDED: Final = frozenset({"exited", "dead"})


def owner() -> str:
    """Return what names this process on this machine, for as long as the machine is up."""
    return f"{_home()}/{os.getpid()}/{_started(os.getpid())}"


def is_dead(name: str) -> bool:
    """Return True if an owner's process is certainly gone; never of another machine's."""
    home, _, rest = name.partition("/")
    pid, _, started = rest.partition("/")
    if not home or home != _home() or not pid.isdigit():
        return False
    return _started(int(pid)) != started


def remove(api: APIClient, dead_tokens: Collection[str] = ()) -> int:
    """Remove containers of ours that nobody will ever close; return how many.

    These are the ones of the given executions, the ones whose owner was a process of this machine
    that has ended, and the ones that have ended: a living environment keeps its container running.
    """
    found = api.containers(all=True, filters={"label": TOKEN})
    ownerless = [each["Id"] for each in found if _is_ownerless(each, dead_tokens)]
    for container in ownerless:
        remove_one(api, container)
    return len(ownerless)


def remove_one(api: APIClient, container: str, tries: int = 1) -> None:
    """Remove a container by id or name, with everything in it; fine if it is gone or going.

    Args:
        tries: how often it is looked for, as it may still be coming.
    """
    from docker.errors import APIError

    for number in range(tries):
        if number:
            time.sleep(_COMING_S)  # noqa: TID251 - the engine has no call that waits for one
        try:
            api.remove_container(container, v=True, force=True)
        except APIError as error:
            status = error.response.status_code if error.response is not None else 0
            if status not in {404, 409}:  # 409: somebody else is removing it
                raise
        else:
            return


def _is_ownerless(container: Any, dead_tokens: Collection[str]) -> bool:
    labels: dict[str, str] = container["Labels"] or {}
    is_over = container["State"] in _ENDED
    return is_over or labels.get(TOKEN) in dead_tokens or is_dead(labels.get(OWNER, ""))


@cache
def _home() -> str:
    """Return what tells machines, their boots and their process namespaces apart; "" if nothing."""
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text("ascii").strip()
        return f"{boot}:{(_PROC / 'self/ns/pid').readlink()}"
    except OSError:
        return ""


def _started(pid: int) -> str:
    """Return when a process started, in the kernel's ticks; "" if it is gone."""
    try:
        text = (_PROC / str(pid) / "stat").read_bytes()
    except OSError:
        return ""
    fields = text[text.rindex(b")") + 2 :].split()  # the name before it may hold spaces
    return "" if fields[0] in {b"Z", b"X"} else fields[19].decode("ascii")
