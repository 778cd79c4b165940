"""Queues of a real server, through both clients."""

from __future__ import annotations

import threading
import time
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import fieldpost
from fieldpost import Alias, NewJob, Settings

from .live import PATIENCE, AwaitedLive, Live

#: Long enough to be far away, in a test.
FAR = timedelta(hours=1)


if TYPE_CHECKING:
    Base = Live
else:
    Base = object


class Queues(Base):
    """What holds for both clients."""

    def test_what_is_published_is_consumed_as_it_was(self) -> None:
        payloads: list[Any] = [{"n": 1.5, "deep": [None, True, "ü\n"]}, None, 0, "text", b"\x00\xffbytes", [[]]]
        published = self.queue.publish_many([NewJob(payload) for payload in payloads])
        jobs = self.queue.consume(max_jobs=10, wait=PATIENCE)
        self.assertEqual([job.id for job in jobs], [job.id for job in published])
        self.assertEqual([job.payload for job in jobs], payloads)
        self.assertEqual({(job.attempt, job.tries, job.queue, job.alias) for job in jobs}, {(1, 1, "q", None)})
        self.assertEqual(self.queue.ack_many(jobs), fieldpost.Acked(6, ()))
        self.assertEqual(self.queue.overview().reserved, 0)

    def test_a_job_is_done_once(self) -> None:
        self.queue.publish(1)
        job = self.queue.consume()[0]
        self.queue.ack(job)
        with self.assertRaises(fieldpost.StaleReservationError):
            self.queue.ack(job)
        self.assertEqual(self.queue.ack_many([job]).stale, (job.reservation,))
        self.assertEqual(self.queue.consume(), [])

    def test_a_delayed_job_waits_for_its_time(self) -> None:
        before = datetime.now(timezone.utc)
        job = self.queue.publish("later", delay=FAR)
        self.assertGreater(job.run_at, before + FAR - timedelta(minutes=1))
        self.assertEqual(self.queue.consume(), [])
        self.assertEqual(self.queue.get(job.id).state, "scheduled")
        changed = self.queue.change(job.id, payload="now", delay=0)
        self.assertEqual((changed.state, changed.payload), ("ready", "now"))
        self.assertEqual([job.payload for job in self.queue.consume(wait=PATIENCE)], ["now"])

    def test_an_absolute_time_is_kept(self) -> None:
        zone = timezone(timedelta(hours=-5))
        when = datetime.now(zone).replace(microsecond=123_000) + timedelta(days=1000)
        job = self.queue.publish("later", run_at=when)
        self.assertEqual(job.run_at, when)
        self.assertEqual(self.queue.get(job.id).run_at, when)

    def test_a_released_job_comes_again_and_dies_with_its_last_try(self) -> None:
        self.queue.publish("hard", tries=2)
        first = self.queue.consume()[0]
        self.assertFalse(first.is_last_try)
        self.queue.release(first, error="not yet")
        second = self.queue.consume(wait=PATIENCE)[0]
        self.assertEqual((second.attempt, second.is_last_try), (2, True))
        self.queue.release(second, delay=FAR, error="never")
        [letter] = self.queue.dead()
        self.assertEqual((letter.payload, letter.attempt, letter.tries), ("hard", 2, 2))
        self.assertEqual((letter.reason, letter.error), ("released", "never"))
        self.assertEqual(self.queue.respawn([letter.id]), 1)
        self.assertEqual(self.queue.consume(wait=PATIENCE)[0].attempt, 1)

    def test_a_lease_ends_when_it_was_last_said(self) -> None:
        self.queue.publish("thrice", tries=3)
        first = self.queue.consume(ttr=0.05)[0]
        second = self.queue.consume(ttr=FAR, wait=PATIENCE)[0]
        self.assertEqual((second.id, second.attempt), (first.id, 2))
        with self.assertRaises(fieldpost.StaleReservationError):
            self.queue.extend(first, FAR)
        self.queue.extend(second, 0.05)
        third = self.queue.consume(wait=PATIENCE)[0]
        self.assertEqual((third.id, third.attempt), (first.id, 3))

    def test_dead_letters_are_thrown_away(self) -> None:
        for n in range(3):
            self.queue.publish(n)
        for job in self.queue.consume(max_jobs=3):
            self.queue.release(job)
        self.assertEqual([letter.payload for letter in self.queue.dead()], [0, 1, 2])
        self.assertEqual(self.queue.respawn(limit=1), 1)
        self.queue.delete_dead()
        overview = self.queue.overview()
        self.assertEqual((overview.dead, overview.ready), (0, 1))

    def test_an_alias_is_held_by_one_job(self) -> None:
        first = self.queue.publish(1, alias="order/17 ü", delay=FAR)
        with self.assertRaises(fieldpost.ConflictError) as taken:
            self.queue.publish(2, alias="order/17 ü")
        self.assertEqual(taken.exception.code, "alias_taken")
        self.assertEqual(self.queue.publish(3, alias="order/17 ü", on_conflict="keep").id, first.id)
        self.assertEqual(self.queue.get(Alias("order/17 ü")).payload, 1)
        self.assertEqual(self.queue.publish(4, alias="order/17 ü", on_conflict="replace").id, first.id)
        job = self.queue.consume(wait=PATIENCE)[0]
        self.assertEqual((job.payload, job.alias), (4, "order/17 ü"))
        with self.assertRaises(fieldpost.ConflictError) as reserved:
            self.queue.change(Alias("order/17 ü"), payload=5)
        self.assertEqual(reserved.exception.code, "job_reserved")
        self.queue.cancel(Alias("order/17 ü"))
        with self.assertRaises(fieldpost.StaleReservationError):
            self.queue.ack(job)
        with self.assertRaises(fieldpost.NotFoundError):
            self.queue.get(Alias("order/17 ü"))

    def test_jobs_of_a_group_run_one_at_a_time(self) -> None:
        self.queue.publish_many([NewJob(n, group="one") for n in range(2)])
        first = self.queue.consume(max_jobs=2)
        self.assertEqual([job.payload for job in first], [0])
        self.queue.ack(first[0])
        self.assertEqual([job.payload for job in self.queue.consume(max_jobs=2, wait=PATIENCE)], [1])

    def test_a_recurring_job_comes_again_under_its_id(self) -> None:
        published = self.queue.publish("again", every="1s", executions=2, delay=0, alias="tick")
        seen = self.queue.get(published.id)
        self.assertEqual((seen.every, seen.cron, seen.tz, seen.executions_left), ("1s", None, None, 2))
        for run in (1, 2):
            job = self.queue.consume(wait=PATIENCE)[0]
            self.assertEqual((job.id, job.alias, job.attempt), (published.id, "tick", 1), run)
            self.queue.ack(job)
        with self.assertRaises(fieldpost.NotFoundError):
            self.queue.get(published.id)

    def test_a_calendar_is_in_its_time_zone(self) -> None:
        job = self.queue.publish("report", cron="30 9 29 2 *", tz="America/New_York")
        self.assertEqual((job.run_at.month, job.run_at.day, job.run_at.hour, job.run_at.minute), (2, 29, 14, 30))
        with self.assertRaises(fieldpost.RefusedError) as never:
            self.queue.publish("report", cron="0 0 30 2 *")
        self.assertEqual((never.exception.status, never.exception.code), (422, "invalid_schedule"))

    def test_the_same_key_makes_no_second_job(self) -> None:
        first = self.queue.publish("once", idempotency_key="key-1")
        self.assertEqual(self.queue.publish("once", idempotency_key="key-1"), first)
        self.assertEqual(self.queue.overview().ready, 1)
        with self.assertRaises(fieldpost.RefusedError) as reused:
            self.queue.publish("other", idempotency_key="key-1")
        self.assertEqual(reused.exception.code, "idempotency_key_reused")

    def test_earlier_queues_come_first(self) -> None:
        low, high = self.client.queue(self.namespace, "low"), self.client.queue(self.namespace, "high")
        low.publish("low")
        high.publish("high")
        jobs = [self.client.consume(self.namespace, ["high", "low"], wait=PATIENCE)[0] for _ in range(2)]
        self.assertEqual([(job.queue, job.payload) for job in jobs], [("high", "high"), ("low", "low")])
        self.assertEqual([overview.queue for overview in self.client.queues(self.namespace)], ["high", "low"])
        self.assertEqual(self.client.ack_many(jobs).acked, 2)

    def test_settings_hold_and_are_read_back(self) -> None:
        settings = Settings("lifo", 2, 1000.0, 3, 100, "2h")
        self.queue.set_settings(settings)
        self.assertEqual(self.queue.overview().settings, settings)
        self.queue.publish_many([NewJob(n) for n in range(3)])
        with self.assertRaises(fieldpost.ConflictError) as full:
            self.queue.publish(4)
        self.assertEqual(full.exception.code, "queue_full")
        self.assertEqual([job.payload for job in self.queue.consume(max_jobs=3)], [2, 1])
        self.queue.set_settings(Settings())
        self.assertEqual(self.queue.overview().settings, Settings())

    def test_a_paused_queue_gives_out_nothing(self) -> None:
        self.queue.publish(1)
        self.queue.pause()
        self.assertTrue(self.queue.overview().paused)
        self.assertEqual(self.queue.consume(), [])
        self.queue.resume()
        self.assertEqual([job.payload for job in self.queue.consume(wait=PATIENCE)], [1])

    def test_a_deleted_queue_has_nothing(self) -> None:
        self.queue.publish_many([NewJob(1), NewJob(2, delay=FAR)])
        self.assertEqual({job.state for job in self.queue.jobs()}, {"ready", "scheduled"})
        self.assertEqual([job.payload for job in self.queue.jobs("scheduled")], [2])
        self.queue.delete()
        self.assertEqual(list(self.queue.jobs()), [])
        overview = self.queue.overview()
        self.assertEqual((overview.ready, overview.scheduled, overview.oldest_ready_ms), (0, 0, None))
        self.assertGreaterEqual(overview.rates.published, overview.rates.acked)

    def test_a_list_of_several_pages_is_read_to_its_end(self) -> None:
        for part in range(2):
            self.queue.publish_many([NewJob(part * 600 + n, delay=FAR) for n in range(600)])
        self.assertEqual([job.payload for job in self.queue.jobs()], list(range(1200)))

    def test_a_waiting_consumer_is_woken(self) -> None:
        other = fieldpost.Client(self.url)
        self.addCleanup(other.close)
        publisher = threading.Thread(target=self.publish_when_asked, args=(other,))
        publisher.start()
        began = time.monotonic()
        jobs = self.queue.consume(wait=PATIENCE)
        publisher.join()
        self.assertEqual([job.payload for job in jobs], ["came"])
        self.assertLess(time.monotonic() - began, PATIENCE / 2)

    def publish_when_asked(self, client: fieldpost.Client) -> None:
        client.queue(self.namespace, "q").publish("came", delay=0.2)


class QueuesOfThreads(Queues, Live):
    pass


class QueuesOfTasks(Queues, AwaitedLive):
    pass
