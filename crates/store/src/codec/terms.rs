//! The stored form of what holds of some jobs only: part of a job's and of a successor's.

use base::Timestamp;
use records::{GroupKey, JobClock, JobTerms, Recurrence, RecurrenceRule};

use super::CodecError;
use super::bytes::{ByteReader, put_i64, put_u64};

const WALL_CLOCK: u8 = 1 << 0;
const EXPIRES: u8 = 1 << 1;
const HAS_GROUP: u8 = 1 << 2;
const RECURS: u8 = 1 << 3;
const BY_CALENDAR: u8 = 1 << 4;
const IS_COUNTED: u8 = 1 << 5;
const RUNS_EXPIRE: u8 = 1 << 6;
const FLAGS_END: u8 = 1 << 7;

/// Appends a byte that says what is there, and what is. First the expiry, as a difference from
/// `run_at`, and the group. Then the interval, runs left, the run's number and how long each is
/// worth making.
pub(super) fn put_terms(out: &mut Vec<u8>, terms: &JobTerms, run_at: Timestamp) {
    out.push(flags(terms));
    if let Some(expires_at) = terms.expires_at {
        put_i64(out, expires_at.0.wrapping_sub(run_at.0));
    }
    if let Some(group) = terms.group {
        out.extend_from_slice(&group.0.to_le_bytes());
    }
    let Some(Recurrence { rule, left, run, ttl_ms }) = terms.recurrence else { return };
    if let RecurrenceRule::Every(interval_ms) = rule {
        put_u64(out, interval_ms);
    }
    left.iter().for_each(|left| put_u64(out, u64::from(*left)));
    put_u64(out, run);
    ttl_ms.iter().for_each(|ttl_ms| put_u64(out, *ttl_ms));
}

fn flags(terms: &JobTerms) -> u8 {
    let mut flags = match terms.clock {
        JobClock::Engine => 0,
        JobClock::Wall => WALL_CLOCK,
    };
    let mut say = |holds: bool, flag: u8| flags |= if holds { flag } else { 0 };
    say(terms.expires_at.is_some(), EXPIRES);
    say(terms.group.is_some(), HAS_GROUP);
    if let Some(recurrence) = &terms.recurrence {
        say(true, RECURS);
        say(recurrence.rule == RecurrenceRule::Calendar, BY_CALENDAR);
        say(recurrence.left.is_some(), IS_COUNTED);
        say(recurrence.ttl_ms.is_some(), RUNS_EXPIRE);
    }
    flags
}

pub(super) fn get_terms(reader: &mut ByteReader<'_>, run_at: Timestamp) -> Result<JobTerms, CodecError> {
    const WHAT: &str = "a job's terms";
    let flags = reader.u8(WHAT)?;
    let of_recurrence = flags & (BY_CALENDAR | IS_COUNTED | RUNS_EXPIRE);
    if flags >= FLAGS_END || (flags & RECURS == 0 && of_recurrence != 0) {
        return Err(reader.invalid(WHAT));
    }
    Ok(JobTerms {
        clock: if flags & WALL_CLOCK == 0 { JobClock::Engine } else { JobClock::Wall },
        expires_at: if_flagged(flags & EXPIRES, || {
            Ok(Timestamp(run_at.0.wrapping_add(reader.i64("a time")?)))
        })?,
        group: if_flagged(flags & HAS_GROUP, || Ok(GroupKey(u64::from_le_bytes(reader.array("a group")?))))?,
        recurrence: if_flagged(flags & RECURS, || get_recurrence(reader, flags))?,
    })
}

fn get_recurrence(reader: &mut ByteReader<'_>, flags: u8) -> Result<Recurrence, CodecError> {
    let rule = match flags & BY_CALENDAR {
        0 => match reader.u64("an interval")? {
            0 => return Err(reader.invalid("an interval")),
            interval_ms => RecurrenceRule::Every(interval_ms),
        },
        _ => RecurrenceRule::Calendar,
    };
    Ok(Recurrence {
        rule,
        left: if_flagged(flags & IS_COUNTED, || reader.u32("a count"))?,
        run: reader.u64("a run's number")?,
        ttl_ms: if_flagged(flags & RUNS_EXPIRE, || reader.u64("a duration"))?,
    })
}

fn if_flagged<T>(flag: u8, get: impl FnOnce() -> Result<T, CodecError>) -> Result<Option<T>, CodecError> {
    if flag == 0 { Ok(None) } else { get().map(Some) }
}
