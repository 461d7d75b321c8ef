"""`python -m tests.support.stub_coordinator RUN BASE RESULTS`: an embedded broker and its workers.

Prints the broker's URL, then waits to be killed, as a coordinator may be.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from workers.embedded import open_broker, start_workers
from workers.worker_main import WorkerOptions

if __name__ == "__main__":
    run, base, results = map(Path, sys.argv[1:])
    broker = open_broker(run, base=base)
    options = WorkerOptions(broker.url, results, concurrency=2, work_dir=base)
    workers = start_workers(options, module="tests.support.stub_local")
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # not before: children inherit it
    sys.stdout.write(broker.url + "\n")
    sys.stdout.flush()
    signal.sigwait({signal.SIGTERM})
    workers.close()
    broker.close()
