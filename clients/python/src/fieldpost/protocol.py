"""What both clients know of HTTP: where the server is, what a request carries, what an answer means, and retries."""

from __future__ import annotations

import json
import random
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar
from urllib.parse import urlsplit

from ._version import __version__
from .calls import Call
from .errors import (
    ConnectionFailedError,
    FieldpostError,
    TooManyRequestsError,
    UnavailableError,
    UnexpectedAnswerError,
    refusal,
)
from .times import read_moment

T = TypeVar("T")

_HTTP_PORT = 80
_HTTPS_PORT = 443
_OK = range(200, 300)
_ERRORS_FROM = 400
_NOT_FOUND = 404


@dataclass(frozen=True)
class Retries:
    """When a call is tried again: after a lost connection if it may be repeated, and after 429 and 503.

    The delay before try n+1 is chance between 0 and ``base * 2**n``, at most ``longest``; it is never less than the
    server's ``Retry-After``, and where that is more than ``longest`` the call fails at once.
    """

    #: How often a call is tried again.
    most: int = 4
    #: Seconds.
    base: float = 0.1
    #: Seconds.
    longest: float = 5.0

    def delay(self, failed: int, error: FieldpostError, repeatable: bool) -> float | None:
        """Seconds to wait after so many failed tries; ``None`` to give up."""
        if failed > self.most:
            return None
        if isinstance(error, ConnectionFailedError):
            if not repeatable:
                return None
        elif isinstance(error, UnavailableError):
            # It can also mean that nothing is known of what was asked for.
            if not repeatable:
                return None
        elif not isinstance(error, TooManyRequestsError):
            return None
        least = error.retry_after or 0.0
        if least > self.longest:
            return None
        return max(least, random.uniform(0, min(self.longest, self.base * 2.0 ** (failed - 1))))


#: For callers with others to ask: once more, at once, because a connection that was kept may have ended.
AT_ONCE = Retries(most=1, base=0.0, longest=0.0)


@dataclass(frozen=True)
class Server:
    """Where the server is and how it is talked to."""

    host: str
    port: int
    tls: ssl.SSLContext | None
    prefix: str
    token: str | None = field(repr=False)

    @classmethod
    def at(cls, url: str, token: str | None, tls: ssl.SSLContext | None) -> Server:
        """Reads a URL such as ``http://127.0.0.1:8080``."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"the server's URL must be like http://127.0.0.1:8080, not {url!r}")
        secure = parts.scheme == "https"
        port = parts.port or (_HTTPS_PORT if secure else _HTTP_PORT)
        context = (tls or ssl.create_default_context()) if secure else None
        return cls(parts.hostname, port, context, parts.path.rstrip("/"), token)

    def headers(self, call: Call[Any]) -> dict[str, str]:
        """What a request says of itself, beside ``Host`` and its length."""
        headers = {
            "Accept": "application/json",
            "User-Agent": f"fieldpost-python/{__version__}",
            **call.headers,
        }
        if self.token is not None:
            headers["Authorization"] = f"Bearer {self.token}"
        if call.body is not None:
            headers.setdefault("Content-Type", "application/json")
        return headers


@dataclass(frozen=True)
class Answer:
    """An answer as it came; the names of headers in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def read_answer(call: Call[T], answer: Answer) -> T:
    """What an answer says, or raises what it refuses."""
    if answer.status == _NOT_FOUND and call.may_be_missing:
        return call.read(None)
    if answer.status >= _ERRORS_FROM:
        raise refusal(answer.status, _problem(answer), _retry_after(answer.headers))
    if answer.status not in _OK:
        raise UnexpectedAnswerError(f"{call.method} {call.path} was answered {answer.status}")
    try:
        return call.read(json.loads(answer.body) if answer.body else None)
    except (ValueError, LookupError, TypeError) as error:
        raise UnexpectedAnswerError(f"{call.method} {call.path}: {error!r}") from error


def _problem(answer: Answer) -> dict[str, Any]:
    try:
        problem = json.loads(answer.body)
    except ValueError:
        problem = None
    if isinstance(problem, dict):
        return problem
    # Not ours: of something that stands between.
    return {"detail": answer.body[:200].decode("utf-8", "replace")}


def _retry_after(headers: Mapping[str, str]) -> float | None:
    text = headers.get("retry-after", "")
    if text.isdecimal():
        return float(text)
    try:
        then, now = parsedate_to_datetime(text), parsedate_to_datetime(headers.get("date", ""))
    except (TypeError, ValueError, IndexError):
        return None
    return max(0.0, (read_moment(then.isoformat()) - read_moment(now.isoformat())).total_seconds())
