"""What the clients send, when they try again, and what they make of answers: against a scripted server."""

from __future__ import annotations

import asyncio
import inspect
import json
import pickle
import unittest
from datetime import datetime, timedelta, timezone
from typing import Any, Callable, Literal, get_args, get_origin, get_type_hints

import fieldpost
from fieldpost import Alias, NewJob, OnConflict, Retries
from fieldpost.model import JobTerms

from .scripted import HANG_UP, Scripted, answer

PUBLISHED = answer(201, {"jobs": [{"id": "01J", "run_at": "2026-11-21T01:02:03.456Z"}]})
#: No time is lost between two tries of a test.
AT_ONCE = Retries(most=3, base=0.0)


class Both:
    """Does the same with both clients, one after the other, each against a server of its own."""

    def __init__(self, script: list[bytes], retries: Retries = AT_ONCE, timeout: float = 30.0) -> None:
        self.script, self.retries, self.timeout = script, retries, timeout

    def do(self, what: Callable[[Any], Any]) -> list[tuple[Any, Scripted]]:
        with Scripted(self.script) as first:
            by_threads = self._threads(first.url, what)
        with Scripted(self.script) as second:
            by_tasks = asyncio.run(self._tasks(second.url, what))
        return [(by_threads, first), (by_tasks, second)]

    def _threads(self, url: str, what: Callable[[Any], Any]) -> Any:
        with fieldpost.Client(url, token="secret", retries=self.retries, timeout=self.timeout) as client:
            try:
                return what(client.queue("shop", "mails"))
            except fieldpost.FieldpostError as error:
                return error

    async def _tasks(self, url: str, what: Callable[[Any], Any]) -> Any:
        async with fieldpost.AsyncClient(url, token="secret", retries=self.retries, timeout=self.timeout) as client:
            try:
                return await what(client.queue("shop", "mails"))
            except fieldpost.FieldpostError as error:
                return error


class Publishing(unittest.TestCase):
    def test_a_job_is_written_as_the_api_reads_it(self) -> None:
        when = datetime(2026, 11, 21, 12, tzinfo=timezone(timedelta(hours=1)))
        jobs = [
            NewJob({"to": "Ünal"}, delay=timedelta(minutes=2), ttl=1.5, tries=3, alias="a/b", on_conflict="keep"),
            NewJob(b"\x00\xff", run_at=when, group="g", cron="0 9 * * 1-5", tz="Europe/Berlin", executions=2),
            NewJob(every="1h30m"),
        ]
        for published, server in Both([PUBLISHED]).do(lambda queue: queue.publish_many(jobs)):
            first, headers, body = server.requests[0]
            self.assertEqual(published[0].run_at, datetime(2026, 11, 21, 1, 2, 3, 456000, timezone.utc))
            self.assertEqual(first, "POST /v1/queues/shop/mails/jobs")
            self.assertEqual(headers["authorization"], "Bearer secret")
            self.assertEqual(
                json.loads(body)["jobs"],
                [
                    {
                        "payload": {"to": "Ünal"},
                        "delay": "120000ms",
                        "ttl": "1500ms",
                        "tries": 3,
                        "alias": "a/b",
                        "on_conflict": "keep",
                    },
                    {
                        "payload_base64": "AP8=",
                        "run_at": "2026-11-21T12:00:00+01:00",
                        "group": "g",
                        "cron": "0 9 * * 1-5",
                        "tz": "Europe/Berlin",
                        "executions": 2,
                    },
                    {"payload": None, "every": "1h30m"},
                ],
            )

    def test_a_type_checker_is_told_each_value_of_on_conflict(self) -> None:
        self.assertIs(get_origin(OnConflict), Literal)
        self.assertEqual(sorted(get_args(OnConflict)), ["keep", "reject", "replace"])
        for terms in (NewJob, JobTerms):
            self.assertEqual(get_args(get_type_hints(terms)["on_conflict"]), (OnConflict, type(None)))
        # Only a checker has ``Unpack``: these annotations stay as they are written.
        for queue in (fieldpost.Queue, fieldpost.AsyncQueue):
            publish, publish_many = (inspect.signature(getattr(queue, name)) for name in ("publish", "publish_many"))
            self.assertEqual(publish.parameters["terms"].annotation, "Unpack[JobTerms]")
            self.assertEqual(publish_many.parameters["jobs"].annotation, "Iterable[NewJob]")

    def test_a_lost_connection_is_repeated_under_the_same_key(self) -> None:
        script = [HANG_UP, answer(503, {"code": "not_accepting"}), PUBLISHED]
        for published, server in Both(script).do(lambda queue: queue.publish(1)):
            self.assertEqual(published.id, "01J")
            keys = {headers["idempotency-key"] for _, headers, _ in server.requests}
            self.assertEqual((len(server.requests), len(keys)), (3, 1))

    def test_two_calls_have_two_keys(self) -> None:
        for _, server in Both([PUBLISHED, PUBLISHED]).do(lambda queue: queue.publish(1)):
            first = server.requests[0][1]["idempotency-key"]
            self.assertRegex(first, "^[0-9a-f]{32}$")
        firsts = {
            server.requests[0][1]["idempotency-key"]
            for _, server in Both([PUBLISHED]).do(lambda queue: queue.publish(1))
        }
        self.assertEqual(len(firsts), 2)

    def test_a_connection_is_used_again(self) -> None:
        with Scripted([PUBLISHED] * 3) as server, fieldpost.Client(server.url) as client:
            for _ in range(3):
                client.queue("shop", "mails").publish(1)
            self.assertEqual((len(server.requests), server.connections), (3, 1))

    def test_what_is_not_json_is_told_before_it_is_sent(self) -> None:
        with Scripted([]) as server, fieldpost.Client(server.url) as client:
            queue = client.queue("shop", "mails")
            with self.assertRaises(ValueError):
                queue.publish(float("nan"))
            with self.assertRaises(TypeError):
                queue.publish(object())
            with self.assertRaisesRegex(ValueError, "time zone"):
                queue.publish(1, run_at=datetime(2026, 1, 1))
            with self.assertRaisesRegex(ValueError, "negative"):
                queue.publish(1, delay=-1)


class Retrying(unittest.TestCase):
    def test_too_many_requests_are_repeated_when_the_server_says(self) -> None:
        script = [answer(429, {"code": "too_many_requests"}, Retry_After="0"), answer(204)]
        for _, server in Both(script).do(lambda queue: queue.pause()):
            self.assertEqual(len(server.requests), 2)

    def test_a_wait_that_is_too_long_is_left_to_the_caller(self) -> None:
        script = [answer(503, {"code": "busy", "detail": "later"}, Retry_After="60")]
        for error, server in Both(script).do(lambda queue: queue.pause()):
            self.assertIsInstance(error, fieldpost.UnavailableError)
            self.assertEqual((error.code, error.retry_after, len(server.requests)), ("busy", 60.0, 1))

    def test_a_call_that_must_not_be_done_twice_is_not_repeated(self) -> None:
        for error, server in Both([HANG_UP, answer(200, {"respawned": 1})]).do(lambda queue: queue.respawn(limit=1)):
            self.assertIsInstance(error, fieldpost.ConnectionFailedError)
            self.assertEqual(len(server.requests), 1)

    def test_it_ends_after_so_many_tries(self) -> None:
        for error, server in Both([HANG_UP] * 9).do(lambda queue: queue.overview()):
            self.assertIsInstance(error, fieldpost.ConnectionFailedError)
            self.assertIsNotNone(error.__cause__)
            self.assertEqual(len(server.requests), 4)

    def test_a_server_that_does_not_answer_is_given_up(self) -> None:
        # What it begins to say is not ended: it waits for a second request, which never comes.
        silent = Both([b"HTTP/1.1 200 OK\r\n", PUBLISHED], Retries(most=0), timeout=0.05)
        for error, _ in silent.do(lambda queue: queue.overview()):
            self.assertIsInstance(error, fieldpost.ConnectionFailedError)

    def test_delays_grow_and_are_left_to_chance(self) -> None:
        retries = Retries(most=10, base=1.0, longest=4.0)
        lost = fieldpost.ConnectionFailedError()
        for failed, most in [(1, 1.0), (2, 2.0), (3, 4.0), (9, 4.0)]:
            delays = [retries.delay(failed, lost, True) for _ in range(200)]
            self.assertTrue(all(delay is not None and 0 <= delay <= most for delay in delays))
            self.assertGreater(max(delay or 0 for delay in delays), most / 2)
        self.assertIsNone(retries.delay(11, lost, True))


class Answers(unittest.TestCase):
    def test_refusals_are_told_apart(self) -> None:
        rows = [
            (401, "no_token", fieldpost.UnauthorizedError),
            (403, "wrong_scope", fieldpost.ForbiddenError),
            (404, "unknown_job", fieldpost.NotFoundError),
            (409, "alias_taken", fieldpost.ConflictError),
            (409, "stale_reservation", fieldpost.StaleReservationError),
            (422, "invalid_tries", fieldpost.RefusedError),
        ]
        for status, code, kind in rows:
            script = [answer(status, {"code": code, "detail": "because"})]
            for error, _ in Both(script).do(lambda queue: queue.get("01J")):
                self.assertIs(type(error), kind)
                self.assertEqual((error.status, error.code, error.detail), (status, code, "because"))
                self.assertEqual(str(pickle.loads(pickle.dumps(error))), str(error))

    def test_a_refusal_of_something_in_between_is_told_as_it_is(self) -> None:
        page = b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 6\r\n\r\n<html>"
        for error, _ in Both([page]).do(lambda queue: queue.get("01J")):
            self.assertEqual((type(error), error.status, error.detail), (fieldpost.ApiError, 502, "<html>"))

    def test_an_answer_of_something_else_is_not_believed(self) -> None:
        for text in [answer(200, ["no", "jobs"]), answer(200, {"jobs": [{}]}), answer(301, None, Location="/")]:
            for error, _ in Both([text]).do(lambda queue: queue.consume()):
                self.assertIsInstance(error, fieldpost.UnexpectedAnswerError)

    def test_a_chunked_answer_is_put_together(self) -> None:
        head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        chunks = head + b'4;x=y\r\n{"re\r\nA\r\nspawned":7\r\n1\r\n}\r\n0\r\n\r\n'
        for respawned, _ in Both([chunks]).do(lambda queue: queue.respawn(["01J"])):
            self.assertEqual(respawned, 7)

    def test_an_answer_that_breaks_off_is_no_answer(self) -> None:
        half = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\nConnection: close\r\n\r\n{"
        # The script is over then, and with it the connection.
        for error, _ in Both([half], Retries(most=0)).do(lambda queue: queue.overview()):
            self.assertIsInstance(error, fieldpost.ConnectionFailedError)

    def test_names_are_escaped(self) -> None:
        for _, server in Both([answer(204)]).do(lambda queue: queue.cancel(Alias("order/17 ü"))):
            self.assertEqual(server.requests[0][0], "DELETE /v1/queues/shop/mails/aliases/order%2F17%20%C3%BC")

    def test_a_list_is_read_page_by_page(self) -> None:
        letter = {"payload": 1, "attempt": 1, "tries": 1, "reason": "released", "died_at": "2026-11-21T01:02:03Z"}
        script = [
            answer(200, {"items": [{"id": "a", **letter}], "next_cursor": "c/1"}),
            answer(200, {"items": [{"id": "b", "error": "no", **letter}], "next_cursor": None}),
        ]
        with Scripted(script) as server, fieldpost.Client(server.url) as client:
            found = [(letter.id, letter.error) for letter in client.queue("shop", "mails").dead()]
        self.assertEqual(found, [("a", None), ("b", "no")])
        self.assertEqual(server.requests[1][0], "GET /v1/queues/shop/mails/dead?limit=500&cursor=c%2F1")

    def test_a_url_that_is_none_is_refused(self) -> None:
        for url in ["127.0.0.1:8080", "ftp://127.0.0.1", "http://"]:
            with self.assertRaisesRegex(ValueError, "http://127.0.0.1:8080"):
                fieldpost.Client(url)
