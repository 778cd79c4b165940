"""Times and durations: what a caller may write, and what the API reads and gives."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Union

#: A duration: a ``timedelta``, a number of seconds, or a text as the API takes it, such as ``"1h30m"``.
Duration = Union[timedelta, float, str]

#: A moment: an aware ``datetime``, or an RFC 3339 text.
Moment = Union[datetime, str]


def duration_text(duration: Duration) -> str:
    """A duration as the API reads it, in whole milliseconds."""
    if isinstance(duration, str):
        return duration
    seconds = duration.total_seconds() if isinstance(duration, timedelta) else float(duration)
    if not 0 <= seconds < float("inf"):
        raise ValueError(f"a duration must not be negative or endless: {duration!r}")
    return f"{round(seconds * 1000)}ms"


def moment_text(moment: Moment) -> str:
    """A moment as the API reads it."""
    if isinstance(moment, str):
        return moment
    if moment.tzinfo is None:
        raise ValueError(f"a time needs a time zone, such as datetime.now(timezone.utc): {moment!r}")
    return moment.isoformat()


def read_moment(text: str) -> datetime:
    """A moment as the API gives it, in UTC."""
    # Before Python 3.11, fromisoformat does not know the Z.
    return datetime.fromisoformat(text.replace("Z", "+00:00")).astimezone(timezone.utc)
