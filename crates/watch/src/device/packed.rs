//! What is kept of a device in fewer bits than it is counted in elsewhere.
//!
//! A number that does not fit is kept as the greatest that does. None of them gets there. Five
//! bytes count an event a millisecond for 34 years. Six bytes of milliseconds, from the year 1 on,
//! reach beyond the year 8900.

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
    /// The millisecond before the year 1, the first that can be written down. It stands for none.
    const NONE: i64 = -62_135_596_800_001;
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
    /// The earliest. A device that was last seen elsewhere is expected from before a clock began.
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
pub(super) struct Standing(u16);

const WAY_BITS: u32 = 2;
const WAY_SHIFT: u32 = BUCKET_BITS;
const CONNECTION_SHIFT: u32 = WAY_SHIFT + WAY_BITS;
const _: () = assert!(CONNECTION_SHIFT + 2 == u16::BITS, "a connection takes two bits");

impl Standing {
    pub(super) fn new(bucket: u16, way: Option<WayIn>, connection: Connection) -> Self {
        Self(bucket & Self::mask(0, BUCKET_BITS)).with_way(way).with_connection(connection)
    }

    pub(super) fn bucket(self) -> u16 {
        self.0 & Self::mask(0, BUCKET_BITS)
    }

    /// `None` is never.
    pub(super) fn way(self) -> Option<WayIn> {
        let number = usize::from((self.0 & Self::mask(WAY_SHIFT, WAY_BITS)) >> WAY_SHIFT);
        number.checked_sub(1).map(|index| WayIn::ALL[index])
    }

    pub(super) fn connection(self) -> Connection {
        Connection::ALL[usize::from(self.0 >> CONNECTION_SHIFT)]
    }

    pub(super) fn with_bucket(self, bucket: u16) -> Self {
        Self::new(bucket, self.way(), self.connection())
    }

    pub(super) fn with_way(self, way: Option<WayIn>) -> Self {
        let number = way.map_or(0, |way| 1 + way.index()) as u16;
        Self(self.0 & !Self::mask(WAY_SHIFT, WAY_BITS) | number << WAY_SHIFT)
    }

    pub(super) fn with_connection(self, connection: Connection) -> Self {
        Self(self.0 & !Self::mask(CONNECTION_SHIFT, 2) | (connection as u16) << CONNECTION_SHIFT)
    }

    const fn mask(shift: u32, bits: u32) -> u16 {
        ((1 << bits) - 1) << shift
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
        // The first and the last moment that a report may carry for as long as six bytes reach.
        let (first, last) = (-62_135_596_800_000, 219_339_379_910_654);
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
    fn each_part_of_a_standing_is_changed_alone() {
        let ways = WayIn::ALL.map(Some).into_iter().chain([None]);
        for (way, connection) in ways.flat_map(|way| Connection::ALL.map(|connection| (way, connection))) {
            let parts = |standing: Standing| (standing.bucket(), standing.way(), standing.connection());
            let standing = Standing::new(2_559, way, connection);
            assert_eq!(parts(standing), (2_559, way, connection));
            assert_eq!(parts(standing.with_bucket(7)), (7, way, connection));
            assert_eq!(parts(standing.with_way(None)), (2_559, None, connection));
            assert_eq!(parts(standing.with_connection(Connection::Lost)), (2_559, way, Connection::Lost));
        }
    }
}
