"""The client for tasks. It belongs to the event loop that it is first used in."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Callable, TypeVar

from . import calls, queue_control
from .aio_connections import AsyncConnections, Cancellation
from .aio_coordination import AsyncCache, AsyncChannels, AsyncLimiter, AsyncLock
from .aio_device import AsyncCommands, AsyncDevice
from .aio_tasks import AsyncCampaigns, AsyncFleet, AsyncTasks
from .aio_worker import AsyncHandler, AsyncWorker
from .calls import Call, JobRef, Page, QueuePath
from .consume_call import consume
from .coordination_calls import LimitKind, LimitTerms
from .errors import FieldpostError
from .lock_hold import LockTerms, Span
from .message import StreamInfo, StreamPath, streams
from .message_stream import AsyncMessageStream
from .model import UNSET, Acked, DeadLetter, QueueOverview, Job, JobTerms, JobView, NewJob, PublishedJob, Settings
from .operations import AsyncOperations
from .protocol import Retries, Server, read_answer
from .queue_control import QueueControl
from .times import Duration, Moment
from .worker_options import WorkerOptions

if TYPE_CHECKING:
    from typing_extensions import Unpack

T = TypeVar("T")

_PAGE = 500


class AsyncClient:
    """A server, seen by tasks; the same as :class:`fieldpost.Client` otherwise.

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
        self._connections = AsyncConnections(Server.at(url, token, ssl_context), timeout)
        self._retries = retries if retries is not None else Retries()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connections."""
        await self._connections.close()

    def queue(self, namespace: str, name: str) -> AsyncQueue:
        """A queue; asks nothing of the server."""
        return AsyncQueue(self, QueuePath(namespace, name))

    def stream(self, namespace: str, name: str) -> AsyncMessageStream:
        """A stream of messages; asks nothing of the server."""
        return AsyncMessageStream(self, StreamPath(namespace, name))

    def streams(self, namespace: str | None = None) -> AsyncIterator[StreamInfo]:
        """The streams that may be read, in order of namespace and name."""
        return self._pages(lambda cursor: streams(namespace, _PAGE, cursor))

    def lock(self, namespace: str, name: str, *, ttl: Span = 30.0, wait: Span = 0.0) -> AsyncLock:
        """A lock; asks nothing of the server. Its name is up to 255 of ``[A-Za-z0-9_.:-]``.

        Both times are seconds, or a ``timedelta``. ``ttl``: 1 ms to 7 days, 30 s unless given;
        ``wait``: up to 5 minutes, none unless given.
        """
        return AsyncLock(self, LockTerms(namespace, name, ttl, wait))

    def limiter(
        self,
        namespace: str,
        name: str,
        *,
        limit: int,
        per: Duration,
        kind: LimitKind = "smooth",
    ) -> AsyncLimiter:
        """A limit of so much in a span of time; asks nothing of the server.

        Its name is up to 255 of ``[A-Za-z0-9_.:-]``. ``limit`` is at least 1, ``per`` up to 31
        days. ``smooth``: never more in any ``per``. ``window``: in spans aligned to the clock.
        """
        return AsyncLimiter(self, LimitTerms(namespace, name, limit, per, kind))

    def cache(self, namespace: str) -> AsyncCache:
        """The cached values of a namespace; asks nothing of the server.

        Their keys are up to 255 of ``[A-Za-z0-9_.:-]``.
        """
        return AsyncCache(self, namespace)

    def channels(self, namespace: str) -> AsyncChannels:
        """The channels of a namespace; asks nothing of the server.

        Their names are up to 255 of ``[A-Za-z0-9_.:-]``.
        """
        return AsyncChannels(self, namespace)

    def device(self, device: str) -> AsyncDevice:
        """A device; asks nothing of the server."""
        return AsyncDevice(self, device)

    def commands(self) -> AsyncCommands:
        """The commands of all devices; asks nothing of the server."""
        return AsyncCommands(self)

    def operations(self) -> AsyncOperations:
        """One action on everything that matches; asks nothing of the server."""
        return AsyncOperations(self)

    def tasks(self) -> AsyncTasks:
        """Some devices of many, asked once; asks nothing of the server."""
        return AsyncTasks(self)

    def campaigns(self) -> AsyncCampaigns:
        """Some devices of many, asked again and again; asks nothing of the server."""
        return AsyncCampaigns(self)

    def fleet(self) -> AsyncFleet:
        """All devices together; asks nothing of the server."""
        return AsyncFleet(self)

    def queues(self, namespace: str | None = None) -> AsyncIterator[QueueOverview]:
        """How queues stand, in order of namespace and name."""
        return self._pages(lambda cursor: calls.queues(namespace, _PAGE, cursor))

    async def consume(
        self,
        namespace: str,
        queues: Sequence[str],
        *,
        max_jobs: int = 1,
        ttr: Duration | None = None,
        wait: Duration | None = None,
    ) -> list[Job]:
        """Reserves jobs of several queues, of earlier ones first; see :meth:`AsyncQueue.consume`."""
        return (await self._run(consume(namespace, queues, max_jobs, ttr, wait))).jobs

    def worker(
        self, namespace: str, queues: Sequence[str], handler: AsyncHandler, **options: Unpack[WorkerOptions]
    ) -> AsyncWorker:
        """A worker for several queues, for earlier ones first; see :class:`AsyncWorker`."""
        return AsyncWorker(self, namespace, queues, handler, **options)

    async def ack(self, job: Job) -> None:
        """The job is done. Raises :class:`StaleReservationError` when it was no longer yours."""
        await self._run(calls.ack(job))

    async def ack_many(self, jobs: Sequence[Job]) -> Acked:
        """Jobs, of any queues, are done; tells which were no longer yours."""
        acked, stale = 0, list[str]()
        for path, reservations in calls.by_queue(jobs).items():
            part = await self._run(calls.ack_many(path, reservations))
            acked += part.acked
            stale += part.stale
        return Acked(acked, tuple(stale))

    async def extend(self, job: Job, ttr: Duration) -> None:
        """The job stays yours for ``ttr`` from now on."""
        await self._run(calls.extend(job, ttr))

    async def release(self, job: Job, *, delay: Duration | None = None, error: str | None = None) -> None:
        """Gives the job back, to be tried again after ``delay``; after its last try it is dead, with ``error``."""
        await self._run(calls.release(job, delay, error))

    async def _run(self, call: Call[T], cancellation: Cancellation | None = None, retries: Retries | None = None) -> T:
        failed, retries = 0, retries or self._retries
        while True:
            try:
                return read_answer(call, await self._connections.exchange(call, cancellation))
            except FieldpostError as error:
                failed += 1
                delay = retries.delay(failed, error, call.repeatable)
                if delay is None or (cancellation is not None and cancellation.is_cancelled):
                    raise
            await asyncio.sleep(delay)

    async def _pages(self, page_at: Callable[[str | None], Call[Page[T]]]) -> AsyncIterator[T]:
        cursor: str | None = None
        while True:
            page = await self._run(page_at(cursor))
            for item in page.items:
                yield item
            cursor = page.next_cursor
            if cursor is None:
                return


class AsyncQueue:
    """A queue of a server."""

    def __init__(self, client: AsyncClient, path: QueuePath) -> None:
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

    async def publish(
        self, payload: Any = None, *, idempotency_key: str | None = None, **terms: Unpack[JobTerms]
    ) -> PublishedJob:
        """Publishes a job; it is durable when this returns. See :meth:`fieldpost.Queue.publish`."""
        published = await self.publish_many([NewJob(payload, **terms)], idempotency_key=idempotency_key)
        return published[0]

    async def publish_many(self, jobs: Iterable[NewJob], *, idempotency_key: str | None = None) -> list[PublishedJob]:
        """Publishes up to 1,000 jobs, all or none; answers in the same order."""
        return await self._client._run(calls.publish(self._path, list(jobs), idempotency_key))

    async def consume(
        self, *, max_jobs: int = 1, ttr: Duration | None = None, wait: Duration | None = None
    ) -> list[Job]:
        """Reserves up to ``max_jobs`` jobs for ``ttr``; waits up to ``wait`` for the first one."""
        return await self._client.consume(self.namespace, [self.name], max_jobs=max_jobs, ttr=ttr, wait=wait)

    def worker(self, handler: AsyncHandler, **options: Unpack[WorkerOptions]) -> AsyncWorker:
        """A worker for this queue; see :class:`AsyncWorker`."""
        return self._client.worker(self.namespace, [self.name], handler, **options)

    async def ack(self, job: Job) -> None:
        """See :meth:`AsyncClient.ack`."""
        await self._client.ack(job)

    async def ack_many(self, jobs: Sequence[Job]) -> Acked:
        """See :meth:`AsyncClient.ack_many`."""
        return await self._client.ack_many(jobs)

    async def extend(self, job: Job, ttr: Duration) -> None:
        """See :meth:`AsyncClient.extend`."""
        await self._client.extend(job, ttr)

    async def release(self, job: Job, *, delay: Duration | None = None, error: str | None = None) -> None:
        """See :meth:`AsyncClient.release`."""
        await self._client.release(job, delay=delay, error=error)

    async def get(self, job: JobRef) -> JobView:
        """Looks at a job without taking it: by its id, or by ``Alias("...")``."""
        return await self._client._run(calls.get(self._path, job))

    async def change(
        self,
        job: JobRef,
        *,
        payload: Any = UNSET,
        delay: Duration | None = None,
        run_at: Moment | None = None,
    ) -> JobView:
        """Gives a waiting job another payload or time. A reserved one raises :class:`ConflictError`."""
        return await self._client._run(calls.change(self._path, job, payload, delay, run_at))

    async def cancel(self, job: JobRef) -> None:
        """Cancels a job, also a reserved one: its reservation is stale from then on."""
        await self._client._run(calls.cancel(self._path, job))

    def jobs(self, state: str | None = None) -> AsyncIterator[JobView]:
        """Looks at jobs without taking them, in order of publishing; ``state`` is scheduled, ready or reserved."""
        return self._client._pages(lambda cursor: calls.jobs(self._path, state, _PAGE, cursor))

    async def overview(self) -> QueueOverview:
        """How the queue stands."""
        return await self._client._run(calls.overview(self._path))

    async def set_settings(self, settings: Settings) -> None:
        """Sets what the queue does, all of it."""
        await self._client._run(calls.set_settings(self._path, settings))

    def dead(self) -> AsyncIterator[DeadLetter]:
        """The dead letters, oldest first."""
        return self._client._pages(lambda cursor: calls.dead(self._path, _PAGE, cursor))

    async def respawn(self, ids: Iterable[str] | None = None, *, limit: int | None = None) -> int:
        """Has dead jobs tried again, with all their tries: those of these ids, or the oldest ones. Answers how many."""
        return await self._client._run(calls.respawn(self._path, ids, limit))

    async def delete_dead(self) -> None:
        """Throws the dead letters away."""
        await self._client._run(calls.delete_dead(self._path))

    async def pause(self) -> None:
        """Gives out no jobs until :meth:`resume`."""
        await self._client._run(calls.pause(self._path))

    async def resume(self) -> None:
        """Gives out jobs again."""
        await self._client._run(calls.resume(self._path))

    async def control(self) -> QueueControl | None:
        """What its workers are told, if anything."""
        return await self._client._run(queue_control.control(self._path))

    async def set_control(self, told: QueueControl) -> None:
        """Tells its workers what to do, all of it: durable, and done within a second or two.

        Where workers take jobs of several queues, the first one's control counts.
        """
        await self._client._run(queue_control.set_control(self._path, told))

    async def delete_control(self) -> None:
        """Deletes the control: workers that still run take jobs again. Stopped ones have ended."""
        await self._client._run(queue_control.delete_control(self._path))

    async def delete(self) -> None:
        """Deletes the queue with its jobs, dead letters and settings."""
        await self._client._run(calls.delete(self._path))
