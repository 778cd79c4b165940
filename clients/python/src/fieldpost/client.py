"""The client for threads. One client may be used by many of them."""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Callable, TypeVar

from . import calls, queue_control
from .calls import Call, JobRef, Page, QueuePath
from .connections import Cancellation, Connections
from .consume_call import consume
from .coordination import Cache, Channels, Limiter, Lock
from .coordination_calls import LimitKind, LimitTerms
from .device import Commands, Device
from .errors import FieldpostError
from .lock_hold import LockTerms, Span
from .message import StreamInfo, StreamPath, streams
from .message_stream import MessageStream
from .model import UNSET, Acked, DeadLetter, QueueOverview, Job, JobTerms, JobView, NewJob, PublishedJob, Settings
from .operations import Operations
from .protocol import Retries, Server, read_answer
from .queue_control import QueueControl
from .tasks import Campaigns, Fleet, Tasks
from .times import Duration, Moment
from .worker import Handler, Worker
from .worker_options import WorkerOptions

if TYPE_CHECKING:
    from typing_extensions import Unpack

T = TypeVar("T")

_PAGE = 500


class Client:
    """A server, seen by threads.

    ``timeout`` is in seconds and holds for connecting and for each answer; what a call waits for jobs comes on top.
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:8080",
        *,
        token: str | None = None,
        timeout: float = 30.0,
        retries: Retries | None = None,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        self._connections = Connections(Server.at(url, token, ssl_context), timeout)
        self._retries = retries if retries is not None else Retries()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections."""
        self._connections.close()

    def queue(self, namespace: str, name: str) -> Queue:
        """A queue; asks nothing of the server."""
        return Queue(self, QueuePath(namespace, name))

    def stream(self, namespace: str, name: str) -> MessageStream:
        """A stream of messages; asks nothing of the server."""
        return MessageStream(self, StreamPath(namespace, name))

    def streams(self, namespace: str | None = None) -> Iterator[StreamInfo]:
        """The streams that may be read, in order of namespace and name."""
        return self._pages(lambda cursor: streams(namespace, _PAGE, cursor))

    def lock(self, namespace: str, name: str, *, ttl: Span = 30.0, wait: Span = 0.0) -> Lock:
        """A lock; asks nothing of the server. Its name is up to 255 of ``[A-Za-z0-9_.:-]``.

        Both times are seconds, or a ``timedelta``. ``ttl``: 1 ms to 7 days, 30 s unless given;
        ``wait``: up to 5 minutes, none unless given.
        """
        return Lock(self, LockTerms(namespace, name, ttl, wait))

    def limiter(
        self,
        namespace: str,
        name: str,
        *,
        limit: int,
        per: Duration,
        kind: LimitKind = "smooth",
    ) -> Limiter:
        """A limit of so much in a span of time; asks nothing of the server.

        Its name is up to 255 of ``[A-Za-z0-9_.:-]``. ``limit`` is at least 1, ``per`` up to 31
        days. ``smooth``: never more in any ``per``. ``window``: in spans aligned to the clock.
        """
        return Limiter(self, LimitTerms(namespace, name, limit, per, kind))

    def cache(self, namespace: str) -> Cache:
        """The cached values of a namespace; asks nothing of the server.

        Their keys are up to 255 of ``[A-Za-z0-9_.:-]``.
        """
        return Cache(self, namespace)

    def channels(self, namespace: str) -> Channels:
        """The channels of a namespace; asks nothing of the server.

        Their names are up to 255 of ``[A-Za-z0-9_.:-]``.
        """
        return Channels(self, namespace)

    def device(self, device: str) -> Device:
        """A device; asks nothing of the server."""
        return Device(self, device)

    def commands(self) -> Commands:
        """The commands of all devices; asks nothing of the server."""
        return Commands(self)

    def operations(self) -> Operations:
        """One action on everything that matches; asks nothing of the server."""
        return Operations(self)

    def tasks(self) -> Tasks:
        """Some devices of many, asked once; asks nothing of the server."""
        return Tasks(self)

    def campaigns(self) -> Campaigns:
        """Some devices of many, asked again and again; asks nothing of the server."""
        return Campaigns(self)

    def fleet(self) -> Fleet:
        """All devices together; asks nothing of the server."""
        return Fleet(self)

    def queues(self, namespace: str | None = None) -> Iterator[QueueOverview]:
        """How queues stand, in order of namespace and name."""
        return self._pages(lambda cursor: calls.queues(namespace, _PAGE, cursor))

    def consume(
        self,
        namespace: str,
        queues: Sequence[str],
        *,
        max_jobs: int = 1,
        ttr: Duration | None = None,
        wait: Duration | None = None,
    ) -> list[Job]:
        """Reserves jobs of several queues, of earlier ones first; see :meth:`Queue.consume`."""
        return self._run(consume(namespace, queues, max_jobs, ttr, wait)).jobs

    def worker(
        self, namespace: str, queues: Sequence[str], handler: Handler, **options: Unpack[WorkerOptions]
    ) -> Worker:
        """A worker for several queues, for earlier ones first; see :class:`Worker`."""
        return Worker(self, namespace, queues, handler, **options)

    def ack(self, job: Job) -> None:
        """The job is done. Raises :class:`StaleReservationError` when it was no longer yours."""
        self._run(calls.ack(job))

    def ack_many(self, jobs: Sequence[Job]) -> Acked:
        """Jobs, of any queues, are done; tells which were no longer yours."""
        acked, stale = 0, list[str]()
        for path, reservations in calls.by_queue(jobs).items():
            part = self._run(calls.ack_many(path, reservations))
            acked += part.acked
            stale += part.stale
        return Acked(acked, tuple(stale))

    def extend(self, job: Job, ttr: Duration) -> None:
        """The job stays yours for ``ttr`` from now on."""
        self._run(calls.extend(job, ttr))

    def release(self, job: Job, *, delay: Duration | None = None, error: str | None = None) -> None:
        """Gives the job back, to be tried again after ``delay``; after its last try it is dead, with ``error``."""
        self._run(calls.release(job, delay, error))

    def _run(self, call: Call[T], cancellation: Cancellation | None = None, retries: Retries | None = None) -> T:
        failed, retries = 0, retries or self._retries
        while True:
            try:
                return read_answer(call, self._connections.exchange(call, cancellation))
            except FieldpostError as error:
                failed += 1
                delay = retries.delay(failed, error, call.repeatable)
                if delay is None:
                    raise
                if cancellation is None:
                    time.sleep(delay)
                    continue
                cancellation.fails()
                if cancellation.wait(delay):
                    raise

    def _pages(self, page_at: Callable[[str | None], Call[Page[T]]]) -> Iterator[T]:
        cursor: str | None = None
        while True:
            page = self._run(page_at(cursor))
            yield from page.items
            cursor = page.next_cursor
            if cursor is None:
                return


class Queue:
    """A queue of a server."""

    def __init__(self, client: Client, path: QueuePath) -> None:
        self._client = client
        self._path = path

    @property
    def namespace(self) -> str:
        """The namespace that the queue is in."""
        return self._path.namespace

    @property
    def name(self) -> str:
        """The queue's name."""
        return self._path.queue

    def publish(
        self, payload: Any = None, *, idempotency_key: str | None = None, **terms: Unpack[JobTerms]
    ) -> PublishedJob:
        """Publishes a job; it is durable when this returns.

        ``terms`` are those of :class:`NewJob`: ``delay``, ``run_at``, ``ttl``, ``tries``, ``alias``, ``on_conflict``,
        ``group``, ``every``, ``cron``, ``tz``, ``executions``. The call carries an idempotency key of its own, so that
        a lost connection makes no second job; give one to have that also across calls.
        """
        return self.publish_many([NewJob(payload, **terms)], idempotency_key=idempotency_key)[0]

    def publish_many(self, jobs: Iterable[NewJob], *, idempotency_key: str | None = None) -> list[PublishedJob]:
        """Publishes up to 1,000 jobs, all or none; answers in the same order."""
        return self._client._run(calls.publish(self._path, list(jobs), idempotency_key))

    def consume(self, *, max_jobs: int = 1, ttr: Duration | None = None, wait: Duration | None = None) -> list[Job]:
        """Reserves up to ``max_jobs`` jobs for ``ttr``; waits up to ``wait`` for the first one."""
        return self._client.consume(self.namespace, [self.name], max_jobs=max_jobs, ttr=ttr, wait=wait)

    def worker(self, handler: Handler, **options: Unpack[WorkerOptions]) -> Worker:
        """A worker for this queue; see :class:`Worker`."""
        return self._client.worker(self.namespace, [self.name], handler, **options)

    def ack(self, job: Job) -> None:
        """See :meth:`Client.ack`."""
        self._client.ack(job)

    def ack_many(self, jobs: Sequence[Job]) -> Acked:
        """See :meth:`Client.ack_many`."""
        return self._client.ack_many(jobs)

    def extend(self, job: Job, ttr: Duration) -> None:
        """See :meth:`Client.extend`."""
        self._client.extend(job, ttr)

    def release(self, job: Job, *, delay: Duration | None = None, error: str | None = None) -> None:
        """See :meth:`Client.release`."""
        self._client.release(job, delay=delay, error=error)

    def get(self, job: JobRef) -> JobView:
        """Looks at a job without taking it: by its id, or by ``Alias("...")``."""
        return self._client._run(calls.get(self._path, job))

    def change(
        self,
        job: JobRef,
        *,
        payload: Any = UNSET,
        delay: Duration | None = None,
        run_at: Moment | None = None,
    ) -> JobView:
        """Gives a waiting job another payload or time. A reserved one raises :class:`ConflictError`."""
        return self._client._run(calls.change(self._path, job, payload, delay, run_at))

    def cancel(self, job: JobRef) -> None:
        """Cancels a job, also a reserved one: its reservation is stale from then on."""
        self._client._run(calls.cancel(self._path, job))

    def jobs(self, state: str | None = None) -> Iterator[JobView]:
        """Looks at jobs without taking them, in order of publishing; ``state`` is scheduled, ready or reserved."""
        return self._client._pages(lambda cursor: calls.jobs(self._path, state, _PAGE, cursor))

    def overview(self) -> QueueOverview:
        """How the queue stands."""
        return self._client._run(calls.overview(self._path))

    def set_settings(self, settings: Settings) -> None:
        """Sets what the queue does, all of it."""
        self._client._run(calls.set_settings(self._path, settings))

    def dead(self) -> Iterator[DeadLetter]:
        """The dead letters, oldest first."""
        return self._client._pages(lambda cursor: calls.dead(self._path, _PAGE, cursor))

    def respawn(self, ids: Iterable[str] | None = None, *, limit: int | None = None) -> int:
        """Has dead jobs tried again, with all their tries: those of these ids, or the oldest ones. Answers how many."""
        return self._client._run(calls.respawn(self._path, ids, limit))

    def delete_dead(self) -> None:
        """Throws the dead letters away."""
        self._client._run(calls.delete_dead(self._path))

    def pause(self) -> None:
        """Gives out no jobs until :meth:`resume`."""
        self._client._run(calls.pause(self._path))

    def resume(self) -> None:
        """Gives out jobs again."""
        self._client._run(calls.resume(self._path))

    def control(self) -> QueueControl | None:
        """What its workers are told, if anything."""
        return self._client._run(queue_control.control(self._path))

    def set_control(self, told: QueueControl) -> None:
        """Tells its workers what to do, all of it: durable, and done within a second or two.

        Where workers take jobs of several queues, the first one's control counts.
        """
        self._client._run(queue_control.set_control(self._path, told))

    def delete_control(self) -> None:
        """Deletes the control: workers that still run take jobs again. Stopped ones have ended."""
        self._client._run(queue_control.delete_control(self._path))

    def delete(self) -> None:
        """Deletes the queue with its jobs, dead letters and settings."""
        self._client._run(calls.delete(self._path))
