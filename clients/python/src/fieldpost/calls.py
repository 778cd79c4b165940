"""The calls of the API as data: what is sent, how the answer is read, and whether the call may be repeated.

Both clients run these; nothing here opens a connection.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Callable, Generic, TypeVar, Union, cast
from urllib.parse import quote, urlencode

from .command import Command, CommandTerms, DesiredEntry, SentCommand, command_body
from .model import (
    UNSET,
    Acked,
    DeadLetter,
    QueueOverview,
    Job,
    JobView,
    NewJob,
    PublishedJob,
    Settings,
    put_payload,
)
from .operation import Operation, OperationCount, OperationTerms, operation_body
from .picks import (
    Campaign,
    CampaignChanges,
    CampaignSlot,
    CampaignTerms,
    Coverage,
    DeviceWeight,
    Fairness,
    FleetCount,
    NewTaskTerms,
    PickResult,
    Task,
    TaskTerms,
    changes_body,
    picks_body,
)
from .times import Duration, Moment, duration_text, moment_text

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

#: Seconds to outwait a ``wait`` that is written as only the server reads it: no server waits longer.
_WAIT_IF_UNREADABLE = 300.0


@dataclass(frozen=True)
class Call(Generic[T_co]):
    """One request, and how its answer is read."""

    method: str
    path: str
    read: Callable[[Any], T_co]
    body: bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)
    #: Whether doing it twice comes to the same as doing it once.
    repeatable: bool = True
    #: Seconds that the server may take before it answers, beyond what any answer takes.
    patience: float = 0.0
    #: Seconds after which nobody wants the answer any more.
    limit: float | None = None
    #: A 404 is read as an answer of ``None``.
    may_be_missing: bool = False

    def within(self, seconds: float) -> float:
        """So many seconds, or the limit where that is less."""
        return seconds if self.limit is None else min(seconds, self.limit)


@dataclass(frozen=True)
class Page(Generic[T_co]):
    """A part of a list."""

    items: Sequence[T_co]
    next_cursor: str | None


@dataclass(frozen=True)
class FeedPage(Page[T_co]):
    """A part of a feed, the oldest first."""

    #: Where what comes later goes on.
    tail_cursor: str | None

    @property
    def after(self) -> str | None:
        """The place behind its last item."""
        return self.next_cursor or self.tail_cursor


@dataclass(frozen=True)
class QueuePath:
    """Where the calls of a queue are."""

    namespace: str
    queue: str

    def __str__(self) -> str:
        return f"/v1/queues/{quote(self.namespace, safe='')}/{quote(self.queue, safe='')}"

    def job(self, id_or_alias: JobRef) -> str:
        """Where a job is."""
        kind, name = ("aliases", id_or_alias.name) if isinstance(id_or_alias, Alias) else ("jobs", id_or_alias)
        return f"{self}/{kind}/{quote(name, safe='')}"


@dataclass(frozen=True)
class Alias:
    """A job by your own id: ``queue.cancel(Alias("order-17"))``."""

    name: str


#: Which job is meant: its id, or an :class:`Alias`.
JobRef = Union[str, Alias]


def _nothing(_: Any) -> None:
    return None


def _json(value: Any) -> bytes:
    # NaN and the infinities are not JSON; better told here than refused there.
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def _published(answer: Any) -> list[PublishedJob]:
    return [PublishedJob.read(item) for item in answer["jobs"]]


def publish(path: QueuePath, jobs: Sequence[NewJob], idempotency_key: str | None) -> Call[list[PublishedJob]]:
    """Publish jobs, all or none. The key makes it repeatable: the server answers a repeat as it did the first."""
    body = {"jobs": [job.body() for job in jobs]}
    return Call("POST", f"{path}/jobs", _published, _json(body), _key(idempotency_key))


def _key(given: str | None) -> dict[str, str]:
    return {"Idempotency-Key": given if given is not None else uuid.uuid4().hex}


def _seconds(wait: Duration | None) -> float:
    if wait is None:
        return 0.0
    text = duration_text(wait)
    plain = text[:-2] if text.endswith("ms") else ""
    return int(plain) / 1000 if plain.isdecimal() else _WAIT_IF_UNREADABLE


def _path_of(job: Job) -> QueuePath:
    return QueuePath(job.namespace, job.queue)


def ack(job: Job) -> Call[None]:
    """A job is done."""
    body = _json({"reservation": job.reservation})
    return Call("POST", f"{_path_of(job).job(job.id)}/ack", _nothing, body)


def ack_many(path: QueuePath, reservations: Sequence[str]) -> Call[Acked]:
    """Jobs of one queue are done."""
    return Call("POST", f"{path}/ack", Acked.read, _json({"reservations": list(reservations)}))


def by_queue(jobs: Iterable[Job]) -> dict[QueuePath, list[str]]:
    """Reservations by the queue that their jobs are in."""
    paths: dict[QueuePath, list[str]] = {}
    for job in jobs:
        paths.setdefault(_path_of(job), []).append(job.reservation)
    return paths


def extend(job: Job, ttr: Duration) -> Call[None]:
    """A reservation ends this long from now."""
    body = _json({"reservation": job.reservation, "ttr": duration_text(ttr)})
    return Call("POST", f"{_path_of(job).job(job.id)}/extend", _nothing, body)


def release(job: Job, delay: Duration | None, error: str | None) -> Call[None]:
    """A job is given back."""
    body: dict[str, Any] = {"reservation": job.reservation}
    if delay is not None:
        body["delay"] = duration_text(delay)
    if error is not None:
        body["error"] = error
    return Call("POST", f"{_path_of(job).job(job.id)}/release", _nothing, _json(body))


def get(path: QueuePath, job: JobRef) -> Call[JobView]:
    """Look at a job."""
    return Call("GET", path.job(job), JobView.read)


def change(path: QueuePath, job: JobRef, payload: Any, delay: Duration | None, run_at: Moment | None) -> Call[JobView]:
    """Give a waiting job another payload or time."""
    body: dict[str, Any] = {}
    if payload is not UNSET:
        put_payload(body, payload)
    if delay is not None:
        body["delay"] = duration_text(delay)
    if run_at is not None:
        body["run_at"] = moment_text(run_at)
    return Call("PATCH", path.job(job), JobView.read, _json(body))


def cancel(path: QueuePath, job: JobRef) -> Call[None]:
    """Cancel a job. Not repeated: the second time there is no such job, or under an alias another one."""
    return Call("DELETE", path.job(job), _nothing, repeatable=False)


def _page(read: Callable[[Any], T]) -> Callable[[Any], Page[T]]:
    def page(answer: Any) -> Page[T]:
        return Page([read(item) for item in answer["items"]], answer.get("next_cursor"))

    return page


def _query(path: str, **parameters: str | int | None) -> str:
    given = {name: value for name, value in parameters.items() if value is not None}
    return f"{path}?{urlencode(given)}" if given else path


def jobs(path: QueuePath, state: str | None, limit: int, cursor: str | None) -> Call[Page[JobView]]:
    """A page of a queue's jobs."""
    return Call("GET", _query(f"{path}/jobs", state=state, limit=limit, cursor=cursor), _page(JobView.read))


def dead(path: QueuePath, limit: int, cursor: str | None) -> Call[Page[DeadLetter]]:
    """A page of a queue's dead letters."""
    return Call("GET", _query(f"{path}/dead", limit=limit, cursor=cursor), _page(DeadLetter.read))


def queues(namespace: str | None, limit: int, cursor: str | None) -> Call[Page[QueueOverview]]:
    """A page of queues."""
    path = _query("/v1/queues", namespace=namespace, limit=limit, cursor=cursor)
    return Call("GET", path, _page(QueueOverview.read))


def overview(path: QueuePath) -> Call[QueueOverview]:
    """How a queue stands."""
    return Call("GET", str(path), QueueOverview.read)


def set_settings(path: QueuePath, settings: Settings) -> Call[None]:
    """Set what a queue does."""
    return Call("PUT", f"{path}/settings", _nothing, _json(settings.body()))


def respawn(path: QueuePath, ids: Iterable[str] | None, limit: int | None) -> Call[int]:
    """Have dead jobs tried again. Not repeated: it would take others."""
    body: dict[str, Any] = {}
    if ids is not None:
        body["ids"] = list(ids)
    if limit is not None:
        body["limit"] = limit

    def read(answer: Any) -> int:
        return int(answer["respawned"])

    return Call("POST", f"{path}/dead/respawn", read, _json(body), repeatable=ids is not None)


def delete_dead(path: QueuePath) -> Call[None]:
    """Throw the dead letters away."""
    return Call("DELETE", f"{path}/dead", _nothing)


def pause(path: QueuePath) -> Call[None]:
    """Stop giving out jobs."""
    return Call("POST", f"{path}/pause", _nothing)


def resume(path: QueuePath) -> Call[None]:
    """Go on giving out jobs."""
    return Call("POST", f"{path}/resume", _nothing)


def delete(path: QueuePath) -> Call[None]:
    """Delete a queue with all that it holds."""
    return Call("DELETE", str(path), _nothing)


def _device(device: str) -> str:
    return f"/v1/devices/{quote(device, safe='')}"


def _command(command: str) -> str:
    return f"/v1/commands/{quote(command, safe='')}"


def send(device: str, payload: Any, terms: CommandTerms, idempotency_key: str | None) -> Call[SentCommand]:
    """Tell a device something. The key makes it repeatable."""
    path = f"{_device(device)}/commands"
    return Call("POST", path, SentCommand.read, _json(command_body(payload, terms)), _key(idempotency_key))


def call(
    device: str, payload: Any, terms: CommandTerms, wait: Duration, idempotency_key: str | None
) -> Call[Command]:
    """Tell a device something and wait for the end."""
    path = _query(f"{_device(device)}/commands", wait=duration_text(wait))
    body = _json(command_body(payload, terms))
    return Call("POST", path, Command.read, body, _key(idempotency_key), patience=_seconds(wait))


def command(command: str) -> Call[Command]:
    """Look at a command."""
    return Call("GET", _command(command), Command.read)


def commands(
    status: str | None, device: str | None, origin: str | None, limit: int, cursor: str | None
) -> Call[Page[Command]]:
    """A page of commands."""
    path = _query("/v1/commands", status=status, device=device, origin=origin, limit=limit, cursor=cursor)
    return Call("GET", path, _page(Command.read))


def cancel_command(command: str) -> Call[None]:
    """Call a command off. Not repeated: the second time it has ended."""
    return Call("DELETE", _command(command), _nothing, repeatable=False)


def retry_command(command: str) -> Call[None]:
    """Try a command anew. Not repeated: the second time it has not ended."""
    return Call("POST", f"{_command(command)}/retry", _nothing, repeatable=False)


def desired(device: str) -> Call[list[DesiredEntry]]:
    """What a device is to have."""

    def read(answer: Any) -> list[DesiredEntry]:
        return [DesiredEntry.read(item) for item in answer["items"]]

    return Call("GET", f"{_device(device)}/desired", read)


def wish(device: str, key: str, value: Any) -> Call[None]:
    """A device is to have a value."""
    path = f"{_device(device)}/desired/{quote(key, safe='')}"
    return Call("PUT", path, _nothing, _json({"value": value}))


def wish_deleted(device: str, key: str) -> Call[None]:
    """A device is to have no such entry."""
    return Call("DELETE", f"{_device(device)}/desired/{quote(key, safe='')}", _nothing)


def _operation(operation: str) -> str:
    return f"/v1/operations/{quote(operation, safe='')}"


def begin_operation(
    action: str, which: Mapping[str, Any], terms: OperationTerms, idempotency_key: str | None
) -> Call[Operation]:
    """Do one action to everything that matches. The key makes it repeatable."""
    body = _json(operation_body(action, which, terms, False))
    return Call("POST", "/v1/operations", Operation.read, body, _key(idempotency_key))


def count_operation(action: str, which: Mapping[str, Any], terms: OperationTerms) -> Call[OperationCount]:
    """Count what an action would be done to."""
    body = _json(operation_body(action, which, terms, True))
    return Call("POST", "/v1/operations", OperationCount.read, body)


def operation(operation: str) -> Call[Operation]:
    """Look at an operation."""
    return Call("GET", _operation(operation), Operation.read)


def operations(limit: int, cursor: str | None) -> Call[Page[Operation]]:
    """A page of operations."""
    return Call("GET", _query("/v1/operations", limit=limit, cursor=cursor), _page(Operation.read))


def cancel_operation(operation: str) -> Call[None]:
    """Have an operation do no more. Not repeated: the second time it has ended."""
    return Call("DELETE", _operation(operation), _nothing, repeatable=False)


def _task(task: str) -> str:
    return f"/v1/tasks/{quote(task, safe='')}"


def _campaign(campaign: str) -> str:
    return f"/v1/campaigns/{quote(campaign, safe='')}"


def begin_task(payload: Any, count: int, terms: NewTaskTerms) -> Call[Task]:
    """Ask some devices once. The key makes it repeatable."""
    wait, key = terms.get("wait"), terms.get("idempotency_key")
    of_task = {name: value for name, value in terms.items() if name not in ("wait", "idempotency_key")}
    path = _query("/v1/tasks", wait=None if wait is None else duration_text(wait))
    body = _json(picks_body(payload, count, cast("TaskTerms", of_task)))
    return Call("POST", path, Task.read, body, _key(key), patience=_seconds(wait))


def task(task: str) -> Call[Task]:
    """Look at a task."""
    return Call("GET", _task(task), Task.read)


def cancel_task(task: str) -> Call[None]:
    """Stop a task. Not repeated: the second time it has ended."""
    return Call("DELETE", _task(task), _nothing, repeatable=False)


def task_results(task: str, limit: int, cursor: str | None, wait: Duration | None) -> Call[FeedPage[PickResult]]:
    """A page of a task's results, in the order in which its picks ended."""
    return _results(f"{_task(task)}/results", limit, cursor, wait)


def campaign_results(
    campaign: str, device: str | None, limit: int, cursor: str | None, wait: Duration | None
) -> Call[FeedPage[PickResult]]:
    """A page of a campaign's results, in the order in which its picks ended."""
    return _results(f"{_campaign(campaign)}/results", limit, cursor, wait, device)


def _results(
    path: str, limit: int, cursor: str | None, wait: Duration | None, device: str | None = None
) -> Call[FeedPage[PickResult]]:
    def read(answer: Any) -> FeedPage[PickResult]:
        items = [PickResult.read(item) for item in answer["items"]]
        return FeedPage(items, answer.get("next_cursor"), answer.get("tail_cursor"))

    text = None if wait is None else duration_text(wait)
    path = _query(path, device=device, order="asc", limit=limit, cursor=cursor, wait=text)
    return Call("GET", path, read, patience=_seconds(wait))


def put_campaign(campaign: str, payload: Any, count: int, terms: CampaignTerms) -> Call[Campaign]:
    """Create a campaign, or replace it."""
    return Call("PUT", _campaign(campaign), Campaign.read, _json(picks_body(payload, count, terms)))


def change_campaign(campaign: str, payload: Any, changes: CampaignChanges) -> Call[Campaign]:
    """Change a campaign. Not repeated: another change may have come in between."""
    body = _json(changes_body(payload, changes))
    return Call("PATCH", _campaign(campaign), Campaign.read, body, repeatable=False)


def campaign(campaign: str) -> Call[Campaign]:
    """Look at a campaign."""
    return Call("GET", _campaign(campaign), Campaign.read)


def campaigns(limit: int, cursor: str | None) -> Call[Page[Campaign]]:
    """A page of campaigns."""
    return Call("GET", _query("/v1/campaigns", limit=limit, cursor=cursor), _page(Campaign.read))


def delete_campaign(campaign: str) -> Call[None]:
    """Remove a campaign. Not repeated: the second time it is gone."""
    return Call("DELETE", _campaign(campaign), _nothing, repeatable=False)


def tell_campaign(campaign: str, what: str) -> Call[None]:
    """Pause a campaign, or resume it."""
    return Call("POST", f"{_campaign(campaign)}/{what}", _nothing)


def campaign_slots(campaign: str, limit: int, cursor: str | None) -> Call[Page[CampaignSlot]]:
    """A page of a campaign's slots."""
    return Call(
        "GET", _query(f"{_campaign(campaign)}/slots", limit=limit, cursor=cursor), _page(CampaignSlot.read)
    )


def coverage(campaign: str, period: Duration, by: str | None) -> Call[Coverage]:
    """How evenly a campaign picked."""
    path = _query(f"{_campaign(campaign)}/coverage", period=duration_text(period), by=by)
    return Call("GET", path, Coverage.read)


def fleet_count(selector: str | None, place: str | None, by: str | None) -> Call[FleetCount]:
    """Count devices."""
    return Call("GET", _query("/v1/fleet/count", selector=selector, place=place, by=by), FleetCount.read)


def fleet_weights(
    selector: str | None, place: str | None, limit: int, cursor: str | None
) -> Call[Page[DeviceWeight]]:
    """A page of weights."""
    path = _query("/v1/fleet/weights", selector=selector, place=place, limit=limit, cursor=cursor)
    return Call("GET", path, _page(DeviceWeight.read))


def fairness() -> Call[Fairness]:
    """What all weights follow from."""
    return Call("GET", "/v1/fleet/fairness", Fairness.read)
