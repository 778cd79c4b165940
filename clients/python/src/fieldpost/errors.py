"""What can go wrong with a call: the server refused it, or no answer came."""

from __future__ import annotations

from typing import Any


class FieldpostError(Exception):
    """Everything that this package raises by itself."""

    #: Seconds to wait before another try, if the server said so.
    retry_after: float | None = None


class ConnectionFailedError(FieldpostError):
    """No answer came: the server could not be reached, hung up, or took too long. The reason is the ``__cause__``.

    A call that may be repeated has been repeated by then; nothing is known of what became of it.
    """


class UnexpectedAnswerError(FieldpostError):
    """An answer that is not one of Fieldpost's: something else listens there, or stands between."""


class ApiError(FieldpostError):
    """The server refused a call."""

    def __init__(self, status: int, code: str, detail: str, retry_after: float | None = None) -> None:
        super().__init__(f"{status} {code}: {detail}")
        #: The HTTP status.
        self.status = status
        #: Stable, made for programs, such as ``alias_taken``.
        self.code = code
        #: What was wrong, and what would be right.
        self.detail = detail
        self.retry_after = retry_after

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.status, self.code, self.detail, self.retry_after)


class UnauthorizedError(ApiError):
    """401: no token, or not a valid one."""


class ForbiddenError(ApiError):
    """403: the token may not do this."""


class NotFoundError(ApiError):
    """404: no such job."""


class ConflictError(ApiError):
    """409: at odds with what is there; ``code`` says with what: an alias that is held, a job that is reserved."""


class StaleReservationError(ConflictError):
    """409: the reservation has ended: its time is over, the job is cancelled, or it was settled before.

    After a call that was repeated for a lost connection it can also mean that the first one did it.
    """


class RefusedError(ApiError):
    """422 and other refusals of the request itself: what it asks for is not allowed."""


class TooManyRequestsError(ApiError):
    """429: the token is over one of its limits."""


class UnavailableError(ApiError):
    """503: not now."""


_BY_STATUS: dict[int, type[ApiError]] = {
    401: UnauthorizedError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    429: TooManyRequestsError,
    503: UnavailableError,
}


def refusal(status: int, problem: dict[str, Any], retry_after: float | None) -> ApiError:
    """The error for a refusal as the server words it (``application/problem+json``)."""
    code = str(problem.get("code", "unknown"))
    detail = str(problem.get("detail") or problem.get("title") or "")
    kind = _BY_STATUS.get(status, RefusedError if status < 500 else ApiError)  # noqa: PLR2004
    if code == "stale_reservation":
        kind = StaleReservationError
    return kind(status, code, detail, retry_after)


def is_for_good(error: Exception) -> bool:
    """Whether no later question would be answered otherwise.

    The token is wrong then, or the question, or the program.
    """
    if isinstance(error, ApiError):
        return error.status < 500 and not isinstance(error, TooManyRequestsError)  # noqa: PLR2004
    return not isinstance(error, ConnectionFailedError)
