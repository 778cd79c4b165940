//! The stored form of an event, and of what events and deliveries have in common.

use std::borrow::Cow;

use base::{DeviceId, EntityId};
use records::{DeviceSlot, Event, EventKey, EventKind};

use super::bytes::{Reader, put_bytes, put_option, put_u64};
use super::key::{self, Key, Moment};
use super::value::{get_value, put_value};
use super::{CodecError, Stored};
use crate::record::{Index, Placed, Record};
use crate::table::Table;

const KINDS: [EventKind; 3] = [EventKind::Changed, EventKind::Lost, EventKind::Restored];

pub(super) fn put_kind(out: &mut Vec<u8>, kind: EventKind) {
    out.push(match kind {
        EventKind::Changed => 0,
        EventKind::Lost => 1,
        EventKind::Restored => 2,
    });
}

pub(super) fn get_kind(reader: &mut Reader<'_>) -> Result<EventKind, CodecError> {
    reader.choice("a kind of event", &KINDS)
}

pub(super) fn put_entity(out: &mut Vec<u8>, id: EntityId) {
    out.extend_from_slice(&id.to_bytes());
}

pub(super) fn get_entity(reader: &mut Reader<'_>) -> Result<EntityId, CodecError> {
    Ok(EntityId::from_bytes(&reader.array("an id")?))
}

/// Version 1: the fields in order.
impl Stored for Event {
    const VERSION: u8 = 1;
    const NAME: &'static str = "an event";

    fn put(&self, out: &mut Vec<u8>) {
        put_entity(out, self.id);
        put_u64(out, u64::from(self.slot.0));
        put_bytes(out, self.device.as_str().as_bytes());
        put_kind(out, self.kind);
        put_u64(out, self.sequence);
        put_option(out, self.value.as_ref(), put_value);
        put_option(out, self.previous.as_ref(), put_value);
    }

    fn get(reader: &mut Reader<'_>, _version: u8) -> Result<Self, CodecError> {
        Ok(Self {
            id: get_entity(reader)?,
            slot: DeviceSlot(reader.u32("a slot")?),
            device: reader.text_as("a device id", DeviceId::new)?,
            kind: get_kind(reader)?,
            sequence: reader.u64("a sequence")?,
            value: reader.option("a value", get_value)?,
            previous: reader.option("a value", get_value)?,
        })
    }
}

impl Record for Event {
    const TABLE: Table = Table::Events;
    type Place = (EventKey, DeviceSlot);
    const INDEXES: &'static [Index<Self::Place>] = &[Index {
        table: Table::EventsByDevice,
        rows: |(at, slot), row| row(Moment::from(*at).below(&key::slot(*slot)), &[]),
        names: |row, _| Moment::at_end_of(row).map(key::moment),
    }];

    fn key((at, _): &Self::Place) -> Key {
        key::moment(*at)
    }
}

impl Placed for Event {
    fn place(&self) -> Cow<'_, Self::Place> {
        Cow::Owned((self.id.into(), self.slot))
    }
}
