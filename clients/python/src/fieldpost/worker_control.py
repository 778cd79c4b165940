"""What the workers of a queue are told, as one of them knows it, and what it may do by that."""

from __future__ import annotations

import time

from .queue_control import QueueControl
from .worker_options import Options

#: How old what workers are told may be, in seconds: one that does not wait for jobs looks so often.
LOOK_EVERY = 1.0


class KnownControl:
    """What the workers of a queue are told, as one of them knows it.

    It comes with each answer to a question for jobs, and a change of it ends a question that waits.
    Two looks close what is left. One is before a question, if nothing was heard for a while,
    because the server gives jobs to who asks. One is while it waits, for a change that came just
    before it.
    """

    def __init__(self, options: Options) -> None:
        self._concurrency = options.concurrency
        self._control: QueueControl | None = None
        #: When it is to be looked at, on the monotonic clock; at once, as long as nothing is known.
        self.look_at = 0.0
        #: Rises with each update.
        self.version = 0

    def update(self, control: QueueControl | None) -> bool:
        """Takes in what was told; whether it is something else than before."""
        is_different = self.differs(control)
        self._control = control
        self.version += 1
        self.look_at = time.monotonic() + LOOK_EVERY
        return is_different

    def differs(self, control: QueueControl | None) -> bool:
        """Whether this is something else than what is known."""
        return control != self._control

    @property
    def is_due(self) -> bool:
        """Whether it is to be looked at."""
        return time.monotonic() >= self.look_at

    @property
    def is_stopped(self) -> bool:
        """Whether the worker is to end."""
        return self._control is not None and self._control.state == "stop"

    def free_slots(self, running: int) -> int:
        """How many jobs may be asked for, beside those that run."""
        if self._control is None:
            return self._concurrency - running
        if self._control.state != "run":
            return 0
        told = self._control.max_in_flight
        most = self._concurrency if told is None else min(self._concurrency, told)
        return max(0, most - running)
