//! Stored forms of locks and of what is said to workers.

use std::borrow::Cow;

use records::{Lock, WorkerControl};

use super::field::stored;
use super::key::{self, TableKey};
use crate::record::record;

stored!(
    Lock, "a lock", version 1:
    namespace, name, owner, fence, until
);

stored!(
    WorkerControl, "what workers are to do", version 1:
    namespace, queue, state, max_in_flight, data
);

record!(
    Lock: Locks by TableKey,
    key: |key| key.clone(),
    place: |lock| Cow::Owned(key::named(&lock.namespace, &lock.name)),
);

record!(
    WorkerControl: QueueControls by TableKey,
    key: |key| key.clone(),
    place: |control| Cow::Owned(key::named(&control.namespace, &control.queue)),
);
