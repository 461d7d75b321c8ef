"""`python -m workers.attempt_worker OPTIONS`: a worker process with the real runtime."""

from __future__ import annotations

import gc
import sys

if __name__ == "__main__":
    gc.disable()  # imports make many objects and no garbage: to look for it costs a tenth of them
    from workers.serving.celery_worker import main
    from workers.wiring import real_parts

    gc.enable()
    main(sys.argv[1], real_parts)
