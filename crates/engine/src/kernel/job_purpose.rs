//! What a job is for, as it is stored, and what became of a job without a word of its worker.
//!
//! The jobs of a machine may have several purposes. Lapse, cut and expiry are the same for all of
//! them; what follows from it is for the purpose to say. A purpose has a code, which is the top
//! byte of the number of the line that its jobs wait in. Code 0 is the purpose that a kind of
//! partition had first, so that jobs which were stored before there were others mean what they
//! meant.

use base::Timestamp;
use jobs::{Passed, Released};
use records::{AliasKey, QueueKey};

/// Bits of a line's number below the code of its purpose.
const NUMBER_BITS: u32 = 56;

/// The line with this number among those of a purpose. Numbers count registrations, and never come
/// near 2^56.
pub(crate) fn line_key(code: u8, number: u64) -> QueueKey {
    debug_assert!(number >> NUMBER_BITS == 0, "the number of a line leaves room for its purpose");
    QueueKey(u64::from(code) << NUMBER_BITS | number)
}

/// The code of a line's purpose, and its number among the lines of that.
pub(crate) fn line_parts(line: QueueKey) -> (u8, u64) {
    ((line.0 >> NUMBER_BITS) as u8, line.0 & ((1 << NUMBER_BITS) - 1))
}

/// A job of which its worker did not say how it ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EndedJob {
    pub(crate) line: QueueKey,
    pub(crate) alias: Option<AliasKey>,
    pub(crate) end: JobEnd,
}

/// How it ended.
#[derive(Clone, Copy, Debug)]
pub(crate) enum JobEnd {
    /// Its lease ran out.
    Lapsed(Released),
    /// Its worker is gone with the process.
    Cut(Released),
    /// It waited for too long, and comes again at that time, if at all.
    Expired(Option<Timestamp>),
}

impl From<Passed> for EndedJob {
    fn from(passed: Passed) -> Self {
        match passed {
            Passed::Lapsed(lapsed) => {
                Self { line: lapsed.queue, alias: lapsed.alias, end: JobEnd::Lapsed(lapsed.released) }
            }
            Passed::Expired(expired) => {
                Self { line: expired.queue, alias: expired.alias, end: JobEnd::Expired(expired.next_run) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_stored_before_there_were_purposes_has_the_first_one() {
        assert_eq!(line_key(0, 7), QueueKey(7));
        assert_eq!(line_parts(QueueKey(7)), (0, 7));
    }

    #[test]
    fn a_purpose_is_read_back() {
        for (code, number) in [(0, 0), (1, 7), (255, (1 << NUMBER_BITS) - 1)] {
            assert_eq!(line_parts(line_key(code, number)), (code, number));
        }
    }
}
