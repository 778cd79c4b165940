//! Ids of jobs and what a consumer shows for one: how they are made, and their text.
//!
//! A job's id begins with 6 bytes of its time of publishing, so that ids are in the order of
//! publishing. Then come 4 bytes of the partition's publish number, whose upper two are the run by
//! which the store sorts ([`JobId::RUN`]). The last 6 are of a hash over lineage, partition and
//! number. Its text is a ULID. A consumer shows the lineage too:
//! a lease of a restored backup is not one of the directory that was backed up.

use base::{Lineage, PartitionId, Timestamp, hash};
use records::{JobId, Reservation};

/// The digits of Crockford's base 32: no I, L, O, U.
const DIGITS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
/// What a byte of a text stands for, if it is a digit, of either case.
const DIGIT_VALUES: [Option<u8>; 256] = digit_values();
const ID_BYTES: usize = 16;
const ID_CHARS: usize = 26;
/// The job, the lease's number, and six bytes that only this lineage gives.
const TOKEN_BYTES: usize = ID_BYTES + 8 + 6;
const TOKEN_CHARS: usize = TOKEN_BYTES * 8 / 5;
const _: () = assert!(ID_CHARS == (ID_BYTES * 8).div_ceil(5) && TOKEN_BYTES.is_multiple_of(5));

/// The id of the job that was published at `now` with this number.
pub(super) fn job_id(lineage: Lineage, partition: PartitionId, number: u64, now: Timestamp) -> JobId {
    let mut id = [0; ID_BYTES];
    id[..6].copy_from_slice(&now.0.max(0).to_be_bytes()[2..]);
    id[6..10].copy_from_slice(&(number as u32).to_be_bytes());
    let mut cause = [0; 10];
    cause[..8].copy_from_slice(&number.to_le_bytes());
    cause[8..].copy_from_slice(&partition.0.to_le_bytes());
    id[10..].copy_from_slice(&hash::derived(lineage.0, &cause).to_le_bytes()[..6]);
    JobId(id)
}

/// When a job was published.
#[must_use]
pub(super) fn published_at(id: JobId) -> Timestamp {
    Timestamp(id.0[..6].iter().fold(0, |time, byte| time << 8 | i64::from(*byte)))
}

/// The publish number that an id was made of, given that it is below `next`; at most that of any
/// job with a later id.
pub(super) fn number_before(id: JobId, next: u64) -> u64 {
    let low = u64::from(u32::from_be_bytes([id.0[6], id.0[7], id.0[8], id.0[9]]));
    let high = next >> 32 << 32;
    if high | low < next { high | low } else { (high | low).saturating_sub(1 << 32) }
}

/// A job's id as text.
#[must_use]
pub fn id_text(id: JobId) -> String {
    encode(&id.0, ID_CHARS)
}

/// Reads a job's id.
#[must_use]
pub fn id_from_text(text: &str) -> Option<JobId> {
    let mut id = [0; ID_BYTES];
    decode(text, ID_CHARS, &mut id)?;
    Some(JobId(id))
}

/// What a consumer shows for a job that it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReservationToken([u8; TOKEN_BYTES]);

impl ReservationToken {
    pub(super) fn new(lineage: Lineage, reservation: Reservation) -> Self {
        let mut token = [0; TOKEN_BYTES];
        token[..ID_BYTES].copy_from_slice(&reservation.job.0);
        token[ID_BYTES..ID_BYTES + 8].copy_from_slice(&reservation.lease.to_be_bytes());
        let mark = hash::derived(lineage.0, &token[..ID_BYTES + 8]);
        token[ID_BYTES + 8..].copy_from_slice(&mark.to_le_bytes()[..6]);
        Self(token)
    }

    /// Reads what a consumer shows; `None` for what was never one. Whether it holds is not known
    /// here.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Self> {
        let mut token = [0; TOKEN_BYTES];
        decode(text, TOKEN_CHARS, &mut token)?;
        Some(Self(token))
    }

    /// What the consumer shows.
    #[must_use]
    pub fn text(&self) -> String {
        encode(&self.0, TOKEN_CHARS)
    }

    /// The job it is for.
    #[must_use]
    pub fn job(&self) -> JobId {
        let mut id = [0; ID_BYTES];
        id.copy_from_slice(&self.0[..ID_BYTES]);
        JobId(id)
    }

    /// The lease, if it is of this lineage.
    pub(super) fn reservation(&self, lineage: Lineage) -> Option<Reservation> {
        let mut number = [0; 8];
        number.copy_from_slice(&self.0[ID_BYTES..ID_BYTES + 8]);
        let reservation = Reservation { job: self.job(), lease: u64::from_be_bytes(number) };
        (Self::new(lineage, reservation) == *self).then_some(reservation)
    }
}

const fn digit_values() -> [Option<u8>; 256] {
    let mut values = [None; 256];
    let mut value = 0;
    while value < DIGITS.len() {
        values[DIGITS[value] as usize] = Some(value as u8);
        values[DIGITS[value].to_ascii_lowercase() as usize] = Some(value as u8);
        value += 1;
    }
    values
}

/// Groups of five bits from the front, the number right-aligned as in a ULID. Eight digits are five
/// bytes.
fn encode(bytes: &[u8], chars: usize) -> String {
    let number_of = |bytes: &[u8]| bytes.iter().fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    let digit = |number: u64, behind: usize| DIGITS[(number >> (5 * behind) & 31) as usize];
    let (front, groups) = bytes.as_rchunks::<5>();
    let front_chars = chars - 8 * groups.len();
    let mut text = Vec::with_capacity(chars);
    text.extend((0..front_chars).rev().map(|behind| digit(number_of(front), behind)));
    for group in groups {
        let number = number_of(group);
        text.extend_from_slice(&std::array::from_fn::<_, 8, _>(|place| digit(number, 7 - place)));
    }
    String::from_utf8(text).expect("digits are ASCII")
}

fn decode(text: &str, chars: usize, bytes: &mut [u8]) -> Option<()> {
    if text.len() != chars {
        return None;
    }
    let number_of = |digits: &[u8]| {
        let value = |digit: &u8| DIGIT_VALUES[usize::from(*digit)].map(u64::from);
        digits.iter().try_fold(0_u64, |number, digit| Some(number << 5 | value(digit)?))
    };
    let (front, groups) = text.as_bytes().as_rchunks::<8>();
    let (front_bytes, group_bytes) = bytes.as_rchunks_mut::<5>();
    let number = number_of(front)?;
    // The first digit holds the spare bits, which are 0.
    if number >> (8 * front_bytes.len()) != 0 {
        return None;
    }
    front_bytes.copy_from_slice(&number.to_be_bytes()[8 - front_bytes.len()..]);
    for (digits, five) in groups.iter().zip(group_bytes) {
        five.copy_from_slice(&number_of(digits)?.to_be_bytes()[3..]);
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINEAGE: Lineage = Lineage(7);

    #[test]
    fn ids_are_in_the_order_of_publishing_and_read_back() {
        let mut last = None;
        for (number, time) in [(0, 5), (1, 5), (2, 1_795_000_000_000), (3, 1_795_000_000_001)] {
            let id = job_id(LINEAGE, PartitionId::of_queues(3), number, Timestamp(time));
            assert!(last < Some(id));
            assert_eq!(published_at(id), Timestamp(time));
            let text = id_text(id);
            assert_eq!((text.len(), id_from_text(&text)), (26, Some(id)));
            assert_eq!(id_from_text(&text.to_lowercase()), Some(id));
            last = Some(id);
        }
        for text in [
            "",
            "8ZZZZZZZZZZZZZZZZZZZZZZZZZ",
            "01ARZ3NDEKTSV4RRFFQ69G5FAU",
            "01ARZ3NDEKTSV4RRFFQ69G5FAVV",
            "01ARZ3NDEKTSV4RRFFQ69G5Fé",
        ] {
            assert_eq!(id_from_text(text), None, "{text}");
        }
    }

    #[test]
    fn a_run_is_65_536_jobs() {
        let run = |number| {
            let id = job_id(LINEAGE, PartitionId::of_queues(3), number, Timestamp(1_795_000_000_000));
            u16::from_be_bytes([id.0[JobId::RUN.start], id.0[JobId::RUN.end - 1]])
        };
        let first = 3 << 16;
        assert_eq!([first - 1, first, first + 65_535, first + 65_536].map(run), [2, 3, 3, 4]);
    }

    #[test]
    fn the_number_of_an_id_is_found_beside_a_later_one() {
        for (number, next) in
            [(0, 1), (5, 6), ((1 << 32) - 1, 1 << 32), ((1 << 32) + 7, (1 << 32) + 8), (9, 1 << 32)]
        {
            let id = job_id(LINEAGE, PartitionId::of_queues(0), number, Timestamp(0));
            assert_eq!(number_before(id, next), number, "{number} before {next}");
        }
    }

    #[test]
    fn a_ulid_has_the_text_that_other_readers_expect() {
        let mut bytes = [0; 16];
        bytes[..6].copy_from_slice(&1_469_918_176_385_i64.to_be_bytes()[2..]);
        assert_eq!(&id_text(JobId(bytes))[..10], "01ARYZ6S41");
        let id = JobId(0x0156_3e3a_b5d3_d676_4c61_efb9_9302_bd5b_u128.to_be_bytes());
        assert_eq!(id_text(id), "01ARZ3NDEKTSV4RRFFQ69G5FAV");
        assert_eq!(id_from_text("01ARZ3NDEKTSV4RRFFQ69G5FAV"), Some(id));
    }

    /// 48 digits: all 32, and the first 16 again.
    #[test]
    fn a_token_is_groups_of_eight_digits_for_five_bytes() {
        let text = "0123456789ABCDEFGHJKMNPQRSTVWXYZ0123456789ABCDEF";
        let token = ReservationToken::from_text(text).expect("digits");
        assert_eq!(token.0[..5], [0x00, 0x44, 0x32, 0x14, 0xc7]);
        assert_eq!(token.text(), text);
        for place in 0..text.len() {
            let mut wrong = text.to_owned();
            wrong.replace_range(place..=place, "U");
            assert_eq!(ReservationToken::from_text(&wrong), None, "{wrong}");
        }
    }

    #[test]
    fn what_a_consumer_shows_is_of_one_lineage() {
        let job = job_id(LINEAGE, PartitionId::of_queues(0), 9, Timestamp(1_000));
        let reservation = Reservation { job, lease: 12 };
        let token = ReservationToken::new(LINEAGE, reservation);
        assert_eq!(ReservationToken::from_text(&token.text()), Some(token));
        assert_eq!((token.job(), token.reservation(LINEAGE)), (job, Some(reservation)));
        assert_eq!(token.reservation(Lineage(8)), None);
        assert_eq!(ReservationToken::from_text("nonsense"), None);
    }
}
