//! The stored form of an event.

use std::borrow::Cow;

use records::{DeviceSlot, Event, EventKey};

use super::field::stored;
use super::key::{self, EncodedMoment};
use crate::record::{Index, record};
use crate::table::Table;

stored!(
    Event, "an event", version 1:
    id, slot, device, kind, sequence, value, previous
);

record!(
    Event: Events by (EventKey, DeviceSlot),
    key: |(at, _)| key::moment(*at),
    place: |event| Cow::Owned((event.id.into(), event.slot)),
    indexes: [Index {
        table: Table::EventsByDevice,
        rows: |(at, slot), row| row(EncodedMoment::from(*at).below(&key::slot(*slot)), &[]),
        names: |row, _| EncodedMoment::at_end_of(row).map(key::moment),
    }],
);
