"""Operations: what both clients send, and what they read, against a scripted server."""

from __future__ import annotations

import json
import unittest
from typing import Any

from .scripted import HANG_UP, answer
from .test_commands import both

SHOWN = {
    "id": "op_1",
    "action": "devices.label",
    "filter": {"kind": "lock"},
    "status": "running",
    "rate": 5,
    "matched": 3,
    "done": 1,
    "refused": 1,
    "skipped": 1,
    "created_at": "2026-11-21T01:02:03.456Z",
    "by": None,
    "last_error": {"code": "too_many_labels", "detail": "d", "subject": "lock7"},
}


class Operations(unittest.TestCase):
    def test_an_operation_is_written_as_the_api_reads_it(self) -> None:
        def begin(client: Any) -> Any:
            return client.operations().begin(
                "devices.label", {"kind": "lock"}, labels={"site": "12", "old": None}, rate=5
            )

        for begun, server in both([HANG_UP, answer(201, SHOWN)], begin):
            self.assertEqual((begun.id, begun.has_ended, begun.matched, begun.done), ("op_1", False, 3, 1))
            self.assertEqual(begun.last_error.subject, "lock7")
            first, headers, body = server.requests[-1]
            self.assertEqual(first, "POST /v1/operations")
            self.assertEqual(
                json.loads(body),
                {
                    "action": "devices.label",
                    "filter": {"kind": "lock"},
                    "labels": {"site": "12", "old": None},
                    "rate": 5,
                },
            )

    def test_a_dry_run_only_counts(self) -> None:
        counted = answer(200, {"matched": 3, "looked_at": 10, "complete": True})

        def count(client: Any) -> Any:
            return client.operations().count("dead.respawn", {"queue": "shop/mail"})

        for found, server in both([counted], count):
            self.assertEqual((found.matched, found.looked_at, found.complete), (3, 10, True))
            self.assertIs(json.loads(server.requests[-1][2])["dry_run"], True)
