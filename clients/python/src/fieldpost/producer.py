"""Producers that append to some of several nodes, and choose others when some fail, for threads and for tasks.

Whatever they append has a source and an external id, so a message that reaches a node twice, or comes to it as another
node's copy as well, is there once.
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from .errors import ApiError, FieldpostError
from .message import AppendedMessage, MessageTerms, NewMessage

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from .message_stream import AsyncMessageStream, MessageStream

#: Seconds that the chosen nodes may take before others are asked too.
_SLOW_AFTER = 2.0
#: Seconds for which a node that failed is chosen last; doubled with each failure in a row.
_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 60.0
#: Every node would refuse it: the messages are at fault, and not the node.
_HOPELESS = frozenset({400, 413, 422})
#: Calls of a producer of threads at a time, for each node: one that hangs does not hold up others.
_CALLS_OF_NODE = 4


@dataclass(frozen=True)
class NodeAppend:
    """A node that has what was appended."""

    #: Its place among the producer's streams.
    node: int
    #: What became of each message there.
    messages: list[AppendedMessage]


class TooFewNodesError(FieldpostError):
    """Too few nodes took it, or one refused what every node would refuse.

    ``messages`` all have an external id: appended again they are there once.
    """

    def __init__(
        self,
        wanted: int,
        appended: list[NodeAppend],
        errors: list[tuple[int, FieldpostError]],
        messages: list[NewMessage],
    ) -> None:
        said = "".join(f"; node {node}: {error}" for node, error in errors)
        super().__init__(f"{len(appended)} of {wanted} nodes have it{said}")
        #: Nodes that were wanted.
        self.wanted = wanted
        #: Nodes that have it.
        self.appended = appended
        #: What went wrong, by the place of the node.
        self.errors = errors
        self.messages = messages

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.wanted, self.appended, self.errors, self.messages)


class Health:
    """How the nodes have done lately."""

    def __init__(self, nodes: int) -> None:
        self._failed = [0] * nodes
        self._paused_until = [0.0] * nodes
        self._lock = threading.Lock()

    def choice(self, now: float) -> list[int]:
        """As they were given, but behind them those that are paused, the first to return first."""
        with self._lock:
            until = [at if at > now else 0.0 for at in self._paused_until]
        return sorted(range(len(until)), key=until.__getitem__)

    def failed(self, node: int, now: float) -> None:
        """It is chosen last for a while."""
        with self._lock:
            self._paused_until[node] = now + min(_FIRST_PAUSE * 2 ** min(self._failed[node], 6), _LONGEST_PAUSE)
            self._failed[node] += 1

    def well(self, node: int) -> None:
        """It took something."""
        with self._lock:
            self._failed[node], self._paused_until[node] = 0, 0.0


class _Round:
    """One append: who is asked, who has it, and who is left."""

    def __init__(self, health: Health, wanted: int, messages: list[NewMessage]) -> None:
        self._health = health
        self._wanted = wanted
        self._others = health.choice(time.monotonic())
        self._asked_at = dict[int, float]()
        self._appended = list[NodeAppend]()
        self._errors = list[tuple[int, FieldpostError]]()
        self._is_hopeless = False
        self.messages = messages

    @property
    def missing(self) -> int:
        """How many nodes more are to take it."""
        return 0 if self._is_hopeless else self._wanted - len(self._appended)

    @property
    def has_others(self) -> bool:
        return bool(self._others)

    def next(self, count: int) -> Iterator[int]:
        """Nodes that are to be asked now."""
        for _ in range(min(count, len(self._others))):
            node = self._others.pop(0)
            self._asked_at[node] = time.monotonic()
            yield node

    def took(self, node: int, results: list[AppendedMessage]) -> None:
        self._health.well(node)
        self._appended.append(NodeAppend(node, results))

    def refused(self, node: int, error: FieldpostError) -> None:
        self._errors.append((node, error))
        self._is_hopeless = isinstance(error, ApiError) and error.status in _HOPELESS
        if not self._is_hopeless:
            self._health.failed(node, time.monotonic())

    def outcome(self, slow_after: float) -> list[NodeAppend]:
        """Ends it; nodes that were too slow to be among those that have it are paused."""
        now = time.monotonic()
        done = {append.node for append in self._appended} | {node for node, _ in self._errors}
        for node, at in self._asked_at.items():
            if node not in done and at + slow_after <= now:
                self._health.failed(node, now)
        if len(self._appended) < self._wanted:
            raise TooFewNodesError(self._wanted, self._appended, self._errors, self.messages)
        return self._appended


class _Terms:
    """What both producers are made with."""

    def __init__(self, nodes: int, wanted: int, slow_after: float) -> None:
        if not 1 <= wanted <= nodes:
            raise ValueError(f"{wanted} of {nodes} nodes cannot be appended to: it must be 1 to {nodes}")
        self._wanted = wanted
        self._slow_after = slow_after
        self._health = Health(nodes)
        self._source = f"producer-{secrets.token_hex(16)}"
        # Taking the next of it is one step, for threads too.
        self._numbers = itertools.count(1)

    def _round(self, messages: Iterable[NewMessage]) -> _Round:
        return _Round(self._health, self._wanted, [self._stamped(message) for message in messages])

    def _stamped(self, message: NewMessage) -> NewMessage:
        if message.external_id is not None:
            return message
        return replace(message, source=self._source, external_id=next(self._numbers))


class StreamProducer(_Terms):
    """Appends to ``wanted`` of several nodes; ``streams`` are the same stream on each, the preferred ones first.

    Chosen nodes that have not answered after ``slow_after`` seconds are joined by others. It may be shared by threads;
    used with ``with`` it ends its own at the end.
    """

    def __init__(self, streams: Sequence[MessageStream], wanted: int, *, slow_after: float = _SLOW_AFTER) -> None:
        super().__init__(len(streams), wanted, slow_after)
        self._streams = list(streams)
        self._threads = ThreadPoolExecutor(_CALLS_OF_NODE * len(streams), "fieldpost-producer")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends its threads; one that waits for a node ends with that call."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def append(self, payload: Any = None, **terms: Unpack[MessageTerms]) -> list[NodeAppend]:
        """Appends a message; see :meth:`append_many`."""
        return self.append_many([NewMessage(payload, **terms)])

    def append_many(self, messages: Iterable[NewMessage]) -> list[NodeAppend]:
        """Appends up to 1,000 messages, on each node all or none, and returns once as many nodes as are wanted have
        answered; how durable they are there is up to the stream's save mode. A node that fails is chosen last for a
        while. A message without an external id gets a source of this producer and a number.

        Raises :class:`TooFewNodesError`."""
        turn = self._round(messages)
        asked = dict[Future[list[AppendedMessage]], int]()

        def ask(count: int) -> None:
            for node in turn.next(count):
                asked[self._threads.submit(self._streams[node]._append_once, turn.messages)] = node

        ask(turn.missing)
        slow_at = time.monotonic() + self._slow_after
        while asked and turn.missing:
            patience = max(slow_at - time.monotonic(), 0) if turn.has_others else None
            done, _ = wait(asked, patience, FIRST_COMPLETED)
            if not done:
                slow_at = time.monotonic() + self._slow_after
                ask(turn.missing)
            for answer in done:
                node = asked.pop(answer)
                try:
                    turn.took(node, answer.result())
                except FieldpostError as error:
                    turn.refused(node, error)
                    if turn.missing:
                        ask(1)
        for left in asked:
            left.cancel()
        return turn.outcome(self._slow_after)


class AsyncStreamProducer(_Terms):
    """Appends to ``wanted`` of several nodes; the same as :class:`StreamProducer` otherwise."""

    def __init__(self, streams: Sequence[AsyncMessageStream], wanted: int, *, slow_after: float = _SLOW_AFTER) -> None:
        super().__init__(len(streams), wanted, slow_after)
        self._streams = list(streams)

    async def append(self, payload: Any = None, **terms: Unpack[MessageTerms]) -> list[NodeAppend]:
        """See :meth:`StreamProducer.append_many`."""
        return await self.append_many([NewMessage(payload, **terms)])

    async def append_many(self, messages: Iterable[NewMessage]) -> list[NodeAppend]:
        """See :meth:`StreamProducer.append_many`."""
        turn = self._round(messages)
        asked = dict[asyncio.Task[list[AppendedMessage]], int]()

        def ask(count: int) -> None:
            for node in turn.next(count):
                asked[asyncio.create_task(self._streams[node]._append_once(turn.messages))] = node

        try:
            ask(turn.missing)
            slow_at = time.monotonic() + self._slow_after
            while asked and turn.missing:
                patience = max(slow_at - time.monotonic(), 0) if turn.has_others else None
                done, _ = await asyncio.wait(asked, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
                if not done:
                    slow_at = time.monotonic() + self._slow_after
                    ask(turn.missing)
                for answer in done:
                    node = asked.pop(answer)
                    try:
                        turn.took(node, answer.result())
                    except FieldpostError as error:
                        turn.refused(node, error)
                        if turn.missing:
                            ask(1)
        finally:
            for left in asked:
                left.cancel()
        return turn.outcome(self._slow_after)
