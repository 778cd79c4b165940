"""Following the results of a task until it has ended, for threads and for tasks of an event loop."""

from __future__ import annotations

from . import calls
from .calls import Call, FeedPage
from .picks import PickResult, Task

#: Seconds that a look waits for a result before it looks whether the task has ended without one.
_WAIT = 1.0


class Following:
    """How far somebody has followed the results of a task. It asks for looks, and opens no connection."""

    def __init__(self, task: str, page: int) -> None:
        self._task = task
        self._page = page
        self._cursor: str | None = None
        self._has_ended = False
        #: The task has ended, and every result was seen.
        self.is_over = False

    def look(self) -> Call[FeedPage[PickResult]]:
        """The next look. It waits for a result as long as there may be another."""
        return calls.task_results(self._task, self._page, self._cursor, None if self._has_ended else _WAIT)

    def asks_for_task(self, page: FeedPage[PickResult]) -> bool:
        """Goes on behind a page. Whether :meth:`found` is to be told how the task stands before the next look."""
        self._cursor = page.after
        if page.next_cursor is not None:
            return False
        # The end was known before this page was read, so nothing comes behind it.
        self.is_over = self._has_ended
        return not self.is_over

    def found(self, task: Task) -> None:
        """Takes in how the task stands."""
        self._has_ended = task.has_ended
