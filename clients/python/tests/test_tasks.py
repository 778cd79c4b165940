"""Tasks, campaigns and the fleet: what both clients send, and what they read, against a scripted server."""

from __future__ import annotations

import json
import unittest
from datetime import datetime, timedelta, timezone
from typing import Any

from .scripted import HANG_UP, answer
from .test_commands import both


def task(status: str, **more: Any) -> dict[str, Any]:
    """A task as the API shows it."""
    counts = {"wanted": 2, "picked": 3, "answered": 2, "failed": 0, "expired": 1, "replaced": 1}
    return {"id": "tsk_1", "status": status, **counts, **more}


def result(device: str, **more: Any) -> dict[str, Any]:
    """A result as the API shows it."""
    when = "2026-11-21T01:02:03.456Z"
    return {"device_id": device, "picked_at": when, "answered_at": when, "outcome": "answered", "result": 7, **more}


def page(items: list[dict[str, Any]], following: str | None, tail: str | None = None) -> bytes:
    """A page of a feed."""
    return answer(200, {"items": items, "next_cursor": following, "tail_cursor": tail})


class Tasks(unittest.TestCase):
    def test_a_task_is_written_as_the_api_reads_it(self) -> None:
        shown = task("done", results=[result("probe1")], notify={"url": "https://a", "secret": "whsec_x"})

        def begin(client: Any) -> Any:
            return client.tasks().begin(
                {"probe": "dns"},
                2,
                wait=2.5,
                place="CN_52",
                pick_class="large",
                deadline=timedelta(seconds=20),
                notify={"url": "https://a"},
            )

        for done, server in both([HANG_UP, answer(201, shown)], begin):
            self.assertEqual((done.id, done.has_ended, done.secret), ("tsk_1", True, "whsec_x"))
            self.assertEqual((done.results[0].device_id, done.results[0].result), ("probe1", 7))
            first, _, body = server.requests[-1]
            self.assertEqual(first, "POST /v1/tasks?wait=2500ms")
            self.assertEqual(
                json.loads(body),
                {
                    "payload": {"probe": "dns"},
                    "count": 2,
                    "place": "CN_52",
                    "class": "large",
                    "deadline": "20000ms",
                    "notify": {"url": "https://a"},
                },
            )
            keys = {headers["idempotency-key"] for _, headers, _ in server.requests}
            self.assertEqual((len(server.requests), len(keys)), (2, 1))

    def test_results_are_followed_until_the_task_has_ended(self) -> None:
        script = [
            page([result("a")], "next"),
            page([result("b", outcome="expired", reason="no_answer", answered_at=None)], None, "tail"),
            answer(200, task("done")),
            page([], None, "tail"),
        ]

        def follow(client: Any) -> list[Any]:
            return list(client.tasks().follow("tsk_1"))

        for found, server in both(script, follow):
            self.assertEqual([each.device_id for each in found], ["a", "b"])
            self.assertEqual((found[1].reason, found[1].answered_at), ("no_answer", None))
            self.assertEqual(
                [first for first, _, _ in server.requests],
                [
                    "GET /v1/tasks/tsk_1/results?order=asc&limit=500&wait=1000ms",
                    "GET /v1/tasks/tsk_1/results?order=asc&limit=500&cursor=next&wait=1000ms",
                    "GET /v1/tasks/tsk_1",
                    "GET /v1/tasks/tsk_1/results?order=asc&limit=500&cursor=tail",
                ],
            )


class Campaigns(unittest.TestCase):
    def test_a_campaign_is_written_as_the_api_reads_it(self) -> None:
        created = "2026-11-21T01:02:03.456Z"
        shown = {"id": "dns", "status": "running", "payload": 1, "count": 20, "created_at": created, "results": None}

        def put(client: Any) -> Any:
            when = datetime(2026, 11, 21, tzinfo=timezone.utc)
            return client.campaigns().put("dns", 1, 20, every="5m", from_=when, missed="catch_up", panel=True)

        for made, server in both([answer(201, shown)], put):
            self.assertEqual((made.id, made.status, made.secret), ("dns", "running", None))
            first, _, body = server.requests[0]
            self.assertEqual(first, "PUT /v1/campaigns/dns")
            self.assertEqual(
                json.loads(body),
                {
                    "payload": 1,
                    "count": 20,
                    "every": "5m",
                    "from": "2026-11-21T00:00:00+00:00",
                    "missed": "catch_up",
                    "panel": True,
                },
            )

    def test_a_change_names_what_it_changes_and_clears(self) -> None:
        created = "2026-11-21T01:02:03.456Z"
        shown = {"id": "dns", "status": "running", "payload": 2, "count": 30, "created_at": created, "results": None}

        def change(client: Any) -> Any:
            campaigns = client.campaigns()
            campaigns.change("dns", count=30, until=None, over=timedelta(hours=1))
            return campaigns.change("dns", None)

        for changed, server in both([answer(200, shown), answer(200, shown)], change):
            self.assertEqual(changed.count, 30)
            self.assertEqual({first for first, _, _ in server.requests}, {"PATCH /v1/campaigns/dns"})
            bodies = [json.loads(body) for _, _, body in server.requests]
            self.assertEqual(bodies, [{"count": 30, "until": None, "over": "3600000ms"}, {"payload": None}])

    def test_campaigns_and_the_fleet_ask_what_the_api_reads(self) -> None:
        coverage = {"eligible": 10, "picked": 15, "never_picked": 0, "min": 1, "max": 2, "mean": 1.5, "gini": 0.1}
        counts = {"total": 2, "connected": 1, "online": 1, "lost": 0, "never_seen": 1}
        items = [{"value": None, "total": 2, "connected": 1}]
        slot = {"slot": 7, "due_at": "2026-11-21T01:05:00.000Z", "wanted": 2, "picked": 0, "answered": 0}
        slot.update({"failed": 0, "expired": 0, "replaced": 0, "skipped": True})
        split = {**coverage, "items": [{"value": None, **coverage}], "more": True}
        script = [answer(204), page([slot], None), answer(200, split), answer(200, {**counts, "items": items})]

        def work(client: Any) -> Any:
            campaigns = client.campaigns()
            campaigns.pause("dns")
            slots = list(campaigns.slots("dns"))
            return slots, campaigns.coverage("dns", "2h", by="site"), client.fleet().count(place="CN", by="operator")

        for (slots, covered, counted), server in both(script, work):
            self.assertEqual((slots[0].slot, slots[0].skipped), (7, True))
            self.assertEqual((covered.min, covered.max, covered.gini, covered.more), (1, 2, 0.1, True))
            self.assertEqual((covered.items[0].value, covered.items[0].summary.max), (None, 2))
            self.assertEqual((counted.total, counted.items[0].value, counted.more), (2, None, False))
            self.assertEqual(
                [first for first, _, _ in server.requests],
                [
                    "POST /v1/campaigns/dns/pause",
                    "GET /v1/campaigns/dns/slots?limit=500",
                    "GET /v1/campaigns/dns/coverage?period=2h&by=site",
                    "GET /v1/fleet/count?place=CN&by=operator",
                ],
            )
