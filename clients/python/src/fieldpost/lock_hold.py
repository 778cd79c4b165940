"""One time that a lock is held: its calls, and when it is extended. It opens no connection."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Union

from .calls import Call, _json, _nothing, _seconds
from .coordination_calls import _path
from .errors import FieldpostError
from .protocol import Retries
from .times import duration_text

#: A duration that is reckoned with here: seconds, or a ``timedelta``.
Span = Union[timedelta, float]

#: A lock is extended when this part of its ttl has passed, so that some extensions may fail.
_EXTENDED_AFTER = 1 / 3
#: An extension that failed is tried again after this part of the ttl.
_EXTENDED_AGAIN_AFTER = 1 / 10
#: Seconds that it is tried to give back what may have been granted to somebody who has gone.
GIVE_BACK_SECONDS_MAX = 1.0
#: For calls whose repeats somebody else decides.
ONCE = Retries(most=0)


class LockHeldError(FieldpostError):
    """Another owner holds the lock, and the wait is over."""


class LockLostError(FieldpostError):
    """The lock is not held any more."""


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
            raise LockLostError(f"{self.terms.path}: the lock was lost")

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
