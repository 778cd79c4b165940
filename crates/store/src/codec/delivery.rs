//! Stored forms of a pair, a delivery, its progress and its attempts.

use std::borrow::Cow;

use base::Incarnation;
use records::{Attempt, AttemptError, Delivery, DeliveryKey, DeliveryProgress, DeviceSlot, Pair};

use super::bytes::{Reader, put_option, put_u64};
use super::field::{Field, stored};
use super::key::{self, Moment};
use super::{CodecError, Stored};
use crate::record::{Index, record};
use crate::table::Table;

stored!(
    Pair, "a pair", version 1:
    slot, client, untold, previous, skipped, pending, in_flight, failed
);

stored!(
    /// Version 1: the fields in order, the progress with its own version.
    Delivery, "a delivery", version 1:
    id, slot, device, client, client_id, kind, sequence, progress, resend_of
);

stored!(
    DeliveryProgress, "a delivery's progress", version 1:
    status, attempts, next_attempt_at
);

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

/// Version 2: the fields in order. Version 1 did not tell the causes of TLS apart.
impl Stored for Attempt {
    const VERSION: u8 = 2;
    const NAME: &'static str = "an attempt";

    fn put(&self, out: &mut Vec<u8>) {
        self.delivery.put_field(out);
        self.number.put_field(out);
        self.at.put_field(out);
        self.duration_ms.put_field(out);
        put_option(out, self.status_code.as_ref(), |out, code| put_u64(out, u64::from(*code)));
        put_option(out, self.error.as_ref(), |out, error| put_error(out, *error));
    }

    fn get(reader: &mut Reader<'_>, version: u8) -> Result<Self, CodecError> {
        let known = if version == 1 { ERRORS_OF_VERSION_1 } else { AttemptError::ALL.len() };
        Ok(Self {
            delivery: Field::get_field(reader)?,
            number: Field::get_field(reader)?,
            at: Field::get_field(reader)?,
            duration_ms: Field::get_field(reader)?,
            status_code: reader.option("a status code", |reader| {
                u16::try_from(reader.u32("a status code")?).map_err(|_| reader.invalid("a status code"))
            })?,
            error: reader
                .option("an error", |reader| reader.choice("an error", &AttemptError::ALL[..known]))?,
        })
    }
}

record!(
    Pair: Pairs by (DeviceSlot, Incarnation),
    key: |(slot, client)| key::pair(*slot, *client),
    place: |pair| Cow::Owned((pair.slot, pair.client)),
);

record!(
    Delivery: Deliveries by (DeliveryKey, Incarnation, DeviceSlot),
    key: |(at, ..)| key::moment(*at),
    place: |delivery| Cow::Owned((delivery.id.into(), delivery.client, delivery.slot)),
    indexes: [
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
    ],
);

record!(
    DeliveryProgress: Progress by DeliveryKey,
    key: |delivery| key::moment(*delivery),
);

record!(
    Attempt: Attempts by (DeliveryKey, u32),
    key: |(delivery, number)| key::attempt(*delivery, *number),
    place: |attempt| Cow::Owned((attempt.delivery, attempt.number)),
);
