"""Messages of streams: what is appended, what is read, and the calls for both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypedDict
from urllib.parse import quote

from .calls import Call, Page, _json, _nothing, _page, _query, _seconds
from .model import put_payload, read_payload
from .times import Duration, Moment, duration_text, moment_text, read_moment

if TYPE_CHECKING:
    from typing_extensions import Self

#: The place before the first message of a stream.
START = "0"


class MessageTerms(TypedDict, total=False):
    """What :class:`NewMessage` takes beside the payload."""

    source: str
    external_id: int | str
    segment: str
    ts: Moment
    headers: Mapping[str, str]


@dataclass(frozen=True)
class NewMessage:
    """A message to be appended: bytes as they are, anything else as JSON.

    With ``source`` and ``external_id`` it is there once, however often it is appended.
    """

    payload: Any = None
    source: str | None = None
    external_id: int | str | None = None
    segment: str | None = None
    ts: Moment | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    def body(self) -> dict[str, Any]:
        """The message as the API reads it."""
        body: dict[str, Any] = {}
        put_payload(body, self.payload)
        for name in ("source", "external_id", "segment"):
            if getattr(self, name) is not None:
                body[name] = getattr(self, name)
        if self.ts is not None:
            body["ts"] = moment_text(self.ts)
        if self.headers:
            body["headers"] = dict(self.headers)
        return body


@dataclass(frozen=True)
class AppendedMessage:
    """What became of a message."""

    #: Of a duplicate the id of the first one; ``None`` if that is gone.
    id: str | None
    #: There was one of its source and external id: nothing was appended.
    duplicate: bool
    #: That one is kept, and carries something else.
    conflict: bool

    @classmethod
    def read(cls, item: Mapping[str, Any]) -> Self:
        """Reads what the API gives."""
        return cls(item["id"], item["duplicate"], item.get("conflict", False))


@dataclass(frozen=True)
class Message:
    """A message of a stream."""

    id: str
    #: Its own time; that of receipt if it was given none.
    ts: datetime
    payload: Any
    source: str | None
    external_id: str | None
    segment: str | None
    headers: Mapping[str, str]

    @classmethod
    def read(cls, item: Mapping[str, Any]) -> Self:
        """Reads what the API gives."""
        texts = (item["source"], item["external_id"], item["segment"])
        return cls(item["id"], read_moment(item["ts"]), read_payload(item), *texts, item.get("headers", {}))


@dataclass(frozen=True)
class MessagePage:
    """Messages of a stream, oldest first."""

    items: list[Message]
    #: Where to read on: past what was left out too.
    next_after: str
    #: Messages behind the place that was asked for, gone already.
    skipped: int

    @classmethod
    def read(cls, answer: Mapping[str, Any]) -> Self:
        """Reads what the API gives."""
        return cls([Message.read(item) for item in answer["items"]], answer["next_after"], answer["skipped"])


@dataclass(frozen=True)
class StreamInfo:
    """How much is in a stream."""

    namespace: str
    stream: str
    first_id: str
    last_id: str
    messages: int
    bytes: int
    blocks: int
    bytes_in_memory: int
    settings: Mapping[str, Any]

    @classmethod
    def read(cls, item: Mapping[str, Any]) -> Self:
        """Reads what the API gives."""
        return cls(**{name: item[name] for name in cls.__dataclass_fields__})


@dataclass(frozen=True)
class StreamPath:
    """Where the calls of a stream are."""

    namespace: str
    stream: str

    def __str__(self) -> str:
        return f"/v1/streams/{quote(self.namespace, safe='')}/{quote(self.stream, safe='')}"


def append(
    path: StreamPath, messages: Sequence[NewMessage], expect_last_id: str | None
) -> Call[list[AppendedMessage]]:
    """Append messages. A repeat is no harm where each has an external id, and nothing is said of the newest."""
    body: dict[str, Any] = {"messages": [message.body() for message in messages]}
    if expect_last_id is not None:
        body["expect_last_id"] = expect_last_id

    def read(answer: Any) -> list[AppendedMessage]:
        return [AppendedMessage.read(item) for item in answer["messages"]]

    repeatable = expect_last_id is None and all(message.external_id is not None for message in messages)
    return Call("POST", f"{path}/messages", read, _json(body), repeatable=repeatable)


def read_page(
    path: StreamPath,
    after: str,
    limit: int,
    segments: Sequence[str],
    start: Moment | None,
    wait: Duration | None,
) -> Call[MessagePage]:
    """Read what comes behind a message."""
    asked = _query(
        f"{path}/messages",
        after=after,
        limit=limit,
        segment=",".join(segments) if segments else None,
        **{"from": None if start is None else moment_text(start)},
        wait=None if wait is None else duration_text(wait),
    )
    return Call("GET", asked, MessagePage.read, patience=_seconds(wait))


def message(path: StreamPath, message_id: str) -> Call[Message]:
    """Look at one message."""
    return Call("GET", f"{path}/messages/{quote(message_id, safe='')}", Message.read)


def info(path: StreamPath) -> Call[StreamInfo]:
    """Look at a stream."""
    return Call("GET", str(path), StreamInfo.read)


def set_settings(path: StreamPath, settings: Mapping[str, Any]) -> Call[None]:
    """Set a stream, all of it."""
    return Call("PUT", f"{path}/settings", _nothing, _json(dict(settings)))


def delete(path: StreamPath) -> Call[None]:
    """Delete a stream. Not repeated: the second time it is gone."""
    return Call("DELETE", str(path), _nothing, repeatable=False)


def streams(namespace: str | None, limit: int, cursor: str | None) -> Call[Page[StreamInfo]]:
    """A page of streams."""
    path = _query("/v1/streams", namespace=namespace, limit=limit, cursor=cursor)
    return Call("GET", path, _page(StreamInfo.read))
