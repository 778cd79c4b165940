"""A server that answers what a test tells it to, one connection after the other."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Sequence
from typing import Any

#: Hang up without an answer.
HANG_UP = b""
#: Say nothing until somebody hangs up.
MUTE = b"mute"


def answer(status: int, body: Any = None, **headers: str) -> bytes:
    """An answer with a length."""
    content = b"" if body is None else json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status} Whatever", f"Content-Length: {len(content)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + content


class Scripted:
    """Gives each request the next answer of the script, and keeps what was asked."""

    def __init__(self, script: Sequence[bytes]) -> None:
        self._script = list(script)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        self.connections = 0
        self._muted: socket.socket | None = None
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Scripted:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        for open_socket in (self._listener, self._muted):
            with contextlib.suppress(OSError):
                if open_socket is not None:
                    open_socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()

    def _serve(self) -> None:
        while self._script:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            with connection, connection.makefile("rb") as reader:
                while self._script and self._read(reader):
                    text = self._script.pop(0)
                    if text == HANG_UP:
                        break
                    if text == MUTE:
                        self._muted = connection
                        reader.read(1)
                        break
                    connection.sendall(text)
        # Whoever asks for more than was meant is told at once.
        self._listener.close()

    def _read(self, reader: Any) -> bool:
        first = reader.readline().decode().strip()
        if not first:
            return False
        headers: dict[str, str] = {}
        while line := reader.readline().decode().strip():
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        body = reader.read(int(headers.get("content-length", 0)))
        self.requests.append((first.rpartition(" ")[0], headers, body))
        return True
