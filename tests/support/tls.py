"""TLS in front of a server that speaks none, as a proxy in the cluster would put it there."""

from __future__ import annotations

import socket
import ssl
import subprocess
import threading
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self


def make_certificate(folder: Path) -> Path:
    """Make a key and a certificate of its own authority for `localhost`; return the certificate."""
    argv = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    argv += ["-keyout", "key.pem", "-out", "ca.pem", "-subj", "/CN=localhost"]
    argv += ["-addext", "subjectAltName=DNS:localhost"]
    subprocess.run(argv, cwd=folder, check=True, capture_output=True)
    return folder / "ca.pem"


class TlsProxy:
    """Takes connections with TLS and passes them on without."""

    def __init__(self, certificate: Path, port: int) -> None:
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate, certificate.with_name("key.pem"))
        self._to = port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listening.getsockname()[1])
        self._open: list[socket.socket] = []

    def __enter__(self) -> Self:
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        for each in (self._listening, *self._open):
            each.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listening.accept()
                threading.Thread(target=self._one, args=(connection,), daemon=True).start()

    def _one(self, connection: socket.socket) -> None:
        try:
            outer = self._context.wrap_socket(connection, server_side=True)
        except OSError:
            connection.close()
            return
        inner = socket.create_connection(("127.0.0.1", self._to))
        self._open += (outer, inner)
        threading.Thread(target=_pass_on, args=(outer, inner), daemon=True).start()
        _pass_on(inner, outer)


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    for each in (source, target):
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
