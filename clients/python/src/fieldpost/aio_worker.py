"""A worker of tasks: takes jobs, has a handler do them, keeps their leases, and settles them.

Each job is a task, which runs its handler beside the extensions of its lease and then settles it. What is done is
acknowledged together: while one call is under way, the next one gathers.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, Any, Callable

from .aio_connections import Cancellation
from .consume_call import Consumed, consume
from .errors import StaleReservationError, is_for_good
from .model import Job
from .queue_control import QueueControl, control_of_first
from .times import Duration
from .worker_control import LOOK_EVERY, KnownControl
from .worker_options import (
    CANCELLATION_SECONDS_MAX,
    Options,
    WorkerOptions,
    ask_again_after,
    log,
    release_terms,
    still_held,
    tell_stale,
)

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .aio import AsyncClient

#: Does a job: the job is done when it returns, and tried again when it raises.
AsyncHandler = Callable[[Job], Awaitable[object]]


class AsyncWorker:
    """Handles jobs of one or more queues of a namespace, of earlier queues first.

    The options are those of :class:`fieldpost.Options`. A handler that takes longer than ``ttr`` keeps its job: the
    lease is extended while it runs. When a lease is lost all the same - the job was cancelled, or the server could not
    be reached for too long - the handler is cancelled.

    What the workers of the first queue are told (:meth:`AsyncQueue.set_control`) it does by itself.
    """

    def __init__(
        self,
        client: AsyncClient,
        namespace: str,
        queues: Sequence[str],
        handler: AsyncHandler,
        **options: Unpack[WorkerOptions],
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._queues = list(queues)
        self._control_call = control_of_first(namespace, self._queues)
        self._handler = handler
        self._options = Options(**options)
        self._tasks: set[asyncio.Task[None]] = set()
        self._done: list[tuple[Job, asyncio.Future[None]]] = []
        self._acker: asyncio.Task[None] | None = None
        self._stopping = False
        # What on_control is still to hear, in order, and who calls it.
        self._untold: list[QueueControl | None] = []
        self._teller: asyncio.Task[None] | None = None
        # Something has ended, or is to end. Made in the loop that it is for.
        self._news: asyncio.Event | None = None
        # The worker is to end.
        self._stop: asyncio.Event | None = None

    async def run(self) -> None:
        """Works until :meth:`stop` is called or the queue's workers are told to, then finishes what it has begun.

        Raises what only a person can mend, such as a token that is refused; everything else is logged and tried again.
        When the task that this runs in is cancelled, handlers are cancelled too, and their jobs given back.
        """
        self._news, self._stop = asyncio.Event(), asyncio.Event()
        if self._stopping:
            self._stop.set()
        timeout = self._options.stop_timeout
        try:
            await self._take()
            if self._tasks:
                await asyncio.wait(self._tasks, timeout=None if timeout is None else timeout.total_seconds())
            if self._teller is not None:
                await asyncio.wait({self._teller}, timeout=CANCELLATION_SECONDS_MAX)
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            for rest in (self._acker, self._teller):
                if rest is not None:
                    # Still there only where nobody waits any longer.
                    rest.cancel()
            self._teller = None

    def stop(self) -> None:
        """Takes no more jobs; :meth:`run` returns when those it has are settled. Also for signal handlers."""
        self._stopping = True
        for event in (self._news, self._stop):
            if event is not None:
                event.set()

    async def _take(self) -> None:
        known, unanswered = KnownControl(self._options), 0
        while not (self._stopping or known.is_stopped):
            # Who asks is given jobs, whatever it is told: so what it is told is known before.
            looks, free = known.is_due, known.free_slots(len(self._tasks))
            if not looks and free == 0:
                await self._hear(known.look_at - time.monotonic())
                continue
            try:
                consumed = await (self._look() if looks else self._ask(free, known))
            except Exception as error:
                if is_for_good(error):
                    raise
                if self._stopping:
                    # Taken back, as it was to be.
                    return
                unanswered += 1
                log.warning("the server could not be asked: %s", error)
                await self._hear(ask_again_after(unanswered))
                continue
            if consumed is None:
                continue
            unanswered = unanswered if looks else 0
            if known.update(consumed.control):
                self._tell(consumed.control)
            self._begin(consumed.jobs)

    def _begin(self, jobs: list[Job]) -> None:
        for job in jobs:
            job.lease.ends_at = time.monotonic() + self._options.ttr.total_seconds()
            task = asyncio.ensure_future(self._work(job))
            self._tasks.add(task)
            task.add_done_callback(self._ended)

    async def _ask(self, free: int, known: KnownControl) -> Consumed | None:
        """Asks for jobs; a stop takes the question back, and so does a look that finds something else to be told."""
        assert self._stop is not None, "run has made it"
        options, cancellation = self._options, Cancellation()
        call = consume(self._namespace, self._queues, free, options.ttr, options.wait)
        asking = asyncio.ensure_future(self._client._run(call, cancellation))
        stopped = asyncio.ensure_future(self._stop.wait())
        looking = asyncio.ensure_future(self._look_once(known))
        try:
            await asyncio.wait({asking, stopped, looking}, return_when=asyncio.FIRST_COMPLETED)
            if asking.done():
                return asking.result()
            is_asked = cancellation.cancel()
            if is_asked:
                await asyncio.wait({asking}, timeout=CANCELLATION_SECONDS_MAX)
            if not looking.done() or looking.cancelled():
                return asking.result() if asking.done() else None
            # What the question was taken back for; its answer may be older, but its jobs are there.
            is_answered = asking.done() and asking.exception() is None
            return Consumed(asking.result().jobs if is_answered else [], looking.result())
        finally:
            for task in (stopped, asking, looking):
                task.cancel()
            await asyncio.gather(asking, stopped, looking, return_exceptions=True)

    async def _look_once(self, known: KnownControl) -> QueueControl | None:
        """Looks whether something else is told than when a question began, and returns only then."""
        failed, is_seen = 0, False
        while not is_seen:
            await asyncio.sleep(ask_again_after(failed) if failed else LOOK_EVERY)
            try:
                found = await self._client._run(self._control_call)
            except Exception as error:
                # One that does not pass by itself is the answer to the question too.
                log.warning("what workers are told could not be seen: %r", error)
                failed += 1
            else:
                is_seen = True
                if known.differs(found):
                    return found
        # A change from here on ends the question.
        never: asyncio.Future[QueueControl | None] = asyncio.get_running_loop().create_future()
        return await never

    async def _look(self) -> Consumed | None:
        """What the workers are told now; nothing where the worker is to end meanwhile."""
        assert self._stop is not None, "run has made it"
        looking = asyncio.ensure_future(self._client._run(self._control_call))
        stopped = asyncio.ensure_future(self._stop.wait())
        try:
            await asyncio.wait({looking, stopped}, return_when=asyncio.FIRST_COMPLETED)
            return Consumed([], looking.result()) if looking.done() else None
        finally:
            for task in (looking, stopped):
                task.cancel()
            await asyncio.gather(looking, stopped, return_exceptions=True)

    def _tell(self, told: QueueControl | None) -> None:
        if self._options.on_control is None:
            return
        self._untold.append(told)
        if self._teller is None:
            self._teller = asyncio.ensure_future(self._tell_all())

    async def _tell_all(self) -> None:
        on_control = self._options.on_control
        while self._untold and on_control is not None:
            try:
                heard = on_control(self._untold.pop(0))
                if inspect.isawaitable(heard):
                    await heard
            except Exception:
                log.exception("on_control failed")
        self._teller = None

    async def _hear(self, timeout: float | None) -> None:
        """Waits until a job has ended or the worker is stopped."""
        assert self._news is not None, "run has made it"
        self._news.clear()
        if self._stopping:
            return
        try:
            await asyncio.wait_for(self._news.wait(), timeout)
        except asyncio.TimeoutError:
            return

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if self._news is not None:
            self._news.set()

    async def _work(self, job: Job) -> None:
        handler = asyncio.ensure_future(self._handle(job))
        try:
            await self._keep(job, handler)
        except asyncio.CancelledError:
            handler.cancel()
            await asyncio.gather(handler, return_exceptions=True)
            await self._release(job, 0, "the worker stopped")
            raise
        if job.lease_lost:
            return
        error = handler.exception() if not handler.cancelled() else asyncio.CancelledError("the handler")
        if error is None:
            await self._ack(job)
        else:
            await self._release(job, *release_terms(self._options, job, error))

    async def _handle(self, job: Job) -> None:
        await self._handler(job)

    async def _keep(self, job: Job, handler: asyncio.Future[Any]) -> None:
        """Extends the lease until the handler has ended, or cancels it where that cannot be done."""
        ttr = self._options.ttr.total_seconds()
        lease = job.lease
        while not handler.done():
            await asyncio.wait({handler}, timeout=self._options.extend_every)
            if handler.done():
                return
            began = time.monotonic()
            try:
                # A call that outlasts the lease is no longer worth waiting for.
                await asyncio.wait_for(self._client.extend(job, self._options.ttr), max(0.0, lease.ends_at - began))
                lease.ends_at = began + ttr
            except StaleReservationError:
                lease.lost = True
            except Exception as error:
                log.warning("the lease of job %s could not be extended: %r", job.id, error)
                lease.lost = time.monotonic() >= lease.ends_at
            if lease.lost:
                log.warning("the lease of job %s was lost; it may run again", job.id)
                handler.cancel()
                await asyncio.gather(handler, return_exceptions=True)

    async def _ack(self, job: Job) -> None:
        acked = asyncio.get_running_loop().create_future()
        self._done.append((job, acked))
        if self._acker is None:
            self._acker = asyncio.ensure_future(self._ack_all())
        await asyncio.shield(acked)

    async def _ack_all(self) -> None:
        unacked = 0
        while self._done:
            done, self._done = self._done, []
            jobs = [job for job, _ in done]
            try:
                tell_stale(await self._client.ack_many(jobs), jobs)
                unacked = 0
            except Exception as error:
                log.warning("%d jobs are done, but it could not be said: %r", len(jobs), error)
                unacked += 1
                if not is_for_good(error):
                    held = [(job, acked) for job, acked in done if still_held(job)]
                    done = [each for each in done if each not in held]
                    self._done += held
            for _, acked in done:
                if not acked.done():
                    acked.set_result(None)
            if unacked:
                await asyncio.sleep(ask_again_after(unacked))
        self._acker = None

    async def _release(self, job: Job, delay: Duration, error: str) -> None:
        try:
            await self._client.release(job, delay=delay, error=error)
        except StaleReservationError:
            log.warning("job %s was to be given back, but its lease had ended", job.id)
        except Exception:
            log.exception("job %s could not be given back; it comes again when its lease ends", job.id)
