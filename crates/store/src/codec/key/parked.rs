//! Where a parked job stands among the others.

use base::Timestamp;
use records::{JobClock, JobId};

use super::{JOB_BYTES, TableKey};
use crate::codec::CodecError;
use crate::key_range::KeyRange;
use crate::port::{PARKED_SPAN_MS, parked_span};

/// The place of a parked job. Its key begins with two bits for what finds it. The bucket of its
/// time, its run, the time within the bucket, and the rest of its id follow.
///
/// The latest run is the last of its bucket, until the bytes of runs begin anew. So jobs that are
/// published one after the other go to the ends of few buckets, whatever their times, and a
/// checkpoint writes few pages. Within a run jobs are in the order of their times. So the soonest
/// jobs of a bucket are the fronts of its runs, and whole pages of them go at once. A longer bucket
/// means fewer pages to write; a larger run means more, but fewer fronts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ParkedPlace {
    /// The clock by which time finds it; `None` if only its line leads to it.
    pub(crate) clock: Option<JobClock>,
    pub(crate) at: Timestamp,
    pub(crate) id: JobId,
}

impl ParkedPlace {
    /// A bucket is 2 to the power of this in milliseconds: 4.4 minutes.
    pub(crate) const BUCKET_BITS: u32 = 18;
    /// Bytes of what finds it and the bucket.
    const BUCKET_BYTES: usize = 5;
    const RUN_BYTES: usize = JobId::RUN.end - JobId::RUN.start;
    /// Bytes of the time within the bucket.
    const WITHIN_BYTES: usize = 3;
    pub(crate) const BESIDE_ID_BYTES: usize = Self::BUCKET_BYTES + Self::WITHIN_BYTES;
    /// With these a key needs no allocation.
    const BYTES: usize = Self::BESIDE_ID_BYTES + JOB_BYTES;
    /// Bits of a time; those above it say what finds the job.
    const TIME_BITS: u32 = 8 * Self::BUCKET_BYTES as u32 - 2 + Self::BUCKET_BITS;
    /// A time before this, which no clock shows, stands where this does.
    pub(crate) const FIRST: Timestamp = Timestamp(-(1 << (Self::TIME_BITS - 1)));
    /// A time after this, which no clock shows, stands where this does.
    pub(crate) const LAST: Timestamp = Timestamp((1 << (Self::TIME_BITS - 1)) - 1);

    pub(crate) fn to_key(self) -> TableKey {
        let (bucket, within) = self.bucket_and_within();
        let mut key = TableKey::from_slice(&bucket);
        key.extend_from_slice(&self.id.0[JobId::RUN]);
        key.extend_from_slice(&within);
        key.extend_from_slice(&self.id.0[..JobId::RUN.start]);
        key.extend_from_slice(&self.id.0[JobId::RUN.end..]);
        key
    }

    pub(crate) fn from_key(key: &[u8]) -> Result<Self, CodecError> {
        let key: &[u8; Self::BYTES] = key.try_into().map_err(|_| Self::INVALID)?;
        let (bucket, rest) = key.split_at(Self::BUCKET_BYTES);
        let (run, rest) = rest.split_at(Self::RUN_BYTES);
        let (within, rest) = rest.split_at(Self::WITHIN_BYTES);
        let (before_run, behind_run) = rest.split_at(JobId::RUN.start);
        let mut id = [0; JOB_BYTES];
        id[..JobId::RUN.start].copy_from_slice(before_run);
        id[JobId::RUN].copy_from_slice(run);
        id[JobId::RUN.end..].copy_from_slice(behind_run);
        Self::from_parts(bucket, within, JobId(id))
    }

    /// Its key without the id.
    pub(crate) fn beside_id(self) -> [u8; Self::BESIDE_ID_BYTES] {
        let (bucket, within) = self.bucket_and_within();
        let mut beside = [0; Self::BESIDE_ID_BYTES];
        beside[..Self::BUCKET_BYTES].copy_from_slice(&bucket);
        beside[Self::BUCKET_BYTES..].copy_from_slice(&within);
        beside
    }

    /// The place of the job of this id.
    pub(crate) fn of_job(id: JobId, beside: &[u8]) -> Result<Self, CodecError> {
        let beside: &[u8; Self::BESIDE_ID_BYTES] = beside.try_into().map_err(|_| Self::INVALID)?;
        let (bucket, within) = beside.split_at(Self::BUCKET_BYTES);
        Self::from_parts(bucket, within, id)
    }

    /// The places of all jobs that a time of this clock finds.
    pub(crate) fn of_clock(clock: JobClock) -> KeyRange {
        let first = |marker: u8| TableKey::from_slice(&[marker << 6]);
        let marker = Self::marker(Some(clock));
        KeyRange::all().from(first(marker)).before(Some(first(marker + 1)))
    }

    /// The last place of its bucket and run.
    pub(crate) fn end_of_run(self) -> Self {
        let bucket_end = (self.at.0 | (PARKED_SPAN_MS - 1)).min(Self::LAST.0);
        let mut id = [u8::MAX; JOB_BYTES];
        id[JobId::RUN].copy_from_slice(&self.id.0[JobId::RUN]);
        Self { at: Timestamp(bucket_end), id: JobId(id), ..self }
    }

    /// The place in its run before which every job is earlier than `other`, which is of the same
    /// bucket.
    pub(crate) fn front_from(self, other: (Timestamp, JobId)) -> Self {
        debug_assert_eq!(parked_span(self.at), parked_span(other.0), "a run is of a bucket");
        let mut id = [0; JOB_BYTES];
        id[..JobId::RUN.start].copy_from_slice(&other.1.0[..JobId::RUN.start]);
        id[JobId::RUN].copy_from_slice(&self.id.0[JobId::RUN]);
        Self { at: other.0, id: JobId(id), ..self }
    }

    const INVALID: CodecError = CodecError::Invalid { what: "the place of a parked job", at: 0 };

    fn marker(clock: Option<JobClock>) -> u8 {
        match clock {
            Some(JobClock::Engine) => 0,
            Some(JobClock::Wall) => 1,
            None => 2,
        }
    }

    fn bucket_and_within(self) -> ([u8; Self::BUCKET_BYTES], [u8; Self::WITHIN_BYTES]) {
        let time = (self.at.clamp(Self::FIRST, Self::LAST).0 - Self::FIRST.0).cast_unsigned();
        let marked = u64::from(Self::marker(self.clock)) << Self::TIME_BITS | time;
        let (mut bucket, mut within) = ([0; Self::BUCKET_BYTES], [0; Self::WITHIN_BYTES]);
        bucket.copy_from_slice(&(marked >> Self::BUCKET_BITS).to_be_bytes()[8 - Self::BUCKET_BYTES..]);
        let low = marked & ((1 << Self::BUCKET_BITS) - 1);
        within.copy_from_slice(&low.to_be_bytes()[8 - Self::WITHIN_BYTES..]);
        (bucket, within)
    }

    fn from_parts(bucket: &[u8], within: &[u8], id: JobId) -> Result<Self, CodecError> {
        let wide = |part: &[u8]| part.iter().fold(0_u64, |all, byte| all << 8 | u64::from(*byte));
        let within = wide(within);
        if within >> Self::BUCKET_BITS != 0 {
            return Err(Self::INVALID);
        }
        let marked = wide(bucket) << Self::BUCKET_BITS | within;
        let clock = match marked >> Self::TIME_BITS {
            0 => Some(JobClock::Engine),
            1 => Some(JobClock::Wall),
            2 => None,
            _ => return Err(Self::INVALID),
        };
        let time = (marked & ((1 << Self::TIME_BITS) - 1)).cast_signed();
        Ok(Self { clock, at: Timestamp(Self::FIRST.0 + time), id })
    }
}

const _: () = assert!(
    ParkedPlace::BUCKET_BITS as usize <= 8 * ParkedPlace::WITHIN_BYTES,
    "a key keeps the time within a bucket behind the run"
);
const _: () = assert!(
    PARKED_SPAN_MS == 1 << ParkedPlace::BUCKET_BITS && ParkedPlace::FIRST.0 % PARKED_SPAN_MS == 0,
    "a bucket is one of the spans that callers are told of"
);
