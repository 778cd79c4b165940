"""A client for Fieldpost: its delay queue with workers and its commands to devices, for threads and for tasks, and the
signatures of its webhooks.

import fieldpost

with fieldpost.Client("http://127.0.0.1:8080") as client:
    mails = client.queue("shop", "mails")
    mails.publish({"to": "ada@example.org"}, delay="10m", alias="welcome-17")
"""

from ._version import __version__
from .aio import AsyncClient, AsyncQueue
from .aio_device import AsyncCommands, AsyncDevice
from .aio_worker import AsyncWorker
from .calls import Alias
from .client import Client, Queue
from .command import Command, CommandTerms, DesiredEntry, LateAnswer, SentCommand
from .device import Commands, Device
from .errors import (
    ApiError,
    ConflictError,
    ConnectionFailedError,
    FieldpostError,
    ForbiddenError,
    NotFoundError,
    RefusedError,
    StaleReservationError,
    TooManyRequestsError,
    UnauthorizedError,
    UnavailableError,
    UnexpectedAnswerError,
)
from .model import Acked, DeadLetter, Figures, Job, JobView, NewJob, OnConflict, PublishedJob, Settings
from .operation import Operation, OperationCount, OperationRefusal, OperationTerms
from .operations import AsyncOperations, Operations
from .protocol import Retries
from .worker import Worker
from .working import Options, Retry, doubling

__all__ = [
    "Acked",
    "Alias",
    "ApiError",
    "AsyncClient",
    "AsyncCommands",
    "AsyncDevice",
    "AsyncOperations",
    "AsyncQueue",
    "AsyncWorker",
    "Client",
    "Command",
    "CommandTerms",
    "Commands",
    "ConflictError",
    "ConnectionFailedError",
    "DeadLetter",
    "DesiredEntry",
    "Device",
    "FieldpostError",
    "Figures",
    "ForbiddenError",
    "Job",
    "JobView",
    "LateAnswer",
    "NewJob",
    "NotFoundError",
    "OnConflict",
    "Operation",
    "OperationCount",
    "OperationRefusal",
    "OperationTerms",
    "Operations",
    "Options",
    "PublishedJob",
    "Queue",
    "RefusedError",
    "Retries",
    "Retry",
    "SentCommand",
    "Settings",
    "StaleReservationError",
    "TooManyRequestsError",
    "UnauthorizedError",
    "UnavailableError",
    "UnexpectedAnswerError",
    "Worker",
    "__version__",
    "doubling",
]
