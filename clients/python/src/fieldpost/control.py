"""What the workers of a queue are told, and taking jobs: each answer to that carries it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import quote

from .calls import Call, QueuePath, _json, _nothing, _seconds
from .model import Job
from .times import Duration, duration_text

#: Whether workers take jobs: they do; they take no more, and wait until they may; they take no more, and end.
ControlState = Literal["run", "drain", "stop"]


@dataclass(frozen=True)
class QueueControl:
    """What the workers of a queue are told. Those of this package do it by themselves."""

    state: ControlState = "run"
    #: So many jobs at a time for each worker at most, also where it could do more.
    max_in_flight: int | None = None
    #: Anything else that JSON can hold, for the program.
    data: Any = None

    def body(self) -> dict[str, Any]:
        """The control as the API reads it."""
        given = {"max_in_flight": self.max_in_flight, "data": self.data}
        return {"state": self.state, **{name: value for name, value in given.items() if value is not None}}

    @classmethod
    def read(cls, item: Mapping[str, Any] | None) -> QueueControl | None:
        """Reads what the API gives, or leaves out."""
        return None if item is None else cls(item["state"], item.get("max_in_flight"), item.get("data"))


@dataclass(frozen=True)
class Consumed:
    """Jobs that were taken, and what the workers of the first queue are told."""

    jobs: list[Job]
    control: QueueControl | None


def consume(
    namespace: str, queues: Sequence[str], max_jobs: int, ttr: Duration | None, wait: Duration | None
) -> Call[Consumed]:
    """Reserve jobs. A repeat is no harm: what was reserved for an answer that got lost comes back."""
    body: dict[str, Any] = {"max": max_jobs}
    if ttr is not None:
        body["ttr"] = duration_text(ttr)
    if wait is not None:
        body["wait"] = duration_text(wait)
    names = ",".join(quote(queue, safe="") for queue in queues)

    def read(answer: Any) -> Consumed:
        jobs = [Job.read(namespace, item) for item in answer["jobs"]]
        return Consumed(jobs, QueueControl.read(answer.get("control")))

    path = f"/v1/queues/{quote(namespace, safe='')}/{names}/consume"
    return Call("POST", path, read, _json(body), patience=_seconds(wait))


def control(path: QueuePath) -> Call[QueueControl | None]:
    """What the workers of a queue are told, if anything."""
    return Call("GET", f"{path}/control", QueueControl.read, may_be_missing=True)


def set_control(path: QueuePath, told: QueueControl) -> Call[None]:
    """Tell the workers of a queue something, all of it."""
    return Call("PUT", f"{path}/control", _nothing, _json(told.body()))


def delete_control(path: QueuePath) -> Call[None]:
    """Tell the workers of a queue nothing any more."""
    return Call("DELETE", f"{path}/control", _nothing)
