//! Stored forms of a notification state, a delivery, its progress and its attempts.

use std::borrow::Cow;

use base::Incarnation;
use records::{
    Attempt, AttemptDetail, AttemptError, AttemptTimings, Delivery, DeliveryKey, DeliveryProgress,
    DeviceSlot, NotificationState,
};

use super::bytes::{ByteReader, put_option, put_u64};
use super::field::{Field, stored};
use super::key;
use super::{CodecError, Stored};
use crate::record::{feed_index, record};

stored!(
    NotificationState, "a pair", version 1:
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

/// Which parts of an attempt's detail follow, in this order, in the byte that begins it.
const HAS_DNS: u8 = 1;
const HAS_CONNECT: u8 = 1 << 1;
const HAS_TLS: u8 = 1 << 2;
const HAS_FIRST_BYTE: u8 = 1 << 3;
const HAS_ANSWER: u8 = 1 << 4;
const HAS_CERTIFICATE: u8 = 1 << 5;
/// Nothing follows for this one.
const IS_REUSED: u8 = 1 << 6;
const DETAIL_BITS: u8 = (1 << 7) - 1;

fn put_detail(out: &mut Vec<u8>, detail: &AttemptDetail) {
    let AttemptDetail { timings, answer, certificate_bound } = detail;
    let AttemptTimings { dns_ms, connect_ms, tls_ms, first_byte_ms, reused } = *timings;
    let times = [dns_ms, connect_ms, tls_ms, first_byte_ms];
    let bit = |has: bool, bit: u8| if has { bit } else { 0 };
    let of_times = (0..).zip(times).fold(0, |bits, (place, time)| bits | bit(time.is_some(), 1 << place));
    let of_rest = bit(answer.is_some(), HAS_ANSWER) | bit(certificate_bound.is_some(), HAS_CERTIFICATE);
    out.push(of_times | of_rest | bit(reused, IS_REUSED));
    times.iter().flatten().for_each(|time| time.put_field(out));
    answer.iter().for_each(|answer| answer.put_field(out));
    certificate_bound.iter().for_each(|at| at.put_field(out));
}

fn get_detail(reader: &mut ByteReader<'_>) -> Result<AttemptDetail, CodecError> {
    let bits = reader.u8("what an attempt saw")?;
    if bits & !DETAIL_BITS != 0 {
        return Err(reader.invalid("what an attempt saw"));
    }
    let mut time = |bit| if bits & bit == 0 { Ok(None) } else { u32::get_field(reader).map(Some) };
    let timings = AttemptTimings {
        dns_ms: time(HAS_DNS)?,
        connect_ms: time(HAS_CONNECT)?,
        tls_ms: time(HAS_TLS)?,
        first_byte_ms: time(HAS_FIRST_BYTE)?,
        reused: bits & IS_REUSED != 0,
    };
    let answer = if bits & HAS_ANSWER == 0 { None } else { Some(Field::get_field(reader)?) };
    let certificate_bound = if bits & HAS_CERTIFICATE == 0 { None } else { Some(Field::get_field(reader)?) };
    Ok(AttemptDetail { timings, answer, certificate_bound })
}

/// Version 3: the fields in order. Version 2 had no detail, version 1 did not tell the causes of
/// TLS apart.
impl Stored for Attempt {
    const VERSION: u8 = 3;
    const NAME: &'static str = "an attempt";

    fn put(&self, out: &mut Vec<u8>) {
        self.delivery.put_field(out);
        self.number.put_field(out);
        self.at.put_field(out);
        self.duration_ms.put_field(out);
        put_option(out, self.status_code.as_ref(), |out, code| put_u64(out, u64::from(*code)));
        put_option(out, self.error.as_ref(), |out, error| put_error(out, *error));
        put_detail(out, &self.detail);
    }

    fn get(reader: &mut ByteReader<'_>, version: u8) -> Result<Self, CodecError> {
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
            detail: if version < 3 { AttemptDetail::default() } else { get_detail(reader)? },
        })
    }
}

record!(
    NotificationState: NotificationStates by (DeviceSlot, Incarnation),
    key: |(slot, client)| key::notification_state(*slot, *client),
    place: |state| Cow::Owned((state.slot, state.client)),
);

record!(
    Delivery: Deliveries by (DeliveryKey, Incarnation, DeviceSlot),
    key: |(at, ..)| key::feed_entry(*at),
    place: |delivery| Cow::Owned((delivery.id.into(), delivery.client, delivery.slot)),
    indexes: [
        feed_index!(DeliveriesByClient: |(at, client, _)| key::incarnation(*client), *at),
        feed_index!(DeliveriesByDevice: |(at, _, slot)| key::slot(*slot), *at),
    ],
);

record!(
    DeliveryProgress: Progress by DeliveryKey,
    key: |delivery| key::feed_entry(*delivery),
);

record!(
    Attempt: Attempts by (DeliveryKey, u32),
    key: |(delivery, number)| key::attempt(*delivery, *number),
    place: |attempt| Cow::Owned((attempt.delivery, attempt.number)),
);
