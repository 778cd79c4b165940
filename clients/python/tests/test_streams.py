"""Streams: what both clients send, and what they read, against a scripted server and a real one."""

from __future__ import annotations

import json
import unittest
from datetime import datetime, timezone
from typing import Any

import fieldpost
from fieldpost import NewMessage

from .live import AwaitedLive, Live, until
from .scripted import HANG_UP, answer
from .test_commands import both


def message(message_id: str, **more: Any) -> dict[str, Any]:
    """A message as the API shows it."""
    plain = {"source": None, "external_id": None, "segment": None, "payload": int(message_id)}
    return {"id": message_id, "ts": "2026-11-21T01:02:03.456Z", **plain, **more}


def page(items: list[dict[str, Any]], following: str) -> bytes:
    """A page of a stream."""
    return answer(200, {"items": items, "next_after": following, "skipped": 0})


class Scripts(unittest.TestCase):
    def test_a_message_is_written_as_the_api_reads_it_and_repeated_where_it_is_there_once(self) -> None:
        told = answer(201, {"messages": [{"id": "4", "duplicate": True, "conflict": True}]})

        def append(client: Any) -> Any:
            when = datetime(2026, 11, 21, tzinfo=timezone.utc)
            return client.stream("shop", "a/b").append(
                b"\x00\xff", source="till-4", external_id=17, segment="eu", ts=when, headers={"k": "v"}
            )

        for appended, server in both([HANG_UP, told], append):
            self.assertEqual((appended.id, appended.duplicate, appended.conflict), ("4", True, True))
            first, _, body = server.requests[-1]
            self.assertEqual((first, len(server.requests)), ("POST /v1/streams/shop/a%2Fb/messages", 2))
            expect = {
                "payload_base64": "AP8=",
                "source": "till-4",
                "external_id": 17,
                "segment": "eu",
                "ts": "2026-11-21T00:00:00+00:00",
                "headers": {"k": "v"},
            }
            self.assertEqual(json.loads(body), {"messages": [expect]})

    def test_what_may_be_there_twice_is_not_appended_again(self) -> None:
        def append(client: Any) -> Any:
            many = [NewMessage(1, source="a", external_id=1)]
            with self.assertRaises(fieldpost.ConnectionFailedError):
                client.stream("shop", "orders").append(1)
            with self.assertRaises(fieldpost.ConnectionFailedError):
                client.stream("shop", "orders").append_many(many, expect_last_id="0")

        for _, server in both([HANG_UP, HANG_UP, HANG_UP], append):
            self.assertEqual(len(server.requests), 2)
            self.assertEqual(json.loads(server.requests[1][2])["expect_last_id"], "0")

    def test_a_stream_is_followed_from_place_to_place(self) -> None:
        gone = answer(404, {"status": 404, "code": "unknown_stream", "detail": "no"})
        script = [page([message("1"), message("2", segment="eu")], "2"), page([], "5"), page([message("6")], "6"), gone]

        def follow(client: Any) -> Any:
            with self.assertRaises(fieldpost.NotFoundError):
                list(client.stream("shop", "orders").follow("0", segments=["eu", "us"]))

        place = "GET /v1/streams/shop/orders/messages?after={}&limit=1000&segment=eu%2Cus&wait=30s"
        for _, server in both(script, follow):
            self.assertEqual([first for first, _, _ in server.requests], [place.format(n) for n in (0, 2, 5, 6)])


    def test_a_subscription_is_followed_and_what_was_taken_is_committed(self) -> None:
        gone = answer(404, {"status": 404, "code": "unknown_subscription", "detail": "no"})
        script = [page([message("1"), message("2")], "2"), answer(204, None), page([], "5"), answer(204, None), gone]

        def follow(client: Any) -> Any:
            with self.assertRaises(fieldpost.NotFoundError):
                list(client.stream("shop", "orders").subscription("bill", reader="a").follow())

        for _, server in both(script, follow):
            place = "POST /v1/streams/shop/orders/subscriptions/bill/"
            expect = [place + call for call in ("read", "commit", "read", "commit", "read")]
            self.assertEqual([first for first, _, _ in server.requests], expect)
            self.assertEqual(json.loads(server.requests[0][2]), {"reader": "a", "limit": 100, "wait": "30s"})
            self.assertEqual(json.loads(server.requests[3][2]), {"reader": "a", "id": "5"})


class Streams:
    """What holds for both clients, against a real server."""

    def test_a_subscription_keeps_its_place(self: Any) -> None:
        stream = self.client.stream(self.namespace, "read")
        bill = stream.subscription("bill", reader="a")
        self.assertEqual((bill.put().position, bill.put(start="start").lag), ("0", 0))
        stream.append_many([NewMessage(number) for number in range(1, 4)])
        page = bill.read(limit=2)
        self.assertEqual([item.payload for item in page.items], [1, 2])
        bill.commit(page.next_after)
        with self.assertRaises(fieldpost.ConflictError):
            stream.subscription("bill", reader="b").read()
        with self.assertRaises(fieldpost.ConflictError):
            bill.commit("1")
        self.assertEqual([item.payload for item in bill.read().items], [3])
        info = bill.info()
        self.assertEqual((info.position, info.lag, info.reader), ("2", 1, "a"))
        bill.commit("0", rewind=True)
        self.assertEqual(len(bill.read().items), 3)
        bill.delete()
        with self.assertRaises(fieldpost.NotFoundError):
            bill.info()

    def test_messages_come_back_as_they_were_given(self: Any) -> None:
        stream = self.client.stream(self.namespace, "orders")
        stream.set_settings({"save": "wait", "save_interval": "10ms"})
        first = stream.append({"n": 1.5}, source="a", external_id="17")
        again = stream.append({"n": 1.5}, source="a", external_id=17)
        self.assertEqual((first.id, first.duplicate, again.id, again.duplicate), ("1", False, "1", True))
        stream.append_many([NewMessage(b"\x00\xff"), NewMessage("x", segment="eu")], expect_last_id="1")
        with self.assertRaises(fieldpost.ConflictError):
            stream.append_many([NewMessage(1)], expect_last_id="1")
        read = stream.read("0", limit=2)
        self.assertEqual(([each.payload for each in read.items], read.next_after), ([{"n": 1.5}, b"\x00\xff"], "2"))
        self.assertEqual(stream.read("0", segments=["eu"]).items, [stream.message("3")])
        self.assertEqual(stream.read("3", wait=0.05).items, [])
        info = stream.info()
        self.assertEqual((info.last_id, info.messages, info.settings["save"]), ("3", 3, "wait"))
        self.assertEqual([each.stream for each in self.client.streams(self.namespace)], ["orders"])
        stream.delete()
        with self.assertRaises(fieldpost.NotFoundError):
            stream.info()

    def test_what_is_copied_is_asked_for_by_either_name(self: Any) -> None:
        stream = self.client.stream(self.namespace, "source")
        stream.append(1, source="till-4", external_id=17)
        copy = stream.copy("archive")
        made = copy.put("to", "self", stream=f"{self.namespace}/archive", start="start")
        self.assertEqual((made.name, made.kind, made.error), ("archive", "messages", None))
        until("it is copied", lambda: copy.info().position == "1")
        there = self.client.stream(self.namespace, "archive").message("1")
        self.assertEqual((there.source, there.external_id, there.payload), ("till-4", "17", 1))
        found = stream.receipt("1", wait=1)
        self.assertEqual((len(found.durable_on), found.enough), (1, True))
        self.assertEqual(stream.receipt_of("till-4", 17), found)
        self.assertFalse(stream.receipt_of("till-4", "17", nodes=2).enough)
        with self.assertRaises(fieldpost.NotFoundError):
            stream.receipt_of("till-4", 18)
        copy.pause()
        self.assertEqual(copy.info().state, "paused")
        copy.resume()
        copy.delete()
        with self.assertRaises(fieldpost.NotFoundError):
            copy.info()


class StreamsOfThreads(Streams, Live):
    pass


class StreamsOfTasks(Streams, AwaitedLive):
    pass
