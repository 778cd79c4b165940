//! Stored forms of operations, and of how far they have come.

use std::borrow::Cow;

use base::EntityId;
use records::{Operation, OperationAction, OperationCounts, OperationError, OperationState, OperationStatus};

use super::field::{choices, fields, stored};
use super::key;
use crate::record::record;

stored!(
    Operation, "an operation", version 1:
    id, action, filter, arguments, rate, by, scopes, created_at, until
);

stored!(
    OperationState, "how far an operation has come", version 1:
    id, status, chunk, next, next_at, counts, ended_at, last_error
);

stored!(
    OperationError, "a refusal within an operation", version 1:
    code, detail, subject
);

fields! {
    OperationCounts: matched, done, refused, skipped;
}

choices! {
    OperationAction, "what an operation does": RespawnDead = 0, DeleteDead = 1, DeleteJob = 2,
        RetryDelivery = 3, ResendDelivery = 4, ReplayQuarantined = 5, DeleteQuarantined = 6,
        CancelCommand = 7, RetryCommand = 8, LabelDevice = 9, LinkDevice = 10, UnlinkDevice = 11,
        DeleteDevice = 12;
    OperationStatus, "whether an operation goes on": Running = 0, Done = 1, Cancelled = 2, Failed = 3;
}

record!(
    Operation: Operations by EntityId,
    key: |id| key::operation(*id),
    place: |operation| Cow::Borrowed(&operation.id),
);

record!(
    OperationState: OperationStates by EntityId,
    key: |id| key::operation(*id),
    place: |state| Cow::Borrowed(&state.id),
);
