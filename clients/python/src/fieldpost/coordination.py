"""Locks, limits, a cache and channels, for threads."""

from __future__ import annotations

import base64
import http.client
import json
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable
from urllib.parse import quote, urlencode

from .calls import Call, _json, _nothing, _seconds
from .errors import ConflictError, ConnectionFailedError, FieldpostError
from .times import Duration, duration_text

if TYPE_CHECKING:
    from .client import Client

#: Seconds without a word after which a connection is taken for dead: the server says something every 15 s.
_SILENCE_SECONDS_MAX = 45.0
#: Seconds from one try to listen to the next, at most.
_RECONNECT_SECONDS_MAX = 5.0


class LockHeldError(FieldpostError):
    """Another owner holds the lock, and the wait is over."""


def _path(kind: str, namespace: str, name: str) -> str:
    return f"/v1/{kind}/{quote(namespace, safe='')}/{quote(name, safe=',*')}"


class Lock:
    """A lock that one owner holds at a time. Used with ``with``, it extends itself until the end of the block::

        with client.lock("shop", "report", ttl=30, wait=10) as held:
            write(report, fence=held.fence)
            held.check()  # raises once it was lost

    What the lock protects should refuse a fence below the highest that it has seen.
    """

    def __init__(self, client: Client, namespace: str, name: str, ttl: float, wait: float) -> None:
        self._client = client
        self._path = _path("locks", namespace, name)
        self._ttl = ttl
        self._wait = wait
        self._owner = uuid.uuid4().hex
        self._ends_at = 0.0
        self._done = threading.Event()
        self._extender: threading.Thread | None = None
        #: The number of this holder: higher than that of any holder before.
        self.fence = 0
        #: Set once the lock is lost, or let go.
        self.lost = threading.Event()

    def __enter__(self) -> Lock:
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def acquire(self) -> None:
        """Holds the lock, and extends it from now on; :class:`LockHeldError` when the wait is over."""
        began = time.monotonic()
        terms = {"owner": self._owner, "ttl": duration_text(self._ttl)}
        body = _json({**terms, "wait": duration_text(self._wait)})
        call: Call[Any] = Call("POST", self._path, dict, body, patience=_seconds(self._wait))
        try:
            held = self._client._run(call)
            if self._wait:
                # The ttl counts from the grant, which may be anywhere in the wait: from here it is known.
                began = time.monotonic()
                self._client._run(Call("POST", f"{self._path}/extend", dict, _json(terms)))
        except ConflictError as error:
            raise LockHeldError(f"{self._path}: {error}") from error
        self._ends_at = began + self._ttl
        self.fence = int(held["fence"])
        self._done.clear()
        self.lost.clear()
        self._extender = threading.Thread(target=self._extend, name="fieldpost-lock", daemon=True)
        self._extender.start()

    def check(self) -> None:
        """Raises :class:`LockHeldError` once the lock was lost."""
        if self.lost.is_set() or time.monotonic() >= self._ends_at:
            raise LockHeldError(f"{self._path}: the lock was lost")

    def release(self) -> None:
        """Lets the lock go; nothing happens where it was lost."""
        self._done.set()
        if self._extender is not None:
            self._extender.join()
            self._extender = None
        if self.lost.is_set():
            return
        self.lost.set()
        try:
            self._client._run(Call("POST", f"{self._path}/release", _nothing, _json({"owner": self._owner})))
        except ConflictError:
            return

    def _extend(self) -> None:
        body = _json({"owner": self._owner, "ttl": duration_text(self._ttl)})
        while not self._done.wait(self._ttl / 3):
            began = time.monotonic()
            try:
                self._client._run(Call("POST", f"{self._path}/extend", dict, body))
            except ConflictError:
                self.lost.set()
                return
            except FieldpostError:
                if time.monotonic() >= self._ends_at:
                    self.lost.set()
                    return
            else:
                self._ends_at = began + self._ttl


@dataclass(frozen=True)
class Allowance:
    """Whether something may be done now."""

    allowed: bool
    #: How much may still come now.
    remaining: int
    #: Seconds after which the same is allowed if nothing else comes.
    retry_after: float

    def __bool__(self) -> bool:
        return self.allowed


class Limiter:
    """So much in a span of time, over all programs that ask."""

    def __init__(self, client: Client, namespace: str, name: str, limit: int, per: Duration, kind: str) -> None:
        self._client = client
        self._path = _path("limits", namespace, name)
        self._terms = {"limit": limit, "per": duration_text(per), "kind": kind}

    def ask(self, cost: int = 1) -> Allowance:
        """Whether it may be done now; a refusal costs nothing."""
        call = Call("POST", self._path, self._read, _json({**self._terms, "cost": cost}), repeatable=False)
        return self._client._run(call)

    @staticmethod
    def _read(answer: Any) -> Allowance:
        return Allowance(answer["allowed"], answer["remaining"], answer["retry_after_ms"] / 1000)


class Cache:
    """Bytes by key in the memory of the server, gone with it."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self._making: dict[str, threading.Lock] = {}
        self._lock = threading.Lock()

    def get(self, key: str) -> bytes | None:
        """The value, if it is there."""
        return self.get_many([key]).get(key)

    def get_many(self, keys: list[str]) -> dict[str, bytes]:
        """The values that are there, of up to 1,000 keys."""
        call = Call("POST", _path("cache", self._namespace, "get"), self._values, _json({"keys": keys}))
        return self._client._run(call)

    def put(self, key: str, value: bytes, *, ttl: Duration | None = None, if_absent: bool = False) -> None:
        """Puts a value of up to 1 MiB; :class:`ConflictError` with ``if_absent`` where one is."""
        query = {} if ttl is None else {"ttl": duration_text(ttl)}
        if if_absent:
            query["if_absent"] = "true"
        path = f"{_path('cache', self._namespace, key)}?{urlencode(query)}"
        self._client._run(Call("PUT", path, _nothing, value, repeatable=not if_absent))

    def delete(self, *keys: str) -> int:
        """Takes values out; how many were there."""
        call = Call("POST", _path("cache", self._namespace, "delete"), self._deleted, _json({"keys": list(keys)}))
        return self._client._run(call)

    def get_or_make(self, key: str, make: Callable[[], bytes], *, ttl: Duration | None = None) -> bytes:
        """The value, or what ``make`` gives, which is put then. Threads of this cache that ask for the same key
        meanwhile wait for the one that makes it."""
        found = self.get(key)
        if found is not None:
            return found
        with self._lock:
            making = self._making.setdefault(key, threading.Lock())
        with making:
            try:
                found = self.get(key)
                if found is None:
                    found = make()
                    self.put(key, found, ttl=ttl)
            finally:
                with self._lock:
                    self._making.pop(key, None)
        return found

    @staticmethod
    def _values(answer: Any) -> dict[str, bytes]:
        return {key: base64.b64decode(item["value_base64"]) for key, item in answer["items"].items()}

    @staticmethod
    def _deleted(answer: Any) -> int:
        return int(answer["deleted"])


class Channels:
    """Messages to whoever listens now, kept nowhere."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._namespace = namespace

    def publish(self, channel: str, message: Any) -> int:
        """Gives a message to whoever listens; answers to how many."""
        path = _path("channels", self._namespace, channel)
        call = Call("POST", path, lambda answer: int(answer["receivers"]), _json(message), repeatable=False)
        return self._client._run(call)

    def listen(self, *channels: str) -> Iterator[tuple[str, Any] | None]:
        """Channels and messages as they come, of channels by name, or by how they begin (``"orders-*"``). Connects again
        when the connection ends; gives ``None`` then, because messages may have been missed: look at how things are."""
        path = _path("channels", self._namespace, ",".join(channels))
        failed = 0
        while True:
            try:
                for message in self._listen_once(path):
                    failed = 0
                    yield message
            except ConnectionFailedError:
                failed += 1
                time.sleep(min(_RECONNECT_SECONDS_MAX, 0.1 * 2.0**failed))
            yield None

    def _listen_once(self, path: str) -> Iterator[tuple[str, Any]]:
        from .protocol import Answer, read_answer

        server = self._client._connections._server
        call: Call[None] = Call("GET", path, _nothing, headers={"Accept": "text/event-stream"})
        connection: http.client.HTTPConnection
        if server.tls is None:
            connection = http.client.HTTPConnection(server.host, server.port, timeout=_SILENCE_SECONDS_MAX)
        else:
            connection = http.client.HTTPSConnection(
                server.host, server.port, timeout=_SILENCE_SECONDS_MAX, context=server.tls
            )
        try:
            connection.request("GET", server.prefix + path, headers=server.headers(call))
            response = connection.getresponse()
            if response.status != http.client.OK:
                headers = {name.lower(): value for name, value in response.getheaders()}
                read_answer(call, Answer(response.status, headers, response.read()))
            while line := response.readline():
                if line.startswith(b"data: ") and line != b"data: {}\n":
                    event = json.loads(line[len(b"data: ") :])
                    yield event["channel"], event["message"]
        except (OSError, http.client.HTTPException) as error:
            raise ConnectionFailedError(f"GET {path}: {error!r}") from error
        finally:
            connection.close()
