"""What devices are told and what becomes of it, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypedDict

from .times import Duration, Moment, duration_text, moment_text, read_moment

#: Statuses of commands that have not ended.
OPEN = frozenset({"scheduled", "published", "running"})


class CommandTerms(TypedDict, total=False):
    """What a command takes beside its payload."""

    #: How long it is worth doing, from now or from ``not_before`` on; then it expires.
    ttl: Duration | None
    #: It goes out no earlier, and holds up no other until then.
    not_before: Moment | None
    #: How long the device has for its answer before the command goes out again.
    ack_timeout: Duration | None
    #: How long a device that says it is at work may go without saying so again.
    run_timeout: Duration | None
    #: How often it goes out before it fails.
    max_attempts: int | None
    #: Who asks for it, in your words.
    origin: str | None
    #: A waiting command of the device with the same key gives way to this one.
    key: str | None
    #: -100 to 100; higher ones go first.
    priority: int | None
    #: Who is told how it ended: ``{"queue": "namespace/queue"}`` or ``{"url": "https://..."}``.
    notify: dict[str, str] | None


def command_body(payload: Any, terms: CommandTerms) -> dict[str, Any]:
    """A command as the API reads it."""
    body: dict[str, Any] = {"payload": payload}
    for name, value in terms.items():
        if value is None:
            continue
        if name in ("ttl", "ack_timeout", "run_timeout"):
            value = duration_text(value)  # type: ignore[arg-type]
        elif name == "not_before":
            value = moment_text(value)  # type: ignore[arg-type]
        body[name] = value
    return body


@dataclass(frozen=True)
class SentCommand:
    """A command that is durable."""

    id: str
    status: str
    #: What the POST to ``notify``'s url is signed with. It is not shown again.
    secret: str | None = None

    @classmethod
    def read(cls, item: Mapping[str, Any]) -> SentCommand:
        """Reads what the API gives."""
        return cls(item["id"], item["status"], (item.get("notify") or {}).get("secret"))


def _moment(text: str | None) -> datetime | None:
    return None if text is None else read_moment(text)


@dataclass(frozen=True)
class LateAnswer:
    """A device's answer after its command had ended; it changed nothing."""

    ok: bool
    at: datetime
    result: Any = None

    @classmethod
    def read(cls, item: Mapping[str, Any]) -> LateAnswer:
        """Reads what the API gives."""
        return cls(item["ok"], read_moment(item["at"]), item.get("result"))


@dataclass(frozen=True)
class Command:
    """A command, and how far it has come."""

    id: str
    device_id: str
    #: scheduled, published, running, acknowledged, failed, expired, superseded or cancelled.
    status: str
    #: How often it went out since it was sent, or retried.
    tries: int
    payload: Any
    created_at: datetime
    origin: str | None = None
    key: str | None = None
    priority: int = 0
    not_before: datetime | None = None
    #: Then it ends, answered or not.
    expires_at: datetime | None = None
    #: When it went out last.
    published_at: datetime | None = None
    finished_at: datetime | None = None
    #: The latest progress that the device told.
    progress: Any = None
    #: What the device answered.
    result: Any = None
    late: LateAnswer | None = None

    @property
    def has_ended(self) -> bool:
        """Whether nothing more comes of it by itself."""
        return self.status not in OPEN

    @classmethod
    def read(cls, item: Mapping[str, Any]) -> Command:
        """Reads what the API gives."""
        late = item.get("late")
        return cls(
            id=item["id"],
            device_id=item["device_id"],
            status=item["status"],
            tries=item.get("tries", 0),
            payload=item.get("payload"),
            created_at=read_moment(item["created_at"]),
            origin=item.get("origin"),
            key=item.get("key"),
            priority=item.get("priority", 0),
            not_before=_moment(item.get("not_before")),
            expires_at=_moment(item.get("expires_at")),
            published_at=_moment(item.get("published_at")),
            finished_at=_moment(item.get("finished_at")),
            progress=item.get("progress"),
            result=item.get("result"),
            late=None if late is None else LateAnswer.read(late),
        )


@dataclass(frozen=True)
class DesiredEntry:
    """An entry that a device is to have, beside what it has confirmed."""

    key: str
    #: ``None`` if it is to be deleted, or nothing is wished.
    desired: Any
    confirmed: Any
    #: Whether a command is to bring it there.
    pending: bool

    @classmethod
    def read(cls, item: Mapping[str, Any]) -> DesiredEntry:
        """Reads what the API gives."""
        return cls(item["key"], item["desired"], item["confirmed"], item["pending"])
