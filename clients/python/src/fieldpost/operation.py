"""One action on everything that matches, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypedDict

from .times import read_moment


class OperationTerms(TypedDict, total=False):
    """What an operation takes beside its action and its filter."""

    #: Labels that devices are given; ``None`` takes one away.
    labels: dict[str, str | None] | None
    #: The client that devices are linked to, or unlinked from.
    client: str | None
    #: Rows in a second.
    rate: int | None


def operation_body(action: str, which: Mapping[str, Any], terms: OperationTerms, dry_run: bool) -> dict[str, Any]:
    """An operation as the API reads it."""
    body: dict[str, Any] = {"action": action, "filter": dict(which)}
    body.update({name: value for name, value in terms.items() if value is not None})
    return {**body, "dry_run": True} if dry_run else body


@dataclass(frozen=True)
class OperationRefusal:
    """The latest refusal of an operation, what it waits for, or why it failed."""

    code: str
    detail: str
    #: The row; empty where it is about the operation as a whole.
    subject: str


@dataclass(frozen=True)
class OperationCount:
    """What an operation would be done to."""

    matched: int
    looked_at: int
    #: Whether that were all; else there may be more.
    complete: bool

    @classmethod
    def read(cls, item: Mapping[str, Any]) -> OperationCount:
        """Reads what the API gives."""
        return cls(item["matched"], item["looked_at"], item["complete"])


@dataclass(frozen=True)
class Operation:
    """An operation, and how far it has come."""

    id: str
    action: str
    #: ``running``, ``done``, ``cancelled`` or ``failed``.
    status: str
    matched: int
    done: int
    refused: int
    skipped: int
    created_at: datetime
    ended_at: datetime | None = None
    by: str | None = None
    last_error: OperationRefusal | None = None

    @property
    def has_ended(self) -> bool:
        """Whether it goes on no longer."""
        return self.status != "running"

    @classmethod
    def read(cls, item: Mapping[str, Any]) -> Operation:
        """Reads what the API gives."""
        ended, error = item.get("ended_at"), item.get("last_error")
        return cls(
            item["id"],
            item["action"],
            item["status"],
            item["matched"],
            item["done"],
            item["refused"],
            item["skipped"],
            read_moment(item["created_at"]),
            None if ended is None else read_moment(ended),
            item.get("by"),
            None if error is None else OperationRefusal(error["code"], error["detail"], error["subject"]),
        )
