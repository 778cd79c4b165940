"""What the workers of a queue are told, and that those of threads and of tasks do it, against a real server."""

from __future__ import annotations

import asyncio
import json
import logging
import queue
import threading
import unittest
import uuid
from datetime import timedelta
from typing import Any

import fieldpost
from fieldpost import Job, NewJob, QueueControl

from .live import PATIENCE, AwaitedLive, Live, server_url, until
from .scripted import answer
from .test_commands import both

#: No test waits for the end of a question.
LONG = timedelta(minutes=5)


class Scripts(unittest.TestCase):
    def test_a_control_is_written_and_read_as_the_api_does(self) -> None:
        told = {"state": "drain", "max_in_flight": 2, "data": {"until": 17}}

        def tell(client: Any) -> Any:
            queue = client.queue("shop", "a/b")
            queue.set_control(QueueControl("drain", max_in_flight=2, data={"until": 17}))
            queue.set_control(QueueControl())
            queue.delete_control()
            return queue.control(), queue.control()

        script = [answer(204)] * 3 + [answer(200, told), answer(404, {"code": "no_control"})]
        for found, server in both(script, tell):
            self.assertEqual(found, (QueueControl("drain", 2, {"until": 17}), None))
            asked = [first for first, _, _ in server.requests]
            path = "/v1/queues/shop/a%2Fb/control"
            self.assertEqual(asked, [f"{method} {path}" for method in ("PUT", "PUT", "DELETE", "GET", "GET")])
            bodies = [json.loads(body) for _, _, body in server.requests[:2]]
            self.assertEqual(bodies, [told, {"state": "run"}])


class Told(Live):
    def test_what_is_told_is_shown_until_it_is_deleted(self) -> None:
        self.assertIsNone(self.queue.control())
        self.queue.set_control(QueueControl("run", 3, [1]))
        self.assertEqual(self.queue.control(), QueueControl("run", 3, [1]))
        self.queue.delete_control()
        self.assertIsNone(self.queue.control())


class AwaitedTold(AwaitedLive, Told):
    pass


class Workers(Live):
    """A worker of threads."""

    def setUp(self) -> None:
        super().setUp()
        logging.getLogger("fieldpost").setLevel(logging.CRITICAL)
        self.told: queue.SimpleQueue[QueueControl | None] = queue.SimpleQueue()
        self.handled: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.go_on = threading.Event()
        self.go_on.set()

    def start(self, **options: Any) -> None:
        def handle(job: Job) -> None:
            self.handled.put(job.payload)
            self.go_on.wait(PATIENCE)

        self.worker = self.queue.worker(handle, **{"wait": LONG, "on_control": self.told.put, **options})
        self.thread = threading.Thread(target=self.worker.run)
        self.thread.start()
        self.addCleanup(self.end)

    def end(self) -> None:
        self.go_on.set()
        self.worker.stop()
        self.ends()

    def ends(self) -> None:
        self.thread.join(PATIENCE)
        self.assertFalse(self.thread.is_alive(), "the worker has ended")

    def hears(self) -> QueueControl | None:
        return self.told.get(timeout=PATIENCE)

    def test_a_drained_worker_takes_nothing_until_it_may(self) -> None:
        self.queue.set_control(QueueControl("drain"))
        self.queue.publish(1)
        self.start()
        self.assertEqual(self.hears(), QueueControl("drain"))
        self.queue.set_control(QueueControl("drain", data="still"))
        self.assertEqual(self.hears(), QueueControl("drain", data="still"))
        self.assertEqual(self.queue.overview().ready, 1)
        self.queue.delete_control()
        self.assertIsNone(self.hears())
        self.assertEqual(self.handled.get(timeout=PATIENCE), 1)

    def test_a_worker_that_waits_for_jobs_is_drained_and_goes_on(self) -> None:
        self.start()
        for payload in range(3):
            self.queue.publish(payload)
            self.assertEqual(self.handled.get(timeout=PATIENCE), payload)
            for state in ("drain", "run"):
                self.queue.set_control(QueueControl(state))
                self.assertEqual(self.hears(), QueueControl(state))

    def test_a_stop_ends_a_worker_when_its_jobs_are_done(self) -> None:
        self.go_on.clear()
        self.queue.publish_many([NewJob(1), NewJob(2)])
        self.start(concurrency=1)
        self.assertEqual(self.handled.get(timeout=PATIENCE), 1)
        self.queue.set_control(QueueControl("stop"))
        self.assertEqual(self.hears(), QueueControl("stop"), "also one that has no room hears of it")
        self.go_on.set()
        self.ends()
        self.assertEqual([job.payload for job in self.queue.jobs()], [2])

    def test_a_stop_ends_a_worker_that_waits(self) -> None:
        self.start()
        self.queue.set_control(QueueControl("run"))
        self.assertEqual(self.hears(), QueueControl("run"))
        self.queue.set_control(QueueControl("stop"))
        self.ends()
        self.assertEqual(self.hears(), QueueControl("stop"))

    def test_a_bound_is_obeyed_until_it_is_lifted(self) -> None:
        self.go_on.clear()
        self.queue.set_control(QueueControl("run", max_in_flight=2))
        self.queue.publish_many([NewJob(n) for n in range(5)])
        self.start(concurrency=4)
        self.assertEqual({self.handled.get(timeout=PATIENCE) for _ in range(2)}, {0, 1})
        self.queue.set_control(QueueControl("run", max_in_flight=3))
        self.assertEqual(self.handled.get(timeout=PATIENCE), 2)
        self.queue.delete_control()
        self.assertEqual(self.handled.get(timeout=PATIENCE), 3)
        until("so many are taken", lambda: bool(self.queue.overview().reserved == 4))
        self.assertEqual(self.queue.overview().ready, 1)

    def test_a_callback_that_fails_is_no_harm(self) -> None:
        def fail(_: QueueControl | None) -> None:
            raise ValueError("no")

        self.queue.set_control(QueueControl("run"))
        self.queue.publish(1)
        self.start(on_control=fail)
        self.assertEqual(self.handled.get(timeout=PATIENCE), 1)


class AsyncWorkers(unittest.IsolatedAsyncioTestCase):
    """A worker of tasks."""

    async def asyncSetUp(self) -> None:
        logging.getLogger("fieldpost").setLevel(logging.CRITICAL)
        self.client = fieldpost.AsyncClient(server_url(), timeout=PATIENCE)
        self.queue = self.client.queue(f"t{uuid.uuid4().hex}", "q")
        self.told: asyncio.Queue[QueueControl | None] = asyncio.Queue()
        self.handled: asyncio.Queue[Any] = asyncio.Queue()
        self.go_on = asyncio.Event()
        self.go_on.set()
        self.running: asyncio.Future[None] | None = None

    async def asyncTearDown(self) -> None:
        if self.running is not None:
            self.go_on.set()
            self.worker.stop()
            await asyncio.wait_for(self.running, PATIENCE)
        await self.client.close()

    def start(self, **options: Any) -> None:
        async def handle(job: Job) -> None:
            self.handled.put_nowait(job.payload)
            await self.go_on.wait()

        self.worker = self.queue.worker(handle, **{"wait": LONG, "on_control": self.told.put, **options})
        self.running = asyncio.ensure_future(self.worker.run())

    async def ends(self) -> None:
        assert self.running is not None
        await asyncio.wait_for(self.running, PATIENCE)

    async def hears(self) -> QueueControl | None:
        return await asyncio.wait_for(self.told.get(), PATIENCE)

    async def handles(self) -> Any:
        return await asyncio.wait_for(self.handled.get(), PATIENCE)

    async def test_a_drained_worker_takes_nothing_until_it_may(self) -> None:
        await self.queue.set_control(QueueControl("drain"))
        await self.queue.publish(1)
        self.start()
        self.assertEqual(await self.hears(), QueueControl("drain"))
        await self.queue.set_control(QueueControl("drain", data="still"))
        self.assertEqual(await self.hears(), QueueControl("drain", data="still"))
        self.assertEqual((await self.queue.overview()).ready, 1)
        await self.queue.delete_control()
        self.assertIsNone(await self.hears())
        self.assertEqual(await self.handles(), 1)

    async def test_a_worker_that_waits_for_jobs_is_drained_and_goes_on(self) -> None:
        self.start(on_control=self.told.put_nowait)
        for payload in range(3):
            await self.queue.publish(payload)
            self.assertEqual(await self.handles(), payload)
            for state in ("drain", "run"):
                await self.queue.set_control(QueueControl(state))
                self.assertEqual(await self.hears(), QueueControl(state))

    async def test_a_stop_ends_a_worker_when_its_jobs_are_done(self) -> None:
        self.go_on.clear()
        await self.queue.publish_many([NewJob(1), NewJob(2)])
        self.start(concurrency=1)
        self.assertEqual(await self.handles(), 1)
        await self.queue.set_control(QueueControl("stop"))
        self.assertEqual(await self.hears(), QueueControl("stop"), "also one that has no room hears of it")
        self.go_on.set()
        await self.ends()
        self.assertEqual([job.payload async for job in self.queue.jobs()], [2])

    async def test_a_stop_ends_a_worker_that_waits(self) -> None:
        self.start()
        await self.queue.set_control(QueueControl("run"))
        self.assertEqual(await self.hears(), QueueControl("run"))
        await self.queue.set_control(QueueControl("stop"))
        await self.ends()
        self.assertEqual(await self.hears(), QueueControl("stop"))

    async def test_a_bound_is_obeyed_until_it_is_lifted(self) -> None:
        self.go_on.clear()
        await self.queue.set_control(QueueControl("run", max_in_flight=2))
        await self.queue.publish_many([NewJob(n) for n in range(5)])
        self.start(concurrency=4)
        self.assertEqual({await self.handles(), await self.handles()}, {0, 1})
        await self.queue.set_control(QueueControl("run", max_in_flight=3))
        self.assertEqual(await self.handles(), 2)
        await self.queue.delete_control()
        self.assertEqual(await self.handles(), 3)
        self.assertEqual((await self.queue.overview()).ready, 1)

    async def test_a_callback_that_fails_is_no_harm(self) -> None:
        async def fail(_: QueueControl | None) -> None:
            raise ValueError("no")

        await self.queue.set_control(QueueControl("run"))
        await self.queue.publish(1)
        self.start(on_control=fail)
        self.assertEqual(await self.handles(), 1)
