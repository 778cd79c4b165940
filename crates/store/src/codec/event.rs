//! The stored form of an event.

use std::borrow::Cow;

use records::{DeviceSlot, Event, EventKey};

use super::field::stored;
use super::key::{self, FeedEntryKey};
use crate::record::{Index, record};
use crate::table::Table;

stored!(
    Event, "an event", version 1:
    id, slot, device, kind, sequence, value, previous
);

record!(
    Event: Events by (EventKey, DeviceSlot),
    key: |(at, _)| key::feed_entry(*at),
    place: |event| Cow::Owned((event.id.into(), event.slot)),
    indexes: [Index {
        table: Table::EventsByDevice,
        rows: |(at, slot), row| row(FeedEntryKey::from(*at).below(&key::slot(*slot)), &[]),
        names: |row, _| FeedEntryKey::at_end_of(row).map(key::feed_entry),
    }],
);
