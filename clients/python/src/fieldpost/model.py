"""What queues hold and give, as plain data."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, TypedDict

from .times import Duration, Moment, duration_text, moment_text, read_moment

#: Not given, where ``None`` would mean something.
UNSET: Any = type("Unset", (), {"__repr__": lambda _: "UNSET", "__bool__": lambda _: False})()


#: What to do when an alias is held by a waiting or reserved job.
OnConflict = Literal["reject", "keep", "replace"]


def put_payload(body: dict[str, Any], payload: Any) -> None:
    """Puts a payload into a body: bytes as they are, anything else as JSON."""
    if isinstance(payload, (bytes, bytearray, memoryview)):
        body["payload_base64"] = base64.b64encode(payload).decode("ascii")
    else:
        body["payload"] = payload


def read_payload(item: Mapping[str, Any]) -> Any:
    """The payload of what the API gives."""
    if "payload_base64" in item:
        return base64.b64decode(item["payload_base64"])
    return item.get("payload")


class JobTerms(TypedDict, total=False):
    """What :class:`NewJob` takes beside the payload."""

    delay: Duration | None
    run_at: Moment | None
    ttl: Duration | None
    tries: int | None
    alias: str | None
    on_conflict: OnConflict | None
    group: str | None
    every: Duration | None
    cron: str | None
    tz: str | None
    executions: int | None


@dataclass(frozen=True)
class NewJob:
    """A job to be published. ``payload`` is ``bytes``, or anything that JSON can hold."""

    payload: Any = None
    #: Due this long from now. Not together with ``run_at``.
    delay: Duration | None = None
    #: Due then.
    run_at: Moment | None = None
    #: How long the job is worth doing; for a recurring one each run, from its due time on.
    ttl: Duration | None = None
    #: Attempts it may have; the server gives 1 if nothing is said.
    tries: int | None = None
    #: Your own id of it, unique among the waiting and reserved jobs of the queue.
    alias: str | None = None
    #: What to do when the alias is held.
    on_conflict: OnConflict | None = None
    #: Jobs of a group run one at a time, in order.
    group: str | None = None
    #: It comes again this long after it was due before.
    every: Duration | None = None
    #: It comes again by this cron expression: five fields, or six with seconds first.
    cron: str | None = None
    #: The time zone of ``cron``, such as ``"Europe/Berlin"``; UTC if nothing is said.
    tz: str | None = None
    #: How many runs a recurring job has; endless if nothing is said.
    executions: int | None = None

    def body(self) -> dict[str, Any]:
        """The job as the API reads it."""
        body: dict[str, Any] = {}
        put_payload(body, self.payload)
        for name in ("delay", "ttl", "every"):
            duration: Duration | None = getattr(self, name)
            if duration is not None:
                body[name] = duration_text(duration)
        if self.run_at is not None:
            body["run_at"] = moment_text(self.run_at)
        for name in ("tries", "alias", "on_conflict", "group", "cron", "tz", "executions"):
            if getattr(self, name) is not None:
                body[name] = getattr(self, name)
        return body


@dataclass(frozen=True)
class PublishedJob:
    """A job that is durable, or under an alias that was held, the one that was there already."""

    id: str
    run_at: datetime

    @classmethod
    def read(cls, item: Mapping[str, Any]) -> PublishedJob:
        """Reads what the API gives."""
        return cls(item["id"], read_moment(item["run_at"]))


class Lease:
    """How a reservation stands, as far as the worker that keeps it knows."""

    def __init__(self) -> None:
        #: It has ended, and the job may be somebody else's.
        self.lost = False
        #: When it ends unless it is extended, on the monotonic clock.
        self.ends_at = float("inf")


@dataclass(frozen=True)
class Job:
    """A job that is reserved for you until its ttr has passed."""

    namespace: str
    queue: str
    id: str
    payload: Any
    #: Counts the attempts from 1.
    attempt: int
    #: How many there may be.
    tries: int
    reservation: str
    published_at: datetime
    run_at: datetime
    alias: str | None = None
    lease: Lease = field(default_factory=Lease, repr=False, compare=False)

    @property
    def is_last_try(self) -> bool:
        """Whether the job is dead if this attempt fails."""
        return self.attempt >= self.tries

    @property
    def lease_lost(self) -> bool:
        """Whether the worker has found that the reservation has ended: somebody else may have the job by now."""
        return self.lease.lost

    @classmethod
    def read(cls, namespace: str, item: Mapping[str, Any]) -> Job:
        """Reads what the API gives."""
        return cls(
            namespace=namespace,
            queue=item["queue"],
            id=item["id"],
            payload=read_payload(item),
            attempt=item["attempt"],
            tries=item["tries"],
            reservation=item["reservation"],
            published_at=read_moment(item["published_at"]),
            run_at=read_moment(item["run_at"]),
            alias=item.get("alias"),
        )


@dataclass(frozen=True)
class JobView:
    """A job, looked at without taking it."""

    id: str
    queue: str
    #: ``"scheduled"``, ``"ready"`` or ``"reserved"``.
    state: str
    payload: Any
    run_at: datetime
    published_at: datetime
    #: Attempts begun.
    attempt: int
    tries: int
    alias: str | None = None
    group: str | None = None
    #: It comes again this long after it was due before, such as ``"1h30m"``.
    every: str | None = None
    #: It comes again by this cron expression.
    cron: str | None = None
    #: The time zone of ``cron``; UTC if there is none.
    tz: str | None = None
    #: Runs that are left, the present one included; ``None`` if there is no end to them, or only one.
    executions_left: int | None = None

    @classmethod
    def read(cls, item: Mapping[str, Any]) -> JobView:
        """Reads what the API gives."""
        return cls(
            id=item["id"],
            queue=item["queue"],
            state=item["state"],
            payload=read_payload(item),
            run_at=read_moment(item["run_at"]),
            published_at=read_moment(item["published_at"]),
            attempt=item["attempt"],
            tries=item["tries"],
            alias=item.get("alias"),
            group=item.get("group"),
            every=item.get("every"),
            cron=item.get("cron"),
            tz=item.get("tz"),
            executions_left=item.get("executions_left"),
        )


@dataclass(frozen=True)
class Acked:
    """What became of many acknowledgements."""

    #: How many jobs are done by this call.
    acked: int
    #: The reservations that had ended before.
    stale: tuple[str, ...]

    @classmethod
    def read(cls, item: Mapping[str, Any]) -> Acked:
        """Reads what the API gives."""
        return cls(item["acked"], tuple(item["stale"]))


@dataclass(frozen=True)
class Settings:
    """What users set of a queue; ``None`` is no limit, or the server's own."""

    #: ``"fifo"`` or ``"lifo"``.
    order: str = "fifo"
    #: Most jobs that are reserved at the same time.
    concurrency: int | None = None
    #: Most jobs that are given out in a second.
    rate: float | None = None
    #: Most jobs, dead letters not counted.
    jobs_max: int | None = None
    #: Most dead letters; then the oldest go.
    dead_max: int | None = None
    #: How long a dead letter is kept.
    dead_max_age: Duration | None = None

    def body(self) -> dict[str, Any]:
        """The settings as the API reads them."""
        body = {name: value for name, value in vars(self).items() if value is not None}
        if self.dead_max_age is not None:
            body["dead_max_age"] = duration_text(self.dead_max_age)
        return body

    @classmethod
    def read(cls, item: Mapping[str, Any]) -> Settings:
        """Reads what the API gives."""
        known = {name: item[name] for name in cls.__dataclass_fields__ if item.get(name) is not None}
        return cls(**known)


@dataclass(frozen=True)
class QueueFlow:
    """How fast jobs go through a queue: jobs a second, over about the last minute."""

    published: float
    #: Given to consumers.
    consumed: float
    acked: float

    @classmethod
    def read(cls, item: Mapping[str, Any]) -> QueueFlow:
        """Reads what the API gives."""
        return cls(*(item.get(name, 0.0) for name in ("published", "consumed", "acked")))


@dataclass(frozen=True)
class QueueOverview:
    """How a queue stands."""

    namespace: str
    queue: str
    scheduled: int
    ready: int
    reserved: int
    dead: int
    #: How long the first ready job has been waiting; ``None`` when none is.
    oldest_ready_ms: int | None
    paused: bool
    settings: Settings
    #: How fast jobs go through it.
    rates: QueueFlow

    @classmethod
    def read(cls, item: Mapping[str, Any]) -> QueueOverview:
        """Reads what the API gives."""
        overview = {name: item.get(name) for name in cls.__dataclass_fields__}
        overview["settings"] = Settings.read(item.get("settings") or {})
        overview["rates"] = QueueFlow.read(item.get("rates") or {})
        return cls(**overview)  # type: ignore[arg-type]


@dataclass(frozen=True)
class DeadLetter:
    """A job that failed for good."""

    id: str
    payload: Any
    #: Attempts made.
    attempt: int
    tries: int
    #: ``"released"`` or ``"timed_out"``.
    reason: str
    #: What its last worker said.
    error: str | None
    died_at: datetime

    @classmethod
    def read(cls, item: Mapping[str, Any]) -> DeadLetter:
        """Reads what the API gives."""
        return cls(
            id=item["id"],
            payload=read_payload(item),
            attempt=item["attempt"],
            tries=item["tries"],
            reason=item["reason"],
            error=item.get("error"),
            died_at=read_moment(item["died_at"]),
        )
