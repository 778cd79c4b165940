"""Devices and their commands, for tasks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from . import calls
from .command import Command, CommandTerms, DesiredEntry, SentCommand
from .times import Duration

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .aio import AsyncClient

_PAGE = 500
#: Seconds between two looks at a command that is waited for: first, and at most.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 1.0


class AsyncDevice:
    """A device: it is told to do something, and what it is to have is wished."""

    def __init__(self, client: AsyncClient, device: str) -> None:
        self._client = client
        self._id = device

    @property
    def id(self) -> str:
        """The device's id."""
        return self._id

    async def send(
        self, payload: Any, *, idempotency_key: str | None = None, **terms: Unpack[CommandTerms]
    ) -> SentCommand:
        """Tells it something; the command is durable when this returns, and goes out once the device is reachable.

        The call carries an idempotency key of its own, so that a lost connection makes no second command.
        """
        return await self._client._run(calls.send(self._id, payload, terms, idempotency_key))

    async def call(
        self,
        payload: Any,
        *,
        wait: Duration = 30.0,
        idempotency_key: str | None = None,
        **terms: Unpack[CommandTerms],
    ) -> Command:
        """Tells it something and waits, up to five minutes: the command once it has ended, or as it is then."""
        return await self._client._run(calls.call(self._id, payload, terms, wait, idempotency_key))

    async def desired(self) -> list[DesiredEntry]:
        """What it is to have, beside what it has confirmed, in order of key."""
        return await self._client._run(calls.desired(self._id))

    async def wish(self, key: str, value: Any) -> None:
        """It is to have this value under a key; a command brings it there."""
        await self._client._run(calls.wish(self._id, key, value))

    async def wish_deleted(self, key: str) -> None:
        """It is to have nothing under a key; a command brings it there."""
        await self._client._run(calls.wish_deleted(self._id, key))


class AsyncCommands:
    """The commands of all devices."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def get(self, command: str) -> Command:
        """Looks at a command."""
        return await self._client._run(calls.command(command))

    def list(
        self, *, status: str | None = None, device: str | None = None, origin: str | None = None
    ) -> AsyncIterator[Command]:
        """Commands, the newest first."""
        return self._client._pages(lambda cursor: calls.commands(status, device, origin, _PAGE, cursor))

    async def wait(self, command: str, limit: float) -> Command:
        """A command once it has ended, or as it is after ``limit`` seconds. It is looked at again and again."""
        until, pause = time.monotonic() + limit, _FIRST_PAUSE
        while True:
            found = await self.get(command)
            left = until - time.monotonic()
            if found.has_ended or left <= 0:
                return found
            await asyncio.sleep(min(pause, left))
            pause = min(pause * 2, _LONGEST_PAUSE)

    async def cancel(self, command: str) -> None:
        """Calls a command off that has not ended."""
        await self._client._run(calls.cancel_command(command))

    async def retry(self, command: str) -> None:
        """Tries a failed, expired or cancelled command anew, under the same id."""
        await self._client._run(calls.retry_command(command))
