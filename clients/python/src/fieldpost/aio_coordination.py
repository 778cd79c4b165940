"""Locks, limits, a cache and channels, for tasks: the same as those for threads otherwise."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from . import coordination_calls as calls
from .aio_connections import Download
from .calls import Call
from .channel_events import SILENCE_SECONDS_MAX, ChannelMessage, ListenerState
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

    from .aio import AsyncClient

log = logging.getLogger("fieldpost")


class AsyncLock:
    """A lock that one owner holds at a time. Used with ``async with``, it extends itself until the end of the block::

        async with client.lock("shop", "report", ttl=30, wait=10) as held:
            await write(report, fence=held.fence)
            held.check()  # raises once it is not held any more

    What the lock protects should refuse a fence below the highest that it has seen. One such object is for one holder
    at a time, like a file; others have their own.
    """

    def __init__(self, client: AsyncClient, terms: LockTerms) -> None:
        self._client = client
        self._terms = terms
        self._hold: Hold | None = None
        self._keeping: asyncio.Task[None] | None = None
        # Made in the loop that it is for.
        self._ended: asyncio.Event | None = None
        #: The number of this holder: higher than that of any holder before.
        self.fence = 0

    @property
    def ended(self) -> asyncio.Event:
        """Set once the lock is lost or released."""
        if self._ended is None:
            self._ended = asyncio.Event()
        return self._ended

    async def __aenter__(self) -> AsyncLock:
        await self.acquire()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self.release()
        except FieldpostError as failure:
            # The work is done, or failed for a reason of its own: the lock ends by itself.
            log.warning("%s could not be let go; it ends with its ttl: %s", self._terms.path, failure)

    async def acquire(self) -> None:
        """Holds the lock, and extends it from now on; :class:`LockHeldError` when the wait is over."""
        if self._hold is not None and not self.ended.is_set():
            raise RuntimeError(f"{self._terms.path}: this object holds it already; make another for another holder")
        await self._end_keeping()
        hold = self._hold = Hold(self._terms)
        self.ended.clear()
        try:
            self.fence = await self._ask_for(hold)
        except BaseException:
            self._hold = None
            self.ended.set()
            raise
        self._keeping = asyncio.ensure_future(self._keep(hold))

    def check(self) -> None:
        """Raises :class:`LockLostError` where the lock is not held any more."""
        if self._hold is None:
            raise LockLostError(f"{self._terms.path}: the lock is not held")
        self._hold.check(time.monotonic())

    async def release(self) -> None:
        """Lets the lock go; nothing happens where it was lost. When no answer comes, this may be called again."""
        hold = self._hold
        if hold is None:
            return
        self.ended.set()
        await self._end_keeping()
        if hold.is_held(time.monotonic()):
            with contextlib.suppress(ConflictError):
                await self._client._run(hold.release())
        if self._hold is hold:
            self._hold = None

    async def _ask_for(self, hold: Hold) -> int:
        asked_at = time.monotonic()
        try:
            fence = await self._client._run(hold.acquire())
            if self._terms.wait:
                # The ttl counts from the grant, which may be anywhere in the wait: from here it is known.
                asked_at = time.monotonic()
                fence = await self._client._run(hold.extend())
        except ConflictError as error:
            raise LockHeldError(f"{self._terms.path}: {error}") from error
        except (FieldpostError, asyncio.CancelledError) as error:
            if not (isinstance(error, FieldpostError) and is_for_good(error)):
                # It may be granted all the same.
                with contextlib.suppress(FieldpostError, asyncio.TimeoutError):
                    giving_back = self._client._run(hold.release(), retries=ONCE)
                    await asyncio.wait_for(giving_back, GIVE_BACK_SECONDS_MAX)
            raise
        hold.begins(asked_at)
        return fence

    async def _keep(self, hold: Hold) -> None:
        """Extends it until it is let go, which cancels this, or lost."""
        while True:
            await asyncio.sleep(hold.rests(time.monotonic()))
            asked_at = time.monotonic()
            if not hold.is_held(asked_at):
                break
            try:
                extending = self._client._run(hold.extend(), retries=ONCE)
                await asyncio.wait_for(extending, (hold.ends_at - asked_at) / 2)
            except ConflictError:
                break
            except Exception as error:
                log.warning("%s could not be extended: %r", self._terms.path, error)
                hold.not_extended()
            else:
                hold.begins(asked_at)
        hold.is_lost = True
        self.ended.set()

    async def _end_keeping(self) -> None:
        keeping, self._keeping = self._keeping, None
        if keeping is not None:
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)


class AsyncLimiter:
    """So much in a span of time, over all programs that ask."""

    def __init__(self, client: AsyncClient, terms: LimitTerms) -> None:
        self._client = client
        self._terms = terms

    async def ask(self, cost: int = 1) -> LimitAnswer:
        """Whether it may be done now; a refusal costs nothing.

        Raises :class:`RefusedError` where ``cost`` is over the limit. It is not repeated when a
        connection is lost, because what is allowed is counted.
        """
        return await self._client._run(self._terms.ask(cost))


@dataclass
class _Making:
    """A value that is being made, and for how many."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    users: int = 0
    made: bytes | None = None


class AsyncCache:
    """Bytes by key in the memory of the server, gone with it."""

    def __init__(self, client: AsyncClient, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self._making: dict[str, _Making] = {}

    async def get(self, key: str) -> bytes | None:
        """The value, if it is there."""
        return (await self.get_many([key])).get(key)

    async def get_many(self, keys: Sequence[str]) -> dict[str, bytes]:
        """The values that are there, of up to 1,000 keys."""
        return await self._client._run(calls.cached(self._namespace, keys))

    async def put(
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
        await self._client._run(call)

    async def delete(self, *keys: str) -> int:
        """Takes values out; how many were there."""
        return await self._client._run(calls.delete_cached(self._namespace, keys))

    async def get_or_make(
        self, key: str, make: Callable[[], Awaitable[bytes]], *, ttl: Duration | None = None
    ) -> bytes:
        """The value, or what ``make`` gives, which is put then. Tasks of this cache that ask for the same key meanwhile
        wait for the one that makes it; where that fails or is cancelled, the next one tries."""
        found = await self.get(key)
        if found is not None:
            return found
        making = self._making.setdefault(key, _Making())
        making.users += 1
        try:
            async with making.lock:
                if making.made is None:
                    making.made = await self._find_or_make(key, make, ttl)
                return making.made
        finally:
            making.users -= 1
            # Who comes later is to see what is in the cache then.
            if (making.made is not None or not making.users) and self._making.get(key) is making:
                del self._making[key]

    async def _find_or_make(self, key: str, make: Callable[[], Awaitable[bytes]], ttl: Duration | None) -> bytes:
        found = await self.get(key)
        if found is not None:
            return found
        made = await make()
        try:
            await self.put(key, made, ttl=ttl)
        except FieldpostError as error:
            if is_for_good(error):
                raise
            log.warning("a value was made, but could not be put into the cache: %s", error)
        return made


class AsyncChannels:
    """Messages to whoever listens now, kept nowhere."""

    def __init__(self, client: AsyncClient, namespace: str) -> None:
        self._client = client
        self._namespace = namespace

    async def publish(self, channel: str, message: Any) -> int:
        """Gives a message, up to 1 MiB of JSON, to whoever listens; answers to how many.

        It is not repeated when a connection is lost: it would be heard twice.
        """
        return await self._client._run(calls.publish_to(self._namespace, channel, message))

    def listen(self, *channels: str) -> AsyncListener:
        """Listens to channels by name, or by how they begin (``"orders-*"``); up to 100 of both."""
        return AsyncListener(self._client, calls.listen_to(self._namespace, channels))


class AsyncListener:
    """Channels and messages as they come, without an end::

        async with client.channels("shop").listen("prices", "alarm-*") as heard:
            async for message in heard:
                ...

    As :class:`fieldpost.Listener`, for one task. A wait for a message that is cancelled loses none.
    """

    def __init__(self, client: AsyncClient, call: Call[None]) -> None:
        self._client = client
        self._call = call
        self._is_closed = False
        self._state = ListenerState()
        self._pause = 0.0
        self._open: Download | None = None

    async def __aenter__(self) -> AsyncListener:
        while self._open is None:
            await self._connect()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __del__(self) -> None:
        download, self._open = self._open, None
        if download is not None:
            # The loop may have ended.
            with contextlib.suppress(RuntimeError):
                download.abort()

    def __aiter__(self) -> AsyncListener:
        return self

    async def __anext__(self) -> ChannelMessage | None:
        while not self._is_closed:
            if self._state.heard:
                return self._state.heard.popleft()
            if self._open is None:
                await self._connect()
            else:
                await self._hear(self._open)
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Ends it; whoever waits for a message is told that there are no more."""
        self._is_closed = True
        await self._end()

    async def _connect(self) -> None:
        await asyncio.sleep(self._pause)
        try:
            download = await self._client._connections.download(self._call)
        except FieldpostError as error:
            self._pause = self._state.failed(error)
            return
        self._state.opened()
        self._open = download
        if self._is_closed:
            await self._end()

    async def _hear(self, download: Download) -> None:
        part = b""
        with contextlib.suppress(ConnectionFailedError):
            part = await download.read(SILENCE_SECONDS_MAX)
        if self._state.feed(part):
            self._pause = self._state.failed()
            await self._end()

    async def _end(self) -> None:
        download, self._open = self._open, None
        if download is not None:
            await download.close()
