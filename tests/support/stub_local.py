"""`python -m tests.support.stub_local OPTIONS`: local workers whose attempts are scripted."""

from __future__ import annotations

import sys

from workers.serving.local import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1], ("-m", "tests.support.stub_worker")))
