"""The Celery application of a worker, a coordinator or a monitor."""

from __future__ import annotations

from collections.abc import Sequence

from celery import Celery
from kombu.entity import Queue

from workers.broker.lanes import lanes_of
from workers.mends import kombu_mend
from workers.settings import CONTROL_QUEUE, Clocks, celery_settings
from workers.urls import checked

#: Importable in every process that builds the app, the monitor included.
BACKEND = "workers.mends.backend.PatientRedisBackend"


def make_app(
    broker_url: str, clocks: Clocks | None = None, queues: Sequence[str] = ("default",)
) -> Celery:
    """Return an app for one broker that knows the lanes of `queues`; opens no connection.

    Tasks are registered by `workers.tasks`, in worker processes only: whoever sends or watches
    needs nothing but their names.
    """
    kombu_mend.apply()
    url = checked(broker_url)
    app = Celery("agentcompass", broker=url, backend=f"{BACKEND}+{url}", set_as_current=False)
    app.conf.update(celery_settings(clocks or Clocks()))
    lanes = [lane for queue in queues for lane in lanes_of(queue)]
    app.conf.task_queues = [Queue(name) for name in (CONTROL_QUEUE, *lanes)]
    return app
