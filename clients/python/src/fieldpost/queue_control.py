"""What the workers of a queue are told, and the calls that read and change it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from .calls import Call, QueuePath, _json, _nothing

#: Whether workers take jobs: they do; they take no more, and wait until they may; they take no more, and end.
ControlState = Literal["run", "drain", "stop"]


@dataclass(frozen=True)
class QueueControl:
    """What the workers of a queue are told. Those of this package do it by themselves.

    Where workers take jobs of several queues, the first one's control counts.
    """

    state: ControlState = "run"
    #: So many jobs at a time for each worker at most, also where it could do more; at least 1.
    max_in_flight: int | None = None
    #: Anything else for the program, up to 16 KiB of JSON.
    data: Any = None

    def body(self) -> dict[str, Any]:
        """The control as the API reads it."""
        given = {"max_in_flight": self.max_in_flight, "data": self.data}
        return {"state": self.state, **{name: value for name, value in given.items() if value is not None}}

    @classmethod
    def read(cls, item: Mapping[str, Any] | None) -> QueueControl | None:
        """Reads what the API gives, or leaves out."""
        return None if item is None else cls(item["state"], item.get("max_in_flight"), item.get("data"))


def control(path: QueuePath) -> Call[QueueControl | None]:
    """What the workers of a queue are told, if anything."""
    return Call("GET", f"{path}/control", QueueControl.read, may_be_missing=True)


def control_of_first(namespace: str, queues: Sequence[str]) -> Call[QueueControl | None]:
    """What workers of several queues are told: the first one's control counts."""
    if not queues:
        raise ValueError("say which queues")
    return control(QueuePath(namespace, queues[0]))


def set_control(path: QueuePath, told: QueueControl) -> Call[None]:
    """Tell the workers of a queue something, all of it."""
    return Call("PUT", f"{path}/control", _nothing, _json(told.body()))


def delete_control(path: QueuePath) -> Call[None]:
    """Tell the workers of a queue nothing any more."""
    return Call("DELETE", f"{path}/control", _nothing)
