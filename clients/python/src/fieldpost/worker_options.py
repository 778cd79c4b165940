"""The options of both kinds of worker, and what becomes of a job that failed."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Callable, Optional, TypedDict

from .model import Acked, Job
from .queue_control import QueueControl
from .times import Duration, duration_text

log = logging.getLogger("fieldpost")

#: The least and the most that passes before a worker asks again after it could not, in seconds.
ASK_AGAIN_MIN = 0.5
ASK_AGAIN_MAX = 15.0
#: How long a stop waits for the answer to a question that it takes back, in seconds. A server that
#: is there gives it at once.
CANCELLATION_SECONDS_MAX = 5.0
#: A lease is extended when this part of it has passed, so that two extensions may fail before it
#: ends.
EXTENDED_AFTER = 1 / 3
#: What the server keeps of an error, in characters that are certain to fit.
ERROR_CHARS_MAX = 1000

_RETRY_BASE = 1.0
_RETRY_MAX = 3600.0


class Retry(Exception):  # noqa: N818 - it is no error of a program, but what a handler decides
    """Raised by a handler to have its job again.

    That is after ``delay`` or, without one, after the worker's backoff.
    """

    def __init__(self, delay: Duration | None = None, error: str | None = None) -> None:
        super().__init__(error or "to be tried again")
        self.delay = delay
        self.error = error


#: How long a failed job waits for its next try.
Backoff = Callable[[Job, BaseException], Duration]


def doubling(job: Job, _: BaseException) -> Duration:
    """A second after the first failed try, then twice as long each time, at most an hour.

    By chance it is up to 10 % more.
    """
    seconds = min(_RETRY_MAX, _RETRY_BASE * 2.0 ** min(job.attempt - 1, 30))
    return seconds * random.uniform(1.0, 1.1)


#: Hears what the workers of a queue are told, whenever that is something else; ``None`` is nothing
#: any more.
OnControl = Callable[[Optional[QueueControl]], object]


class WorkerOptions(TypedDict, total=False):
    """What workers take; see :class:`Options`."""

    concurrency: int
    ttr: timedelta
    wait: timedelta
    stop_timeout: timedelta | None
    backoff: Backoff
    on_control: OnControl | None


@dataclass(frozen=True)
class Options:
    """How a worker works."""

    #: Jobs that are handled at the same time; so many are asked for.
    concurrency: int = 10
    #: How long a job is reserved; its lease is extended each third of it. A worker that dies keeps
    #: its jobs from others for as long.
    ttr: timedelta = timedelta(minutes=1)
    #: How long one question waits for jobs; a stop takes it back. A job is given out at once in any
    #: case.
    wait: timedelta = timedelta(seconds=5)
    #: How long a stop waits for handlers; ``None`` for as long as they take. Then their jobs are
    #: given back.
    stop_timeout: timedelta | None = timedelta(seconds=30)
    #: How long a failed job waits for its next try.
    backoff: Backoff = doubling
    #: Hears what the workers of the (first) queue are told; they do it by themselves. For workers
    #: of threads it is called in a thread of its own; for workers of tasks it may be an
    #: ``async def``.
    on_control: OnControl | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.concurrency <= 1000:  # noqa: PLR2004 - what one call gives out
            raise ValueError(f"concurrency must be 1 to 1000, not {self.concurrency}")
        if self.ttr <= timedelta(0):
            raise ValueError("ttr must be more than nothing")

    @property
    def extend_every(self) -> float:
        """Seconds between two extensions of a lease."""
        return self.ttr.total_seconds() * EXTENDED_AFTER


def release_terms(options: Options, job: Job, error: BaseException) -> tuple[Duration, str]:
    """When a failed job is tried again, and what is said of it."""
    delay: Duration | None = None
    text = f"{type(error).__name__}: {error}"
    if isinstance(error, Retry):
        delay = error.delay
        text = str(error)
    else:
        log.warning("job %s of %s/%s failed", job.id, job.namespace, job.queue, exc_info=error)
    if delay is None:
        delay = options.backoff(job, error)
    duration_text(delay)
    return delay, text[:ERROR_CHARS_MAX]


def ask_again_after(failed: int) -> float:
    """Seconds before the next question after so many in a row that were not answered."""
    return min(ASK_AGAIN_MAX, ASK_AGAIN_MIN * 2.0 ** min(failed - 1, 10)) * random.uniform(0.5, 1.0)


def still_held(job: Job) -> bool:
    """Whether it is worth saying again that a job is done; tells where it is not."""
    if time.monotonic() < job.lease.ends_at:
        return True
    log.error("job %s was done, but that could not be said before its lease ended; it may run again", job.id)
    return False


def tell_stale(acked: Acked, jobs: Iterable[Job]) -> None:
    """Logs which jobs were done in vain."""
    stale = set(acked.stale)
    for job in jobs:
        if job.reservation in stale:
            log.warning("job %s was done, but its lease had ended; it may run again", job.id)
