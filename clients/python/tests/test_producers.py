"""Producers: as many nodes as are wanted have it, others take the place of those that fail, and what is appended again
is the same message."""

from __future__ import annotations

import asyncio
import contextlib
import json
import unittest
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import fieldpost
from fieldpost import NewMessage, NodeAppend, TooFewNodesError
from fieldpost.producer import Health

from .scripted import HANG_UP, MUTE, Scripted, answer

#: A message is taken.
TAKEN = answer(201, {"messages": [{"id": "1", "duplicate": False}]})
FULL = answer(503, {"status": 503, "code": "stream_full", "detail": "full"})
STRICT = answer(422, {"status": 422, "code": "payload_too_large", "detail": "too large"})

Append = Callable[[Sequence[NewMessage]], list[NodeAppend]]
Answers = Callable[[Append], Any]


def both(
    scripts: Sequence[Sequence[bytes]], wanted: int, do: Answers, slow_after: float = 60.0
) -> Iterator[tuple[Any, list[Scripted]]]:
    """Does it with either producer, over servers with these scripts."""
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(Scripted(script)) for script in scripts]
        clients = [stack.enter_context(fieldpost.Client(server.url)) for server in servers]
        streams = [client.stream("shop", "orders") for client in clients]
        with fieldpost.StreamProducer(streams, wanted, slow_after=slow_after) as producer:
            yield do(producer.append_many), servers

    async def awaited(urls: list[str]) -> Any:
        async with contextlib.AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(fieldpost.AsyncClient(url)) for url in urls]
            streams = [client.stream("shop", "orders") for client in clients]
            producer = fieldpost.AsyncStreamProducer(streams, wanted, slow_after=slow_after)
            loop = asyncio.get_running_loop()

            def append(messages: Sequence[NewMessage]) -> list[NodeAppend]:
                return asyncio.run_coroutine_threadsafe(producer.append_many(messages), loop).result()

            return await asyncio.to_thread(do, append)

    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(Scripted(script)) for script in scripts]
        yield asyncio.run(awaited([server.url for server in servers])), servers


def given(server: Scripted) -> list[tuple[Any, Any, Any]]:
    """Every message that a node was given."""
    bodies = [json.loads(body)["messages"] for _, _, body in server.requests]
    return [(item["source"], item["external_id"], item["payload"]) for items in bodies for item in items]


class Producers(unittest.TestCase):
    def test_the_first_that_are_wanted_get_the_same_messages_in_order(self) -> None:
        def append(to: Append) -> list[list[int]]:
            return [sorted(taken.node for taken in to([NewMessage(payload)])) for payload in (1, 2, 3)]

        for nodes, servers in both([[TAKEN] * 3, [TAKEN] * 3, [TAKEN]], 2, append):
            self.assertEqual(nodes, [[0, 1]] * 3)
            first = given(servers[0])
            self.assertEqual(first, given(servers[1]))
            self.assertEqual([item[1:] for item in first], [(1, 1), (2, 2), (3, 3)])
            self.assertEqual(len({source for source, _, _ in first}), 1)
            self.assertEqual(servers[2].requests, [])

    def test_another_takes_the_place_of_one_that_fails_and_is_preferred_for_a_while(self) -> None:
        def append(to: Append) -> list[int]:
            return [taken.node for payload in (1, 2) for taken in to([NewMessage(payload)])]

        scripts = [[FULL, FULL], [HANG_UP, HANG_UP], [TAKEN] * 2]
        for nodes, servers in both(scripts, 1, append):
            self.assertEqual(nodes, [2, 2])
            self.assertEqual(len(given(servers[2])), 2)

    def test_one_that_does_not_answer_is_waited_for_no_longer_than_is_said(self) -> None:
        def append(to: Append) -> list[int]:
            return [taken.node for payload in (1, 2) for taken in to([NewMessage(payload)])]

        for nodes, servers in both([[MUTE], [TAKEN] * 2], 1, append, slow_after=0.02):
            self.assertEqual(nodes, [1, 1])
            self.assertEqual(len(servers[0].requests), 1, "it is chosen last now")

    def test_what_too_few_took_can_be_appended_again_as_the_same(self) -> None:
        def append(to: Append) -> TooFewNodesError:
            with self.assertRaises(TooFewNodesError) as first:
                to([NewMessage("x")])
            with self.assertRaises(TooFewNodesError):
                to(first.exception.messages)
            return first.exception

        for error, servers in both([[FULL] * 4, [TAKEN] * 2], 2, append):
            self.assertEqual((error.wanted, [taken.node for taken in error.appended]), (2, [1]))
            self.assertEqual([node for node, _ in error.errors], [0])
            one, again = given(servers[1])
            self.assertEqual(one, again)

    def test_what_every_node_would_refuse_is_told_at_once(self) -> None:
        def append(to: Append) -> TooFewNodesError:
            with self.assertRaises(TooFewNodesError) as refused:
                to([NewMessage("x", source="till-4", external_id=12)])
            return refused.exception

        for error, servers in both([[STRICT], [TAKEN]], 1, append):
            self.assertIn("0 of 1 nodes have it; node 0: 422 payload_too_large", str(error))
            self.assertEqual(given(servers[0]), [("till-4", 12, "x")])
            self.assertEqual(servers[1].requests, [])

    def test_nodes_that_failed_are_chosen_last_and_return(self) -> None:
        health = Health(4)
        self.assertEqual(health.choice(10), [0, 1, 2, 3])
        for node in (0, 0, 2):
            health.failed(node, 10)
        self.assertEqual(health.choice(10), [1, 3, 2, 0])
        self.assertEqual(health.choice(11), [1, 2, 3, 0])
        self.assertEqual(health.choice(12), [0, 1, 2, 3])
        health.failed(1, 12)
        health.well(1)
        self.assertEqual(health.choice(12), [0, 1, 2, 3])

    def test_as_many_nodes_are_wanted_as_there_are_at_most(self) -> None:
        with fieldpost.Client("http://127.0.0.1:9") as client:
            for wanted in (0, 2):
                with self.assertRaises(ValueError):
                    fieldpost.StreamProducer([client.stream("shop", "orders")], wanted)


if __name__ == "__main__":
    unittest.main()
