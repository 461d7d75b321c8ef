"""Runs one command and everything that it starts, and lets nothing of it survive.

A script of its own, started as `python -I -S supervisor.py <fd>`: standard library only, and of it
only what loads fast. The descriptor is one end of a socket pair. On it comes the order (4 bytes of
length, then a marshalled dict) and goes the report. When the other end closes, also because its
process was killed, everything dies. After the report it stays as long as something that the
command left in the background lives, and reads away what that writes.

It is a *subreaper*: whatever daemonises becomes its child again, so that it can be found and
killed. Where the system has none (macOS), the command's process group is all that is killed.
"""

from __future__ import annotations

import ctypes
import marshal
import os
import resource
import select
import sys
import time
from collections import deque
from typing import Any

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_SIGKILL, _SIGPIPE = 9, 13
_SIGSTOP, _SIGXFSZ = (19, 25) if sys.platform == "linux" else (17, 25)
_IS_LINUX = sys.platform == "linux"
_CHUNK = 1 << 16
_PIPE_READS = 4
"""Reads of `_CHUNK` that empty a pipe, which holds 64 KiB on Linux and less elsewhere."""
_TICK_S = 1.0
"""How often orphans are reaped that ended without anybody waiting for them."""
_KILLING_S = 10.0
"""After this long we stop trying to kill: what is left does not belong to us or cannot die."""
_NOT_FOUND, _NOT_EXECUTABLE = 127, 126
_OOM_SCORE = b"500"
"""When memory runs out the kernel takes a command, not the worker."""


class Stream:
    """One output of the command: its beginning and its end, at most `limit` bytes, and its size."""

    def __init__(self, fd: int, limit: int) -> None:
        self.fd = fd
        self.size = 0
        self._head_limit = limit // 2
        self._tail_limit = limit - limit // 2
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_size = 0

    def read(self) -> bool:
        """Take what is there; False at the end of the stream."""
        try:
            chunk = os.read(self.fd, _CHUNK)
        except BlockingIOError:
            return True
        self.size += len(chunk)
        room = self._head_limit - len(self._head)
        self._head += chunk[:room]
        self._keep(chunk[room:] if room > 0 else chunk)
        return bool(chunk)

    def drain(self) -> None:
        """Take everything that was written so far: no more than fits into a pipe.

        Not until nothing comes any more: what the command left behind may never stop writing.
        """
        for _ in range(_PIPE_READS):
            self.read()

    def parts(self) -> tuple[bytes, bytes]:
        """Return beginning and end; nothing is missing between them if `size` is their length."""
        return bytes(self._head), b"".join(self._tail)[-self._tail_limit :]

    def _keep(self, chunk: bytes) -> None:
        if not chunk:
            return
        self._tail.append(chunk)
        self._tail_size += len(chunk)
        while self._tail_size - len(self._tail[0]) >= self._tail_limit:
            self._tail_size -= len(self._tail.popleft())


_libc = ctypes.CDLL(None)


def _prctl(option: int, value: int) -> None:
    if _IS_LINUX:
        _libc.prctl(option, value, 0, 0, 0)


def _restore_signals() -> None:
    """Python ignores these, and an ignored signal stays ignored in the command."""
    _libc.signal.argtypes = (ctypes.c_int, ctypes.c_void_p)
    for signal in (_SIGPIPE, _SIGXFSZ):
        _libc.signal(signal, None)


def receive_order(fd: int) -> dict[str, Any] | None:
    """Read the order, or None if the other end has gone."""
    data = b""
    wanted = 4
    while len(data) < wanted:
        chunk = os.read(fd, wanted - len(data))
        if not chunk:
            return None
        data += chunk
        if len(data) == 4 and wanted == 4:
            wanted += int.from_bytes(data, "big")
    order: dict[str, Any] = marshal.loads(data[4:])  # noqa: S302 - from our own parent
    return order


def spawn(order: dict[str, Any]) -> tuple[int, Stream, Stream]:
    """Start the command in a session of its own."""
    out_read, out_write = os.pipe()
    err_read, err_write = os.pipe()
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        _become(order, out_write, err_write, parent)
    os.close(out_write)
    os.close(err_write)
    for fd in (out_read, err_read):
        os.set_blocking(fd, False)
    limit = order["output_limit"]
    return pid, Stream(out_read, limit), Stream(err_read, limit)


def _become(order: dict[str, Any], out: int, err: int, parent: int) -> None:
    """Turn this forked process into the command. Does not return."""
    try:
        os.setsid()
        _prctl(_PR_SET_PDEATHSIG, _SIGKILL)
        if os.getppid() != parent:
            os._exit(_NOT_EXECUTABLE)
        os.dup2(out, 1)
        os.dup2(err, 2)
        _restore_signals()
        _be_the_first_victim()
        for name, value in order["limits"].items():
            _set_limit(name, value)
        os.chdir(order["cwd"])
        os.execvpe(order["argv"][0], order["argv"], order["env"])  # noqa: S606 - that is the order
    except OSError as error:
        os.write(2, f"{order['argv'][0]}: {error.strerror}\n".encode("utf-8", "replace"))
        os._exit(_NOT_FOUND if isinstance(error, FileNotFoundError) else _NOT_EXECUTABLE)
    finally:
        os._exit(_NOT_EXECUTABLE)


def _be_the_first_victim() -> None:
    try:
        fd = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
        os.write(fd, _OOM_SCORE)
        os.close(fd)
    except OSError:
        pass  # not Linux, or not allowed


def _set_limit(name: str, value: int) -> None:
    kind: int | None = getattr(resource, name, None)
    if kind is None:
        return
    _, hard = resource.getrlimit(kind)
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    try:  # noqa: SIM105 - contextlib loads slowly
        resource.setrlimit(kind, (value, value))
    except (OSError, ValueError):
        pass  # the system knows the name but not the limit (macOS)


def children(pid: int) -> list[int]:
    """Return the living and dead children of a process."""
    try:
        tasks = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208 - pathlib loads slowly
        listed = [_read(f"/proc/{pid}/task/{task}/children") for task in tasks]
    except OSError:
        return _children_by_scan(pid) if os.path.exists(f"/proc/{pid}") else []  # noqa: PTH110
    return [int(child) for line in listed for child in line.split()]


def _children_by_scan(pid: int) -> list[int]:
    found = []
    for name in os.listdir("/proc"):  # noqa: PTH208
        if name.isdigit():
            try:
                parent = _read(f"/proc/{name}/stat").rpartition(")")[2].split()[1]
            except (OSError, IndexError):
                continue
            if parent == str(pid):
                found.append(int(name))
    return found


def _read(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123
        return file.read()


def descendants() -> list[int]:
    """Return all processes below this one, parents first."""
    found: list[int] = []
    todo = [os.getpid()]
    while todo:
        below = children(todo.pop())
        found += below
        todo += below
    return found


class Reaper:
    """Collects the dead and kills the living."""

    def __init__(self, main_pid: int) -> None:
        self.main_pid = main_pid
        self.exit_code: int | None = None
        self.has_children = True

    def reap(self) -> None:
        """Collect whoever has died."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                self.has_children = False
                return
            if pid == 0:
                return
            if pid == self.main_pid:
                self.exit_code = os.waitstatus_to_exitcode(status)

    def kill_all(self) -> None:
        """Kill everything below us: stopped first, so that nothing forks away meanwhile."""
        give_up_at = time.monotonic() + _KILLING_S
        while self.has_children and time.monotonic() < give_up_at:
            below = descendants() if _IS_LINUX else []
            for signal in (_SIGSTOP, _SIGKILL):
                for pid in below:
                    _kill(pid, signal)
            if not _IS_LINUX and self.main_pid:
                _kill(-self.main_pid, _SIGKILL)
            time.sleep(0.002)  # noqa: TID251 - a script; nobody could hand it another clock
            self.reap()


def _kill(pid: int, signal: int) -> None:
    try:  # noqa: SIM105 - as above
        os.kill(pid, signal)
    except OSError:
        pass  # it was faster, or it is not ours


class Supervision:
    """One command from its start to the end of the last thing that it left."""

    def __init__(self, control: int, order: dict[str, Any]) -> None:
        self.control = control
        self.started_at = time.monotonic()
        timeout_s = order["timeout_s"]
        self.deadline = None if timeout_s is None else self.started_at + timeout_s
        main_pid, self.out, self.err = spawn(order)
        os.close(0)
        self.reaper = Reaper(main_pid)
        self.poll = select.poll()
        for fd in (control, self.out.fd, self.err.fd):
            self.poll.register(fd, select.POLLIN)
        self.main_fd = _pidfd(main_pid)
        if self.main_fd is not None:
            self.poll.register(self.main_fd, select.POLLIN)

    def run(self) -> None:
        """Serve until nothing is left to supervise."""
        if self._until_the_command_ends():
            self._report(timed_out=self._is_late())
            self._until_nothing_is_left()
        self.reaper.kill_all()

    def _until_the_command_ends(self) -> bool:
        """Return False if the other end went away meanwhile."""
        while self.reaper.exit_code is None:
            if self._is_late():
                self.reaper.kill_all()
                break
            if not self._serve():
                return False
            self.reaper.reap()
        self.out.drain()
        self.err.drain()
        return True

    def _until_nothing_is_left(self) -> None:
        self.reaper.reap()
        while self.reaper.has_children and self._serve():
            self.reaper.reap()

    def _is_late(self) -> bool:
        return self.deadline is not None and time.monotonic() >= self.deadline

    def _serve(self) -> bool:
        """Read what comes for a while; False if the other end went away."""
        wait_s = _TICK_S if self.main_fd is not None else 0.02
        if self.deadline is not None and self.reaper.exit_code is None:
            wait_s = min(wait_s, max(self.deadline - time.monotonic(), 0))
        for fd, _ in self.poll.poll(wait_s * 1_000):
            if fd == self.control:
                return False
            if fd == self.main_fd:
                self.poll.unregister(fd)
                continue
            stream = self.out if fd == self.out.fd else self.err
            if not stream.read():
                self.poll.unregister(fd)
        return True

    def _report(self, *, timed_out: bool) -> None:
        self.reaper.reap()
        report = {
            "exit_code": self.reaper.exit_code if self.reaper.exit_code is not None else -_SIGKILL,
            "timed_out": timed_out,
            "duration_s": time.monotonic() - self.started_at,
            "leaves_something": self.reaper.has_children,
            "stdout": (self.out.size, *self.out.parts()),
            "stderr": (self.err.size, *self.err.parts()),
        }
        data = marshal.dumps(report)
        view = memoryview(len(data).to_bytes(8, "big") + data)
        while view:
            view = view[os.write(self.control, view) :]


def _pidfd(pid: int) -> int | None:
    """Return a descriptor that becomes readable when the process ends; None if there is no such."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def main(control: int) -> None:
    """Supervise one command."""
    os.set_inheritable(control, False)  # noqa: FBT003 - takes no keyword
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    order = receive_order(control)
    if order is not None:
        Supervision(control, order).run()


if __name__ == "__main__":
    try:
        main(int(sys.argv[1]))
    except BrokenPipeError:
        pass  # the other end went away while we reported
    finally:
        # Whatever happened, nothing may survive; a second time costs nothing.
        Reaper(0).kill_all()
