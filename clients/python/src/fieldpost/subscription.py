"""A reader of a stream whose place the server keeps, for threads and for tasks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from .calls import Call, _json, _nothing, _seconds
from .message import Message, MessagePage, StreamPath
from .times import Duration, Moment, duration_text, moment_text, read_moment

if TYPE_CHECKING:
    from typing_extensions import Self

    from .aio import AsyncClient
    from .client import Client

_PAGE = 100
#: How long a reader that follows waits at the end before it asks again.
_WAIT = "30s"


@dataclass(frozen=True)
class SubscriptionInfo:
    """How a subscription stands."""

    name: str
    #: Everything up to this message is read.
    position: str
    #: Messages behind it; with segments, those of others count too.
    lag: int
    #: Who reads at the moment.
    reader: str | None
    oldest_unread_at: datetime | None
    segment: str | None
    #: Where it is pushed, and how that goes; its secret only where that was just made.
    push: Mapping[str, Any] | None

    @classmethod
    def read(cls, item: Mapping[str, Any]) -> Self:
        """Reads what the API gives."""
        oldest = item["oldest_unread_at"]
        return cls(
            item["name"],
            item["position"],
            item["lag"],
            item["reader"],
            None if oldest is None else read_moment(oldest),
            item["segment"],
            item["push"],
        )


def put(
    path: str, start: str | Moment | None, segments: Sequence[str], push: Mapping[str, Any] | None
) -> Call[SubscriptionInfo]:
    """Make a subscription, or change one."""
    body: dict[str, Any] = {}
    if start is not None:
        body["from"] = start if isinstance(start, str) else moment_text(start)
    if segments:
        body["segment"] = ",".join(segments)
    if push is not None:
        body["push"] = dict(push)
    return Call("PUT", path, SubscriptionInfo.read, _json(body))


def read(path: str, reader: str, limit: int, wait: Duration | None, ttl: Duration | None) -> Call[MessagePage]:
    """Read behind the position."""
    body: dict[str, Any] = {"reader": reader, "limit": limit}
    if wait is not None:
        body["wait"] = duration_text(wait)
    if ttl is not None:
        body["ttl"] = duration_text(ttl)
    return Call("POST", f"{path}/read", MessagePage.read, _json(body), patience=_seconds(wait))


def commit(path: str, reader: str, message_id: str, rewind: bool) -> Call[None]:
    """Say how far a reader has come."""
    body: dict[str, Any] = {"reader": reader, "id": message_id}
    if rewind:
        body["rewind"] = True
    return Call("POST", f"{path}/commit", _nothing, _json(body))


def path_of(stream: StreamPath, name: str) -> str:
    """Where the calls of a subscription are."""
    return f"{stream}/subscriptions/{quote(name, safe='')}"


class Subscription:
    """A subscription of a stream, read under the name of one reader."""

    def __init__(self, client: Client, stream: StreamPath, name: str, reader: str) -> None:
        self._client = client
        self._path = path_of(stream, name)
        self._reader = reader

    def put(
        self,
        *,
        start: str | Moment | None = None,
        segments: Sequence[str] = (),
        push: Mapping[str, Any] | None = None,
    ) -> SubscriptionInfo:
        """Makes it, and its stream, or changes it. It begins at ``start``: ``"start"``, ``"end"``, the id of the last
        message that is read, or a time; one that is there stays where it is if that is left out. With ``push``, such
        as ``{"url": "https://..."}``, its messages are posted instead."""
        return self._client._run(put(self._path, start, segments, push))

    def read(self, *, limit: int = _PAGE, wait: Duration | None = None, ttl: Duration | None = None) -> MessagePage:
        """Reads what comes behind the position; :class:`ConflictError` while somebody else reads."""
        return self._client._run(read(self._path, self._reader, limit, wait, ttl))

    def commit(self, message_id: str, *, rewind: bool = False) -> None:
        """Everything up to this message is read; durable when this returns."""
        self._client._run(commit(self._path, self._reader, message_id, rewind))

    def follow(self, *, limit: int = _PAGE, ttl: Duration | None = None) -> Iterator[Message]:
        """Every message behind the position, and every one as it comes; without an end. What was taken is committed
        before more is read: whoever stops in between gets the latest messages again."""
        while True:
            page = self.read(limit=limit, wait=_WAIT, ttl=ttl)
            yield from page.items
            self.commit(page.next_after)

    def info(self) -> SubscriptionInfo:
        """How far it is behind."""
        return self._client._run(Call("GET", self._path, SubscriptionInfo.read))

    def delete(self) -> None:
        """Deletes it."""
        self._client._run(Call("DELETE", self._path, _nothing, repeatable=False))


class AsyncSubscription:
    """A subscription of a stream; the same as :class:`Subscription` otherwise."""

    def __init__(self, client: AsyncClient, stream: StreamPath, name: str, reader: str) -> None:
        self._client = client
        self._path = path_of(stream, name)
        self._reader = reader

    async def put(
        self,
        *,
        start: str | Moment | None = None,
        segments: Sequence[str] = (),
        push: Mapping[str, Any] | None = None,
    ) -> SubscriptionInfo:
        """See :meth:`Subscription.put`."""
        return await self._client._run(put(self._path, start, segments, push))

    async def read(
        self, *, limit: int = _PAGE, wait: Duration | None = None, ttl: Duration | None = None
    ) -> MessagePage:
        """See :meth:`Subscription.read`."""
        return await self._client._run(read(self._path, self._reader, limit, wait, ttl))

    async def commit(self, message_id: str, *, rewind: bool = False) -> None:
        """See :meth:`Subscription.commit`."""
        await self._client._run(commit(self._path, self._reader, message_id, rewind))

    async def follow(self, *, limit: int = _PAGE, ttl: Duration | None = None) -> AsyncIterator[Message]:
        """See :meth:`Subscription.follow`."""
        while True:
            page = await self.read(limit=limit, wait=_WAIT, ttl=ttl)
            for item in page.items:
                yield item
            await self.commit(page.next_after)

    async def info(self) -> SubscriptionInfo:
        """See :meth:`Subscription.info`."""
        return await self._client._run(Call("GET", self._path, SubscriptionInfo.read))

    async def delete(self) -> None:
        """See :meth:`Subscription.delete`."""
        await self._client._run(Call("DELETE", self._path, _nothing, repeatable=False))
