"""Operations of a server: one action on everything that matches, for threads and for tasks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from . import calls
from .operation import Operation, OperationCount, OperationTerms

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .aio import AsyncClient
    from .client import Client

_PAGE = 100


class Operations:
    """The operations of a server."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def begin(
        self,
        action: str,
        which: Mapping[str, Any],
        *,
        idempotency_key: str | None = None,
        **terms: Unpack[OperationTerms],
    ) -> Operation:
        """Does one action to everything that matches; it is durable when this returns, and goes on by itself.

        The call carries an idempotency key of its own, so that a lost connection begins no second operation.
        """
        return self._client._run(calls.begin_operation(action, which, terms, idempotency_key))

    def count(self, action: str, which: Mapping[str, Any], **terms: Unpack[OperationTerms]) -> OperationCount:
        """Counts what it would be done to, and changes nothing."""
        return self._client._run(calls.count_operation(action, which, terms))

    def get(self, operation: str) -> Operation:
        """Looks at an operation."""
        return self._client._run(calls.operation(operation))

    def list(self) -> Iterator[Operation]:
        """Operations, the newest first."""
        return self._client._pages(lambda cursor: calls.operations(_PAGE, cursor))

    def cancel(self, operation: str) -> None:
        """Has an operation do no more; what was done stays done."""
        self._client._run(calls.cancel_operation(operation))


class AsyncOperations:
    """The operations of a server."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def begin(
        self,
        action: str,
        which: Mapping[str, Any],
        *,
        idempotency_key: str | None = None,
        **terms: Unpack[OperationTerms],
    ) -> Operation:
        """Does one action to everything that matches; it is durable when this returns, and goes on by itself.

        The call carries an idempotency key of its own, so that a lost connection begins no second operation.
        """
        return await self._client._run(calls.begin_operation(action, which, terms, idempotency_key))

    async def count(self, action: str, which: Mapping[str, Any], **terms: Unpack[OperationTerms]) -> OperationCount:
        """Counts what it would be done to, and changes nothing."""
        return await self._client._run(calls.count_operation(action, which, terms))

    async def get(self, operation: str) -> Operation:
        """Looks at an operation."""
        return await self._client._run(calls.operation(operation))

    def list(self) -> AsyncIterator[Operation]:
        """Operations, the newest first."""
        return self._client._pages(lambda cursor: calls.operations(_PAGE, cursor))

    async def cancel(self, operation: str) -> None:
        """Has an operation do no more; what was done stays done."""
        await self._client._run(calls.cancel_operation(operation))
