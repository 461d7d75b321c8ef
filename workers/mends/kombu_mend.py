"""A worker survives a Redis that goes away, and lanes with rubbish in them (kombu 5.7 exits).

Private methods are replaced, so kombu is pinned to one minor release; the integration tests
`test_outage` and `test_foreign_messages` are red without this module. One replacement only saves
time: a client object per channel instead of one per command.
"""

from __future__ import annotations

import logging
from queue import Empty
from typing import Any

from celery.worker import state
from kombu.connection import Connection
from kombu.transport import redis as redis_transport
from kombu.transport.virtual.base import Transport

logger = logging.getLogger(__name__)

_brpop_read = redis_transport.Channel._brpop_read
_create_client = redis_transport.Channel._create_client
_restore_unacked = redis_transport.QoS.restore_unacked
_deliver = Transport._deliver


def _close_transport_keeping_its_client(connection: Connection) -> None:
    """Forget the transport.

    Upstream also sets `transport.client = None`, and the acknowledgement of an attempt that
    finishes later raises AttributeError in the event loop: the worker exits.
    """
    connection._transport = None


def _restore_what_is_not_executing(qos: Any, client: Any = None) -> Any:
    """Hand back what a lost connection had prefetched, but not what still executes here.

    Its own acknowledgement, or the visibility timeout, decides about that.
    """
    executing = {
        request.message.delivery_tag
        for request in list(state.active_requests)
        if not request.acknowledged
    }
    for tag in executing.intersection(qos._delivered):
        qos._delivered.pop(tag, None)
    return _restore_unacked(qos, client)


def _take_or_refuse(channel: Any, **options: Any) -> Any:
    """Take the next element of a lane; what is no message at all is gone, and said without content.

    Upstream lets the error of the decoder end the event loop, and with it the worker.
    """
    try:
        return _brpop_read(channel, **options)
    except (ValueError, TypeError) as error:
        logger.error("message refused: it is no message (%s)", type(error).__name__)  # noqa: TRY400
        raise Empty from None


def _deliver_only_messages(transport: Any, message: Any, queue: str) -> None:
    """Hand an element of a lane over if it has the parts of a message, each of its type.

    Upstream meets what is missing in the middle of things, and drops the connection.
    """
    if _has_all_parts(message):
        _deliver(transport, message, queue)
    else:
        logger.error("message refused: it lacks parts of a message")


def _has_all_parts(message: Any) -> bool:
    if not isinstance(message, dict) or not isinstance(message.get("properties"), dict):
        return False
    properties = message["properties"]
    info = properties.get("delivery_info")
    return (
        isinstance(message.get("body"), str)
        and isinstance(message.get("headers"), dict)
        and all(isinstance(message.get(f"content-{part}"), str) for part in ("type", "encoding"))
        and isinstance(properties.get("delivery_tag"), str)
        and properties.get("body_encoding") in (None, "base64")
        and isinstance(info, dict)
        and all(isinstance(info.get(part), str) for part in ("exchange", "routing_key"))
    )


def _kept_client(channel: Any, asynchronous: bool = False) -> Any:  # noqa: FBT001, FBT002 - upstream's
    """Return the channel's client: it holds nothing but its pool, and making one is not cheap."""
    if asynchronous:  # upstream keeps this one itself
        return _create_client(channel, asynchronous=True)
    kept = channel.__dict__.get("_kept_client")
    if kept is None or kept.connection_pool is not channel.pool:
        kept = channel._kept_client = _create_client(channel)
    return kept


def apply() -> None:
    """Install all replacements; any number of times."""
    setattr(Connection, "_do_close_transport", _close_transport_keeping_its_client)  # noqa: B010
    setattr(redis_transport.Channel, "_create_client", _kept_client)  # noqa: B010
    setattr(redis_transport.Channel, "_brpop_read", _take_or_refuse)  # noqa: B010
    setattr(Transport, "_deliver", _deliver_only_messages)  # noqa: B010
    setattr(redis_transport.QoS, "restore_unacked", _restore_what_is_not_executing)  # noqa: B010
