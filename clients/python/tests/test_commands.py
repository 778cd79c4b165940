"""Commands to devices: what both clients send, and what they read, against a scripted server."""

from __future__ import annotations

import asyncio
import json
import unittest
from datetime import datetime, timedelta, timezone
from typing import Any, Callable

import fieldpost
from fieldpost import Retries

from .live import Awaited
from .scripted import HANG_UP, Scripted, answer

SENT = answer(201, {"id": "cmd_1", "status": "scheduled", "notify": {"url": "https://a", "secret": "whsec_x"}})
#: No time is lost between two tries of a test.
AT_ONCE = Retries(most=3, base=0.0)


def command(status: str, **more: Any) -> dict[str, Any]:
    """A command as the API shows it."""
    seen = {"id": "cmd_1", "device_id": "gate7", "status": status, "tries": 1, "payload": {"open": 1}}
    return {**seen, "created_at": "2026-11-21T01:02:03.456Z", **more}


def both(script: list[bytes], what: Callable[[Any], Any]) -> list[tuple[Any, Scripted]]:
    """Does the same with both clients, one after the other, each against a server of its own."""
    with Scripted(script) as first, fieldpost.Client(first.url, retries=AT_ONCE) as client:
        done = [(what(client), first)]
    loop = asyncio.new_event_loop()
    with Scripted(script) as second:
        tasks = Awaited(loop, fieldpost.AsyncClient(second.url, retries=AT_ONCE))
        done.append((what(tasks), second))
        tasks.close()
    loop.close()
    return done


class Sending(unittest.TestCase):
    def test_a_command_is_written_as_the_api_reads_it(self) -> None:
        when = datetime(2026, 11, 21, 12, tzinfo=timezone.utc)

        def send(client: Any) -> Any:
            return client.device("a/b").send(
                {"open": 1}, ttl="1h", not_before=when, ack_timeout=timedelta(seconds=2), key="door", priority=-5
            )

        for sent, server in both([HANG_UP, SENT], send):
            self.assertEqual((sent.id, sent.status, sent.secret), ("cmd_1", "scheduled", "whsec_x"))
            first, headers, body = server.requests[-1]
            self.assertEqual(first, "POST /v1/devices/a%2Fb/commands")
            self.assertEqual(
                json.loads(body),
                {
                    "payload": {"open": 1},
                    "ttl": "1h",
                    "not_before": "2026-11-21T12:00:00+00:00",
                    "ack_timeout": "2000ms",
                    "key": "door",
                    "priority": -5,
                },
            )
            keys = {headers["idempotency-key"] for _, headers, _ in server.requests}
            self.assertEqual((len(server.requests), len(keys)), (2, 1))

    def test_a_call_answers_how_it_ended(self) -> None:
        late = {"ok": True, "at": "2026-11-21T01:02:09.000Z", "result": None}
        script = [answer(200, command("failed", result={"why": "jam"}, late=late))]
        for ended, server in both(script, lambda client: client.device("gate7").call(1, wait=2.5, origin="ann")):
            self.assertEqual((ended.status, ended.has_ended, ended.result), ("failed", True, {"why": "jam"}))
            self.assertEqual(ended.created_at, datetime(2026, 11, 21, 1, 2, 3, 456000, timezone.utc))
            self.assertTrue(ended.late.ok)
            self.assertEqual(server.requests[0][0], "POST /v1/devices/gate7/commands?wait=2500ms")


class Looking(unittest.TestCase):
    def test_the_end_is_waited_for(self) -> None:
        script = [answer(200, command(status)) for status in ("scheduled", "published", "acknowledged")]
        for ended, server in both(script, lambda client: client.commands().wait("cmd_1", 60)):
            self.assertEqual((ended.status, len(server.requests)), ("acknowledged", 3))
        for open_still, _ in both(script[:1], lambda client: client.commands().wait("cmd_1", 0)):
            self.assertFalse(open_still.has_ended)

    def test_commands_are_listed_called_off_and_tried_anew(self) -> None:
        page = answer(200, {"items": [command("failed")], "next_cursor": None})

        def work(client: Any) -> list[str]:
            commands = client.commands()
            found = [each.id for each in commands.list(status="failed", device="gate7")]
            commands.cancel("cmd_1")
            commands.retry("cmd_1")
            return found

        for found, server in both([page, answer(204), answer(202)], work):
            self.assertEqual(found, ["cmd_1"])
            self.assertEqual(
                [first for first, _, _ in server.requests],
                [
                    "GET /v1/commands?status=failed&device=gate7&limit=500",
                    "DELETE /v1/commands/cmd_1",
                    "POST /v1/commands/cmd_1/retry",
                ],
            )

    def test_entries_are_wished_and_shown(self) -> None:
        entry = {"key": "lamp/1", "desired": None, "confirmed": "on", "pending": True}

        def wish(client: Any) -> list[fieldpost.DesiredEntry]:
            device = client.device("gate7")
            device.wish("lamp/1", {"on": True})
            device.wish_deleted("lamp/1")
            entries: list[fieldpost.DesiredEntry] = device.desired()
            return entries

        for entries, server in both([answer(204), answer(204), answer(200, {"items": [entry]})], wish):
            self.assertEqual(entries, [fieldpost.DesiredEntry("lamp/1", None, "on", True)])
            self.assertEqual(server.requests[0][0], "PUT /v1/devices/gate7/desired/lamp%2F1")
            self.assertEqual(json.loads(server.requests[0][2]), {"value": {"on": True}})
            self.assertEqual(server.requests[1][0], "DELETE /v1/devices/gate7/desired/lamp%2F1")
