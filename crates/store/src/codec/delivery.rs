//! Stored forms of a pair, a delivery, its progress and its attempts.

use std::borrow::Cow;

use base::{ClientId, DeviceId, Incarnation, Timestamp};
use records::{
    Attempt, AttemptError, Delivery, DeliveryKey, DeliveryProgress, DeliveryStatus, DeviceSlot, Flight, Pair,
    Waiting,
};

use super::bytes::{Reader, put_bytes, put_i64, put_list, put_option, put_u64};
use super::event::{get_entity, get_kind, put_entity, put_kind};
use super::key::{self, Key, Moment};
use super::value::{get_value, put_value};
use super::{CodecError, Stored};
use crate::record::{Index, Placed, Record};
use crate::table::Table;

/// Version 1: the fields in order.
impl Stored for Pair {
    const VERSION: u8 = 1;
    const NAME: &'static str = "a pair";

    fn put(&self, out: &mut Vec<u8>) {
        put_u64(out, u64::from(self.slot.0));
        put_u64(out, self.client.0);
        put_list(out, &self.untold, |out, kind| put_kind(out, *kind));
        put_option(out, self.previous.as_ref(), put_value);
        put_u64(out, u64::from(self.skipped));
        put_option(out, self.pending.as_ref(), put_waiting);
        put_option(out, self.in_flight.as_ref(), put_flight);
        put_option(out, self.failed.as_ref(), put_waiting);
    }

    fn get(reader: &mut Reader<'_>, _version: u8) -> Result<Self, CodecError> {
        Ok(Self {
            slot: DeviceSlot(reader.u32("a slot")?),
            client: Incarnation(reader.u64("an incarnation")?),
            untold: reader.list("kinds of events", get_kind)?,
            previous: reader.option("a value", get_value)?,
            skipped: reader.u32("a count")?,
            pending: reader.option("a waiting notification", get_waiting)?,
            in_flight: reader.option("a notification in flight", get_flight)?,
            failed: reader.option("a failed notification", get_waiting)?,
        })
    }
}

fn put_waiting(out: &mut Vec<u8>, waiting: &Waiting) {
    put_entity(out, waiting.delivery);
    put_u64(out, u64::from(waiting.attempts));
}

fn get_waiting(reader: &mut Reader<'_>) -> Result<Waiting, CodecError> {
    Ok(Waiting { delivery: get_entity(reader)?, attempts: reader.u32("a count")? })
}

fn put_flight(out: &mut Vec<u8>, flight: &Flight) {
    put_entity(out, flight.delivery);
    put_u64(out, u64::from(flight.attempts));
    put_i64(out, flight.since.0);
    out.push(flight.tells);
    put_u64(out, u64::from(flight.skipped));
    put_option(out, flight.value.as_ref(), put_value);
}

fn get_flight(reader: &mut Reader<'_>) -> Result<Flight, CodecError> {
    Ok(Flight {
        delivery: get_entity(reader)?,
        attempts: reader.u32("a count")?,
        since: Timestamp(reader.i64("a time")?),
        tells: reader.u8("a count")?,
        skipped: reader.u32("a count")?,
        value: reader.option("a value", get_value)?,
    })
}

/// Version 1: the fields in order, the progress with its own version.
impl Stored for Delivery {
    const VERSION: u8 = 1;
    const NAME: &'static str = "a delivery";

    fn put(&self, out: &mut Vec<u8>) {
        put_entity(out, self.id);
        put_u64(out, u64::from(self.slot.0));
        put_bytes(out, self.device.as_str().as_bytes());
        put_u64(out, self.client.0);
        put_bytes(out, self.client_id.as_str().as_bytes());
        put_kind(out, self.kind);
        put_u64(out, self.sequence);
        self.progress.write(out);
        put_option(out, self.resend_of.as_ref(), |out, id| put_entity(out, *id));
    }

    fn get(reader: &mut Reader<'_>, _version: u8) -> Result<Self, CodecError> {
        Ok(Self {
            id: get_entity(reader)?,
            slot: DeviceSlot(reader.u32("a slot")?),
            device: reader.text_as("a device id", DeviceId::new)?,
            client: Incarnation(reader.u64("an incarnation")?),
            client_id: reader.text_as("a client id", ClientId::new)?,
            kind: get_kind(reader)?,
            sequence: reader.u64("a sequence")?,
            progress: DeliveryProgress::read(reader)?,
            resend_of: reader.option("an id", get_entity)?,
        })
    }
}

/// Version 1: the fields in order.
impl Stored for DeliveryProgress {
    const VERSION: u8 = 1;
    const NAME: &'static str = "a delivery's progress";

    fn put(&self, out: &mut Vec<u8>) {
        out.push(match self.status {
            DeliveryStatus::Pending => 0,
            DeliveryStatus::Delivered => 1,
            DeliveryStatus::Failed => 2,
            DeliveryStatus::Superseded => 3,
            DeliveryStatus::Cancelled => 4,
        });
        put_u64(out, u64::from(self.attempts));
        put_option(out, self.next_attempt_at.as_ref(), |out, at| put_i64(out, at.0));
    }

    fn get(reader: &mut Reader<'_>, _version: u8) -> Result<Self, CodecError> {
        Ok(Self {
            status: reader.choice("a status", &DeliveryStatus::ALL)?,
            attempts: reader.u32("a count")?,
            next_attempt_at: reader.option("a time", |reader| Ok(Timestamp(reader.i64("a time")?)))?,
        })
    }
}

/// So many of [`AttemptError::ALL`] did version 1 of an attempt know.
const ERRORS_OF_VERSION_1: usize = 7;

fn put_error(out: &mut Vec<u8>, error: AttemptError) {
    out.push(match error {
        AttemptError::Interrupted => 0,
        AttemptError::AddressRefused => 1,
        AttemptError::NameUnresolved => 2,
        AttemptError::ConnectFailed => 3,
        AttemptError::TlsFailed => 4,
        AttemptError::TimedOut => 5,
        AttemptError::ConnectionBroken => 6,
        AttemptError::TlsUntrusted => 7,
        AttemptError::TlsExpired => 8,
        AttemptError::TlsWrongName => 9,
        AttemptError::TlsNotSpoken => 10,
    });
}

pub(super) fn put_delivery_key(out: &mut Vec<u8>, key: DeliveryKey) {
    put_i64(out, key.at.0);
    put_u64(out, u64::from(key.number));
}

pub(super) fn get_delivery_key(reader: &mut Reader<'_>) -> Result<DeliveryKey, CodecError> {
    Ok(DeliveryKey { at: Timestamp(reader.i64("a time")?), number: reader.u32("a number")? })
}

/// Version 2: the fields in order. Version 1 did not tell the causes of TLS apart.
impl Stored for Attempt {
    const VERSION: u8 = 2;
    const NAME: &'static str = "an attempt";

    fn put(&self, out: &mut Vec<u8>) {
        put_delivery_key(out, self.delivery);
        put_u64(out, u64::from(self.number));
        put_i64(out, self.at.0);
        put_u64(out, u64::from(self.duration_ms));
        put_option(out, self.status_code.as_ref(), |out, code| put_u64(out, u64::from(*code)));
        put_option(out, self.error.as_ref(), |out, error| put_error(out, *error));
    }

    fn get(reader: &mut Reader<'_>, version: u8) -> Result<Self, CodecError> {
        let known = if version == 1 { ERRORS_OF_VERSION_1 } else { AttemptError::ALL.len() };
        Ok(Self {
            delivery: get_delivery_key(reader)?,
            number: reader.u32("a number")?,
            at: Timestamp(reader.i64("a time")?),
            duration_ms: reader.u32("a duration")?,
            status_code: reader.option("a status code", |reader| {
                u16::try_from(reader.u32("a status code")?).map_err(|_| reader.invalid("a status code"))
            })?,
            error: reader
                .option("an error", |reader| reader.choice("an error", &AttemptError::ALL[..known]))?,
        })
    }
}

impl Record for Pair {
    const TABLE: Table = Table::Pairs;
    type Place = (DeviceSlot, Incarnation);

    fn key((slot, client): &Self::Place) -> Key {
        key::pair(*slot, *client)
    }
}

impl Placed for Pair {
    fn place(&self) -> Cow<'_, Self::Place> {
        Cow::Owned((self.slot, self.client))
    }
}

impl Record for Delivery {
    const TABLE: Table = Table::Deliveries;
    type Place = (DeliveryKey, Incarnation, DeviceSlot);
    const INDEXES: &'static [Index<Self::Place>] = &[
        Index {
            table: Table::DeliveriesByClient,
            rows: |(at, client, _), row| row(Moment::from(*at).below(&key::incarnation(*client)), &[]),
            names: |row, _| Moment::at_end_of(row).map(key::moment),
        },
        Index {
            table: Table::DeliveriesByDevice,
            rows: |(at, _, slot), row| row(Moment::from(*at).below(&key::slot(*slot)), &[]),
            names: |row, _| Moment::at_end_of(row).map(key::moment),
        },
    ];

    fn key((at, ..): &Self::Place) -> Key {
        key::moment(*at)
    }
}

impl Placed for Delivery {
    fn place(&self) -> Cow<'_, Self::Place> {
        Cow::Owned((self.id.into(), self.client, self.slot))
    }
}

impl Record for DeliveryProgress {
    const TABLE: Table = Table::Progress;
    type Place = DeliveryKey;

    fn key(delivery: &Self::Place) -> Key {
        key::moment(*delivery)
    }
}

impl Record for Attempt {
    const TABLE: Table = Table::Attempts;
    type Place = (DeliveryKey, u32);

    fn key((delivery, number): &Self::Place) -> Key {
        key::attempt(*delivery, *number)
    }
}

impl Placed for Attempt {
    fn place(&self) -> Cow<'_, Self::Place> {
        Cow::Owned((self.delivery, self.number))
    }
}
