//! Locks as the edges hold them. A lock lives in the partition of queues that its name leads to:
//! every holder is durable before it is told.

use std::time::Duration;

use base::limits::{LOCK_OWNER_BYTES_MAX, LOCK_TTL_DEFAULT, LOCK_TTL_MAX, LOCK_WAIT_MAX};
use base::{Problem, Timestamp, random};
use compact_str::CompactString;
use coordination::{CoordinationName, LockGrant, LockRefused, LockRequest, LockStatus};
use tokio::sync::mpsc;

use super::{QueueCalls, QueueInput};
use crate::kernel::partition_handle::PartitionHandle;
use crate::kernel::reply::{Answered, Reply};

/// Locks that are asked of a partition at a time, for a list.
const LISTED_AT_A_TIME: usize = 1_000;

/// An input about a lock.
#[derive(Debug)]
pub enum LockCall {
    /// Hold it, or wait for it.
    Acquire(LockRequest, Reply<Answered<LockGrant>>),
    /// Have it end at another time.
    Extend {
        /// The lock.
        name: CoordinationName,
        /// Its holder.
        owner: CompactString,
        /// How long from now.
        ttl: Duration,
        /// Gets the holder as it is then.
        reply: Reply<Answered<LockGrant>>,
    },
    /// Let it go.
    Release {
        /// The lock.
        name: CoordinationName,
        /// Its holder.
        owner: CompactString,
        /// Gets the outcome.
        reply: Reply<Answered<()>>,
    },
    /// The caller with this ticket has gone without its answer.
    Leave(CoordinationName, u64),
    /// Show it.
    Show(CoordinationName, Reply<LockStatus>),
    /// Locks that are held, in order of name, behind this one; at most so many.
    List(Option<CoordinationName>, usize, Reply<Vec<LockStatus>>),
}

/// Who wants to hold a lock, and how long. `Default` is an owner that is made, for 10 s, at once or
/// not.
#[derive(Clone, Debug, Default)]
pub struct LockWanted {
    /// The owner; one is made if `None`.
    pub owner: Option<CompactString>,
    /// How long, from the grant on.
    pub ttl: Option<Duration>,
    /// How long to wait for it.
    pub wait: Duration,
}

/// The calls about locks. Cheap to clone. Every call fails with 503 when the server is not
/// accepting.
#[derive(Clone, Debug)]
pub struct Locks {
    queues: QueueCalls,
}

impl Locks {
    pub(crate) fn new(queues: QueueCalls) -> Self {
        Self { queues }
    }

    /// Holds a lock. Its holder again has the same fence and a new end. Dropped before it is
    /// answered, the caller leaves the line, and whatever it was given.
    ///
    /// # Errors
    /// 409 `lock_held` when the wait is over, 422 for what is out of range, 429 `too_many_locks`,
    /// 503 `too_many_waiting`.
    pub async fn acquire(&self, name: &CoordinationName, wanted: LockWanted) -> Result<LockGrant, Problem> {
        let LockWanted { owner, ttl, wait } = wanted;
        let owner = owner.map_or_else(made_owner, checked_owner)?;
        let ttl = checked_ttl(ttl.unwrap_or(LOCK_TTL_DEFAULT))?;
        if wait > LOCK_WAIT_MAX {
            let detail = format!("wait must be at most {}", base::duration::format(LOCK_WAIT_MAX));
            return Err(Problem::not_allowed("invalid_duration", detail));
        }
        let now = self.queues.engine().clock().now();
        let until = if wait.is_zero() { Timestamp(i64::MIN) } else { now.after(wait) };
        let ticket = self.queues.engine().context().queues.next_lock_ticket();
        let partition = self.partition(name);
        let waiting = LockWaitGuard(Some((partition.inbox.downgrade(), name.clone(), ticket)));
        let asked = LockRequest { name: name.clone(), owner, ttl, until, ticket };
        let answer = partition.ask(|reply| QueueInput::Lock(LockCall::Acquire(asked, reply))).await?;
        waiting.answered();
        answer
    }

    /// Has a lock end `ttl` from now.
    ///
    /// # Errors
    /// 409 `not_owner`, 422 for what is out of range.
    pub async fn extend(
        &self,
        name: &CoordinationName,
        owner: CompactString,
        ttl: Duration,
    ) -> Result<LockGrant, Problem> {
        let (name, ttl) = (name.clone(), checked_ttl(ttl)?);
        let partition = self.partition(&name);
        partition.ask(|reply| QueueInput::Lock(LockCall::Extend { name, owner, ttl, reply })).await?
    }

    /// Lets a lock go.
    ///
    /// # Errors
    /// 409 `not_owner`.
    pub async fn release(&self, name: &CoordinationName, owner: CompactString) -> Result<(), Problem> {
        let name = name.clone();
        let partition = self.partition(&name);
        partition.ask(|reply| QueueInput::Lock(LockCall::Release { name, owner, reply })).await?
    }

    /// A lock as it stands.
    ///
    /// # Errors
    /// 503 only.
    pub async fn show(&self, name: &CoordinationName) -> Result<LockStatus, Problem> {
        let name = name.clone();
        let partition = self.partition(&name);
        Ok(partition.ask(|reply| QueueInput::Lock(LockCall::Show(name, reply))).await?)
    }

    /// Locks that are held, of all namespaces or of one, in order of namespace and name.
    ///
    /// # Errors
    /// 503 only.
    pub async fn list(
        &self,
        namespace: Option<&str>,
        after: Option<&CoordinationName>,
        limit: usize,
    ) -> Result<Vec<LockStatus>, Problem> {
        let (mut all, limit) = (Vec::new(), limit.min(LISTED_AT_A_TIME));
        let begin = namespace.map(CoordinationName::before_all_of);
        let after = after.max(begin.as_ref());
        for partition in self.queues.engine().queue_partitions() {
            let after = after.cloned();
            let list = |reply| QueueInput::Lock(LockCall::List(after, limit, reply));
            all.extend(partition.ask(list).await?);
        }
        all.retain(|lock: &LockStatus| namespace.is_none_or(|namespace| lock.name.namespace() == namespace));
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all.truncate(limit);
        Ok(all)
    }

    fn partition(&self, name: &CoordinationName) -> &PartitionHandle<QueueInput> {
        let partitions = self.queues.engine().queue_partitions();
        let index = name.partition(partitions.len() as u16).queues_index().unwrap_or_default();
        &partitions[usize::from(index)]
    }
}

/// A caller that waits for its answer. Dropped before [`LockWaitGuard::answered`], it has gone.
struct LockWaitGuard(Option<(mpsc::WeakSender<QueueInput>, CoordinationName, u64)>);

impl LockWaitGuard {
    fn answered(mut self) {
        self.0 = None;
    }
}

impl Drop for LockWaitGuard {
    fn drop(&mut self) {
        let Some((inbox, name, ticket)) = self.0.take() else { return };
        let Some(inbox) = inbox.upgrade() else { return };
        let leave = QueueInput::Lock(LockCall::Leave(name, ticket));
        if let Err(mpsc::error::TrySendError::Full(leave)) = inbox.try_send(leave)
            && let Ok(executor) = tokio::runtime::Handle::try_current()
        {
            executor.spawn(async move {
                // A partition that takes nothing more has let go of everyone.
                let _stopped = inbox.send(leave).await;
            });
        }
    }
}

/// 128 random bits, in hex.
fn made_owner() -> Result<CompactString, Problem> {
    let bytes = random::unguessable().map_err(|error| {
        Problem::unavailable(format!("no owner can be made, because there is no randomness: {error}"))
    })?;
    Ok(compact_str::format_compact!("{:032x}", u128::from_le_bytes(bytes)))
}

fn checked_owner(owner: CompactString) -> Result<CompactString, Problem> {
    if (1..=LOCK_OWNER_BYTES_MAX).contains(&owner.len()) {
        return Ok(owner);
    }
    let detail = format!("owner must be 1 to {LOCK_OWNER_BYTES_MAX} bytes, not {}", owner.len());
    Err(Problem::not_allowed("invalid_owner", detail))
}

fn checked_ttl(ttl: Duration) -> Result<Duration, Problem> {
    if (Duration::from_millis(1)..=LOCK_TTL_MAX).contains(&ttl) {
        return Ok(ttl);
    }
    let detail = format!("ttl must be 1ms to {}", base::duration::format(LOCK_TTL_MAX));
    Err(Problem::not_allowed("invalid_ttl", detail))
}

/// What a caller is told that does not hold a lock.
pub(super) fn refused(name: &CoordinationName, refused: LockRefused) -> Problem {
    match refused {
        LockRefused::Held => Problem::conflict("lock_held", format!("lock {name} is held by another owner")),
        LockRefused::NotOwner => {
            Problem::conflict("not_owner", format!("lock {name} is not, or no longer, held by this owner"))
        }
        LockRefused::TooMany => {
            let detail = "as many locks are held as [coordination] locks allows; one has to be released";
            Problem::new(429, "too_many_locks", detail)
        }
        LockRefused::TooManyWaiting => {
            let detail = "as many callers wait for locks as [coordination] lock_waits allows";
            Problem::new(503, "too_many_waiting", detail)
        }
    }
}
