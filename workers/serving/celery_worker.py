"""One Celery worker process, from its options to its exit code.

The supervisor starts two of them: `attempts` takes from the lanes, `finalizers` from the control
queue, so that a finalizer never waits behind hours of attempts.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any, Final

from celery import Celery, signals
from celery.apps.worker import (
    Worker,
    install_cry_handler,
    install_worker_term_handler,
    install_worker_term_hard_handler,
)
from celery.exceptions import CPendingDeprecationWarning
from celery.platforms import SecurityWarning
from celery.worker import state
from redis import Redis

from workers import tasks
from workers.app import make_app
from workers.broker.client import connect
from workers.broker.lanes import lanes_of
from workers.broker.leases import RedisLeases
from workers.broker.presence import Presence
from workers.broker.signing import Signer, signer_from
from workers.keeping import leftovers
from workers.keeping.daemons import Repeating
from workers.keeping.enforcer import Enforcer, Shutdown
from workers.keeping.heartbeat import Heartbeat
from workers.keeping.herald import Herald
from workers.keeping.instance import Instance, open_instance
from workers.keeping.keeper import SlipKeeper
from workers.keeping.processes import WORKER_LABEL
from workers.keeping.reaper import bury, reap
from workers.mends import panel
from workers.serving import logs
from workers.serving.options import ServeOptions
from workers.serving.refusal import Refusal
from workers.settings import CONTROL_QUEUE, Clocks
from workers.urls import OUR_OWN_SECRETS, from_environment

logger = logging.getLogger(__name__)

FINALIZER_THREADS: Final = 2
"""A run of 100,000 being reduced does not keep a small one waiting."""
LAST_TICK_S: Final = 2.0
"""A heartbeat that is cut off could leave behind a lease that it has just claimed anew."""


@dataclass(frozen=True, slots=True)
class Bench:
    """What a worker process has, for whoever wires its tasks."""

    options: ServeOptions
    worker: str
    """Its name, as Flower and the results show it."""
    client: Redis
    leases: RedisLeases
    keeper: SlipKeeper
    instance: Instance
    refusal: Refusal
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The worker's own, name -> value: masked in whatever an attempt writes."""
    signer: Signer | None = None


class PlainWorker(Worker):
    """Celery's worker with fewer signals: a hang-up must not restart it by `exec`."""

    def install_platform_tweaks(self, worker: Worker) -> None:
        """SIGTERM: let attempts finish. SIGQUIT: cold. SIGINT is the supervisor's."""
        install_worker_term_handler(worker, verbose=False)
        install_worker_term_hard_handler(worker, verbose=False)
        install_cry_handler()
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def serve(
    options: ServeOptions, env: Mapping[str, str], wire: Callable[[Bench], tasks.Parts]
) -> int:
    """Serve until told to stop; returns the process's exit code."""
    logs.set_up(options.log_level, options.name, env)
    # It warns of root because of pickle, which we never accept.
    warnings.simplefilter("ignore", SecurityWarning)
    url, clocks = from_environment(env), Clocks.from_env(env)
    client = connect(url)
    leases = RedisLeases(client, clocks.lease_s)
    if options.role == "attempts":
        reap(options.base_path, leases.release_by_name)
    instance = open_instance(options.base_path, options.name)
    # What a pool or a plug-in leaves in the temporary folder goes when this worker goes.
    tempfile.tempdir = str(instance.path)
    os.environ[WORKER_LABEL] = instance.path.name
    keeper = SlipKeeper(instance.slips, options.name)
    app = make_app(url, clocks, options.queues)
    panel.apply()
    bench = Bench(
        options,
        options.name,
        client,
        leases,
        keeper,
        instance,
        Refusal(instance),
        logs.held_by(env),
        signer_from(env),
    )
    tasks.register(app, wire(bench))
    try:
        return _run(app, bench, clocks)
    finally:
        bury(instance)


def _keepers(bench: Bench, clocks: Clocks, shutdown: Shutdown) -> list[Repeating]:
    """Return the threads of a worker's main process."""
    directory = bench.instance.slips
    enforcer = Enforcer(bench.client, bench.keeper, directory, clocks, shutdown)
    dead: SimpleQueue[str] = SimpleQueue()
    heartbeat = Heartbeat(
        bench.client,
        bench.leases,
        directory,
        clocks.beat_s,
        stop=enforcer.stop,
        left_behind=dead.put,
    )

    def keep_house(now_s: float) -> None:
        # To remove a large working area takes longer than a heartbeat may wait.
        bench.refusal.tick(now_s)
        while not dead.empty():
            token = dead.get()
            leftovers.clear(bench.instance.work, [token])
            bench.instance.clear_work_of(token)

    threads = [
        Repeating("heartbeat", clocks.tick_s, heartbeat.tick),
        Repeating("enforcer", clocks.tick_s, enforcer.tick),
        Repeating("housekeeping", clocks.tick_s, keep_house),
    ]
    if bench.options.role == "attempts":
        herald = Herald(
            Presence(bench.client),
            bench.options.queues,
            (bench.instance.path.name, bench.worker),
            bench.options.results_path,
            2 * clocks.lease_s,
            is_leaving=lambda: shutdown.began_s is not None or bench.refusal.is_closing,
        )
        threads.append(Repeating("herald", clocks.tick_s, herald.tick))
    return threads


def _run(app: Celery, bench: Bench, clocks: Clocks) -> int:
    shutdown = Shutdown()
    threads = _keepers(bench, clocks, shutdown)

    def on_ready(sender: Any, **_: object) -> None:
        bench.refusal.consumer = sender
        # At each outage it warns of a setting that we have chosen; it has just asked for that itself.
        warnings.simplefilter("ignore", CPendingDeprecationWarning)
        for thread in threads:
            thread.start()
        logger.info("ready for %s", _served_by(bench.options))

    def on_stopping(**_: object) -> None:
        # A second SIGTERM is impatient: hand back now what still runs.
        is_second = shutdown.began_s is not None
        shutdown.grace_s = 0.0 if is_second else clocks.grace_s
        shutdown.began_s = shutdown.began_s or time.monotonic()

    def on_child(**_: object) -> None:
        signal.signal(signal.SIGUSR2, lambda *_: bench.keeper.read_stops())
        bench.keeper.own_process()

    # Any receiver keeps Celery from setting up logging of its own.
    signals.setup_logging.connect(_keep_our_logging, weak=False)
    signals.worker_ready.connect(on_ready, weak=False)
    signals.worker_shutting_down.connect(on_stopping, weak=False)
    signals.worker_process_init.connect(on_child, weak=False)
    worker = _celery_worker(app, bench.options)
    worker.start()
    for thread in threads:
        thread.end(LAST_TICK_S)
    return int(worker.exitcode or state.should_stop or 0)


def _keep_our_logging(**_: object) -> None:
    return


def _celery_worker(app: Celery, options: ServeOptions) -> Worker:
    is_finalizer = options.role == "finalizers"
    gc.freeze()  # children share these pages until a collector writes on them
    return PlainWorker(
        app=app,
        hostname=options.name,
        pool="threads" if is_finalizer else options.pool,
        concurrency=FINALIZER_THREADS if is_finalizer else options.concurrency,
        queues=_queues_of(options),
        loglevel="WARNING",
        quiet=True,
        # Workers need not know of each other, and start faster without.
        without_gossip=True,
        without_mingle=True,
    )


def _queues_of(options: ServeOptions) -> list[str]:
    if options.role == "finalizers":
        return [CONTROL_QUEUE]
    return [lane for queue in options.queues for lane in lanes_of(queue)]


def _served_by(options: ServeOptions) -> str:
    return (
        "finalizers" if options.role == "finalizers" else f"attempts of {', '.join(options.queues)}"
    )


def main(argument: str, wire: Callable[[Bench], tasks.Parts]) -> None:
    """Run as a process of its own. Leaves at once: what hangs in a thread must not keep it."""
    env = dict(os.environ)
    for name in OUR_OWN_SECRETS:  # of no use to plug-ins, nor to what they start
        os.environ.pop(name, None)
    code = serve(ServeOptions.from_json(argument), env, wire)
    logging.shutdown()
    os._exit(code)
