"""Kept connections for tasks: HTTP/1.1 on asyncio's streams, as much of it as one server and one client need."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from typing import Any

from .calls import Call
from .connections import ANSWER_BYTES_MAX, IDLE_MAX, IDLE_SECONDS_MAX
from .errors import ConnectionFailedError, UnexpectedAnswerError
from .protocol import Answer, Server, read_answer

#: The longest head of an answer, and the longest line of a chunked body.
HEAD_BYTES_MAX = 64 * 1024
#: Statuses that are followed by the real one.
_INTERIM = range(100, 200)
_BODILESS = (204, 304)
_OK = 200


class _AsyncConnection:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.used_at = time.monotonic()

    @classmethod
    async def open(cls, server: Server) -> _AsyncConnection:
        """Connects."""
        name = server.host if server.tls is not None else None
        reader, writer = await asyncio.open_connection(
            server.host, server.port, ssl=server.tls, server_hostname=name, limit=HEAD_BYTES_MAX
        )
        return cls(reader, writer)

    async def exchange(self, server: Server, call: Call[Any]) -> tuple[Answer, bool]:
        """Sends a call and reads its answer, and whether another may follow."""
        status, headers = await self.begin(server, call)
        body, ended = await self._body(status, headers)
        keeps = "close" not in headers.get("connection", "").lower()
        return Answer(status, headers, body), ended and keeps

    async def begin(self, server: Server, call: Call[Any]) -> tuple[int, dict[str, str]]:
        """Sends a call and reads the head of its answer."""
        self._writer.write(_request(server, call))
        await self._writer.drain()
        status, headers = await self._head()
        while status in _INTERIM:
            status, headers = await self._head()
        return status, headers

    async def download(self, server: Server, call: Call[Any]) -> Download:
        """Sends a call whose answer has no end; raises what the server refuses."""
        status, headers = await self.begin(server, call)
        if status == _OK:
            return Download(self, headers)
        body, _ = await self._body(status, headers)
        read_answer(call, Answer(status, headers, body))
        raise UnexpectedAnswerError(f"{call.method} {call.path} was answered {status}")

    async def read(self) -> bytes:
        """What has come; nothing at its end. Cancelled, it loses nothing."""
        return await self._reader.read(HEAD_BYTES_MAX)

    async def close(self) -> None:
        """Closes, however the other side takes it."""
        self._writer.close()
        with contextlib.suppress(OSError, asyncio.TimeoutError):
            await asyncio.wait_for(self._writer.wait_closed(), 1.0)

    def end_sending(self) -> None:
        """Closes the own side; what is on its way still arrives."""
        transport = self._writer.transport
        with contextlib.suppress(OSError, TypeError):
            if transport.can_write_eof():
                transport.write_eof()
            else:
                # TLS cannot be closed on one side, but what is below it can.
                transport.get_extra_info("socket").shutdown(socket.SHUT_WR)

    def abort(self) -> None:
        """Closes without waiting."""
        self._writer.transport.abort()

    @property
    def is_over(self) -> bool:
        """Whether the other side has hung up meanwhile."""
        return self._reader.at_eof() or self._writer.is_closing()

    async def _head(self) -> tuple[int, dict[str, str]]:
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head[:-4].split("\r\n")
        version, _, rest = first.partition(" ")
        if not version.startswith("HTTP/1.") or not rest[:3].isdecimal():
            raise UnexpectedAnswerError(f"not HTTP: {first[:80]!r}")
        headers: dict[str, str] = {}
        for line in lines:
            name, _, value = line.partition(":")
            headers[name.strip().lower()] = value.strip()
        return int(rest[:3]), headers

    async def _body(self, status: int, headers: dict[str, str]) -> tuple[bytes, bool]:
        if status in _BODILESS:
            return b"", True
        if headers.get("transfer-encoding", "").lower() == "chunked":
            return await self._chunks(), True
        length = headers.get("content-length")
        if length is None:
            return await self._rest(), False
        if not length.isdecimal():
            raise UnexpectedAnswerError(f"content-length: {length[:80]!r}")
        return await self._reader.readexactly(_fitting(int(length))), True

    async def _chunks(self) -> bytes:
        body = bytearray()
        while True:
            line = await self._reader.readuntil(b"\r\n")
            size = _fitting(int(line.split(b";")[0], 16))
            if size == 0:
                break
            _fitting(len(body) + size)
            body += await self._reader.readexactly(size)
            await self._reader.readexactly(2)
        while await self._reader.readuntil(b"\r\n") != b"\r\n":
            pass
        return bytes(body)

    async def _rest(self) -> bytes:
        body = bytearray()
        while part := await self._reader.read(HEAD_BYTES_MAX):
            body += part
            _fitting(len(body))
        return bytes(body)


def _fitting(length: int) -> int:
    if not 0 <= length <= ANSWER_BYTES_MAX:
        raise UnexpectedAnswerError(f"an answer of more than {ANSWER_BYTES_MAX} bytes")
    return length


def _request(server: Server, call: Call[Any]) -> bytes:
    host = f"[{server.host}]" if ":" in server.host else server.host
    headers = {"Host": f"{host}:{server.port}", **server.headers(call)}
    if call.body is not None or call.method != "GET":
        headers["Content-Length"] = str(len(call.body or b""))
    lines = [f"{call.method} {server.prefix}{call.path} HTTP/1.1"]
    for name, value in headers.items():
        if "\r" in value or "\n" in value:
            raise ValueError(f"{name} must not have a line break")
        lines.append(f"{name}: {value}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + (call.body or b"")


class Unchunked:
    """Takes the chunks of a body apart as its bytes come."""

    def __init__(self) -> None:
        self._rest = bytearray()
        #: What the chunk that has begun still lacks, with its line break; ``None`` before the line that tells its size.
        self._lacks: int | None = None
        #: The last chunk has come.
        self.is_over = False

    def feed(self, part: bytes) -> bytes:
        """What these bytes hold."""
        self._rest += part
        body = bytearray()
        while not self.is_over and self._rest:
            if self._lacks is None:
                end = self._rest.find(b"\r\n")
                if end < 0:
                    break
                self._lacks = _fitting(int(self._rest[:end].split(b";")[0], 16)) + len(b"\r\n")
                del self._rest[: end + 2]
                self.is_over = self._lacks == len(b"\r\n")
            else:
                taken = self._rest[: self._lacks]
                del self._rest[: self._lacks]
                self._lacks -= len(taken)
                # The last two bytes of a chunk are its line break, of which some may have come before.
                body += taken[: max(0, len(taken) + self._lacks - 2)] if self._lacks < len(b"\r\n") else taken
                self._lacks = self._lacks or None
        if len(self._rest) > HEAD_BYTES_MAX:
            raise UnexpectedAnswerError("a line of a chunk without an end")
        return bytes(body)


class Download:
    """An answer without an end, read as it comes by one task."""

    def __init__(self, connection: _AsyncConnection, headers: dict[str, str]) -> None:
        self._connection = connection
        is_chunked = headers.get("transfer-encoding", "").lower() == "chunked"
        self._chunks = Unchunked() if is_chunked else None

    async def read(self, silence: float) -> bytes:
        """What has come; nothing at its end. Raises :class:`ConnectionFailedError` when it breaks off, or is silent for
        so many seconds. Cancelled, it loses nothing."""
        try:
            body = b""
            while not (body or (self._chunks is not None and self._chunks.is_over)):
                part = await asyncio.wait_for(self._connection.read(), silence)
                if not part:
                    break
                body = part if self._chunks is None else self._chunks.feed(part)
            return body
        except (OSError, ValueError, asyncio.TimeoutError) as error:
            raise ConnectionFailedError(f"while listening: {error!r}") from error

    async def close(self) -> None:
        """Closes the connection."""
        await self._connection.close()

    def abort(self) -> None:
        """Closes the connection without waiting."""
        self._connection.abort()


class Cancellation:
    """As :class:`fieldpost.connections.Cancellation`, for tasks."""

    def __init__(self) -> None:
        self._connection: _AsyncConnection | None = None
        self._is_asked = False
        self._is_cancelled = False

    def cancel(self) -> bool:
        """Takes the question back; whether it was asked, so that an answer may be on its way."""
        self._is_cancelled = True
        if self._connection is not None:
            self._connection.end_sending()
        return self._is_asked

    @property
    def is_cancelled(self) -> bool:
        """Whether it was taken back."""
        return self._is_cancelled

    def begin(self, connection: _AsyncConnection) -> None:
        """The question goes out on this connection. Raises where it was taken back before."""
        if self._is_cancelled:
            raise ConnectionAbortedError("the question was taken back")
        self._connection, self._is_asked = connection, True

    def fails(self) -> None:
        """There is no answer; it may be asked again."""
        self._connection, self._is_asked = None, False

    def end(self) -> bool:
        """The connection is not needed any more; whether it is still whole."""
        self._connection = None
        return not self._is_cancelled


class AsyncConnections:
    """Connections to one server, each used by one task at a time."""

    def __init__(self, server: Server, timeout: float) -> None:
        self._server = server
        self._timeout = timeout
        self._idle: list[_AsyncConnection] = []
        self._closed = False

    async def exchange(self, call: Call[Any], cancellation: Cancellation | None = None) -> Answer:
        """Sends a call and reads its answer; raises :class:`ConnectionFailedError` when none comes."""
        connection: _AsyncConnection | None = None
        try:
            connection = await self._take()
            patience = call.within(self._timeout + call.patience)
            if cancellation is not None:
                cancellation.begin(connection)
            answer, reusable = await asyncio.wait_for(connection.exchange(self._server, call), patience)
            if cancellation is not None:
                reusable = cancellation.end() and reusable
        except (OSError, EOFError, asyncio.LimitOverrunError, asyncio.TimeoutError) as error:
            if cancellation is not None:
                cancellation.fails()
            if connection is not None:
                connection.abort()
            raise ConnectionFailedError(f"{call.method} {call.path}: {error!r}") from error
        except BaseException:
            # Cancelled, most likely: the answer is not waited for, so that the server sees that nobody wants it.
            if connection is not None:
                connection.abort()
            raise
        if reusable and not self._closed and len(self._idle) < IDLE_MAX:
            connection.used_at = time.monotonic()
            self._idle.append(connection)
        else:
            await connection.close()
        return answer

    async def download(self, call: Call[Any]) -> Download:
        """Begins an answer without an end, on a connection of its own. Raises what the server refuses, and
        :class:`ConnectionFailedError`."""
        if self._closed:
            raise RuntimeError("the client is closed")
        connection: _AsyncConnection | None = None
        try:
            connection = await asyncio.wait_for(_AsyncConnection.open(self._server), self._timeout)
            return await asyncio.wait_for(connection.download(self._server, call), self._timeout)
        except (OSError, EOFError, asyncio.LimitOverrunError, asyncio.TimeoutError) as error:
            if connection is not None:
                connection.abort()
            raise ConnectionFailedError(f"{call.method} {call.path}: {error!r}") from error
        except BaseException:
            if connection is not None:
                connection.abort()
            raise

    async def close(self) -> None:
        """Closes what is idle; what is in use is closed when its call is over."""
        self._closed = True
        idle, self._idle = self._idle, []
        for connection in idle:
            await connection.close()

    async def _take(self) -> _AsyncConnection:
        if self._closed:
            raise RuntimeError("the client is closed")
        oldest = time.monotonic() - IDLE_SECONDS_MAX
        while self._idle:
            connection = self._idle.pop()
            if connection.used_at >= oldest and not connection.is_over:
                return connection
            connection.abort()
        return await asyncio.wait_for(_AsyncConnection.open(self._server), self._timeout)
