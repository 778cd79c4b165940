"""Locks, limits, a cache and channels, for threads."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from . import coordination_calls as calls
from .calls import Call
from .channel_events import SILENCE_SECONDS_MAX, ChannelMessage, ListenerState
from .connections import Download
from .coordination_calls import ANY_BYTES, LimitAnswer, LimitTerms
from .errors import ConflictError, ConnectionFailedError, FieldpostError, is_for_good
from .lock_hold import (
    GIVE_BACK_SECONDS_MAX,
    ONCE,
    Hold,
    LockHeldError,
    LockLostError,
    LockTerms,
)
from .times import Duration

if TYPE_CHECKING:
    from types import TracebackType

    from .client import Client

log = logging.getLogger("fieldpost")


class Lock:
    """A lock that one owner holds at a time. Used with ``with``, it extends itself until the end of the block::

        with client.lock("shop", "report", ttl=30, wait=10) as held:
            write(report, fence=held.fence)
            held.check()  # raises once it is not held any more

    What the lock protects should refuse a fence below the highest that it has seen. One such object is for one holder
    at a time, like a file; others have their own.
    """

    def __init__(self, client: Client, terms: LockTerms) -> None:
        self._client = client
        self._terms = terms
        self._guard = threading.Lock()
        self._hold: Hold | None = None
        #: Ends the extensions of a hold.
        self._done = threading.Event()
        #: The number of this holder: higher than that of any holder before.
        self.fence = 0
        #: Set once the lock is lost or released.
        self.ended = threading.Event()

    def __enter__(self) -> Lock:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.release()
        except FieldpostError as failure:
            # The work is done, or failed for a reason of its own: the lock ends by itself.
            log.warning("%s could not be let go; it ends with its ttl: %s", self._terms.path, failure)

    def acquire(self) -> None:
        """Holds the lock, and extends it from now on; :class:`LockHeldError` when the wait is over."""
        hold = Hold(self._terms)
        with self._guard:
            if self._hold is not None and not self.ended.is_set():
                raise RuntimeError(f"{self._terms.path}: this object holds it already; make another for another holder")
            self._hold = hold
            self.ended.clear()
        try:
            self.fence = self._ask_for(hold)
        except BaseException:
            with self._guard:
                self._hold = None
                self.ended.set()
            raise
        self._done = done = threading.Event()
        threading.Thread(target=self._keep, args=(hold, done), name="fieldpost-lock", daemon=True).start()

    def check(self) -> None:
        """Raises :class:`LockLostError` where the lock is not held any more."""
        hold = self._hold
        if hold is None:
            raise LockLostError(f"{self._terms.path}: the lock is not held")
        hold.check(time.monotonic())

    def release(self) -> None:
        """Lets the lock go; nothing happens where it was lost. When no answer comes, this may be called again."""
        hold = self._hold
        if hold is None:
            return
        # An extension that is under way does no harm: behind the release it is refused.
        self._done.set()
        self.ended.set()
        if hold.is_held(time.monotonic()):
            with contextlib.suppress(ConflictError):
                self._client._run(hold.release())
        with self._guard:
            if self._hold is hold:
                self._hold = None

    def _ask_for(self, hold: Hold) -> int:
        asked_at = time.monotonic()
        try:
            fence = self._client._run(hold.acquire())
            if self._terms.wait:
                # The ttl counts from the grant, which may be anywhere in the wait: from here it is known.
                asked_at = time.monotonic()
                fence = self._client._run(hold.extend())
        except ConflictError as error:
            raise LockHeldError(f"{self._terms.path}: {error}") from error
        except (FieldpostError, KeyboardInterrupt) as error:
            if not (isinstance(error, FieldpostError) and is_for_good(error)):
                # It may be granted all the same.
                with contextlib.suppress(FieldpostError):
                    self._client._run(hold.release(GIVE_BACK_SECONDS_MAX), retries=ONCE)
            raise
        hold.begins(asked_at)
        return fence

    def _keep(self, hold: Hold, done: threading.Event) -> None:
        """Extends it until it is let go or lost."""
        while not done.wait(hold.rests(time.monotonic())):
            asked_at = time.monotonic()
            if not hold.is_held(asked_at):
                break
            try:
                # Connecting and the answer may take as long each, and the end is to be noticed in time.
                self._client._run(hold.extend((hold.ends_at - asked_at) / 3), retries=ONCE)
            except ConflictError:
                break
            except Exception as error:
                log.warning("%s could not be extended: %r", self._terms.path, error)
                hold.not_extended()
            else:
                hold.begins(asked_at)
        else:
            return
        hold.is_lost = True
        with self._guard:
            if self._hold is hold:
                self.ended.set()


class Limiter:
    """So much in a span of time, over all programs that ask."""

    def __init__(self, client: Client, terms: LimitTerms) -> None:
        self._client = client
        self._terms = terms

    def ask(self, cost: int = 1) -> LimitAnswer:
        """Whether it may be done now; a refusal costs nothing.

        Raises :class:`RefusedError` where ``cost`` is over the limit. It is not repeated when a
        connection is lost, because what is allowed is counted.
        """
        return self._client._run(self._terms.ask(cost))


@dataclass
class _Making:
    """A value that is being made, and for how many."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    users: int = 0
    made: bytes | None = None


class Cache:
    """Bytes by key in the memory of the server, gone with it."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self._making: dict[str, _Making] = {}
        self._lock = threading.Lock()

    def get(self, key: str) -> bytes | None:
        """The value, if it is there."""
        return self.get_many([key]).get(key)

    def get_many(self, keys: Sequence[str]) -> dict[str, bytes]:
        """The values that are there, of up to 1,000 keys."""
        return self._client._run(calls.cached(self._namespace, keys))

    def put(
        self,
        key: str,
        value: bytes,
        *,
        ttl: Duration | None = None,
        if_absent: bool = False,
        content_type: str = ANY_BYTES,
    ) -> None:
        """Puts a value of up to 1 MiB; :class:`ConflictError` with ``if_absent`` where one is."""
        call = calls.put_cached(self._namespace, key, value, ttl=ttl, if_absent=if_absent, content_type=content_type)
        self._client._run(call)

    def delete(self, *keys: str) -> int:
        """Takes values out; how many were there."""
        return self._client._run(calls.delete_cached(self._namespace, keys))

    def get_or_make(self, key: str, make: Callable[[], bytes], *, ttl: Duration | None = None) -> bytes:
        """The value, or what ``make`` gives, which is put then. Threads of this cache that ask for the same key
        meanwhile wait for the one that makes it; where that fails, the next one tries."""
        found = self.get(key)
        if found is not None:
            return found
        with self._lock:
            making = self._making.setdefault(key, _Making())
            making.users += 1
        try:
            with making.lock:
                if making.made is None:
                    making.made = self._find_or_make(key, make, ttl)
                return making.made
        finally:
            with self._lock:
                making.users -= 1
                # Who comes later is to see what is in the cache then.
                if (making.made is not None or not making.users) and self._making.get(key) is making:
                    del self._making[key]

    def _find_or_make(self, key: str, make: Callable[[], bytes], ttl: Duration | None) -> bytes:
        found = self.get(key)
        if found is not None:
            return found
        made = make()
        try:
            self.put(key, made, ttl=ttl)
        except FieldpostError as error:
            if is_for_good(error):
                raise
            log.warning("a value was made, but could not be put into the cache: %s", error)
        return made


class Channels:
    """Messages to whoever listens now, kept nowhere."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._namespace = namespace

    def publish(self, channel: str, message: Any) -> int:
        """Gives a message, up to 1 MiB of JSON, to whoever listens; answers to how many.

        It is not repeated when a connection is lost: it would be heard twice.
        """
        return self._client._run(calls.publish_to(self._namespace, channel, message))

    def listen(self, *channels: str) -> Listener:
        """Listens to channels by name, or by how they begin (``"orders-*"``); up to 100 of both."""
        return Listener(self._client, calls.listen_to(self._namespace, channels))


class Listener:
    """Channels and messages as they come, without an end::

        with client.channels("shop").listen("prices", "alarm-*") as heard:
            for message in heard:
                ...

    It connects again when the connection ends, and gives ``None`` then: it listens again, but messages may have been
    missed, so look at how things are. It listens from the beginning of the ``with`` block on, or without one from the
    first message that is asked for. What does not pass by itself is raised, such as a token that is refused.
    """

    def __init__(self, client: Client, call: Call[None]) -> None:
        self._client = client
        self._call = call
        self._guard = threading.Lock()
        self._closed = threading.Event()
        self._state = ListenerState()
        self._pause = 0.0
        self._open: Download | None = None

    def __enter__(self) -> Listener:
        while self._open is None and not self._closed.is_set():
            self._connect()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def __iter__(self) -> Listener:
        return self

    def __next__(self) -> ChannelMessage | None:
        while not self._closed.is_set():
            if self._state.heard:
                return self._state.heard.popleft()
            # Another thread may close it meanwhile.
            download = self._open
            if download is None:
                self._connect()
            else:
                self._hear(download)
        self._end()
        raise StopIteration

    def close(self) -> None:
        """Ends it; also from another thread, or from a signal handler."""
        self._closed.set()
        download = self._open
        if download is not None:
            download.hang_up()
            # Where a thread reads just now, it closes the rest.
            if self._guard.acquire(blocking=False):
                try:
                    self._end()
                finally:
                    self._guard.release()

    def _connect(self) -> None:
        if self._closed.wait(self._pause):
            return
        try:
            download = self._client._connections.download(self._call, SILENCE_SECONDS_MAX)
        except FieldpostError as error:
            self._pause = self._state.failed(error)
            return
        self._state.opened()
        self._open = download

    def _hear(self, download: Download) -> None:
        part = b""
        with self._guard:
            with contextlib.suppress(ConnectionFailedError):
                part = download.read()
            if self._closed.is_set():
                self._end()
                return
        if self._state.feed(part):
            self._end()
            self._pause = self._state.failed()

    def _end(self) -> None:
        download, self._open = self._open, None
        if download is not None:
            download.close()
