//! Those who hold locks, wait for them, and let them go.

use std::time::Duration;

use base::{Problem, Timestamp};
use engine::coordination::{CoordinationName, LockGrant, LockRequest};
use engine::kernel::reply::Reply;
use engine::queues::{LockCall, QueueInput};
use tokio::sync::oneshot::Receiver;

use super::World;
use super::calls::{Answer, Call, Then, Waiting};
use crate::queues::fault_injection::FENCE_TWICE;
use crate::queues::meant::{LockMeant, Meant};

/// Few, so that they meet.
const LOCKS: u64 = 3;
const OWNERS: u64 = 4;
/// In milliseconds.
const TTL_MAX: u64 = 60_000;
const WAIT_MAX: u64 = 120_000;
/// Holders of one life have the same fence if it is told without what is below this.
const LAST_DIGITS: u64 = 100_000;

/// A call about a lock that may change what its owner has.
pub(crate) struct Locking {
    pub(crate) name: CoordinationName,
    pub(crate) owner: String,
    pub(crate) ttl_ms: i64,
}

impl World {
    pub(super) fn use_locks(&mut self) {
        let name = self.any_lock();
        let owner = format!("owner{}", self.machine.random.below(OWNERS));
        match self.machine.random.below(20) {
            0..=9 => self.acquire(name, owner),
            10..=12 => self.extend_lock(name, owner),
            13..=16 => self.release_lock(name, owner),
            17 => self.leave_lock(),
            _ => self.show_lock(name),
        }
    }

    fn any_lock(&mut self) -> CoordinationName {
        CoordinationName::unchecked("shop", &format!("lock{}", self.machine.random.below(LOCKS)))
    }

    fn any_lock_ttl(&mut self) -> i64 {
        1 + self.machine.random.below(TTL_MAX) as i64
    }

    fn acquire(&mut self, name: CoordinationName, owner: String) {
        let (call, ttl_ms) = (self.next_call(), self.any_lock_ttl());
        let waits = self.machine.random.chance(1, 2);
        let wait = self.machine.random.below(WAIT_MAX) as i64;
        let until = if waits { Timestamp(self.now().0 + wait) } else { Timestamp(i64::MIN) };
        let meant = LockMeant::Acquire { call, name: name.clone(), owner: owner.clone(), ttl_ms, until };
        let (reply, receiver) = Reply::new();
        let asked = LockRequest {
            name: name.clone(),
            owner: owner.as_str().into(),
            ttl: Duration::from_millis(ttl_ms as u64),
            until,
            ticket: call,
        };
        self.history.locks.asking(&name, &owner);
        let waiting = self.held(receiver);
        self.ask_lock(
            LockCall::Acquire(asked, reply),
            meant,
            waiting,
            Then::Locked(Locking { name, owner, ttl_ms }),
        );
    }

    /// Who holds a lock is told, with the fence that it has, unless the harness is broken.
    fn held(&self, receiver: Receiver<Result<LockGrant, Problem>>) -> Waiting {
        let cut = if self.machine.injects(FENCE_TWICE) { LAST_DIGITS } else { 1 };
        Waiting::on(receiver, move |held: Result<LockGrant, Problem>| {
            Answer::Locked(held.map(|grant| LockGrant { fence: grant.fence / cut * cut, ..grant }))
        })
    }

    fn extend_lock(&mut self, name: CoordinationName, owner: String) {
        let (call, ttl_ms) = (self.next_call(), self.any_lock_ttl());
        let meant = LockMeant::Extend { call, name: name.clone(), owner: owner.clone(), ttl_ms };
        let (reply, receiver) = Reply::new();
        let ttl = Duration::from_millis(ttl_ms as u64);
        let extend = LockCall::Extend { name: name.clone(), owner: owner.as_str().into(), ttl, reply };
        self.history.locks.asking(&name, &owner);
        let waiting = self.held(receiver);
        self.ask_lock(extend, meant, waiting, Then::Locked(Locking { name, owner, ttl_ms }));
    }

    fn release_lock(&mut self, name: CoordinationName, owner: String) {
        let call = self.next_call();
        let meant = LockMeant::Release { call, name: name.clone(), owner: owner.clone() };
        let (reply, receiver) = Reply::new();
        let release = LockCall::Release { name: name.clone(), owner: owner.as_str().into(), reply };
        self.history.locks.asking(&name, &owner);
        let waiting = Waiting::on(receiver, Answer::Done);
        self.ask_lock(release, meant, waiting, Then::Locked(Locking { name, owner, ttl_ms: 0 }));
    }

    fn show_lock(&mut self, name: CoordinationName) {
        let call = self.next_call();
        let (reply, receiver) = Reply::new();
        let waiting = Waiting::on(receiver, Answer::LockStatus);
        let show = LockCall::Show(name.clone(), reply);
        self.ask_lock(show, LockMeant::Show { call, name }, waiting, Then::Nothing);
    }

    /// A caller goes without its answer: it leaves the line, or what it was given.
    fn leave_lock(&mut self) {
        let is_locking = |call: &Call| matches!(&call.then, Then::Locked(locking) if locking.ttl_ms > 0);
        let Some(index) = self.calls.waiting.iter().position(is_locking) else { return };
        let call = self.calls.waiting.remove(index);
        let Then::Locked(Locking { name, owner, .. }) = call.then else { return };
        self.machine.trace.note(format_args!("call {} leaves {name}", call.id));
        self.history.locks.ended(&name, &owner);
        self.expectations.forget(call.id);
        self.left.insert(call.id);
        let partition = name.partition(self.machine.plan.partitions);
        let leave = QueueInput::Lock(LockCall::Leave(name.clone(), call.id));
        let _not_accepting =
            self.hand_in(partition, leave, Meant::Lock(LockMeant::Leave { call: call.id, name }));
    }

    fn ask_lock(&mut self, call: LockCall, meant: LockMeant, waiting: Waiting, then: Then) {
        let partition = meant.name().partition(self.machine.plan.partitions);
        self.ask_partition(partition, (QueueInput::Lock(call), Meant::Lock(meant)), waiting, then);
    }
}
