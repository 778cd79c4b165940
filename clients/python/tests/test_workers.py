"""Workers, of threads and of tasks, against a real server."""

from __future__ import annotations

import asyncio
import logging
import threading
import unittest
import uuid
from collections.abc import Awaitable
from datetime import timedelta
from typing import Any, Callable

import fieldpost
from fieldpost import Job, NewJob, Retry

from .live import PATIENCE, Live, server_url, until, waiting_consumers
from .scripted import HANG_UP, Scripted, answer

AT_ONCE = timedelta(milliseconds=20)
#: Of a job that is to be kept, also on a machine that is busy with other tests.
TTR = timedelta(seconds=9)

NOT_NOW = answer(503, {"code": "not_accepting"})
NO_JOBS = answer(200, {"jobs": []})
#: Workers look what they are told before they ask for jobs.
NO_CONTROL = answer(404, {"code": "no_control"})
ONE_JOB = answer(
    200,
    {
        "jobs": [
            {
                "id": "01J",
                "queue": "q",
                "payload": 1,
                "attempt": 1,
                "tries": 1,
                "reservation": "r",
                "published_at": "2026-11-21T01:02:03Z",
                "run_at": "2026-11-21T01:02:03Z",
            }
        ]
    },
)
ACKED = answer(200, {"acked": 1, "stale": []})


def backoff(_: Job, __: BaseException) -> timedelta:
    return AT_ONCE


class Workers(Live):
    """A worker of threads; each test stops it and sees it end."""

    def setUp(self) -> None:
        super().setUp()
        logging.getLogger("fieldpost").setLevel(logging.CRITICAL)
        self.failure: BaseException | None = None

    def start(self, handler: Callable[[Job], object], client: Any = None, **options: Any) -> fieldpost.Worker:
        options = {"wait": timedelta(milliseconds=200), "backoff": backoff, **options}
        queue = (client or self.client).queue(self.namespace, "q")
        worker: fieldpost.Worker = queue.worker(handler, **options)

        def run() -> None:
            try:
                worker.run()
            except fieldpost.FieldpostError as error:
                self.failure = error

        self.thread = threading.Thread(target=run)
        self.thread.start()
        self.addCleanup(self.end, worker)
        return worker

    def end(self, worker: fieldpost.Worker) -> None:
        worker.stop()
        self.thread.join(PATIENCE)
        self.assertFalse(self.thread.is_alive(), "the worker has ended")

    def is_empty(self) -> bool:
        overview = self.queue.overview()
        return not (overview.ready or overview.reserved or overview.scheduled)

    def test_every_job_is_handled_once(self) -> None:
        handled: list[Any] = []
        worker = self.start(lambda job: handled.append(job.payload), concurrency=7)
        for part in range(3):
            self.queue.publish_many([NewJob(part * 50 + n) for n in range(50)])
        until("all are done", self.is_empty)
        self.end(worker)
        self.assertEqual(sorted(handled), list(range(150)))
        self.assertEqual(self.queue.overview().dead, 0)

    def test_so_many_handlers_run_at_a_time(self) -> None:
        together = threading.Barrier(4)
        worker = self.start(lambda _: together.wait(PATIENCE), concurrency=4)
        self.queue.publish_many([NewJob(n) for n in range(8)])
        until("all have met three others", self.is_empty)
        self.end(worker)
        self.assertFalse(together.broken)

    def test_a_handler_that_raises_has_its_job_again(self) -> None:
        attempts: list[int] = []

        def handle(job: Job) -> None:
            attempts.append(job.attempt)
            if job.attempt == 1:
                raise ValueError("not yet")
            if job.attempt == 2:
                raise Retry(AT_ONCE, "still not")

        self.queue.publish(1, tries=3)
        worker = self.start(handle)
        until("it is done", self.is_empty)
        self.end(worker)
        self.assertEqual(attempts, [1, 2, 3])

    def test_a_job_that_fails_to_the_end_is_dead_with_its_error(self) -> None:
        def handle(_: Job) -> None:
            raise ValueError("no such person")

        self.queue.publish(1, tries=2)
        self.start(handle)
        until("it is dead", lambda: bool(self.queue.overview().dead == 1))
        [letter] = self.queue.dead()
        self.assertEqual((letter.error, letter.attempt), ("ValueError: no such person", 2))

    def test_a_long_job_keeps_its_lease(self) -> None:
        attempts: list[int] = []
        enough = threading.Event()
        watched = Watched(server_url())
        self.addCleanup(watched.close)

        def handle(job: Job) -> None:
            attempts.append(job.attempt)
            # The third extension is asked for when the first lease would be over.
            watched.extensions.acquire(timeout=PATIENCE)
            watched.extensions.acquire(timeout=PATIENCE)
            watched.extensions.acquire(timeout=PATIENCE)
            enough.set()

        self.queue.publish(1, tries=5)
        worker = self.start(handle, watched, ttr=TTR)
        self.assertTrue(enough.wait(PATIENCE))
        until("it is done", self.is_empty)
        self.end(worker)
        self.assertEqual(attempts, [1])

    def test_a_handler_learns_that_its_job_is_no_longer_its_own(self) -> None:
        started, lost = threading.Event(), threading.Event()

        def handle(job: Job) -> None:
            started.set()
            until("the lease is lost", lambda: job.lease_lost)
            lost.set()

        published = self.queue.publish(1)
        worker = self.start(handle, ttr=TTR)
        self.assertTrue(started.wait(PATIENCE))
        self.queue.cancel(published.id)
        self.assertTrue(lost.wait(PATIENCE))
        self.end(worker)

    def test_a_stop_waits_for_what_has_begun(self) -> None:
        started, go_on = threading.Event(), threading.Event()

        def handle(_: Job) -> None:
            started.set()
            go_on.wait(PATIENCE)

        self.queue.publish(1)
        worker = self.start(handle, concurrency=1)
        self.assertTrue(started.wait(PATIENCE))
        worker.stop()
        self.queue.publish(2)
        go_on.set()
        self.end(worker)
        self.assertEqual([job.payload for job in self.queue.jobs()], [2])

    def test_a_worker_that_waits_for_jobs_stops_at_once(self) -> None:
        worker = self.start(lambda _: None, wait=10 * timedelta(seconds=PATIENCE))
        until("it waits", lambda: waiting_consumers() == 1)
        self.end(worker)
        until("the server knows that it has gone", lambda: waiting_consumers() == 0)
        self.queue.publish(1)
        self.assertEqual([job.attempt for job in self.queue.consume()], [1], "it took nothing along")

    def test_a_stop_gives_back_what_takes_too_long(self) -> None:
        started, go_on = threading.Event(), threading.Event()
        self.addCleanup(go_on.set)

        def handle(_: Job) -> None:
            started.set()
            go_on.wait(PATIENCE)

        self.queue.publish(1, tries=2)
        worker = self.start(handle, ttr=timedelta(hours=1), stop_timeout=timedelta(0))
        self.assertTrue(started.wait(PATIENCE))
        self.end(worker)
        self.assertEqual([job.attempt for job in self.queue.consume()], [2])

    def test_earlier_queues_of_a_worker_come_first(self) -> None:
        handled: list[str] = []
        for name in ("low", "high"):
            self.client.queue(self.namespace, name).publish_many([NewJob(name)] * 3)
        worker = self.client.worker(
            self.namespace, ["high", "low"], lambda job: handled.append(job.payload), concurrency=1
        )
        thread = threading.Thread(target=worker.run)
        thread.start()
        until("all are handled", lambda: len(handled) == 6)
        worker.stop()
        thread.join(PATIENCE)
        self.assertEqual(handled, ["high"] * 3 + ["low"] * 3)

    def test_a_refused_token_ends_the_worker(self) -> None:
        with Scripted([answer(401, {"code": "no_token", "detail": "who are you"})]) as server:
            client = fieldpost.Client(server.url)
            self.addCleanup(client.close)
            self.start(lambda _: None, client)
            self.thread.join(PATIENCE)
        self.assertIsInstance(self.failure, fieldpost.UnauthorizedError)

    def test_a_server_that_is_not_there_is_asked_again(self) -> None:
        handled = threading.Event()
        with Scripted([NO_CONTROL, NOT_NOW, NO_CONTROL, ONE_JOB, ACKED] + [NO_JOBS] * 10_000) as server:
            client = fieldpost.Client(server.url, retries=fieldpost.Retries(most=0))
            worker = self.start(lambda _: handled.set(), client, concurrency=1)
            self.assertTrue(handled.wait(PATIENCE))
            self.end(worker)
            client.close()

    def test_what_is_done_is_said_until_it_is_heard(self) -> None:
        with Scripted([NO_CONTROL, ONE_JOB, NOT_NOW, HANG_UP, ACKED, NO_JOBS]) as server:
            client = fieldpost.Client(server.url, retries=fieldpost.Retries(most=0))
            worker = self.start(lambda _: worker.stop(), client, concurrency=1)
            self.thread.join(PATIENCE)
            client.close()
        acks = [body for first, _, body in server.requests if first.endswith("/ack")]
        self.assertEqual(acks, [b'{"reservations":["r"]}'] * 3)


class Watched(fieldpost.Client):
    """Counts the extensions that were granted."""

    def __init__(self, url: str) -> None:
        super().__init__(url, timeout=PATIENCE)
        self.extensions = threading.Semaphore(0)

    def extend(self, job: Job, ttr: Any) -> None:
        super().extend(job, ttr)
        self.extensions.release()


class AsyncWorkers(unittest.IsolatedAsyncioTestCase):
    """A worker of tasks."""

    async def asyncSetUp(self) -> None:
        logging.getLogger("fieldpost").setLevel(logging.CRITICAL)
        self.namespace = f"t{uuid.uuid4().hex}"
        self.client = fieldpost.AsyncClient(server_url(), timeout=PATIENCE)
        self.queue = self.client.queue(self.namespace, "q")

    async def asyncTearDown(self) -> None:
        await self.client.close()

    async def until(self, what: str, holds: Callable[[fieldpost.QueueOverview], bool]) -> None:
        async def asked() -> None:
            while not holds(await self.queue.overview()):
                pass

        try:
            await asyncio.wait_for(asked(), PATIENCE)
        except asyncio.TimeoutError:
            self.fail(f"not within {PATIENCE} s: {what}")

    async def until_empty(self) -> None:
        await self.until("all are done", lambda is_: not (is_.ready or is_.reserved or is_.scheduled))

    def start(self, handler: Callable[[Job], Awaitable[object]], **options: Any) -> fieldpost.AsyncWorker:
        options = {"wait": timedelta(milliseconds=200), "backoff": backoff, **options}
        worker = self.queue.worker(handler, **options)
        self.running = asyncio.ensure_future(worker.run())
        return worker

    async def end(self, worker: fieldpost.AsyncWorker) -> None:
        worker.stop()
        await asyncio.wait_for(self.running, PATIENCE)

    async def test_every_job_is_handled_once(self) -> None:
        handled: list[Any] = []

        async def handle(job: Job) -> None:
            handled.append(job.payload)

        worker = self.start(handle, concurrency=7)
        for part in range(3):
            await self.queue.publish_many([NewJob(part * 50 + n) for n in range(50)])
        await self.until_empty()
        await self.end(worker)
        self.assertEqual(sorted(handled), list(range(150)))
        self.assertEqual((await self.queue.overview()).dead, 0)

    async def test_so_many_handlers_run_at_a_time(self) -> None:
        inside, most = 0, 0
        all_inside = asyncio.Event()

        async def handle(_: Job) -> None:
            nonlocal inside, most
            inside += 1
            most = max(most, inside)
            if inside == 4:
                all_inside.set()
            await all_inside.wait()
            inside -= 1

        worker = self.start(handle, concurrency=4)
        await self.queue.publish_many([NewJob(n) for n in range(8)])
        await self.until_empty()
        await self.end(worker)
        self.assertEqual(most, 4)

    async def test_a_handler_that_raises_has_its_job_again(self) -> None:
        attempts: list[int] = []

        async def handle(job: Job) -> None:
            attempts.append(job.attempt)
            if job.attempt == 1:
                raise ValueError("not yet")
            if job.attempt == 2:
                raise Retry(AT_ONCE, "still not")

        await self.queue.publish(1, tries=3)
        worker = self.start(handle)
        await self.until_empty()
        await self.end(worker)
        self.assertEqual(attempts, [1, 2, 3])

    async def test_a_job_that_fails_to_the_end_is_dead_with_its_error(self) -> None:
        async def handle(_: Job) -> None:
            raise ValueError("no such person")

        await self.queue.publish(1, tries=2)
        worker = self.start(handle)
        await self.until("it is dead", lambda is_: is_.dead == 1)
        await self.end(worker)
        self.assertEqual([letter.error async for letter in self.queue.dead()], ["ValueError: no such person"])

    async def test_a_long_job_keeps_its_lease(self) -> None:
        attempts: list[int] = []
        client = WatchedTasks(server_url(), timeout=PATIENCE)
        self.queue = client.queue(self.namespace, "q")

        async def handle(job: Job) -> None:
            attempts.append(job.attempt)
            # The third extension is asked for when the first lease would be over.
            for _ in range(3):
                await client.extensions.get()

        await self.queue.publish(1, tries=5)
        worker = self.start(handle, ttr=TTR)
        await self.until_empty()
        await self.end(worker)
        await client.close()
        self.assertEqual(attempts, [1])

    async def test_a_handler_is_cancelled_when_its_job_is_no_longer_its_own(self) -> None:
        started, cancelled = asyncio.Event(), asyncio.Event()

        async def handle(job: Job) -> None:
            started.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                if job.lease_lost:
                    cancelled.set()
                raise

        published = await self.queue.publish(1)
        worker = self.start(handle, ttr=TTR)
        await asyncio.wait_for(started.wait(), PATIENCE)
        await self.queue.cancel(published.id)
        await asyncio.wait_for(cancelled.wait(), PATIENCE)
        await self.end(worker)

    async def test_a_stop_waits_for_what_has_begun(self) -> None:
        started, go_on = asyncio.Event(), asyncio.Event()

        async def handle(_: Job) -> None:
            started.set()
            await go_on.wait()

        await self.queue.publish(1)
        worker = self.start(handle, concurrency=1)
        await asyncio.wait_for(started.wait(), PATIENCE)
        worker.stop()
        await self.queue.publish(2)
        go_on.set()
        await self.end(worker)
        self.assertEqual([job.payload async for job in self.queue.jobs()], [2])

    async def test_a_worker_that_waits_for_jobs_stops_at_once(self) -> None:
        async def handle(_: Job) -> None:
            pass

        async def until_waiting(count: int) -> None:
            while await asyncio.to_thread(waiting_consumers) != count:
                pass

        worker = self.start(handle, wait=10 * timedelta(seconds=PATIENCE))
        await asyncio.wait_for(until_waiting(1), PATIENCE)
        await self.end(worker)
        await asyncio.wait_for(until_waiting(0), PATIENCE)
        await self.queue.publish(1)
        self.assertEqual([job.attempt for job in await self.queue.consume()], [1], "it took nothing along")

    async def test_a_stop_gives_back_what_takes_too_long(self) -> None:
        started = asyncio.Event()

        async def handle(_: Job) -> None:
            started.set()
            await asyncio.Event().wait()

        await self.queue.publish(1, tries=2)
        worker = self.start(handle, ttr=timedelta(hours=1), stop_timeout=timedelta(0))
        await asyncio.wait_for(started.wait(), PATIENCE)
        await self.end(worker)
        self.assertEqual([job.attempt for job in await self.queue.consume()], [2])

    async def test_a_worker_that_is_cancelled_gives_its_jobs_back(self) -> None:
        started = asyncio.Event()

        async def handle(_: Job) -> None:
            started.set()
            await asyncio.Event().wait()

        await self.queue.publish(1, tries=2)
        self.start(handle, ttr=timedelta(hours=1), concurrency=1)
        await asyncio.wait_for(started.wait(), PATIENCE)
        self.running.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await self.running
        self.assertEqual([job.attempt for job in await self.queue.consume()], [2])

    async def test_what_is_done_is_said_until_it_is_heard(self) -> None:
        with Scripted([NO_CONTROL, ONE_JOB, NOT_NOW, HANG_UP, ACKED, NO_JOBS]) as server:
            async with fieldpost.AsyncClient(server.url, retries=fieldpost.Retries(most=0)) as client:
                self.queue = client.queue(self.namespace, "q")

                async def handle(_: Job) -> None:
                    worker.stop()

                worker = self.start(handle, concurrency=1)
                await asyncio.wait_for(self.running, PATIENCE)
        acks = [body for first, _, body in server.requests if first.endswith("/ack")]
        self.assertEqual(acks, [b'{"reservations":["r"]}'] * 3)

    async def test_a_refused_token_ends_the_worker(self) -> None:
        with Scripted([answer(403, {"code": "wrong_scope", "detail": "not you"})]) as server:
            async with fieldpost.AsyncClient(server.url) as client:
                self.queue = client.queue(self.namespace, "q")

                async def handle(_: Job) -> None:
                    self.fail("there is no job")

                self.start(handle)
                with self.assertRaises(fieldpost.ForbiddenError):
                    await asyncio.wait_for(self.running, PATIENCE)


class WatchedTasks(fieldpost.AsyncClient):
    """Tells of the extensions that were granted."""

    def __init__(self, url: str, timeout: float) -> None:
        super().__init__(url, timeout=timeout)
        self.extensions: asyncio.Queue[None] = asyncio.Queue()

    async def extend(self, job: Job, ttr: Any) -> None:
        await super().extend(job, ttr)
        self.extensions.put_nowait(None)


class WorkerTerms(unittest.TestCase):
    def test_numbers_that_make_no_sense_are_refused(self) -> None:
        with self.assertRaisesRegex(ValueError, "concurrency"):
            fieldpost.Options(concurrency=0)
        with self.assertRaisesRegex(ValueError, "concurrency"):
            fieldpost.Options(concurrency=1001)
        with self.assertRaisesRegex(ValueError, "ttr"):
            fieldpost.Options(ttr=timedelta(0))
