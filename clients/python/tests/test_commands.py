"""Commands to devices: what both clients send, and what they read, against a scripted server."""

from __future__ import annotations

import asyncio
import json
import unittest
import urllib.request
import uuid
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, Callable

import fieldpost
from fieldpost import Retries

from .live import PATIENCE, Awaited, AwaitedLive, Live
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


if TYPE_CHECKING:
    Base = Live
else:
    Base = object


class Commands(Base):
    """What holds for both clients, with a device that polls."""

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """A request as a device makes it."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}{path}", data, {"Content-Type": "application/json"}, method=method)
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def registered(self) -> str:
        """A device of this test's own."""
        device = f"p{uuid.uuid4().hex[:12]}"
        self.ask("POST", "/v1/devices", {"id": device, "kind": "gate"})
        return device

    def test_a_device_does_what_it_is_told(self) -> None:
        device = self.registered()
        sent = self.client.device(device).send({"open": 1}, key="door", origin=device)
        self.assertEqual(self.client.commands().get(sent.id).status, "scheduled")
        told = self.ask("GET", f"/v1/devices/{device}/poll?wait=30s")
        self.assertEqual((told["message_id"], told["payload"]), (sent.id, {"open": 1}))
        self.ask("POST", f"/v1/devices/{device}/ack", {"message_id": sent.id, "ok": True, "result": [1.5]})
        ended = self.client.commands().wait(sent.id, PATIENCE)
        self.assertEqual((ended.status, ended.result, ended.tries, ended.key), ("acknowledged", [1.5], 1, "door"))
        self.assertEqual([each.id for each in self.client.commands().list(origin=device)], [sent.id])

    def test_a_waiting_command_is_called_off_and_tried_anew(self) -> None:
        device, commands = self.registered(), self.client.commands()
        waiting = self.client.device(device).call(1, wait=0.01)
        self.assertEqual((waiting.status, waiting.has_ended), ("scheduled", False))
        commands.cancel(waiting.id)
        with self.assertRaises(fieldpost.ConflictError):
            commands.cancel(waiting.id)
        commands.retry(waiting.id)
        self.assertEqual(commands.get(waiting.id).status, "scheduled")
        with self.assertRaises(fieldpost.NotFoundError):
            self.client.device("nobody").send(1)

    def test_an_entry_is_pending_until_the_device_confirms_it(self) -> None:
        device = self.registered()
        self.client.device(device).wish("volume", 5)
        self.assertEqual(
            self.client.device(device).desired(), [fieldpost.DesiredEntry("volume", 5, None, True)]
        )
        told = self.ask("GET", f"/v1/devices/{device}/poll?wait=30s")
        self.assertEqual(told["payload"], {"op": "set", "key": "volume", "value": 5})
        self.ask("POST", f"/v1/devices/{device}/ack", {"message_id": told["message_id"], "ok": True})
        self.assertEqual(
            self.client.device(device).desired(), [fieldpost.DesiredEntry("volume", 5, 5, False)]
        )


class CommandsOfThreads(Commands, Live):
    pass


class CommandsOfTasks(Commands, AwaitedLive):
    pass
