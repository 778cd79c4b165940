"""Tasks, campaigns and the fleet, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypedDict

from .command import LateAnswer
from .model import UNSET
from .times import Duration, Moment, duration_text, moment_text, read_moment


class PickTerms(TypedDict, total=False):
    """Which devices are picked. Only connected ones are; those that had least come first."""

    #: Only devices that this selector means, such as ``"operator=7,kind!=lock"``.
    selector: str | None
    #: Only devices of a place, by the server's setting ``[fleet] place``: ``"CN_520000"``.
    place: str | None
    #: Only these, up to 10,000.
    devices: list[str] | None
    #: No devices that this selector means.
    exclude: str | None
    #: Only devices that this task picked.
    same_as: str | None
    #: No device that this task picked.
    not_as: str | None
    #: Equal numbers for each value of this label, as far as there are devices.
    spread_by: str | None
    #: How long a device has for its answer.
    answer_timeout: Duration | None
    #: ``"large"``, ``"enterprise"`` or ``"ordinary"``: who goes first where a rate makes picks wait.
    pick_class: str | None


class TaskTerms(PickTerms, total=False):
    """What a task takes beside its payload and its count."""

    #: How long devices that drop out are replaced by others.
    deadline: Duration | None
    #: Who is told its end: ``{"queue": "namespace/queue"}`` or ``{"url": "https://..."}``.
    notify: dict[str, str] | None


class NewTaskTerms(TaskTerms, total=False):
    """What the call takes that begins a task."""

    #: The call returns once the task has ended, or after this long: five minutes at most.
    wait: Duration | None
    #: The same key begins the same task. Without one the call makes its own.
    idempotency_key: str | None


class CampaignTerms(PickTerms, total=False):
    """What a campaign takes beside its payload and its count: one of ``every`` and ``over``, and more."""

    #: ``count`` devices once in each span of this length.
    every: Duration | None
    #: ``count`` devices in total over each span of this length, in 60 slots.
    over: Duration | None
    #: What people call it.
    name: str | None
    #: No slot before.
    from_: Moment | None
    #: No slot from then on.
    until: Moment | None
    #: ``"skip"`` or ``"catch_up"``: what becomes of slots that the server was not there for.
    missed: str | None
    #: By how much slots are shifted from multiples of their interval.
    phase: Duration | None
    #: The same devices in each slot, replaced only when they are gone.
    panel: bool | None
    #: Who is told each result: ``{"queue": "namespace/queue"}`` or ``{"url": "https://..."}``.
    results: dict[str, str] | None


class CampaignChanges(CampaignTerms, total=False):
    """What is changed of a campaign beside its payload. ``None`` clears; what is left out stays."""

    #: How many devices, at each slot or in each period.
    count: int


#: Names that Python keeps for itself.
_NAMES = {"from_": "from", "pick_class": "class"}


def picks_body(payload: Any, count: int, terms: TaskTerms | CampaignTerms) -> dict[str, Any]:
    """A task or a campaign as the API reads it."""
    body: dict[str, Any] = {"payload": payload, "count": count}
    body.update(_written({name: value for name, value in terms.items() if value is not None}))
    return body


def changes_body(payload: Any, changes: CampaignChanges) -> dict[str, Any]:
    """Changes of a campaign as the API reads them."""
    body: dict[str, Any] = {} if payload is UNSET else {"payload": payload}
    body.update(_written(changes))
    return body


def _written(terms: Mapping[str, Any]) -> dict[str, Any]:
    body: dict[str, Any] = {}
    for name, value in terms.items():
        if value is None:
            pass
        elif name in ("answer_timeout", "deadline", "every", "over", "phase"):
            value = duration_text(value)
        elif name in ("from_", "until"):
            value = moment_text(value)
        body[_NAMES.get(name, name)] = value
    return body


def _moment(text: str | None) -> datetime | None:
    return None if text is None else read_moment(text)


@dataclass(frozen=True)
class PickResult:
    """What came of a device that was picked."""

    device_id: str
    picked_at: datetime
    #: ``answered``, ``failed`` or ``expired``.
    outcome: str
    answered_at: datetime | None = None
    #: Why it did not succeed: ``not_sent``, ``no_answer``, ``went_away`` or ``refused``.
    reason: str | None = None
    result: Any = None
    late: LateAnswer | None = None
    #: The slot of its campaign.
    slot: int | None = None
    #: When its pick ended.
    ended_at: datetime | None = None
    #: The device's command.
    command_id: str | None = None

    @classmethod
    def read(cls, item: Mapping[str, Any]) -> PickResult:
        """Reads what the API gives."""
        late = item.get("late")
        return cls(
            item["device_id"],
            read_moment(item["picked_at"]),
            item["outcome"],
            _moment(item.get("answered_at")),
            item.get("reason"),
            item.get("result"),
            None if late is None else LateAnswer.read(late),
            item.get("slot"),
            _moment(item.get("ended_at")),
            item.get("command_id"),
        )


@dataclass(frozen=True)
class PickCounts:
    """How many devices were asked for, and how many picks came to what."""

    wanted: int
    #: Replacements included.
    picked: int
    answered: int
    failed: int
    expired: int
    replaced: int

    @staticmethod
    def read_counts(item: Mapping[str, Any]) -> tuple[int, int, int, int, int, int]:
        """Reads them, in their order."""
        return (
            item["wanted"],
            item["picked"],
            item["answered"],
            item["failed"],
            item["expired"],
            item["replaced"],
        )


@dataclass(frozen=True)
class Task(PickCounts):
    """A task, and what came of its picks."""

    id: str
    #: ``running``, ``done`` or ``cancelled``.
    status: str
    #: The first 1,000, where they were waited for.
    results: list[PickResult] = field(default_factory=list)
    #: What the POST to ``notify``'s url is signed with. It is not shown again.
    secret: str | None = None

    @property
    def has_ended(self) -> bool:
        """Whether it goes on no longer."""
        return self.status != "running"

    @classmethod
    def read(cls, item: Mapping[str, Any]) -> Task:
        """Reads what the API gives."""
        return cls(
            *cls.read_counts(item),
            item["id"],
            item["status"],
            [PickResult.read(each) for each in item.get("results") or []],
            (item.get("notify") or {}).get("secret"),
        )


@dataclass(frozen=True)
class Campaign:
    """A campaign."""

    id: str
    #: ``running``, ``paused`` or ``ended``.
    status: str
    payload: Any
    count: int
    created_at: datetime
    name: str | None = None
    #: What each POST to the url of ``results`` is signed with. It is not shown again.
    secret: str | None = None

    @classmethod
    def read(cls, item: Mapping[str, Any]) -> Campaign:
        """Reads what the API gives."""
        return cls(
            item["id"],
            item["status"],
            item["payload"],
            item["count"],
            read_moment(item["created_at"]),
            item.get("name"),
            (item.get("results") or {}).get("secret"),
        )


@dataclass(frozen=True)
class CampaignSlot(PickCounts):
    """A slot, and what came of its picks."""

    slot: int
    due_at: datetime
    started_at: datetime | None = None
    #: It was missed, and is not made up for.
    skipped: bool = False

    @classmethod
    def read(cls, item: Mapping[str, Any]) -> CampaignSlot:
        """Reads what the API gives."""
        return cls(
            *cls.read_counts(item),
            item["slot"],
            read_moment(item["due_at"]),
            _moment(item.get("started_at")),
            item.get("skipped", False),
        )


@dataclass(frozen=True)
class Coverage:
    """How evenly the devices that a campaign may pick now were picked over a period."""

    eligible: int
    picked: int
    never_picked: int
    min: int
    max: int
    mean: float
    gini: float
    #: With ``by``: the same for the devices of each value.
    items: list[CoverageItem] = field(default_factory=list)
    #: There are more values than items.
    more: bool = False

    @classmethod
    def read(cls, item: Mapping[str, Any]) -> Coverage:
        """Reads what the API gives."""
        summary = {name: item[name] for name in ("eligible", "picked", "never_picked", "min", "max", "mean", "gini")}
        items = [CoverageItem(each["value"], cls.read(each)) for each in item.get("items") or []]
        return cls(**summary, items=items, more=item.get("more", False))


@dataclass(frozen=True)
class CoverageItem:
    """How evenly the devices that have a value were picked."""

    #: ``None`` for devices without one.
    value: str | None
    summary: Coverage


@dataclass(frozen=True)
class FleetCountItem:
    """How many devices have a value."""

    #: ``None`` for devices without one.
    value: str | None
    total: int
    connected: int


@dataclass(frozen=True)
class FleetCount:
    """How many devices a selection means."""

    total: int
    connected: int
    online: int
    lost: int
    never_seen: int
    #: By a key, the most first.
    items: list[FleetCountItem] = field(default_factory=list)
    #: There are more values than items.
    more: bool = False

    @classmethod
    def read(cls, item: Mapping[str, Any]) -> FleetCount:
        """Reads what the API gives."""
        items = [FleetCountItem(each["value"], each["total"], each["connected"]) for each in item.get("items") or []]
        counts = {name: item[name] for name in ("total", "connected", "online", "lost", "never_seen")}
        return cls(**counts, items=items, more=item.get("more", False))


@dataclass(frozen=True)
class DeviceWeight:
    """How near a device is to its next pick."""

    device_id: str
    #: The heaviest are picked first; 1 at most.
    weight: float
    #: Picks of the last 24 hours.
    picks: int
    last_picked_at: datetime | None = None
    #: Until when it is set aside for never answering.
    benched_until: datetime | None = None

    @classmethod
    def read(cls, item: Mapping[str, Any]) -> DeviceWeight:
        """Reads what the API gives."""
        last, benched = _moment(item.get("last_picked_at")), _moment(item.get("benched_until"))
        return cls(item["device_id"], item["weight"], item["picks"], last, benched)


@dataclass(frozen=True)
class Fairness:
    """What the weights of all devices follow from."""

    connected: int
    #: Devices per task, and tasks per minute, over the last hour.
    avg_picked: float
    avg_tasks: float
    #: A pick costs ``constant * punishment``.
    punishment: float
    #: A weight recovers by this each period.
    constant: float

    @classmethod
    def read(cls, item: Mapping[str, Any]) -> Fairness:
        """Reads what the API gives."""
        return cls(*(item[name] for name in ("connected", "avg_picked", "avg_tasks", "punishment", "constant")))
