//! The parts of a device in fewer bytes than they take elsewhere.
//!
//! What does not fit is kept as the nearest that does. Five bytes hold 34 years of milliseconds: an
//! interval has ten at most, and no device has an event every millisecond. Six bytes of
//! milliseconds, from the year 1 on, reach beyond the year 8900. A device that is expected from
//! later than the year 6400 is expected from then.

use base::{Attended, Timestamp, WayIn};
use records::Connection;

use crate::wheel::BUCKET_BITS;

/// A number in so many bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PackedNumber<const BYTES: usize>([u8; BYTES]);

impl<const BYTES: usize> PackedNumber<BYTES> {
    const MAX: u64 = (1 << (8 * BYTES)) - 1;

    pub(super) fn new(number: u64) -> Self {
        let bytes = number.min(Self::MAX).to_le_bytes();
        Self(std::array::from_fn(|at| bytes[at]))
    }

    pub(super) fn get(self) -> u64 {
        let mut bytes = [0; 8];
        bytes[..BYTES].copy_from_slice(&self.0);
        u64::from_le_bytes(bytes)
    }
}

/// A moment or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PackedTime(PackedNumber<6>);

impl PackedTime {
    /// Stands for none: the millisecond before the first that can be written.
    const NONE: i64 = Timestamp::WRITABLE_MIN - 1;
}

impl From<Option<Timestamp>> for PackedTime {
    fn from(time: Option<Timestamp>) -> Self {
        let since = time.map_or(0, |time| time.0.saturating_sub(Self::NONE).max(1));
        Self(PackedNumber::new(since.unsigned_abs()))
    }
}

impl From<PackedTime> for Option<Timestamp> {
    fn from(time: PackedTime) -> Self {
        let since = time.0.get().cast_signed();
        (since != 0).then_some(Timestamp(PackedTime::NONE + since))
    }
}

/// A reading of an attended clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PackedReading(PackedNumber<6>);

impl PackedReading {
    /// The earliest that fits. It is below 0, as an imported device may be expected from before a
    /// clock began.
    const FIRST: i64 = -(1 << 47);
}

impl From<Attended> for PackedReading {
    fn from(reading: Attended) -> Self {
        Self(PackedNumber::new(reading.0.saturating_sub(Self::FIRST).max(0).unsigned_abs()))
    }
}

impl From<PackedReading> for Attended {
    fn from(reading: PackedReading) -> Self {
        Self(PackedReading::FIRST + reading.0.get().cast_signed())
    }
}

/// In which bucket a device waits, which way its latest sign of life came, and whether it is heard
/// of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PackedStatus(u16);

const BUCKET: u16 = (1 << BUCKET_BITS) - 1;
const WAY: u16 = 0b11 << BUCKET_BITS;
const CONNECTION: u16 = !(BUCKET | WAY);
const _: () = assert!(CONNECTION.count_ones() == 2 && Connection::ALL.len() <= 4 && WayIn::ALL.len() < 4);

impl PackedStatus {
    pub(super) fn new(bucket: u16, way: Option<WayIn>, connection: Connection) -> Self {
        Self(0).with_bucket(bucket).with_way(way).with_connection(connection)
    }

    pub(super) fn bucket(self) -> u16 {
        self.part(BUCKET)
    }

    /// `None` is never.
    pub(super) fn way(self) -> Option<WayIn> {
        usize::from(self.part(WAY)).checked_sub(1).map(|index| WayIn::ALL[index])
    }

    pub(super) fn connection(self) -> Connection {
        Connection::ALL[usize::from(self.part(CONNECTION))]
    }

    pub(super) fn with_bucket(self, bucket: u16) -> Self {
        self.with(BUCKET, bucket)
    }

    pub(super) fn with_way(self, way: Option<WayIn>) -> Self {
        self.with(WAY, way.map_or(0, |way| 1 + way.index()) as u16)
    }

    pub(super) fn with_connection(self, connection: Connection) -> Self {
        self.with(CONNECTION, connection as u16)
    }

    fn part(self, mask: u16) -> u16 {
        (self.0 & mask) >> mask.trailing_zeros()
    }

    fn with(self, mask: u16, number: u16) -> Self {
        Self(self.0 & !mask | (number << mask.trailing_zeros()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_comes_back_and_the_rest_is_the_nearest_that_fits() {
        for (number, kept) in [(0, 0), (7, 7), ((1 << 40) - 1, (1 << 40) - 1), (1 << 40, (1 << 40) - 1)] {
            assert_eq!(PackedNumber::<5>::new(number).get(), kept);
        }
        // The first moment that can be written, and the last that six bytes reach.
        let (first, last) = (Timestamp::WRITABLE_MIN, 219_339_379_910_654);
        for (time, kept) in [
            (None, None),
            (Some(0), Some(0)),
            (Some(1_795_219_200_000), Some(1_795_219_200_000)),
            (Some(first), Some(first)),
            (Some(i64::MIN), Some(first)),
            (Some(last), Some(last)),
            (Some(i64::MAX), Some(last)),
        ] {
            assert_eq!(Option::from(PackedTime::from(time.map(Timestamp))), kept.map(Timestamp));
        }
        let reach = 1 << 47;
        for (reading, kept) in
            [(0, 0), (-550, -550), (reach - 1, reach - 1), (reach, reach - 1), (i64::MIN, -reach)]
        {
            assert_eq!(Attended::from(PackedReading::from(Attended(reading))), Attended(kept));
        }
    }

    #[test]
    fn each_part_of_a_status_is_changed_alone() {
        let ways = WayIn::ALL.map(Some).into_iter().chain([None]);
        for (way, connection) in ways.flat_map(|way| Connection::ALL.map(|connection| (way, connection))) {
            let parts = |status: PackedStatus| (status.bucket(), status.way(), status.connection());
            let status = PackedStatus::new(2_559, way, connection);
            assert_eq!(parts(status), (2_559, way, connection));
            assert_eq!(parts(status.with_bucket(7)), (7, way, connection));
            assert_eq!(parts(status.with_way(None)), (2_559, None, connection));
            assert_eq!(parts(status.with_connection(Connection::Lost)), (2_559, way, Connection::Lost));
        }
    }
}
