"""Keeps every unacknowledged message of this process invisible to others while it lives.

Redis hands a message to the next worker once it has been out for the visibility timeout; nothing
in Celery extends that. It must look at `worker.state`, not at the channel's own list: that list is
empty after a reconnect and during a warm shutdown, while attempts still run.
"""

from __future__ import annotations

from celery.worker import state
from redis import Redis

from workers.broker.keys import UNACKED_INDEX


def unacknowledged_tags() -> set[str]:
    """Return the delivery tags of all messages that this process still owes an acknowledgement."""
    requests = [*list(state.reserved_requests), *list(state.active_requests)]
    return {request.message.delivery_tag for request in requests if not request.acknowledged}


def keep_visible(client: Redis, now_s: float) -> int:
    """Restart the visibility timeout of what this process holds; returns how many messages.

    `XX`: a tag that somebody acknowledged or restored meanwhile is not brought back.
    """
    tags = unacknowledged_tags()
    if tags:
        client.zadd(UNACKED_INDEX, dict.fromkeys(tags, now_s), xx=True)
    return len(tags)
