//! Sealed readings as bytes: the form that a slice's readings have in a file once a checkpoint or a
//! merge has written them.
//!
//! For programs that look at stored bytes without a store around them: checks, fuzzing, benchmarks.
//! Where blobs lie and which of them a query reads is not known here.

use records::Reading;

use crate::codec::CodecError;
use crate::history::{Blob, SliceReading, encode_blob};

/// The blob of the readings, each with its device's place within the slice. There is at least one.
#[must_use]
pub fn seal(readings: impl IntoIterator<Item = (u8, Reading)>) -> Vec<u8> {
    let with_place = |(within, reading)| SliceReading { within, reading };
    encode_blob(&mut readings.into_iter().map(with_place).collect::<Vec<_>>())
}

/// Every reading of a blob, by place, then in the order of its device's feed.
///
/// # Errors
/// When the bytes are no whole blob of a version that this build reads.
pub fn unseal(blob: &[u8]) -> Result<Vec<(u8, Reading)>, CodecError> {
    let readings = Blob::open(blob)?.all()?;
    Ok(readings.into_iter().map(|SliceReading { within, reading }| (within, reading)).collect())
}

/// The readings of one device of a blob, in the order of its feed.
///
/// # Errors
/// As [`unseal`].
pub fn readings_of(blob: &[u8], within: u8) -> Result<Vec<Reading>, CodecError> {
    Blob::open(blob)?.device(within)
}

#[cfg(test)]
mod tests {
    use base::{Timestamp, Value};

    use super::*;

    #[test]
    fn what_is_sealed_comes_back_in_order() {
        let reading = |number: u32| Reading {
            number,
            ts: Timestamp(1_000 + i64::from(number)),
            value: Value::Number(f64::from(number)),
            changed: number == 1,
        };
        let sealed = seal([(7, reading(2)), (3, reading(5)), (7, reading(1))]);
        let expect = vec![(3, reading(5)), (7, reading(1)), (7, reading(2))];
        assert_eq!(unseal(&sealed), Ok(expect));
        assert_eq!(readings_of(&sealed, 7), Ok(vec![reading(1), reading(2)]));
        assert_eq!(readings_of(&sealed, 4), Ok(Vec::new()));
        assert!(unseal(&sealed[1..]).is_err());
    }
}
