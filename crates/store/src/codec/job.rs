//! The stored form of a job's head: what a restart reads of every job.

use base::Timestamp;
use records::{AliasKey, Holder, JobHead, JobId, JobState, Process, QueueKey, Starts, Successor};

use super::bytes::{Reader, put_i64, put_u64};
use super::{CodecError, Stored};

const RESERVED: u8 = 1 << 0;
const HELD_OUTSIDE: u8 = 1 << 1;
const HAS_ALIAS: u8 = 1 << 2;
const HAS_SUCCESSOR: u8 = 1 << 3;
const FLAGS_END: u8 = 1 << 4;

/// Version 1: a byte that says what is there, the id, the numbers as varints, `visible_at` as a difference from
/// `run_at`; then lease and holder, alias and successor as far as they are there.
impl Stored for JobHead {
    const VERSION: u8 = 1;
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
        if let JobState::Reserved { lease, holder } = self.state {
            put_u64(out, lease);
            if let Holder::Own(process) = holder {
                put_u64(out, process.0);
            }
        }
        if let Some(alias) = self.alias {
            out.extend_from_slice(&alias.0.to_le_bytes());
        }
        if let Some(successor) = &self.successor {
            put_successor(out, successor);
        }
    }

    fn get(reader: &mut Reader<'_>, _version: u8) -> Result<Self, CodecError> {
        let flags = reader.u8(Self::NAME)?;
        if flags >= FLAGS_END || (flags & HELD_OUTSIDE != 0 && flags & RESERVED == 0) {
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
            successor: match flags & HAS_SUCCESSOR {
                0 => None,
                _ => Some(get_successor(reader)?),
            },
        })
    }
}

fn flags(job: &JobHead) -> u8 {
    let state = match job.state {
        JobState::Waiting => 0,
        JobState::Reserved { holder: Holder::Own(_), .. } => RESERVED,
        JobState::Reserved { holder: Holder::Outside, .. } => RESERVED | HELD_OUTSIDE,
    };
    let alias = if job.alias.is_some() { HAS_ALIAS } else { 0 };
    let successor = if job.successor.is_some() { HAS_SUCCESSOR } else { 0 };
    state | alias | successor
}

fn get_state(reader: &mut Reader<'_>, flags: u8) -> Result<JobState, CodecError> {
    if flags & RESERVED == 0 {
        return Ok(JobState::Waiting);
    }
    let lease = reader.u64("a lease")?;
    let holder = match flags & HELD_OUTSIDE {
        0 => Holder::Own(Process(reader.u64("a process")?)),
        _ => Holder::Outside,
    };
    Ok(JobState::Reserved { lease, holder })
}

fn put_successor(out: &mut Vec<u8>, successor: &Successor) {
    out.extend_from_slice(&successor.id.0);
    put_u64(out, successor.number);
    put_i64(out, successor.run_at.0);
    put_u64(out, u64::from(successor.tries));
    out.push(match successor.starts {
        Starts::AfterJob => 0,
        Starts::AfterRun => 1,
    });
}

fn get_successor(reader: &mut Reader<'_>) -> Result<Successor, CodecError> {
    Ok(Successor {
        id: JobId(reader.array("a job id")?),
        number: reader.u64("a publish number")?,
        run_at: Timestamp(reader.i64("a time")?),
        tries: reader.u32("a count")?,
        starts: match reader.u8("a successor's start")? {
            0 => Starts::AfterJob,
            1 => Starts::AfterRun,
            _ => return Err(reader.invalid("a successor's start")),
        },
    })
}
