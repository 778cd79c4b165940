"""A real server, and both clients of it behind the same calls."""

from __future__ import annotations

import asyncio
import inspect
import os
import time
import unittest
import urllib.request
import uuid
from typing import Any, Callable

import fieldpost

#: Nothing here takes longer, even on a machine that is busy with other tests.
PATIENCE = 30.0


def server_url() -> str:
    """Where the server is that these tests are for."""
    url = os.environ.get("FIELDPOST_URL")
    if url is None:
        raise RuntimeError("FIELDPOST_URL has to say where a server is, such as http://127.0.0.1:8080")
    return url


def until(what: str, holds: Callable[[], bool]) -> None:
    """Asks again and again until it holds."""
    deadline = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {PATIENCE} s: {what}")


def waiting_consumers() -> int:
    """How many questions for jobs the server has not answered yet."""
    with urllib.request.urlopen(f"{server_url()}/metrics", timeout=PATIENCE) as answer:
        lines = answer.read().decode().splitlines()
    [count] = [line.split()[1] for line in lines if line.startswith("fieldpost_engine_waiting_consumers ")]
    return int(count)


class Awaited:
    """An object of the client for tasks, its calls awaited, so that one test is for both clients."""

    def __init__(self, loop: asyncio.AbstractEventLoop, inner: Any) -> None:
        self._loop, self._inner = loop, inner

    def __getattr__(self, name: str) -> Any:
        inner = getattr(self._inner, name)
        if not callable(inner):
            return inner

        def call(*arguments: Any, **named: Any) -> Any:
            result = inner(*arguments, **named)
            if inspect.isawaitable(result):
                return self._loop.run_until_complete(result)
            if inspect.isasyncgen(result):
                return self._loop.run_until_complete(_listed(result))
            return Awaited(self._loop, result)

        return call


async def _listed(items: Any) -> list[Any]:
    return [item async for item in items]


class Live(unittest.TestCase):
    """A namespace of its own for each test, so that none sees another's queues."""

    def setUp(self) -> None:
        self.namespace = f"t{uuid.uuid4().hex}"
        self.url = server_url()
        self.client = self.make_client()
        self.queue = self.client.queue(self.namespace, "q")

    def make_client(self) -> Any:
        client = fieldpost.Client(self.url, timeout=PATIENCE)
        self.addCleanup(client.close)
        return client


class AwaitedLive(Live):
    """The same with the client for tasks."""

    def make_client(self) -> Any:
        loop = asyncio.new_event_loop()
        self.addCleanup(loop.close)
        client = Awaited(loop, fieldpost.AsyncClient(self.url, timeout=PATIENCE))
        self.addCleanup(client.close)
        return client
