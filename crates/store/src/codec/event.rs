//! The stored form of an event.

use std::borrow::Cow;

use records::{DeviceSlot, Event, EventKey};

use super::field::stored;
use super::key;
use crate::record::{feed_index, record};

stored!(
    Event, "an event", version 1:
    id, slot, device, kind, sequence, value, previous
);

record!(
    Event: Events by (EventKey, DeviceSlot),
    key: |(at, _)| key::feed_entry(*at),
    place: |event| Cow::Owned((event.id.into(), event.slot)),
    indexes: [feed_index!(EventsByDevice: |(at, slot)| key::slot(*slot), *at)],
);
