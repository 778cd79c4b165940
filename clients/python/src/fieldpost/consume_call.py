"""Taking jobs, of one queue or several: each answer also carries what the workers are told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from .calls import Call, _json, _seconds
from .model import Job
from .queue_control import QueueControl
from .times import Duration, duration_text


@dataclass(frozen=True)
class Consumed:
    """Jobs that were taken, and what the workers of the first queue are told."""

    jobs: list[Job]
    control: QueueControl | None


def consume(
    namespace: str, queues: Sequence[str], max_jobs: int, ttr: Duration | None, wait: Duration | None
) -> Call[Consumed]:
    """Reserve jobs. A repeat is no harm: what an answer that got lost had reserved comes back."""
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
