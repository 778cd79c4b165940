"""Locks, limits, the cache and channels, for threads and for tasks, against a scripted server and a real one."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
import unittest
import urllib.request
import uuid
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest import mock

import fieldpost
from fieldpost import Retries
from fieldpost.aio_connections import Unchunked
from fieldpost.channel_events import Events, ListenerState

from .live import PATIENCE, AwaitedLive, Live, server_url, until
from .scripted import HANG_UP, MUTE, Scripted, answer

GRANTED = answer(200, {"owner": "o", "fence": "33", "expires_at": "2026-11-23T15:00:30.000Z"})
NOT_OWNER = answer(409, {"code": "not_owner", "detail": "it is another's"})
NO_TOKEN = answer(401, {"code": "no_token", "detail": "who are you"})
#: No time is lost between two tries of a test.
AT_ONCE = Retries(most=3, base=0.0)
#: Of a lock that is to be extended, in seconds: also on a machine that is busy with other tests.
TTL = 9.0


def chunked(*chunks: bytes, ends: bool = True) -> bytes:
    """An answer in chunks, with or without an end."""
    parts = [b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks]
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head + b"".join(parts) + (b"0\r\n\r\n" if ends else b"")


def event(channel: str, message: Any) -> bytes:
    """A message as the server writes it."""
    return b"event: message\ndata: " + json.dumps({"channel": channel, "message": message}).encode() + b"\n\n"


TOO_SLOW = b"event: too_slow\ndata: {}\n\n"


class Quiet(unittest.TestCase):
    def setUp(self) -> None:
        logging.getLogger("fieldpost").setLevel(logging.CRITICAL)

    def with_threads(
        self, script: list[bytes], what: Callable[[fieldpost.Client], Any], retries: Retries = AT_ONCE
    ) -> Any:
        with Scripted(script) as server, fieldpost.Client(server.url, retries=retries) as client:
            what(client)
        return server

    def with_tasks(
        self, script: list[bytes], what: Callable[[fieldpost.AsyncClient], Awaitable[Any]], retries: Retries = AT_ONCE
    ) -> Any:
        async def run() -> None:
            async with fieldpost.AsyncClient(server.url, retries=retries) as client:
                await asyncio.wait_for(what(client), PATIENCE)

        with Scripted(script) as server:
            asyncio.run(run())
        return server


class Parsing(unittest.TestCase):
    def test_events_are_put_together_wherever_they_are_cut(self) -> None:
        text = b": listening\n\n" + event("a", {"x": "\u00fc"}) + b": still here\n\n" + event("b", None) + TOO_SLOW
        for size in range(1, len(text) + 1):
            events, heard = Events(), list[Any]()
            for begin in range(0, len(text), size):
                heard += events.feed(text[begin : begin + size])
            self.assertEqual((heard, events.is_over), ([("a", {"x": "\u00fc"}), ("b", None)], True))

    def test_an_event_that_is_no_message_is_not_believed(self) -> None:
        for text in [b"event: message\ndata: {}\n\n", b"event: message\n\n", b"event: message\ndata: [1]\n\n"]:
            with self.assertRaises(fieldpost.UnexpectedAnswerError):
                Events().feed(text)
        with self.assertRaises(fieldpost.UnexpectedAnswerError):
            Events().feed(b"data: " + b"x" * 3_000_000)

    def test_a_listener_says_when_messages_may_have_been_missed(self) -> None:
        state = ListenerState()
        state.opened()
        self.assertFalse(state.feed(event("a", 1)))
        self.assertTrue(state.feed(b""))
        self.assertEqual(state.failed(), 0, "a connection that was of use is followed at once")
        self.assertGreater(state.failed(fieldpost.ConnectionFailedError("away")), 0)
        busy = fieldpost.UnavailableError(503, "busy", "later", retry_after=60.0)
        self.assertEqual(state.failed(busy), 60)
        state.opened()
        self.assertEqual(list(state.heard), [("a", 1), None])
        with self.assertRaises(fieldpost.ForbiddenError):
            state.failed(fieldpost.ForbiddenError(403, "forbidden", "not for you"))

    def test_chunks_are_taken_apart_wherever_they_are_cut(self) -> None:
        text = b"3;x=y\r\nabc\r\n1\r\nd\r\n10\r\n\r\n34567890123456\r\n0\r\n\r\n"
        for size in range(1, len(text) + 1):
            chunks, body = Unchunked(), b""
            for begin in range(0, len(text), size):
                body += chunks.feed(text[begin : begin + size])
            self.assertEqual((body, chunks.is_over), (b"abcd\r\n34567890123456", True))


class ScriptedLocks(Quiet):
    def owners(self, server: Scripted) -> list[tuple[str, str]]:
        asked = [(first.rpartition("/")[2], json.loads(body)) for first, _, body in server.requests]
        owners = {body["owner"]: f"owner {n}" for n, (_, body) in reversed(list(enumerate(asked)))}
        return [(last, owners[body["owner"]]) for last, body in asked]

    def test_an_answer_that_is_lost_is_asked_for_by_the_same_owner(self) -> None:
        script = [HANG_UP, GRANTED, GRANTED, HANG_UP, NOT_OWNER]
        expect = [("report", "owner 0")] * 2 + [("extend", "owner 0")] + [("release", "owner 0")] * 2

        def hold(client: fieldpost.Client) -> None:
            with client.lock("shop", "report", wait=2) as held:
                self.assertEqual(held.fence, 33)
                held.check()
            self.assertRaises(fieldpost.LockLostError, held.check)

        async def hold_too(client: fieldpost.AsyncClient) -> None:
            async with client.lock("shop", "report", wait=2) as held:
                self.assertEqual(held.fence, 33)
                held.check()
            self.assertRaises(fieldpost.LockLostError, held.check)

        for server in (self.with_threads(script, hold), self.with_tasks(script, hold_too)):
            self.assertEqual(self.owners(server), expect)
            terms = json.loads(server.requests[0][2])
            self.assertEqual((terms["ttl"], terms["wait"]), ("30000ms", "2000ms"))

    def test_a_lock_that_another_has_is_lost_and_not_let_go(self) -> None:
        script = [GRANTED, NOT_OWNER, GRANTED]

        def hold(client: fieldpost.Client) -> None:
            lock = client.lock("shop", "report", ttl=TTL)
            with lock as held:
                self.assertTrue(held.ended.wait(PATIENCE))
                self.assertRaises(fieldpost.LockLostError, held.check)
            lock.acquire()
            lock.check()

        async def hold_too(client: fieldpost.AsyncClient) -> None:
            lock = client.lock("shop", "report", ttl=TTL)
            async with lock as held:
                await held.ended.wait()
                self.assertRaises(fieldpost.LockLostError, held.check)
            await lock.acquire()
            lock.check()

        expect = [("report", "owner 0"), ("extend", "owner 0"), ("report", "owner 2")]
        self.assertEqual(self.owners(self.with_threads(script, hold))[:3], expect)
        self.assertEqual(self.owners(self.with_tasks(script, hold_too))[:3], expect)

    def test_a_lock_whose_extension_is_not_answered_is_lost_in_time(self) -> None:
        def hold(client: fieldpost.Client) -> None:
            with client.lock("shop", "report", ttl=0.5) as held:
                begun = time.monotonic()
                self.assertTrue(held.ended.wait(PATIENCE))
                self.assertLess(time.monotonic() - begun, PATIENCE / 2)

        async def hold_too(client: fieldpost.AsyncClient) -> None:
            async with client.lock("shop", "report", ttl=0.5) as held:
                await asyncio.wait_for(held.ended.wait(), PATIENCE / 2)

        self.with_threads([GRANTED, MUTE], hold)
        self.with_tasks([GRANTED, MUTE], hold_too)

    def test_a_release_that_fails_hides_nothing_and_may_be_tried_again(self) -> None:
        script = [GRANTED, HANG_UP, GRANTED, HANG_UP, answer(204)]
        once = Retries(most=0)

        def hold(client: fieldpost.Client) -> None:
            with self.assertRaisesRegex(ValueError, "mine"), client.lock("shop", "report"):
                raise ValueError("mine")
            lock = client.lock("shop", "report")
            lock.acquire()
            self.assertRaises(fieldpost.ConnectionFailedError, lock.release)
            lock.release()
            lock.release()

        async def hold_too(client: fieldpost.AsyncClient) -> None:
            with self.assertRaisesRegex(ValueError, "mine"):
                async with client.lock("shop", "report"):
                    raise ValueError("mine")
            lock = client.lock("shop", "report")
            await lock.acquire()
            with self.assertRaises(fieldpost.ConnectionFailedError):
                await lock.release()
            await lock.release()
            await lock.release()

        self.assertEqual(len(self.with_threads(script, hold, once).requests), 5)
        self.assertEqual(len(self.with_tasks(script, hold_too, once).requests), 5)

    def test_a_wait_that_is_cancelled_is_given_back(self) -> None:
        async def give_up(client: fieldpost.AsyncClient) -> None:
            lock = client.lock("shop", "report", wait=PATIENCE)
            acquiring = asyncio.ensure_future(lock.acquire())
            await asyncio.to_thread(until, "it is asked for", lambda: len(server.requests) == 1)
            acquiring.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await acquiring
            self.assertTrue(lock.ended.is_set())

        async def run() -> None:
            async with fieldpost.AsyncClient(server.url, retries=AT_ONCE) as client:
                await asyncio.wait_for(give_up(client), PATIENCE)

        # So long it is tried to give it back, also on a machine that is busy with other tests.
        giving_back = mock.patch("fieldpost.aio_coordination.GIVE_BACK_SECONDS_MAX", PATIENCE)
        with Scripted([MUTE, answer(204)]) as server, giving_back:
            asyncio.run(run())
        self.assertEqual(self.owners(server), [("report", "owner 0"), ("release", "owner 0")])

    def test_terms_that_make_no_sense_are_refused(self) -> None:
        with fieldpost.Client() as client:
            self.assertRaises(ValueError, client.lock, "shop", "report", ttl=0)
            self.assertRaises(ValueError, client.channels("shop").listen)


class ScriptedChannels(Quiet):
    #: Too slow, then away, then there again, then not for us.
    SCRIPT = (
        chunked(b": listening\n\n", event("a", 1), TOO_SLOW, event("a", "unheard")),
        answer(503, {"code": "busy"}),
        chunked(event("b", 2) + event("b", 3)),
        NO_TOKEN,
    )
    EXPECT = (("a", 1), None, ("b", 2), ("b", 3))

    def test_a_listener_connects_again_and_says_so(self) -> None:
        def listen(client: fieldpost.Client) -> None:
            with client.channels("shop").listen("a", "b*") as heard:
                self.assertEqual(tuple(next(heard) for _ in self.EXPECT), self.EXPECT)
                self.assertRaises(fieldpost.UnauthorizedError, next, heard)

        async def listen_too(client: fieldpost.AsyncClient) -> None:
            async with client.channels("shop").listen("a", "b*") as heard:
                self.assertEqual(tuple([await heard.__anext__() for _ in self.EXPECT]), self.EXPECT)
                with self.assertRaises(fieldpost.UnauthorizedError):
                    await heard.__anext__()

        for server in (self.with_threads([*self.SCRIPT], listen), self.with_tasks([*self.SCRIPT], listen_too)):
            self.assertEqual({first for first, _, _ in server.requests}, {"GET /v1/channels/shop/a,b*"})
            self.assertEqual(server.requests[0][1]["accept"], "text/event-stream")

    def test_a_connection_that_is_silent_is_taken_for_dead(self) -> None:
        script = [chunked(event("a", 1), ends=False), chunked(event("a", 2))]
        expect: list[Any] = [("a", 1), None, ("a", 2)]

        def listen(client: fieldpost.Client) -> None:
            with client.channels("shop").listen("a") as heard:
                self.assertEqual([next(heard) for _ in expect], expect)

        async def listen_too(client: fieldpost.AsyncClient) -> None:
            async with client.channels("shop").listen("a") as heard:
                self.assertEqual([await heard.__anext__() for _ in expect], expect)

        with mock.patch("fieldpost.coordination.SILENCE_SECONDS_MAX", 3.0):
            self.with_threads(script, listen)
        with mock.patch("fieldpost.aio_coordination.SILENCE_SECONDS_MAX", 3.0):
            self.with_tasks(script, listen_too)


class ScriptedCache(Quiet):
    NONE = answer(200, {"items": {}})

    def test_what_was_made_is_there_also_where_it_cannot_be_put(self) -> None:
        script = [self.NONE, self.NONE, answer(503, {"code": "busy"})]

        async def made() -> bytes:
            return b"dear"

        def ask(client: fieldpost.Client) -> None:
            self.assertEqual(client.cache("shop").get_or_make("logo", lambda: b"dear", ttl=60), b"dear")

        async def ask_too(client: fieldpost.AsyncClient) -> None:
            self.assertEqual(await client.cache("shop").get_or_make("logo", made, ttl=60), b"dear")

        for server in (self.with_threads(script, ask, Retries(0)), self.with_tasks(script, ask_too, Retries(0))):
            first, headers, body = server.requests[2]
            self.assertEqual((first, body), ("PUT /v1/cache/shop/logo?ttl=60000ms", b"dear"))
            self.assertEqual(headers["content-type"], "application/octet-stream")


class Coordination(Live):
    def test_so_much_is_allowed_in_a_span_of_time(self) -> None:
        limiter = self.client.limiter(self.namespace, "sms:7", limit=3, per="1h")
        asked = [limiter.ask(), limiter.ask(2), limiter.ask()]
        self.assertEqual([(one.allowed, one.remaining) for one in asked], [(True, 2), (True, 0), (False, 0)])
        self.assertGreater(asked[2].retry_after, 0)
        with self.assertRaises(fieldpost.RefusedError):
            limiter.ask(4)

    def test_values_are_there_until_they_are_deleted(self) -> None:
        cache = self.client.cache(self.namespace)
        cache.put("a", b"\x00\xff", ttl="1h", content_type="image/png")
        cache.put("b", b"")
        self.assertEqual(cache.get_many(["a", "b", "c"]), {"a": b"\x00\xff", "b": b""})
        self.assertIsNone(cache.get("c"))
        with self.assertRaises(fieldpost.ConflictError):
            cache.put("a", b"1", if_absent=True)
        with urllib.request.urlopen(f"{self.url}/v1/cache/{self.namespace}/a", timeout=PATIENCE) as found:
            self.assertEqual((found.read(), found.headers["Content-Type"]), (b"\x00\xff", "image/png"))
        self.assertEqual(cache.delete("a", "c"), 1)
        self.assertIsNone(cache.get("a"))

    def test_a_message_without_listeners_is_kept_nowhere(self) -> None:
        self.assertEqual(self.client.channels(self.namespace).publish("a", {"x": 1}), 0)


class AwaitedCoordination(AwaitedLive, Coordination):
    pass


def until_extended(namespace: str) -> None:
    """The lock has another end than at first, and somebody waits for it."""

    def state() -> Any:
        with urllib.request.urlopen(f"{server_url()}/v1/locks/{namespace}/report", timeout=PATIENCE) as answered:
            return json.load(answered)

    first = state()["expires_at"]
    until("somebody waits, and it is extended", lambda: state()["waiting"] == 1 and state()["expires_at"] > first)


class Threads(Live):
    def test_a_lock_is_extended_and_goes_to_who_waits(self) -> None:
        fences = list[int]()

        def wait() -> None:
            with self.client.lock(self.namespace, "report", ttl=30, wait=PATIENCE) as held:
                fences.append(held.fence)

        with self.client.lock(self.namespace, "report", ttl=TTL) as held:
            waiting = threading.Thread(target=wait)
            waiting.start()
            until_extended(self.namespace)
            held.check()
            self.assertFalse(held.ended.is_set())
            self.assertRaises(RuntimeError, held.acquire)
            with self.assertRaises(fieldpost.LockHeldError):
                self.client.lock(self.namespace, "report").acquire()
            self.assertEqual(fences, [])
        self.assertTrue(held.ended.is_set())
        waiting.join(PATIENCE)
        self.assertGreater(fences, [held.fence])

    def test_a_value_is_made_once_for_all_who_ask(self) -> None:
        cache, made = self.client.cache(self.namespace), list[int]()
        together = threading.Barrier(8)

        def make() -> bytes:
            made.append(len(made))
            if len(made) == 1:
                raise ValueError("the first one fails")
            return b"dear"

        def ask(_: int) -> Any:
            together.wait(PATIENCE)
            try:
                return cache.get_or_make("logo", make)
            except ValueError:
                return None

        with ThreadPoolExecutor(8) as threads:
            found = list(threads.map(ask, range(8)))
        self.assertEqual(([one for one in found if one is not None], made), ([b"dear"] * 7, [0, 1]))
        self.assertEqual(cache._making, {})

    def test_messages_are_heard_until_the_listener_is_closed(self) -> None:
        channels = self.client.channels(self.namespace)
        with channels.listen("orders-*", "alarm") as heard:
            for n, channel in enumerate(["orders-eu", "alarm"]):
                self.assertEqual(channels.publish(channel, {"n": n}), 1)
                self.assertEqual(next(heard), (channel, {"n": n}))
            self.assertEqual(channels.publish("else", 1), 0)
            threading.Timer(0.1, heard.close).start()
            self.assertEqual(list(heard), [])


class Tasks(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self) -> None:
        self.namespace = f"t{uuid.uuid4().hex}"
        self.client = fieldpost.AsyncClient(server_url(), timeout=PATIENCE)

    async def asyncTearDown(self) -> None:
        await self.client.close()

    async def test_a_lock_is_extended_and_goes_to_who_waits(self) -> None:
        async def wait() -> int:
            async with self.client.lock(self.namespace, "report", ttl=30, wait=PATIENCE) as held:
                return held.fence

        async with self.client.lock(self.namespace, "report", ttl=TTL) as held:
            waiting = asyncio.ensure_future(wait())
            await asyncio.to_thread(until_extended, self.namespace)
            held.check()
            self.assertFalse(held.ended.is_set())
            with self.assertRaises(RuntimeError):
                await held.acquire()
            with self.assertRaises(fieldpost.LockHeldError):
                await self.client.lock(self.namespace, "report").acquire()
            self.assertFalse(waiting.done())
        self.assertTrue(held.ended.is_set())
        self.assertGreater(await asyncio.wait_for(waiting, PATIENCE), held.fence)

    async def test_a_value_is_made_once_for_all_who_ask(self) -> None:
        cache, made = self.client.cache(self.namespace), list[int]()

        async def make() -> bytes:
            made.append(len(made))
            await asyncio.sleep(0)
            if len(made) == 1:
                raise ValueError("the first one fails")
            return b"dear"

        asking = [cache.get_or_make("logo", make) for _ in range(8)]
        found = await asyncio.gather(*asking, return_exceptions=True)
        self.assertEqual(([one for one in found if isinstance(one, bytes)], made), ([b"dear"] * 7, [0, 1]))
        self.assertEqual(cache._making, {})

    async def test_messages_are_heard_until_the_listener_is_closed(self) -> None:
        channels = self.client.channels(self.namespace)
        async with channels.listen("orders-*", "alarm") as heard:
            for n, channel in enumerate(["orders-eu", "alarm"]):
                with self.assertRaises(asyncio.TimeoutError):
                    await asyncio.wait_for(heard.__anext__(), 0.05)
                self.assertEqual(await channels.publish(channel, {"n": n}), 1)
                self.assertEqual(await asyncio.wait_for(heard.__anext__(), PATIENCE), (channel, {"n": n}))
            asyncio.get_running_loop().call_later(0.1, lambda: asyncio.ensure_future(heard.aclose()))
            self.assertEqual([message async for message in heard], [])
