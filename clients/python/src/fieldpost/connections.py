"""Kept connections for threads, on ``http.client``."""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
import time
from typing import Any

from .calls import Call
from .errors import ConnectionFailedError, UnexpectedAnswerError
from .protocol import Answer, Server, read_answer

#: Connections that wait to be used again, at most.
IDLE_MAX = 64
#: One that has waited this long, in seconds, is not used again: what stands between may have forgotten it.
IDLE_SECONDS_MAX = 30.0
#: The largest answer that is read: 1,000 jobs of 1 MiB would be more, and belong into several calls.
ANSWER_BYTES_MAX = 256 * 1024 * 1024
_PART_BYTES = 64 * 1024


class Cancellation:
    """Takes a question back that is under way, from another thread.

    Only the own side of the connection is closed: the server then gives back what it has not handed out, and what it
    has still arrives.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._is_asked = False
        self._cancelled = threading.Event()

    def cancel(self) -> bool:
        """Takes the question back; whether it was asked, so that an answer may be on its way."""
        with self._lock:
            self._cancelled.set()
            if self._socket is not None:
                with contextlib.suppress(OSError):
                    # That of TLS would drop its state, and with it what still arrives.
                    socket.socket.shutdown(self._socket, socket.SHUT_WR)
            return self._is_asked

    def wait(self, seconds: float) -> bool:
        """Waits so long, or until it is taken back; whether it was."""
        return self._cancelled.wait(seconds)

    def begin(self, connection: socket.socket) -> None:
        """The question goes out on this connection. Raises where it was taken back before."""
        with self._lock:
            if self._cancelled.is_set():
                raise ConnectionAbortedError("the question was taken back")
            self._socket, self._is_asked = connection, True

    def fails(self) -> None:
        """There is no answer; it may be asked again."""
        with self._lock:
            self._is_asked = False

    def end(self) -> bool:
        """The connection is not needed any more; whether it is still whole."""
        with self._lock:
            self._socket = None
            return not self._cancelled.is_set()


class Download:
    """An answer without an end, read as it comes by one thread."""

    def __init__(self, connection: http.client.HTTPConnection, response: http.client.HTTPResponse) -> None:
        # What comes back has the connection as its own where the server will close it.
        self._socket = connection.sock
        self._connection = connection
        self._response = response

    def read(self) -> bytes:
        """What has come; nothing at its end. Raises :class:`ConnectionFailedError` when it breaks off or is silent."""
        try:
            return self._response.read1(_PART_BYTES)
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise ConnectionFailedError(f"while listening: {error!r}") from error

    def hang_up(self) -> None:
        """Ends a read that is under way, from another thread."""
        with contextlib.suppress(OSError):
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def close(self) -> None:
        """Closes the connection."""
        self._response.close()
        self._connection.close()


class Connections:
    """Connections to one server, each used by one thread at a time."""

    def __init__(self, server: Server, timeout: float) -> None:
        self._server = server
        self._timeout = timeout
        self._idle: list[tuple[float, http.client.HTTPConnection]] = []
        self._lock = threading.Lock()
        self._closed = False

    def exchange(self, call: Call[Any], cancellation: Cancellation | None = None) -> Answer:
        """Sends a call and reads its answer; raises :class:`ConnectionFailedError` when none comes."""
        connection = self._take()
        try:
            if connection.sock is None:
                connection.timeout = call.within(self._timeout)
                connection.connect()
            if cancellation is None:
                answer, reusable = self._exchange_on(connection, call)
            else:
                cancellation.begin(connection.sock)
                try:
                    answer, reusable = self._exchange_on(connection, call)
                finally:
                    is_whole = cancellation.end()
                reusable = reusable and is_whole
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise ConnectionFailedError(f"{call.method} {call.path}: {error!r}") from error
        except BaseException:
            connection.close()
            raise
        if reusable:
            self._give(connection)
        else:
            connection.close()
        return answer

    def download(self, call: Call[Any], silence: float) -> Download:
        """Begins an answer without an end, on a connection of its own. One that says nothing for so many seconds is
        taken for dead. Raises what the server refuses, and :class:`ConnectionFailedError`."""
        if self._closed:
            raise RuntimeError("the client is closed")
        connection = self._new()
        try:
            connection.timeout = self._timeout
            connection.request(call.method, self._server.prefix + call.path, call.body, self._server.headers(call))
            # An answer that closes the connection takes it away.
            sock = connection.sock
            response = connection.getresponse()
            if response.status == http.client.OK:
                sock.settimeout(silence)
                connection.sock = sock
                return Download(connection, response)
            headers = {name.lower(): value for name, value in response.getheaders()}
            read_answer(call, Answer(response.status, headers, _body(response)))
            raise UnexpectedAnswerError(f"{call.method} {call.path} was answered {response.status}")
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise ConnectionFailedError(f"{call.method} {call.path}: {error!r}") from error
        except BaseException:
            connection.close()
            raise

    def close(self) -> None:
        """Closes what is idle; what is in use is closed when its call is over."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for _, connection in idle:
            connection.close()

    def _exchange_on(self, connection: http.client.HTTPConnection, call: Call[Any]) -> tuple[Answer, bool]:
        connection.sock.settimeout(call.within(self._timeout + call.patience))
        connection.request(call.method, self._server.prefix + call.path, call.body, self._server.headers(call))
        with connection.getresponse() as response:
            body = _body(response)
            headers = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, headers, body), response.isclosed() and not response.will_close

    def _take(self) -> http.client.HTTPConnection:
        oldest = time.monotonic() - IDLE_SECONDS_MAX
        with self._lock:
            if self._closed:
                raise RuntimeError("the client is closed")
            fresh = self._idle.pop() if self._idle else None
        if fresh is not None and fresh[0] >= oldest:
            return fresh[1]
        if fresh is not None:
            # The one used last is too old, and so are the others.
            self._drop_idle(fresh[1])
        return self._new()

    def _drop_idle(self, connection: http.client.HTTPConnection) -> None:
        connection.close()
        with self._lock:
            idle, self._idle = self._idle, []
        for _, other in idle:
            other.close()

    def _give(self, connection: http.client.HTTPConnection) -> None:
        dropped: http.client.HTTPConnection | None = None
        with self._lock:
            if self._closed:
                dropped = connection
            else:
                if len(self._idle) >= IDLE_MAX:
                    dropped = self._idle.pop(0)[1]
                self._idle.append((time.monotonic(), connection))
        if dropped is not None:
            dropped.close()

    def _new(self) -> http.client.HTTPConnection:
        server = self._server
        if server.tls is None:
            return http.client.HTTPConnection(server.host, server.port)
        return http.client.HTTPSConnection(server.host, server.port, context=server.tls)


def _body(response: http.client.HTTPResponse) -> bytes:
    """Reads it in parts, because Python before 3.11 makes room for as much as it is told to read."""
    body = bytearray()
    while part := response.read(_PART_BYTES):
        body += part
        if len(body) > ANSWER_BYTES_MAX:
            raise UnexpectedAnswerError(f"an answer of more than {ANSWER_BYTES_MAX} bytes")
    if response.length:
        # Read in parts, one that breaks off is not told apart by itself.
        raise http.client.IncompleteRead(bytes(body), response.length)
    return bytes(body)
