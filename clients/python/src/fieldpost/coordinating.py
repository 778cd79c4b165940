"""Locks, limits, the cache and channels as data: the calls of both clients, and how their answers are read."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Union
from urllib.parse import quote

from .calls import Call, _json, _nothing, _query, _seconds
from .errors import FieldpostError
from .protocol import Retries
from .times import Duration, duration_text

#: A duration that is reckoned with here: seconds, or a ``timedelta``.
Span = Union[timedelta, float]

#: A lock is extended when this part of its ttl has passed, so that some extensions may fail before it ends.
_EXTENDED_AFTER = 1 / 3
#: An extension that failed is tried again after this part of the ttl.
_EXTENDED_AGAIN_AFTER = 1 / 10
#: How long it is tried to give back what may have been granted to somebody who has gone, in seconds.
GIVE_BACK_SECONDS_MAX = 1.0
#: For calls whose repeats somebody else decides.
ONCE = Retries(most=0)
#: What a cached value is that nobody said anything of.
ANY_BYTES = "application/octet-stream"


class LockHeldError(FieldpostError):
    """Another owner holds the lock, and the wait is over; or the lock was lost."""


def _path(kind: str, namespace: str, name: str) -> str:
    return f"/v1/{kind}/{quote(namespace, safe='')}/{quote(name, safe='')}"


def _in_seconds(span: Span) -> float:
    return span.total_seconds() if isinstance(span, timedelta) else float(span)


def _fence(answer: Any) -> int:
    return int(answer["fence"])


class LockTerms:
    """Which lock is wanted, and for how long."""

    def __init__(self, namespace: str, name: str, ttl: Span, wait: Span) -> None:
        self.path = _path("locks", namespace, name)
        self.ttl = _in_seconds(ttl)
        self.wait = _in_seconds(wait)
        if self.ttl <= 0:
            raise ValueError("ttl must be more than nothing")


@dataclass
class Hold:
    """One time that a lock is held, or may be: its owner's name is of this time only."""

    terms: LockTerms
    owner: str = field(default_factory=lambda: uuid.uuid4().hex)
    #: When it ends unless it is extended, on the monotonic clock.
    ends_at: float = 0.0
    #: It has ended.
    is_lost: bool = False
    #: Seconds to the next extension.
    pause: float = 0.0

    def acquire(self) -> Call[int]:
        """Hold it; answers its fence. A repeat is no harm: the same owner gets the same fence."""
        wait = self.terms.wait
        body = {**self._terms(), **({"wait": duration_text(wait)} if wait else {})}
        return Call("POST", self.terms.path, _fence, _json(body), patience=_seconds(wait))

    def extend(self, limit: float | None = None) -> Call[int]:
        """Hold it for a ttl from now on."""
        return Call("POST", f"{self.terms.path}/extend", _fence, _json(self._terms()), limit=limit)

    def release(self, limit: float | None = None) -> Call[None]:
        """Let it go. A repeat is a conflict."""
        return Call("POST", f"{self.terms.path}/release", _nothing, _json({"owner": self.owner}), limit=limit)

    def is_held(self, now: float) -> bool:
        """Whether it is still held, as far as can be known here."""
        return not self.is_lost and now < self.ends_at

    def check(self, now: float) -> None:
        """Raises where it is not held any more."""
        if not self.is_held(now):
            raise LockHeldError(f"{self.terms.path}: the lock was lost")

    def begins(self, asked_at: float) -> None:
        """It was granted or extended by a question of that time."""
        self.ends_at = asked_at + self.terms.ttl
        self.pause = self.terms.ttl * _EXTENDED_AFTER

    def not_extended(self) -> None:
        """There was no answer to an extension; it is asked again before it ends."""
        self.pause = self.terms.ttl * _EXTENDED_AGAIN_AFTER

    def rests(self, now: float) -> float:
        """Seconds until something is to be done: an extension, or noticing the end."""
        return max(0.0, min(self.pause, self.ends_at - now))

    def _terms(self) -> dict[str, str]:
        return {"owner": self.owner, "ttl": duration_text(self.terms.ttl)}


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


@dataclass(frozen=True)
class LimitTerms:
    """Which limit, and what it is."""

    namespace: str
    name: str
    limit: int
    per: Duration
    kind: str

    def ask(self, cost: int) -> Call[Allowance]:
        """May it be done now? Not repeated: what is allowed is counted."""
        terms = {"limit": self.limit, "per": duration_text(self.per), "kind": self.kind, "cost": cost}
        return Call("POST", _path("limits", self.namespace, self.name), _allowance, _json(terms), repeatable=False)


def _allowance(answer: Any) -> Allowance:
    return Allowance(answer["allowed"], answer["remaining"], answer["retry_after_ms"] / 1000)


def cached(namespace: str, keys: Sequence[str]) -> Call[dict[str, bytes]]:
    """The values that are there."""
    return Call("POST", _path("cache", namespace, "get"), _values, _json({"keys": list(keys)}))


def _values(answer: Any) -> dict[str, bytes]:
    return {key: base64.b64decode(item["value_base64"]) for key, item in answer["items"].items()}


def put_cached(
    namespace: str, key: str, value: bytes, *, ttl: Duration | None, if_absent: bool, content_type: str
) -> Call[None]:
    """Put a value. Not repeated where none may be there: it would be at odds with itself."""
    terms = {"ttl": None if ttl is None else duration_text(ttl), "if_absent": "true" if if_absent else None}
    path = _query(_path("cache", namespace, key), **terms)
    return Call("PUT", path, _nothing, bytes(value), {"Content-Type": content_type}, repeatable=not if_absent)


def delete_cached(namespace: str, keys: Sequence[str]) -> Call[int]:
    """Take values out."""
    return Call("POST", _path("cache", namespace, "delete"), _deleted, _json({"keys": list(keys)}))


def _deleted(answer: Any) -> int:
    return int(answer["deleted"])


def publish_to(namespace: str, channel: str, message: Any) -> Call[int]:
    """Give a message to whoever listens. Not repeated: it would be heard twice."""
    return Call("POST", _path("channels", namespace, channel), _receivers, _json(message), repeatable=False)


def _receivers(answer: Any) -> int:
    return int(answer["receivers"])


def listen_to(namespace: str, channels: Sequence[str]) -> Call[None]:
    """Listen to channels."""
    if not channels:
        raise ValueError("say which channels")
    names = ",".join(quote(channel, safe="*") for channel in channels)
    path = f"/v1/channels/{quote(namespace, safe='')}/{names}"
    return Call("GET", path, _nothing, headers={"Accept": "text/event-stream"})
