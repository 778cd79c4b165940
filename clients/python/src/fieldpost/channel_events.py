"""What somebody who listens to channels makes of what comes. It opens no connection."""

from __future__ import annotations

import json
import logging
import random
from collections import deque
from typing import Any

from .errors import FieldpostError, UnexpectedAnswerError, is_for_good

log = logging.getLogger("fieldpost")

#: A channel, and what was said in it.
ChannelMessage = tuple[str, Any]

#: Seconds without a word after which a connection is taken for dead: the server says something every 15 s.
SILENCE_SECONDS_MAX = 45.0
#: Seconds from one try to listen to the next, at most.
_RECONNECT_SECONDS_MAX = 5.0
#: A message has up to 1 MiB of JSON, and little beside it.
_EVENT_BYTES_MAX = 2 * 1024 * 1024


class Events:
    """Server-sent events of one connection, as its bytes come."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._searched = 0
        #: The server has ended it, because it was read too slowly.
        self.is_over = False

    def feed(self, part: bytes) -> list[ChannelMessage]:
        """The messages that are complete now."""
        self._rest += part
        messages = list[ChannelMessage]()
        while not self.is_over and (end := self._rest.find(b"\n\n", self._searched)) >= 0:
            event = bytes(self._rest[:end])
            del self._rest[: end + 2]
            self._searched = 0
            self._take(event, messages)
        self._searched = max(0, len(self._rest) - 1)
        if len(self._rest) > _EVENT_BYTES_MAX:
            raise UnexpectedAnswerError("an event is longer than any message")
        return messages

    def _take(self, event: bytes, messages: list[ChannelMessage]) -> None:
        fields = dict[bytes, bytes]()
        for line in event.split(b"\n"):
            # What begins with a colon is a comment.
            name, _, value = line.partition(b":")
            fields[name] = value[1:] if value.startswith(b" ") else value
        kind = fields.get(b"event")
        if kind == b"too_slow":
            self.is_over = True
        elif kind == b"message":
            try:
                read = json.loads(fields[b"data"])
                messages.append((read["channel"], read["message"]))
            except (ValueError, LookupError, TypeError) as error:
                raise UnexpectedAnswerError(f"an event is no message: {error!r}") from error


class ListenerState:
    """What a listener has heard, and how it goes on when its connection ends."""

    def __init__(self) -> None:
        #: What is still to be given out; ``None`` where messages may have been missed.
        self.heard: deque[ChannelMessage | None] = deque()
        self._events = Events()
        self._has_listened = False
        self._failed = 0

    def opened(self) -> None:
        """It listens, on a new connection."""
        if self._has_listened:
            self.heard.append(None)
        self._events, self._has_listened = Events(), True

    def failed(self, error: FieldpostError | None = None) -> float:
        """Seconds until the next connection, after one ended or could not be made.

        Raises an error that does not pass by itself. A connection that was of use is followed by
        the next one at once.
        """
        least = 0.0
        if error is not None:
            if is_for_good(error):
                raise error
            log.warning("not listening: %s", error)
            least = error.retry_after or 0.0
        longest = 0.0
        if self._failed or error is not None:
            longest = min(_RECONNECT_SECONDS_MAX, 0.1 * 2.0 ** min(self._failed, 10))
        self._failed += 1
        return max(least, longest * random.uniform(0.5, 1.0))

    def feed(self, part: bytes) -> bool:
        """Takes in what has come, nothing at the end; whether the connection is of no more use."""
        heard = self._events.feed(part)
        self.heard.extend(heard)
        if heard:
            self._failed = 0
        return not part or self._events.is_over
