"""A Docker engine of our own for tests: private folders, no network, one tiny image, gone afterwards."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

IMAGE: Final = "tiny:latest"
_PR_SET_PDEATHSIG: Final = 1
_START_S: Final = 40.0
_STOP_S: Final = 20.0
_BUSYBOX: Final = Path("/bin/busybox")


class NoEngine(Exception):
    """No engine can run here; the message says why."""


def why_not() -> str:
    """Return why an engine cannot even be tried here, "" if it can."""
    if shutil.which("dockerd") is None:
        return "no dockerd is installed (Debian: docker.io)"
    if os.geteuid() != 0:
        return "dockerd needs root"
    if not _BUSYBOX.exists():
        return "there is nothing to make an image of (Debian: busybox-static)"
    return ""


@contextmanager
def running_engine() -> Iterator[str]:
    """Yield the address of an engine that has `IMAGE`.

    Raises:
        NoEngine: it does not come up.
    """
    reason = why_not()
    if reason:
        raise NoEngine(reason)
    folder = Path(tempfile.mkdtemp(prefix="dockerd-"))  # a short path: it holds unix sockets
    daemon = _started(folder)
    address = f"unix://{folder}/sock"
    try:
        _wait(daemon, address, folder)
        _import_image(address)
        yield address
    finally:
        _stop(daemon, address)
        shutil.rmtree(folder, ignore_errors=True)


def docker(address: str, *arguments: str) -> str:
    """Return what the command line client says; what an outsider sees."""
    command = ["docker", "--host", address, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def _started(folder: Path) -> subprocess.Popen[bytes]:
    options = {
        "data-root": folder / "data",
        "exec-root": folder / "exec",
        "pidfile": folder / "pid",
        "host": f"unix://{folder}/sock",
        "bridge": "none",
        "iptables": "false",
        "ip-forward": "false",
    }
    with (folder / "log").open("wb") as log:
        return subprocess.Popen(
            ["dockerd", *(f"--{name}={value}" for name, value in options.items())],
            # It outlives the test that happens to need it first, and that one's temporary folder.
            env={**os.environ, "TMPDIR": str(folder)},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            preexec_fn=_end_with_the_tests,
        )


def _end_with_the_tests() -> None:
    """Ask the kernel to stop the engine when the tests are killed."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def _wait(daemon: subprocess.Popen[bytes], address: str, folder: Path) -> None:
    until = time.monotonic() + _START_S
    while time.monotonic() < until and daemon.poll() is None:
        command = ["docker", "--host", address, "version"]
        if subprocess.run(command, capture_output=True, check=False).returncode == 0:
            return
        time.sleep(0.1)
    log = (folder / "log").read_text(encoding="utf-8", errors="replace").splitlines()
    raise NoEngine(f"dockerd does not start here: {log[-1] if log else 'it says nothing'}")


def _import_image(address: str) -> None:
    command = ["docker", "--host", address, "import", "-", IMAGE]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as client:
        assert client.stdin is not None
        with tarfile.open(fileobj=client.stdin, mode="w|") as archive:
            for name in ("tmp", "etc", "root"):
                entry = tarfile.TarInfo(name)
                entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
                archive.addfile(entry)
            archive.add(_BUSYBOX, "bin/busybox")
            for applet in subprocess.check_output([_BUSYBOX, "--list"], text=True).split():
                entry = tarfile.TarInfo(f"bin/{applet}")
                entry.type, entry.linkname = tarfile.SYMTYPE, "busybox"
                if applet != "busybox":
                    archive.addfile(entry)
        client.stdin.close()
    if client.returncode != 0:
        raise NoEngine("the image cannot be imported")


def _stop(daemon: subprocess.Popen[bytes], address: str) -> None:
    listed = subprocess.run(
        ["docker", "--host", address, "ps", "--all", "--quiet"],
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.stdout:
        command = ["docker", "--host", address, "rm", "--force", *listed.stdout.split()]
        subprocess.run(command, capture_output=True, check=False)
    daemon.terminate()
    try:
        daemon.wait(_STOP_S)
    except subprocess.TimeoutExpired:
        daemon.kill()
        daemon.wait()
