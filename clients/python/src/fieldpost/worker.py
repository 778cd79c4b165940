"""A worker of threads: takes jobs, has a handler do them, keeps their leases, and settles them.

One thread decides everything, in :meth:`Worker.run`; what takes time - asking, handling, extending, settling - is done
by others, which report to it. So there is no state that two threads change, and a signal handler may call
:meth:`Worker.stop`.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Callable

from .connections import Cancellation
from .consume_call import Consumed, consume
from .errors import StaleReservationError, is_for_good
from .model import Job
from .queue_control import QueueControl, control_of_first
from .times import Duration
from .worker_control import LOOK_EVERY, KnownControl
from .worker_options import (
    CANCELLATION_SECONDS_MAX,
    OnControl,
    Options,
    WorkerOptions,
    ask_again_after,
    log,
    release_terms,
    still_held,
    tell_stale,
)

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .client import Client

#: Does a job: the job is done when it returns, and tried again when it raises.
Handler = Callable[[Job], object]

_NEVER = float("inf")


def _tell(on_control: OnControl, told: QueueControl | None) -> None:
    try:
        on_control(told)
    except Exception:
        log.exception("on_control failed")


@dataclass(eq=False)
class _Running:
    """A job that a handler has."""

    job: Job
    #: When its lease is to be extended, on the monotonic clock.
    extend_at: float
    extending: bool = False
    #: Its handler has ended.
    settling: bool = False


@dataclass
class _State:
    """What the deciding thread knows."""

    known_control: KnownControl
    #: Who calls ``on_control``.
    teller: _Crew | None
    running: set[_Running] = field(default_factory=set)
    done: list[_Running] = field(default_factory=list)
    #: Takes back the question for jobs that is under way.
    consume_cancellation: Cancellation | None = None
    acking: bool = False
    ask_at: float = 0.0
    unanswered: int = 0
    #: Takes back the look at what the workers are told.
    control_cancellation: Cancellation | None = None
    unseen: int = 0
    #: The question was taken back for what a look found, so what its answer tells is old.
    is_superseded: bool = False
    ack_at: float = 0.0
    unacked: int = 0
    stop_by: float | None = None
    #: Until when the answer to a question is waited for that was taken back.
    answer_by: float = _NEVER


class _Crew:
    """Threads that do what they are told, and do not keep the program from ending."""

    def __init__(self, size: int, name: str) -> None:
        self._tasks: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=self._work, name=f"fieldpost-{name}-{n}", daemon=True) for n in range(size)
        ]
        for thread in self._threads:
            thread.start()

    def do(self, task: Callable[[], None]) -> None:
        self._tasks.put(task)

    def dismiss(self, wait: float = 0.0) -> None:
        for _ in self._threads:
            self._tasks.put(None)
        for thread in self._threads:
            if wait:
                thread.join(wait)

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            task()


class Worker:
    """Handles jobs of one or more queues of a namespace, of earlier queues first.

    The options are those of :class:`fieldpost.Options`. A handler that takes longer than ``ttr`` keeps its job: the
    lease is extended while it runs. When a lease is lost all the same - the job was cancelled, or the server could not
    be reached for too long - ``job.lease_lost`` becomes true, and what the handler then returns counts for nothing.

    What the workers of the first queue are told (:meth:`Queue.set_control`) it does by itself.
    """

    def __init__(
        self,
        client: Client,
        namespace: str,
        queues: Sequence[str],
        handler: Handler,
        **options: Unpack[WorkerOptions],
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._queues = list(queues)
        self._control_call = control_of_first(namespace, self._queues)
        self._handler = handler
        self._options = Options(**options)
        # Holds what others report: at most one thing for each that is under way, and one for each stop.
        self._reports: queue.SimpleQueue[Callable[[_State], None]] = queue.SimpleQueue()

    def run(self) -> None:
        """Works until :meth:`stop` is called or the queue's workers are told to, then finishes what it has begun.

        Raises what only a person can mend, such as a token that is refused; everything else is logged and tried again.
        """
        handlers = _Crew(self._options.concurrency, "handler")
        # One to ask, one to look, one to acknowledge, one to extend.
        callers = _Crew(4, "caller")
        teller = None if self._options.on_control is None else _Crew(1, "control")
        state = _State(KnownControl(self._options), teller)
        try:
            while not self._is_over(state):
                self._schedule(state, handlers, callers)
                self._hear(state)
        finally:
            self._give_back(state)
            handlers.dismiss()
            callers.dismiss()
            if teller is not None:
                teller.dismiss(CANCELLATION_SECONDS_MAX)

    def stop(self) -> None:
        """Takes no more jobs; :meth:`run` returns when those it has are settled. Also for signal handlers."""
        self._reports.put(self._stopped)

    # What is to be done next.

    def _schedule(self, state: _State, handlers: _Crew, callers: _Crew) -> None:
        now = time.monotonic()
        if now >= state.answer_by:
            state.consume_cancellation = None
        if state.stop_by is None:
            self._schedule_calls(state, now, handlers, callers)
        if state.done and not state.acking and now >= state.ack_at:
            state.acking = True
            done, state.done = state.done, []
            callers.do(partial(self._ack, done))
        for running in state.running:
            if now >= running.job.lease.ends_at:
                running.job.lease.lost = True
            if now >= running.extend_at and not (running.extending or running.settling or running.job.lease_lost):
                running.extending = True
                callers.do(partial(self._extend, running))

    def _schedule_calls(self, state: _State, now: float, handlers: _Crew, callers: _Crew) -> None:
        if state.control_cancellation is None and state.known_control.is_due:
            state.control_cancellation = Cancellation()
            callers.do(partial(self._look, state.known_control.version, state.control_cancellation))
        free = state.known_control.free_slots(len(state.running))
        # Who asks is given jobs, whatever it is told: so what it is told is known before.
        if state.consume_cancellation is None and not state.known_control.is_due and free > 0 and now >= state.ask_at:
            state.consume_cancellation, state.is_superseded = Cancellation(), False
            # One look while it waits.
            state.known_control.look_at = now + LOOK_EVERY
            callers.do(partial(self._ask, free, handlers, state.consume_cancellation))

    def _hear(self, state: _State) -> None:
        """Waits for a report, or until something is to be done without one."""
        wake_at = min((self._wake_at(running) for running in state.running), default=_NEVER)
        if state.done and not state.acking:
            wake_at = min(wake_at, state.ack_at)
        if state.stop_by is not None:
            # When it has passed, only an answer is still waited for.
            wake_at = min(wake_at, state.stop_by if state.consume_cancellation is None else state.answer_by)
        elif state.control_cancellation is None:
            wake_at = min(wake_at, state.known_control.look_at)
            if state.consume_cancellation is None and state.known_control.free_slots(len(state.running)) > 0:
                wake_at = min(wake_at, state.ask_at)
        try:
            timeout = None if wake_at == _NEVER else max(0.0, wake_at - time.monotonic())
            self._reports.get(timeout=timeout)(state)
            # Whatever else has come by now is settled together.
            while True:
                self._reports.get_nowait()(state)
        except queue.Empty:
            return

    @staticmethod
    def _wake_at(running: _Running) -> float:
        if running.settling or running.job.lease_lost:
            return _NEVER
        ends_at = running.job.lease.ends_at
        return ends_at if running.extending else min(running.extend_at, ends_at)

    @staticmethod
    def _is_over(state: _State) -> bool:
        # An answer that is on its way may bring jobs, which nobody else would get until their leases end.
        if state.stop_by is None or state.consume_cancellation is not None:
            return False
        return not state.running or time.monotonic() >= state.stop_by

    def _give_back(self, state: _State) -> None:
        """What a stop did not wait for."""
        if state.done and not state.acking:
            self._ack(state.done)
        for running in state.running:
            if not running.settling:
                self._release(running.job, 0, "the worker stopped")
            running.job.lease.lost = True

    # What the other threads do, each ending with a report.

    def _ask(self, free: int, handlers: _Crew, cancellation: Cancellation) -> None:
        options = self._options
        try:
            call = consume(self._namespace, self._queues, free, options.ttr, options.wait)
            consumed = self._client._run(call, cancellation)
        except Exception as error:
            self._reports.put(partial(self._not_answered, error=error))
        else:
            self._reports.put(partial(self._answered, consumed=consumed, handlers=handlers))

    def _look(self, version: int, cancellation: Cancellation) -> None:
        try:
            found = self._client._run(self._control_call, cancellation)
        except Exception as error:
            self._reports.put(partial(self._not_seen, error=error))
        else:
            self._reports.put(partial(self._seen, version=version, found=found))

    def _handle(self, running: _Running) -> None:
        try:
            self._handler(running.job)
        except BaseException as error:
            self._reports.put(partial(self._failed, running=running))
            if not running.job.lease_lost:
                self._release(running.job, *release_terms(self._options, running.job, error))
            self._reports.put(partial(self._settled, settled=[running]))
        else:
            self._reports.put(partial(self._succeeded, running=running))

    def _release(self, job: Job, delay: Duration, error: str) -> None:
        try:
            self._client.release(job, delay=delay, error=error)
        except StaleReservationError:
            log.warning("job %s was to be given back, but its lease had ended", job.id)
        except Exception:
            log.exception("job %s could not be given back; it comes again when its lease ends", job.id)

    def _ack(self, done: list[_Running]) -> None:
        try:
            acked = self._client.ack_many([running.job for running in done])
            tell_stale(acked, (running.job for running in done))
        except Exception as error:
            log.warning("%d jobs are done, but it could not be said: %s", len(done), error)
            self._reports.put(partial(self._not_acked, done=done, error=error))
        else:
            self._reports.put(partial(self._acked, done=done))

    def _extend(self, running: _Running) -> None:
        began = time.monotonic()
        report = partial(self._extended, running=running, began=began)
        try:
            self._client.extend(running.job, self._options.ttr)
        except StaleReservationError:
            self._reports.put(partial(report, lost=True))
        except Exception as error:
            log.warning("the lease of job %s could not be extended: %s", running.job.id, error)
            self._reports.put(partial(report, held=False))
        else:
            self._reports.put(report)

    # What is made of their reports, by the deciding thread.

    def _stopped(self, state: _State) -> None:
        if state.stop_by is None:
            if state.control_cancellation is not None:
                state.control_cancellation.cancel()
            timeout = self._options.stop_timeout
            state.stop_by = _NEVER if timeout is None else time.monotonic() + timeout.total_seconds()
            state.answer_by = time.monotonic() + CANCELLATION_SECONDS_MAX
            if state.consume_cancellation is not None and not state.consume_cancellation.cancel():
                # It was not asked yet, and will not be.
                state.consume_cancellation = None

    def _told(self, state: _State, found: QueueControl | None) -> None:
        if state.known_control.update(found):
            if state.teller is not None and self._options.on_control is not None:
                state.teller.do(partial(_tell, self._options.on_control, found))
            if state.known_control.is_stopped:
                self._stopped(state)

    def _seen(self, state: _State, version: int, found: QueueControl | None) -> None:
        state.control_cancellation, state.unseen = None, 0
        if version != state.known_control.version:
            # An answer has told something newer meanwhile.
            return
        is_waiting, is_different = state.consume_cancellation is not None, state.known_control.differs(found)
        self._told(state, found)
        if not is_waiting:
            return
        # A change from here on ends the question.
        state.known_control.look_at = _NEVER
        if is_different and state.consume_cancellation is not None and state.stop_by is None:
            state.is_superseded = True
            state.consume_cancellation.cancel()

    @staticmethod
    def _not_seen(state: _State, error: Exception) -> None:
        state.control_cancellation = None
        if state.stop_by is not None:
            return
        if is_for_good(error):
            raise error
        state.unseen += 1
        state.known_control.look_at = time.monotonic() + ask_again_after(state.unseen)
        log.warning("what workers are told could not be seen: %s", error)

    def _answered(self, state: _State, consumed: Consumed, handlers: _Crew) -> None:
        state.consume_cancellation, state.unanswered = None, 0
        if state.is_superseded:
            state.known_control.look_at = time.monotonic()
        elif state.stop_by is None:
            self._told(state, consumed.control)
        now = time.monotonic()
        for job in consumed.jobs:
            job.lease.ends_at = now + self._options.ttr.total_seconds()
            running = _Running(job, now + self._options.extend_every)
            state.running.add(running)
            if state.stop_by is None or now < state.stop_by:
                handlers.do(partial(self._handle, running))

    @staticmethod
    def _not_answered(state: _State, error: Exception) -> None:
        state.consume_cancellation = None
        if is_for_good(error):
            raise error
        if state.stop_by is not None:
            # Taken back, as it was to be.
            return
        if state.is_superseded:
            state.known_control.look_at = time.monotonic()
            return
        state.unanswered += 1
        state.ask_at = state.known_control.look_at = time.monotonic() + ask_again_after(state.unanswered)
        log.warning("no jobs could be taken: %s", error)

    @staticmethod
    def _succeeded(state: _State, running: _Running) -> None:
        running.settling = True
        if running.job.lease_lost:
            log.warning("job %s was done, but its lease was lost; it may run again", running.job.id)
            state.running.discard(running)
        else:
            state.done.append(running)

    @staticmethod
    def _failed(_: _State, running: _Running) -> None:
        running.settling = True

    @staticmethod
    def _settled(state: _State, settled: list[_Running]) -> None:
        state.running.difference_update(settled)

    @staticmethod
    def _acked(state: _State, done: list[_Running]) -> None:
        state.acking, state.unacked = False, 0
        state.running.difference_update(done)

    @staticmethod
    def _not_acked(state: _State, done: list[_Running], error: Exception) -> None:
        state.acking = False
        if is_for_good(error):
            raise error
        state.unacked += 1
        state.ack_at = time.monotonic() + ask_again_after(state.unacked)
        held = [running for running in done if still_held(running.job)]
        state.done += held
        state.running.difference_update(set(done).difference(held))

    def _extended(self, _: _State, running: _Running, began: float, held: bool = True, lost: bool = False) -> None:
        running.extending = False
        running.extend_at = began + self._options.extend_every
        # One that its handler has settled meanwhile was not lost.
        if lost and not running.settling:
            running.job.lease.lost = True
        elif held:
            running.job.lease.ends_at = began + self._options.ttr.total_seconds()
