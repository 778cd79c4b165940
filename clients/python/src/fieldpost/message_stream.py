"""One stream of a server, for threads and for tasks: messages are appended, and read from any place on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from . import message as calls
from .copies import AsyncCopy, Copy, Receipt, receipt
from .message import START, AppendedMessage, Message, MessagePage, MessageTerms, NewMessage, StreamInfo, StreamPath
from .protocol import AT_ONCE
from .subscription import AsyncSubscription, Subscription
from .times import Duration, Moment

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .aio import AsyncClient
    from .client import Client

_PAGE = 100
#: How long a reader that follows waits at the end before it asks again.
_WAIT = "30s"


class MessageStream:
    """A stream of a server."""

    def __init__(self, client: Client, path: StreamPath) -> None:
        self._client = client
        self._path = path

    def append(self, payload: Any = None, **terms: Unpack[MessageTerms]) -> AppendedMessage:
        """Appends a message; how durable it is when this returns is up to the stream's save mode.

        ``terms`` are ``source`` and ``external_id``, ``segment``, ``ts`` and ``headers``. A call whose answer is lost
        is made again only where there is an external id: then the message is there once.
        """
        return self.append_many([NewMessage(payload, **terms)])[0]

    def append_many(
        self, messages: Iterable[NewMessage], *, expect_last_id: str | None = None
    ) -> list[AppendedMessage]:
        """Appends up to 1,000 messages, all or none; with ``expect_last_id`` only behind that one, else
        :class:`ConflictError`."""
        return self._client._run(calls.append(self._path, list(messages), expect_last_id))

    def _append_once(self, messages: list[NewMessage]) -> list[AppendedMessage]:
        return self._client._run(calls.append(self._path, messages, None), retries=AT_ONCE)

    def read(
        self,
        after: str = START,
        *,
        limit: int = _PAGE,
        segments: Sequence[str] = (),
        start: Moment | None = None,
        wait: Duration | None = None,
    ) -> MessagePage:
        """Reads what comes behind a message, oldest first: of these ``segments``, received at ``start`` or later.
        Waits up to ``wait``, at most a minute, for the first one."""
        return self._client._run(calls.read_page(self._path, after, limit, segments, start, wait))

    def follow(self, after: str = START, *, segments: Sequence[str] = ()) -> Iterator[Message]:
        """What is there behind a message, and every one as it comes; without an end."""
        while True:
            page = self.read(after, limit=1_000, segments=segments, wait=_WAIT)
            yield from page.items
            after = page.next_after

    def message(self, message_id: str) -> Message:
        """One message; :class:`NotFoundError` if it is gone."""
        return self._client._run(calls.message(self._path, message_id))

    def subscription(self, name: str, *, reader: str = "python") -> Subscription:
        """A subscription, read under this name; asks nothing of the server."""
        return Subscription(self._client, self._path, name, reader)

    def copy(self, name: str) -> Copy:
        """A copy to or from another node; asks nothing of the server."""
        return Copy(self._client, self._path, name)

    def receipt(self, message_id: str, *, nodes: int = 1, wait: Duration | None = None) -> Receipt:
        """On which nodes a message is durable; waits until it is on so many."""
        return self._client._run(receipt(self._path, {"id": message_id}, nodes, wait))

    def receipt_of(
        self, source: str, external_id: str | int, *, nodes: int = 1, wait: Duration | None = None
    ) -> Receipt:
        """The same for what its producer appended as this one of this source, on whichever node it did."""
        message = {"source": source, "external_id": str(external_id)}
        return self._client._run(receipt(self._path, message, nodes, wait))

    def info(self) -> StreamInfo:
        """How much is in it, and what it is set to."""
        return self._client._run(calls.info(self._path))

    def set_settings(self, settings: Mapping[str, Any]) -> None:
        """Sets exactly these, in force when this returns; what is left out takes its default."""
        self._client._run(calls.set_settings(self._path, settings))

    def delete(self) -> None:
        """Deletes it with all its messages."""
        self._client._run(calls.delete(self._path))


class AsyncMessageStream:
    """A stream of a server; the same as :class:`MessageStream` otherwise."""

    def __init__(self, client: AsyncClient, path: StreamPath) -> None:
        self._client = client
        self._path = path

    async def append(self, payload: Any = None, **terms: Unpack[MessageTerms]) -> AppendedMessage:
        """See :meth:`MessageStream.append`."""
        return (await self.append_many([NewMessage(payload, **terms)]))[0]

    async def append_many(
        self, messages: Iterable[NewMessage], *, expect_last_id: str | None = None
    ) -> list[AppendedMessage]:
        """See :meth:`MessageStream.append_many`."""
        return await self._client._run(calls.append(self._path, list(messages), expect_last_id))

    async def _append_once(self, messages: list[NewMessage]) -> list[AppendedMessage]:
        return await self._client._run(calls.append(self._path, messages, None), retries=AT_ONCE)

    async def read(
        self,
        after: str = START,
        *,
        limit: int = _PAGE,
        segments: Sequence[str] = (),
        start: Moment | None = None,
        wait: Duration | None = None,
    ) -> MessagePage:
        """See :meth:`MessageStream.read`."""
        return await self._client._run(calls.read_page(self._path, after, limit, segments, start, wait))

    async def follow(self, after: str = START, *, segments: Sequence[str] = ()) -> AsyncIterator[Message]:
        """See :meth:`MessageStream.follow`."""
        while True:
            page = await self.read(after, limit=1_000, segments=segments, wait=_WAIT)
            for item in page.items:
                yield item
            after = page.next_after

    async def message(self, message_id: str) -> Message:
        """See :meth:`MessageStream.message`."""
        return await self._client._run(calls.message(self._path, message_id))

    def subscription(self, name: str, *, reader: str = "python") -> AsyncSubscription:
        """See :meth:`MessageStream.subscription`."""
        return AsyncSubscription(self._client, self._path, name, reader)

    def copy(self, name: str) -> AsyncCopy:
        """See :meth:`MessageStream.copy`."""
        return AsyncCopy(self._client, self._path, name)

    async def receipt(self, message_id: str, *, nodes: int = 1, wait: Duration | None = None) -> Receipt:
        """See :meth:`MessageStream.receipt`."""
        return await self._client._run(receipt(self._path, {"id": message_id}, nodes, wait))

    async def receipt_of(
        self, source: str, external_id: str | int, *, nodes: int = 1, wait: Duration | None = None
    ) -> Receipt:
        """See :meth:`MessageStream.receipt_of`."""
        message = {"source": source, "external_id": str(external_id)}
        return await self._client._run(receipt(self._path, message, nodes, wait))

    async def info(self) -> StreamInfo:
        """See :meth:`MessageStream.info`."""
        return await self._client._run(calls.info(self._path))

    async def set_settings(self, settings: Mapping[str, Any]) -> None:
        """See :meth:`MessageStream.set_settings`."""
        await self._client._run(calls.set_settings(self._path, settings))

    async def delete(self) -> None:
        """See :meth:`MessageStream.delete`."""
        await self._client._run(calls.delete(self._path))
