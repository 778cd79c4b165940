//! The stored form of a day's counts.

use base::Incarnation;
use records::{CommandStatus, CountedOf, CountsKey, HourlyCounts, Metric};

use super::bytes::{ByteReader, put_u64};
use super::key;
use super::{CodecError, Stored};
use crate::record::record;

/// The metrics in the order of their bytes.
pub(super) const METRICS: [Metric; 12] = [
    Metric::Reports,
    Metric::Changes,
    Metric::Losses,
    Metric::Deliveries,
    Metric::Commands(CommandStatus::Scheduled),
    Metric::Commands(CommandStatus::Published),
    Metric::Commands(CommandStatus::Running),
    Metric::Commands(CommandStatus::Acknowledged),
    Metric::Commands(CommandStatus::Failed),
    Metric::Commands(CommandStatus::Expired),
    Metric::Commands(CommandStatus::Superseded),
    Metric::Commands(CommandStatus::Cancelled),
];

/// Version 1: a set of the hours that counted anything, in 24 bits, then the count of each.
impl Stored for HourlyCounts {
    const VERSION: u8 = 1;
    const NAME: &'static str = "counts of a day";

    fn put(&self, out: &mut Vec<u8>) {
        let hours = (0_u64..).zip(&self.0).filter(|(_, count)| **count > 0);
        put_u64(out, hours.fold(0, |set, (hour, _)| set | 1 << hour));
        self.0.iter().filter(|count| **count > 0).for_each(|count| put_u64(out, u64::from(*count)));
    }

    fn get(reader: &mut ByteReader<'_>, _version: u8) -> Result<Self, CodecError> {
        let hours = reader.u64("hours")?;
        if hours >> 24 != 0 {
            return Err(reader.invalid("hours"));
        }
        let mut counts = Self::default();
        for (hour, count) in counts.0.iter_mut().enumerate() {
            if hours >> hour & 1 == 1 {
                *count = reader.u32("a count")?;
            }
        }
        Ok(counts)
    }
}

/// Whose counts, as a byte and a number.
pub(super) fn of_parts(of: CountedOf) -> (u8, u64) {
    match of {
        CountedOf::All => (0, 0),
        CountedOf::Client(client) => (1, client.0),
        CountedOf::Label(hash) => (2, hash),
    }
}

/// The place of a metric among [`METRICS`].
pub(super) fn metric_byte(metric: Metric) -> u8 {
    match metric {
        Metric::Reports => 0,
        Metric::Changes => 1,
        Metric::Losses => 2,
        Metric::Deliveries => 3,
        Metric::Commands(CommandStatus::Scheduled) => 4,
        Metric::Commands(CommandStatus::Published) => 5,
        Metric::Commands(CommandStatus::Running) => 6,
        Metric::Commands(CommandStatus::Acknowledged) => 7,
        Metric::Commands(CommandStatus::Failed) => 8,
        Metric::Commands(CommandStatus::Expired) => 9,
        Metric::Commands(CommandStatus::Superseded) => 10,
        Metric::Commands(CommandStatus::Cancelled) => 11,
    }
}

pub(super) fn put_counts_key(out: &mut Vec<u8>, key: CountsKey) {
    put_u64(out, u64::from(key.day));
    let (kind, number) = of_parts(key.of);
    out.push(kind);
    put_u64(out, number);
    out.push(metric_byte(key.metric));
}

pub(super) fn get_counts_key(reader: &mut ByteReader<'_>) -> Result<CountsKey, CodecError> {
    let day = reader.u32("a day")?;
    let kind = reader.u8("whose counts")?;
    let number = reader.u64("whose counts")?;
    let of = match kind {
        0 => CountedOf::All,
        1 => CountedOf::Client(Incarnation(number)),
        2 => CountedOf::Label(number),
        _ => return Err(reader.invalid("whose counts")),
    };
    Ok(CountsKey { day, of, metric: reader.choice("a metric", &METRICS)? })
}

record!(
    HourlyCounts: Counts by CountsKey,
    key: |of| key::counts(*of),
);
