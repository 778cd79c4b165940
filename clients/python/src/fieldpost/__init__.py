"""A client for Fieldpost: its delay queue with workers, its streams, its commands to devices, the tasks that ask some
of many, its locks, limits, cache and channels, for threads and for tasks of an event loop, and the signatures of its
webhooks.

import fieldpost

with fieldpost.Client("http://127.0.0.1:8080") as client:
    mails = client.queue("shop", "mails")
    mails.publish({"to": "ada@example.org"}, delay="10m", alias="welcome-17")
"""

from ._version import __version__
from .aio import AsyncClient, AsyncQueue
from .aio_coordination import AsyncCache, AsyncChannels, AsyncLimiter, AsyncListener, AsyncLock
from .aio_device import AsyncCommands, AsyncDevice
from .aio_tasks import AsyncCampaigns, AsyncFleet, AsyncTasks
from .aio_worker import AsyncWorker
from .calls import Alias
from .client import Client, Queue
from .command import Command, CommandTerms, DesiredEntry, LateAnswer, SentCommand
from .coordination import Cache, Channels, Limiter, Listener, Lock
from .coordination_calls import LimitAnswer
from .copies import AsyncCopy, Copy, CopyInfo, Receipt
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
from .lock_hold import LockHeldError, LockLostError
from .message import AppendedMessage, Message, MessagePage, MessageTerms, NewMessage, StreamInfo
from .message_stream import AsyncMessageStream, MessageStream
from .model import Acked, DeadLetter, QueueOverview, Job, JobView, NewJob, OnConflict, PublishedJob, QueueFlow, Settings
from .operation import Operation, OperationCount, OperationRefusal, OperationTerms
from .operations import AsyncOperations, Operations
from .picks import (
    Campaign,
    CampaignChanges,
    CampaignSlot,
    CampaignTerms,
    Coverage,
    CoverageItem,
    DeviceWeight,
    Fairness,
    FleetCount,
    FleetCountItem,
    NewTaskTerms,
    PickCounts,
    PickResult,
    PickTerms,
    Task,
    TaskTerms,
)
from .producer import AsyncStreamProducer, NodeAppend, StreamProducer, TooFewNodesError
from .protocol import Retries
from .queue_control import QueueControl
from .subscription import AsyncSubscription, Subscription, SubscriptionInfo
from .tasks import Campaigns, Fleet, Tasks
from .worker import Worker
from .worker_options import Options, Retry, doubling

__all__ = [
    "Acked",
    "Alias",
    "ApiError",
    "AppendedMessage",
    "AsyncCache",
    "AsyncCampaigns",
    "AsyncChannels",
    "AsyncClient",
    "AsyncCommands",
    "AsyncCopy",
    "AsyncDevice",
    "AsyncFleet",
    "AsyncLimiter",
    "AsyncListener",
    "AsyncLock",
    "AsyncMessageStream",
    "AsyncOperations",
    "AsyncQueue",
    "AsyncStreamProducer",
    "AsyncSubscription",
    "AsyncTasks",
    "AsyncWorker",
    "Cache",
    "Campaign",
    "CampaignChanges",
    "CampaignSlot",
    "CampaignTerms",
    "Campaigns",
    "Channels",
    "Client",
    "Command",
    "CommandTerms",
    "Commands",
    "ConflictError",
    "ConnectionFailedError",
    "Copy",
    "CopyInfo",
    "Coverage",
    "CoverageItem",
    "DeadLetter",
    "DesiredEntry",
    "Device",
    "DeviceWeight",
    "Fairness",
    "FieldpostError",
    "QueueOverview",
    "Fleet",
    "FleetCount",
    "FleetCountItem",
    "ForbiddenError",
    "Job",
    "JobView",
    "LateAnswer",
    "LimitAnswer",
    "Limiter",
    "Listener",
    "Lock",
    "LockHeldError",
    "LockLostError",
    "Message",
    "MessagePage",
    "MessageStream",
    "MessageTerms",
    "NewJob",
    "NewMessage",
    "NewTaskTerms",
    "NodeAppend",
    "NotFoundError",
    "OnConflict",
    "Operation",
    "OperationCount",
    "OperationRefusal",
    "OperationTerms",
    "Operations",
    "Options",
    "PickCounts",
    "PickResult",
    "PickTerms",
    "PublishedJob",
    "Queue",
    "QueueControl",
    "QueueFlow",
    "Receipt",
    "RefusedError",
    "Retries",
    "Retry",
    "SentCommand",
    "Settings",
    "StaleReservationError",
    "StreamInfo",
    "StreamProducer",
    "Subscription",
    "SubscriptionInfo",
    "Task",
    "TaskTerms",
    "Tasks",
    "TooFewNodesError",
    "TooManyRequestsError",
    "UnauthorizedError",
    "UnavailableError",
    "UnexpectedAnswerError",
    "Worker",
    "__version__",
    "doubling",
]
