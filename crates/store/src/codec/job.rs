//! The stored forms of a job's head, which a restart reads of every resident job, and of a parked
//! job.

use std::borrow::Cow;

use base::Timestamp;
use records::{
    AliasKey, HeadState, JobHead, JobId, JobTerms, LeaseHolder, ParkedJob, ParkedKey, Parking, Process,
    QueueKey, Starts, Successor,
};

use super::bytes::{ByteReader, put_i64, put_u64};
use super::field::Field;
use super::key::{self, ParkedPlace};
use super::terms::{get_terms, put_terms};
use super::{CodecError, Stored};
use crate::port::{parked_lines, parked_time};
use crate::record::{Index, record};
use crate::table::Table;

const RESERVED: u8 = 1 << 0;
const HELD_OUTSIDE: u8 = 1 << 1;
const HAS_ALIAS: u8 = 1 << 2;
const HAS_SUCCESSOR: u8 = 1 << 3;
const HAS_TERMS: u8 = 1 << 4;
/// The end of the flags of each version, from 1.
const FLAGS_END: [u8; 2] = [1 << 4, 1 << 5];

const STARTS_AFTER_RUN: u8 = 1 << 0;
const SUCCESSOR_HAS_TERMS: u8 = 1 << 1;
/// The end of a successor's flags in each version, from 1.
const SUCCESSOR_FLAGS_END: [u8; 2] = [1 << 1, 1 << 2];

/// Version 2: a byte that says what is there, the id, the numbers as varints, `visible_at` as a
/// difference from `run_at`. Lease and holder, alias, terms and successor follow, as far as they
/// are there. Version 1 has no terms.
impl Stored for JobHead {
    const VERSION: u8 = 2;
    const NAME: &'static str = "a job";

    fn put(&self, out: &mut Vec<u8>) {
        out.push(flags(self));
        out.extend_from_slice(&self.id.0);
        put_u64(out, self.queue.0);
        put_u64(out, self.number);
        put_i64(out, self.run_at.0);
        put_i64(out, self.visible_at.0.wrapping_sub(self.run_at.0));
        put_u64(out, u64::from(self.attempt));
        put_u64(out, u64::from(self.tries));
        if let HeadState::Reserved { lease, holder } = self.state {
            put_u64(out, lease);
            if let LeaseHolder::Own(process) = holder {
                put_u64(out, process.0);
            }
        }
        if let Some(alias) = self.alias {
            out.extend_from_slice(&alias.0.to_le_bytes());
        }
        if self.terms != JobTerms::default() {
            put_terms(out, &self.terms, self.run_at);
        }
        if let Some(successor) = &self.successor {
            put_successor(out, successor);
        }
    }

    fn get(reader: &mut ByteReader<'_>, version: u8) -> Result<Self, CodecError> {
        let flags = reader.u8(Self::NAME)?;
        if flags >= end_of(FLAGS_END, version) || (flags & HELD_OUTSIDE != 0 && flags & RESERVED == 0) {
            return Err(reader.invalid(Self::NAME));
        }
        let id = JobId(reader.array("a job id")?);
        let queue = QueueKey(reader.u64("a queue")?);
        let number = reader.u64("a publish number")?;
        let run_at = Timestamp(reader.i64("a time")?);
        Ok(Self {
            id,
            queue,
            number,
            run_at,
            visible_at: Timestamp(run_at.0.wrapping_add(reader.i64("a time")?)),
            attempt: reader.u32("a count")?,
            tries: reader.u32("a count")?,
            state: get_state(reader, flags)?,
            alias: match flags & HAS_ALIAS {
                0 => None,
                _ => Some(AliasKey(u128::from_le_bytes(reader.array("an alias")?))),
            },
            terms: match flags & HAS_TERMS {
                0 => JobTerms::default(),
                _ => get_terms(reader, run_at)?,
            },
            successor: match flags & HAS_SUCCESSOR {
                0 => None,
                _ => Some(Box::new(get_successor(reader, version)?)),
            },
        })
    }
}

fn flags(job: &JobHead) -> u8 {
    let state = match job.state {
        HeadState::Waiting => 0,
        HeadState::Reserved { holder: LeaseHolder::Own(_), .. } => RESERVED,
        HeadState::Reserved { holder: LeaseHolder::Outside, .. } => RESERVED | HELD_OUTSIDE,
    };
    let alias = if job.alias.is_some() { HAS_ALIAS } else { 0 };
    let terms = if job.terms == JobTerms::default() { 0 } else { HAS_TERMS };
    let successor = if job.successor.is_some() { HAS_SUCCESSOR } else { 0 };
    state | alias | terms | successor
}

/// Where the flags of a version end.
fn end_of(ends: [u8; 2], version: u8) -> u8 {
    if version < 2 { ends[0] } else { ends[1] }
}

fn get_state(reader: &mut ByteReader<'_>, flags: u8) -> Result<HeadState, CodecError> {
    if flags & RESERVED == 0 {
        return Ok(HeadState::Waiting);
    }
    let lease = reader.u64("a lease")?;
    let holder = match flags & HELD_OUTSIDE {
        0 => LeaseHolder::Own(Process(reader.u64("a process")?)),
        _ => LeaseHolder::Outside,
    };
    Ok(HeadState::Reserved { lease, holder })
}

fn put_successor(out: &mut Vec<u8>, successor: &Successor) {
    out.extend_from_slice(&successor.id.0);
    put_u64(out, successor.number);
    put_i64(out, successor.run_at.0);
    put_u64(out, u64::from(successor.tries));
    let starts = match successor.starts {
        Starts::AfterJob => 0,
        Starts::AfterRun => STARTS_AFTER_RUN,
    };
    let has_terms = successor.terms != JobTerms::default();
    out.push(starts | if has_terms { SUCCESSOR_HAS_TERMS } else { 0 });
    if has_terms {
        put_terms(out, &successor.terms, successor.run_at);
    }
}

fn get_successor(reader: &mut ByteReader<'_>, version: u8) -> Result<Successor, CodecError> {
    let id = JobId(reader.array("a job id")?);
    let number = reader.u64("a publish number")?;
    let run_at = Timestamp(reader.i64("a time")?);
    let tries = reader.u32("a count")?;
    let flags = reader.u8("a successor")?;
    if flags >= end_of(SUCCESSOR_FLAGS_END, version) {
        return Err(reader.invalid("a successor"));
    }
    let starts = if flags & STARTS_AFTER_RUN == 0 { Starts::AfterJob } else { Starts::AfterRun };
    let terms = match flags & SUCCESSOR_HAS_TERMS {
        0 => JobTerms::default(),
        _ => get_terms(reader, run_at)?,
    };
    Ok(Successor { id, number, run_at, tries, terms, starts })
}

/// Version 3: what it waits for, the head with its own version, and what it carries. Version 2 has
/// that elsewhere, and version 1 knows no heads of groups.
impl Stored for ParkedJob {
    const VERSION: u8 = 3;
    const NAME: &'static str = "a parked job";

    fn put(&self, out: &mut Vec<u8>) {
        put_parking(out, self.parking);
        self.head.write(out);
        self.body.put_field(out);
    }

    fn get(reader: &mut ByteReader<'_>, version: u8) -> Result<Self, CodecError> {
        let parking = get_parking(reader, version)?;
        let head = JobHead::read(reader)?;
        let leads_nothing = parking == Parking::Head && head.terms.group.is_none();
        if head.state != HeadState::Waiting || head.successor.is_some() || leads_nothing {
            return Err(reader.invalid(Self::NAME));
        }
        let body = if version < 3 { None } else { Field::get_field(reader)? };
        Ok(Self { head, parking, body })
    }
}

/// Version 2: the fields in order. Version 1 knows no heads of groups.
impl Stored for ParkedKey {
    const VERSION: u8 = 2;
    const NAME: &'static str = "a parked job's key";

    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.id.0);
        put_u64(out, self.queue.0);
        put_parking(out, self.parking);
        self.clock.put_field(out);
        put_i64(out, self.visible_at.0);
        put_u64(out, self.number);
        self.expires_at.put_field(out);
        self.group.put_field(out);
        self.alias.put_field(out);
    }

    fn get(reader: &mut ByteReader<'_>, version: u8) -> Result<Self, CodecError> {
        Ok(Self {
            id: JobId(reader.array("a job id")?),
            queue: QueueKey(reader.u64("a queue")?),
            parking: get_parking(reader, version)?,
            clock: Field::get_field(reader)?,
            visible_at: Timestamp(reader.i64("a time")?),
            number: reader.u64("a publish number")?,
            expires_at: Field::get_field(reader)?,
            group: Field::get_field(reader)?,
            alias: Field::get_field(reader)?,
        })
    }
}

fn put_parking(out: &mut Vec<u8>, parking: Parking) {
    out.push(match parking {
        Parking::Time => 0,
        Parking::Worker => 1,
        Parking::Head => 2,
    });
}

fn get_parking(reader: &mut ByteReader<'_>, version: u8) -> Result<Parking, CodecError> {
    const ALL: [Parking; 3] = [Parking::Time, Parking::Worker, Parking::Head];
    let known = if version < 2 { &ALL[..2] } else { &ALL[..] };
    reader.choice("what a parked job waits for", known)
}

record!(
    JobHead: JobHeads by JobId,
    key: |id| key::job(*id),
    place: |job| Cow::Borrowed(&job.id),
);

record!(
    ParkedJob: Parked by ParkedKey,
    key: |job| parked_place(job).to_key(),
    place: |job| Cow::Owned(job.key()),
    indexes: [
        Index {
            table: Table::ParkedIds,
            rows: |job, row| row(key::job(job.id), &ParkedId::of(job).to_bytes()),
            names: |id, value| {
                let ParkedId { beside, .. } = ParkedId::from_bytes(value)?;
                ParkedPlace::of_job(key::job_from(id)?, &beside).map(ParkedPlace::to_key)
            },
        },
        Index {
            table: Table::ParkedByLine,
            rows: |job, row| {
                let (in_line, place) = ((job.visible_at, job.number), parked_place(job).to_key());
                parked_lines(job)
                    .for_each(|group| row(key::place_in_line(job.queue, group, in_line), &place));
            },
            names: |_, place| ParkedPlace::from_key(place).map(ParkedPlace::to_key),
        },
        Index {
            table: Table::ParkedAliases,
            rows: |job, row| {
                let place = parked_place(job).to_key();
                job.alias.iter().for_each(|alias| row(key::alias(job.queue, *alias), &place));
            },
            names: |_, place| ParkedPlace::from_key(place).map(ParkedPlace::to_key),
        },
    ],
);

/// What the row of a parked job's id holds.
pub(crate) struct ParkedId {
    /// Its place without the id.
    beside: [u8; ParkedPlace::BESIDE_ID_BYTES],
    /// Its queue, by which others pass it over.
    pub(crate) queue: QueueKey,
}

impl ParkedId {
    fn of(job: &ParkedKey) -> Self {
        Self { beside: parked_place(job).beside_id(), queue: job.queue }
    }

    fn to_bytes(&self) -> [u8; ParkedPlace::BESIDE_ID_BYTES + 8] {
        let mut bytes = [0; ParkedPlace::BESIDE_ID_BYTES + 8];
        bytes[..ParkedPlace::BESIDE_ID_BYTES].copy_from_slice(&self.beside);
        bytes[ParkedPlace::BESIDE_ID_BYTES..].copy_from_slice(&self.queue.0.to_be_bytes());
        bytes
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self, CodecError> {
        let invalid = CodecError::Invalid { what: "the row of a parked job's id", at: 0 };
        let (beside, queue) = bytes.split_first_chunk().ok_or(invalid)?;
        let queue = queue.try_into().map_err(|_| invalid)?;
        Ok(Self { beside: *beside, queue: QueueKey(u64::from_be_bytes(queue)) })
    }
}

/// Where it stands: by the time that finds it, else by that which is its place in its line.
fn parked_place(job: &ParkedKey) -> ParkedPlace {
    match parked_time(job) {
        Some((clock, at)) => ParkedPlace { clock: Some(clock), at, id: job.id },
        None => ParkedPlace { clock: None, at: job.visible_at, id: job.id },
    }
}
