"""`python -m tests.support.stub_agentcompass_worker RESULTS BASE`: the command, scripted attempts."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from workers.worker_main import WorkerOptions, run_worker

if __name__ == "__main__":
    url = os.environ["AGENTCOMPASS_BROKER_URL"]
    results, base = map(Path, sys.argv[1:])
    options = WorkerOptions(url, results, concurrency=2, name="my-worker", work_dir=base)
    sys.exit(run_worker(options, program=("-m", "tests.support.stub_worker")))
