"""Limits, the cache and channels as data: the calls of both clients, and their answers."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import quote

from .calls import Call, _json, _nothing, _query
from .times import Duration, duration_text

#: Never more than the limit in any span, or in spans that are aligned to the clock.
LimitKind = Literal["smooth", "window"]

#: What a cached value is that nobody said anything of.
ANY_BYTES = "application/octet-stream"


def _path(kind: str, namespace: str, name: str) -> str:
    return f"/v1/{kind}/{quote(namespace, safe='')}/{quote(name, safe='')}"


@dataclass(frozen=True)
class LimitAnswer:
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
    kind: LimitKind

    def ask(self, cost: int) -> Call[LimitAnswer]:
        """May it be done now? Not repeated: what is allowed is counted."""
        terms = {"limit": self.limit, "per": duration_text(self.per), "kind": self.kind, "cost": cost}
        return Call("POST", _path("limits", self.namespace, self.name), _limit_answer, _json(terms), repeatable=False)


def _limit_answer(answer: Any) -> LimitAnswer:
    return LimitAnswer(answer["allowed"], answer["remaining"], answer["retry_after_ms"] / 1000)


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
