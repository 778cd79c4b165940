//! The parts of a device in fewer bytes than they take elsewhere.
//!
//! What does not fit is kept as the nearest that does. Five bytes hold 34 years of milliseconds: an
//! interval has ten at most, and no device has an event every millisecond. Six bytes of
//! milliseconds, from the year 1 on, reach beyond the year 8900. A device that is expected from
//! more than 4,400 years ahead may be expected from earlier.

use base::{Attended, Timestamp, WayIn};
use records::Connection;

use crate::wheel::BUCKET_BITS;

/// A number in five bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, packed)]
pub(super) struct U40 {
    low: u32,
    high: u8,
}

/// A number in six bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, packed(2))]
pub(super) struct U48 {
    low: u32,
    high: u16,
}

impl U40 {
    const MAX: u64 = (1 << 40) - 1;

    /// The number, or the greatest if it does not fit.
    pub(super) fn nearest(number: u64) -> Self {
        let number = number.min(Self::MAX);
        Self { low: number as u32, high: (number >> 32) as u8 }
    }

    pub(super) fn get(self) -> u64 {
        u64::from(self.high) << 32 | u64::from(self.low)
    }
}

impl U48 {
    const MAX: i64 = (1 << 48) - 1;

    /// Of a number that fits.
    fn new(number: i64) -> Self {
        Self { low: number as u32, high: (number >> 32) as u16 }
    }

    fn get(self) -> i64 {
        i64::from(self.high) << 32 | i64::from(self.low)
    }
}

/// A moment or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PackedTime(U48);

impl PackedTime {
    const FIRST: i64 = Timestamp::WRITABLE_MIN;
    /// Stands for none: the millisecond before the first that can be written.
    const NONE: i64 = Self::FIRST - 1;
    const LAST: i64 = Self::NONE + U48::MAX;
}

impl From<Option<Timestamp>> for PackedTime {
    fn from(time: Option<Timestamp>) -> Self {
        Self(U48::new(time.map_or(0, |time| time.0.clamp(Self::FIRST, Self::LAST) - Self::NONE)))
    }
}

impl From<PackedTime> for Option<Timestamp> {
    fn from(time: PackedTime) -> Self {
        let since = time.0.get();
        (since != 0).then_some(Timestamp(PackedTime::NONE + since))
    }
}

/// A reading of an attended clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PackedReading(U48);

impl PackedReading {
    /// The earliest that fits. It is below 0, as an imported device may be expected from before a
    /// clock began.
    const FIRST: i64 = -(1 << 47);
    const LAST: i64 = Self::FIRST + U48::MAX;
}

impl From<Attended> for PackedReading {
    fn from(reading: Attended) -> Self {
        Self(U48::new(reading.0.clamp(Self::FIRST, Self::LAST) - Self::FIRST))
    }
}

impl From<PackedReading> for Attended {
    fn from(reading: PackedReading) -> Self {
        Self(PackedReading::FIRST + reading.0.get())
    }
}

/// In which bucket a device waits, which way its latest sign of life came, and whether it is heard
/// of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PackedStatus(u16);

const BUCKET: u16 = (1 << BUCKET_BITS) - 1;
const WAY: u16 = 0b11 << BUCKET_BITS;
const CONNECTION: u16 = !(BUCKET | WAY);
const _: () = assert!(CONNECTION.count_ones() == 2 && Connection::ALL.len() == 3 && WayIn::ALL.len() == 3);

impl PackedStatus {
    pub(super) fn new(bucket: u16, way: Option<WayIn>, connection: Connection) -> Self {
        Self(0).with_bucket(bucket).with_way(way).with_connection(connection)
    }

    pub(super) fn bucket(self) -> u16 {
        self.part(BUCKET)
    }

    /// `None` is never.
    pub(super) fn way(self) -> Option<WayIn> {
        match self.part(WAY) {
            0 => None,
            1 => Some(WayIn::Mqtt),
            2 => Some(WayIn::Http),
            _ => Some(WayIn::Amqp),
        }
    }

    pub(super) fn connection(self) -> Connection {
        match self.part(CONNECTION) {
            0 => Connection::NeverSeen,
            1 => Connection::Online,
            _ => Connection::Lost,
        }
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
            assert_eq!(U40::nearest(number).get(), kept);
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
