"""Copies of a stream to and from other nodes, and on which nodes a message is; for threads and for tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from .calls import Call, _json, _nothing, _seconds
from .message import StreamPath
from .times import Duration, Moment, duration_text, moment_text, read_moment

if TYPE_CHECKING:
    from typing_extensions import Self

    from .aio import AsyncClient
    from .client import Client


@dataclass(frozen=True)
class CopyInfo:
    """How a copy stands."""

    name: str
    #: ``idle``, ``running``, ``waiting``, ``paused`` or ``source_reset``.
    state: str
    #: Every message up to this one is durable at the other end.
    position: str
    #: Messages that are not copied; with segments, those of others count too.
    lag: int
    oldest_uncopied_at: datetime | None
    copied: int
    duplicates: int
    #: Messages that went before they were copied.
    dropped: int
    error: str | None
    #: ``messages`` or ``reports``.
    kind: str = "messages"
    #: Reports that the other node refused for good.
    refused: int = 0

    @classmethod
    def read(cls, item: Mapping[str, Any]) -> Self:
        """Reads what the API gives."""
        oldest = item["oldest_uncopied_at"]
        return cls(
            item["name"],
            item["state"],
            item["position"],
            item["lag"],
            None if oldest is None else read_moment(oldest),
            item["copied"],
            item["duplicates"],
            item["dropped"],
            item["error"],
            item.get("kind", "messages"),
            item.get("refused", 0),
        )


@dataclass(frozen=True)
class Receipt:
    """On which nodes a message is durable."""

    #: What the nodes call themselves.
    durable_on: list[str]
    #: Whether they are as many as were asked for.
    enough: bool

    @classmethod
    def read(cls, item: Mapping[str, Any]) -> Self:
        """Reads what the API gives."""
        return cls(list(item["durable_on"]), item["enough"])


def put(
    path: str,
    direction: str,
    node: str,
    stream: str | None,
    segments: Sequence[str],
    start: str | Moment | None,
    live_share: float | None,
    rate: int | None,
    kind: str | None,
    selector: str | None,
) -> Call[CopyInfo]:
    """Make a copy, or change one."""
    body: dict[str, Any] = {"direction": direction, "node": node}
    if stream is not None:
        body["stream"] = stream
    if segments:
        body["segments"] = list(segments)
    if start is not None:
        body["from"] = start if isinstance(start, str) else moment_text(start)
    if live_share is not None:
        body["live_share"] = live_share
    if rate is not None:
        body["rate"] = rate
    if kind is not None:
        body["kind"] = kind
    if selector is not None:
        body["selector"] = selector
    return Call("PUT", path, CopyInfo.read, _json(body))


def receipt(stream: StreamPath, message: dict[str, str], nodes: int, wait: Duration | None) -> Call[Receipt]:
    """Ask on which nodes a message is, which is named by its id or by its source and external id."""
    asked = {**message, "nodes": str(nodes)}
    if wait is not None:
        asked["wait"] = duration_text(wait)
    return Call("GET", f"{stream}/receipts?{urlencode(asked)}", Receipt.read, patience=_seconds(wait))


def path_of(stream: StreamPath, name: str) -> str:
    """Where the calls of a copy are."""
    return f"{stream}/copies/{quote(name, safe='')}"


class Copy:
    """A copy of a stream to or from another node."""

    def __init__(self, client: Client, stream: StreamPath, name: str) -> None:
        self._client = client
        self._path = path_of(stream, name)

    def put(
        self,
        direction: str,
        node: str,
        *,
        stream: str | None = None,
        segments: Sequence[str] = (),
        start: str | Moment | None = None,
        live_share: float | None = None,
        rate: int | None = None,
        kind: str | None = None,
        selector: str | None = None,
    ) -> CopyInfo:
        """Makes it, and its stream, or changes it. ``direction`` is ``"to"`` or ``"from"``; ``stream`` the other
        stream, as ``"namespace/name"``, where that has another name. With ``kind="reports"`` it brings accepted
        reports of devices to the node, those of the devices that ``selector`` means."""
        call = put(self._path, direction, node, stream, segments, start, live_share, rate, kind, selector)
        return self._client._run(call)

    def info(self) -> CopyInfo:
        """How far it is."""
        return self._client._run(Call("GET", self._path, CopyInfo.read))

    def pause(self) -> None:
        """Has it rest."""
        self._client._run(Call("POST", f"{self._path}/pause", _nothing))

    def resume(self) -> None:
        """Has it go on."""
        self._client._run(Call("POST", f"{self._path}/resume", _nothing))

    def delete(self) -> None:
        """Deletes it; what it copied stays."""
        self._client._run(Call("DELETE", self._path, _nothing, repeatable=False))


class AsyncCopy:
    """A copy of a stream; the same as :class:`Copy` otherwise."""

    def __init__(self, client: AsyncClient, stream: StreamPath, name: str) -> None:
        self._client = client
        self._path = path_of(stream, name)

    async def put(
        self,
        direction: str,
        node: str,
        *,
        stream: str | None = None,
        segments: Sequence[str] = (),
        start: str | Moment | None = None,
        live_share: float | None = None,
        rate: int | None = None,
        kind: str | None = None,
        selector: str | None = None,
    ) -> CopyInfo:
        """See :meth:`Copy.put`."""
        call = put(self._path, direction, node, stream, segments, start, live_share, rate, kind, selector)
        return await self._client._run(call)

    async def info(self) -> CopyInfo:
        """See :meth:`Copy.info`."""
        return await self._client._run(Call("GET", self._path, CopyInfo.read))

    async def pause(self) -> None:
        """See :meth:`Copy.pause`."""
        await self._client._run(Call("POST", f"{self._path}/pause", _nothing))

    async def resume(self) -> None:
        """See :meth:`Copy.resume`."""
        await self._client._run(Call("POST", f"{self._path}/resume", _nothing))

    async def delete(self) -> None:
        """See :meth:`Copy.delete`."""
        await self._client._run(Call("DELETE", self._path, _nothing, repeatable=False))
