//! Whether something of a queue can be leased, as its rules and what is parked of it allow; and
//! when consumers are told.

use base::Timestamp;
use records::QueueKey;

use crate::jobs::Jobs;
use crate::queues::QueueEntry;
use crate::rules::{Allowance, EnforcedRules, QueueRules};
use crate::slab::Handle;
use crate::step::JobsStep;

impl Jobs {
    /// Has these rules hold for a queue from now on. Jobs that are reserved already stay so,
    /// however many there are.
    pub fn set_rules(&mut self, queue: QueueKey, rules: QueueRules, step: &mut JobsStep<'_>) {
        let opened = self.change_rules(queue, rules, step.now);
        step.wake(opened);
    }

    /// As [`Jobs::set_rules`], before the jobs of the queue are loaded.
    pub fn load_rules(&mut self, queue: QueueKey, rules: QueueRules, now: Timestamp) {
        self.change_rules(queue, rules, now);
    }

    /// Has no rules hold for a queue that is no longer one. Nobody is told.
    pub fn forget_rules(&mut self, queue: QueueKey) {
        self.change_rules(queue, QueueRules::default(), Timestamp(0));
    }

    /// Answers the queue if something of it can be leased now and could not be before.
    fn change_rules(&mut self, queue: QueueKey, rules: QueueRules, now: Timestamp) -> Option<QueueKey> {
        let queue = self.queues.enter(queue);
        if self.queues.reorder(self.table.entries_mut(), queue, rules.order) {
            // How far it is resident was known in the other order.
            let order = self.queues[queue].order();
            if let Some(parked) = self.queues[queue].parked_mut() {
                parked.reorder(order);
            }
        }
        let before = self.queues[queue].rules();
        let refill_at = before.and_then(EnforcedRules::refill_at);
        let allows_all = rules == QueueRules::default();
        let rules = (!allows_all).then(|| EnforcedRules::new(&rules, before, now));
        self.queues[queue].set_rules(rules);
        if let Some(at) = refill_at {
            self.timers.forget_refill(at, queue);
        }
        let opened = self.open_line(queue, now);
        self.queues.leave(queue);
        opened
    }

    /// Wakes consumers of a queue if something of it can be leased now and could not be before.
    pub(super) fn announce_if_open(&mut self, queue: Handle<QueueEntry>, step: &mut JobsStep<'_>) {
        let opened = self.open_line(queue, step.now);
        step.wake(opened);
    }

    /// Notes whether something of a queue can be leased; answers the queue if it could not be
    /// before.
    pub(super) fn open_line(&mut self, queue: Handle<QueueEntry>, now: Timestamp) -> Option<QueueKey> {
        if !self.can_lease(queue, now) {
            self.mark_closed(queue);
            return None;
        }
        let record = &mut self.queues[queue];
        (!record.set_open(true)).then_some(record.key())
    }

    /// Notes that nothing of a queue can be leased: whoever asks before that is otherwise is told
    /// when it is.
    pub(super) fn mark_closed(&mut self, queue: Handle<QueueEntry>) {
        self.queues[queue].set_open(false);
    }

    /// Whether the queue has a ready job and its rules allow that it is leased. If only its rate is
    /// against it, it is looked at again when that allows it.
    pub(super) fn can_lease(&mut self, queue: Handle<QueueEntry>, now: Timestamp) -> bool {
        let record = &self.queues[queue];
        if record.rules().is_none() && record.parked().is_none() {
            return record.line().ready() > 0;
        }
        let first = record.line().first(self.table.entries());
        self.schedule_read(queue, None);
        let Some(first) = first else { return false };
        if self.is_blocked(first) {
            if let Some(place) = self.blocked_at(first) {
                self.block_line(queue, None, place);
            }
            return false;
        }
        match self.queues[queue].allowance(now) {
            Allowance::Now => true,
            Allowance::Never => false,
            Allowance::From(at) => {
                self.await_refill(queue, at);
                false
            }
        }
    }

    fn await_refill(&mut self, queue: Handle<QueueEntry>, at: Timestamp) {
        let Some(rules) = self.queues[queue].rules_mut() else { return };
        let before = rules.set_refill_at(Some(at));
        if before == Some(at) {
            return;
        }
        if let Some(before) = before {
            self.timers.forget_refill(before, queue);
        }
        self.timers.note_refill(at, queue);
    }

    /// The rate of a queue allows more.
    pub(super) fn refill(&mut self, queue: Handle<QueueEntry>, at: Timestamp, step: &mut JobsStep<'_>) {
        self.timers.forget_refill(at, queue);
        if let Some(rules) = self.queues[queue].rules_mut() {
            rules.set_refill_at(None);
        }
        self.announce_if_open(queue, step);
    }
}
