"""`python -m tests.support.stub_flower PORT`: Flower on the broker of the environment."""

from __future__ import annotations

import os
import sys

from workers.flower_main import FlowerOptions, run_flower

if __name__ == "__main__":
    url = os.environ["AGENTCOMPASS_BROKER_URL"]
    sys.exit(run_flower(FlowerOptions(url, port=int(sys.argv[1]))))
