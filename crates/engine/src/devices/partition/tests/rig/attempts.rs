//! Notifications on their way: what is leased of them, the attempts that are made, and what was
//! stored of those.

use std::sync::Arc;
use std::time::Duration;

use base::EntityId;
use records::{Attempt, AttemptDetail, Delivery, DeliveryKey, DeliveryStatus};
use store::FeedFilter;

use super::{CLIENT, Rig, everything};
use crate::devices::input::DeviceInput;
use crate::devices::lanes::{AttemptDue, AttemptEnd, AttemptOutcome};

impl Rig {
    /// Leases all that is due, if the lane was named.
    pub(in super::super) fn lease_all(&mut self) -> Vec<AttemptDue> {
        self.step(Vec::new());
        if self.context.devices.lanes.take_now().is_empty() {
            return Vec::new();
        }
        self.ask(|reply| DeviceInput::Lease { wanted: vec![(CLIENT, 1_000)], reply }).concat()
    }

    /// Leases the only notification that is due.
    pub(in super::super) fn lease_one(&mut self) -> AttemptDue {
        <[AttemptDue; 1]>::try_from(self.lease_all()).map(|[due]| due).expect("one is due")
    }

    /// Leases the only notification that is due: the next attempt of that one.
    pub(in super::super) fn lease_again(&mut self, before: &AttemptDue) -> AttemptDue {
        let due = self.lease_one();
        assert_eq!((due.delivery, due.attempt), (before.delivery, before.attempt + 1));
        due
    }

    /// Leases the only notification that is due, which says that.
    pub(in super::super) fn notifies(&mut self, body: &str) -> AttemptDue {
        let due = self.lease_one();
        assert_eq!(self.told(&due), body);
        due
    }

    pub(in super::super) fn leases_nothing(&mut self) {
        let due = self.lease_all();
        assert!(due.is_empty(), "{due:?}");
    }

    /// Makes the only attempt that is due, which is answered so.
    pub(in super::super) fn attempt(&mut self, answer: AttemptOutcome) {
        let due = self.lease_one();
        self.ended(&due, answer);
    }

    pub(in super::super) fn ended(&mut self, due: &AttemptDue, answer: AttemptOutcome) {
        let end = AttemptEnd {
            at: self.now,
            took: Duration::from_millis(5),
            answer,
            detail: AttemptDetail::default(),
        };
        let ended = Arc::from([(due.reservation, end)]);
        self.ask(|reply| DeviceInput::AttemptsEnded { ended, reply });
    }

    pub(in super::super) fn told(&self, due: &AttemptDue) -> String {
        String::from_utf8(due.body.to_vec()).expect("text")
    }

    pub(in super::super) fn all_deliveries(&self) -> Vec<Delivery> {
        self.view().deliveries(FeedFilter::default(), everything(), &|_| true).expect("readable")
    }

    /// Status and attempts of every delivery, oldest first.
    pub(in super::super) fn deliveries(&self) -> Vec<(DeliveryStatus, u32)> {
        self.all_deliveries()
            .iter()
            .map(|delivery| (delivery.progress.status, delivery.progress.attempts))
            .collect()
    }

    pub(in super::super) fn attempts(&self, id: EntityId) -> Vec<Attempt> {
        self.view().attempts(DeliveryKey::from(id)).expect("readable")
    }
}
