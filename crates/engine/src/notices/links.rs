//! What notices reach outside the registry: whoever posts them, those who follow them, and figures.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base::Timestamp;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use records::NoticeKind;
use tokio::sync::Notify;

use super::Signal;
use super::lost_together::{LostDevices, LostGroup, LostTogether};
use super::pending::PendingSignals;
use crate::followers::Followers;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct NoticeTypeLabel {
    r#type: &'static str,
}

/// Where notices come from and go to.
#[derive(Debug)]
pub(crate) struct NoticeLinks {
    pub(crate) pending: PendingSignals,
    due: Notify,
    lost: Mutex<LostTogether>,
    window_begun: Notify,
    followers: Arc<Followers>,
    made: Family<NoticeTypeLabel, Counter>,
    given_up: Counter,
    left_out: Counter,
}

impl NoticeLinks {
    pub(crate) fn new(followers: Arc<Followers>) -> Self {
        Self {
            pending: PendingSignals::default(),
            due: Notify::new(),
            lost: Mutex::default(),
            window_begun: Notify::new(),
            followers,
            made: Family::default(),
            given_up: Counter::default(),
            left_out: Counter::default(),
        }
    }

    pub(crate) fn register(&self, registry: &mut Registry) {
        registry.register("fieldpost_notices_made", "Notices made, by type", self.made.clone());
        registry.register(
            "fieldpost_notices_posts_given_up",
            "Notices that a client was not told of: out of attempts, or too many waited",
            self.given_up.clone(),
        );
        registry.register(
            "fieldpost_notices_left_out",
            "Conditions that no notice tells of, because there were too many subjects",
            self.left_out.clone(),
        );
    }

    /// A subject is in another condition.
    pub(crate) fn signal(&self, signal: Signal) {
        if !self.pending.signal(signal) {
            self.left_out();
        }
    }

    /// Devices were lost.
    pub(crate) fn lost(&self, now: Timestamp, lost: Vec<LostDevices>) {
        let mut window = self.window();
        // All of them go in.
        let begins = lost.into_iter().fold(false, |begins, lost| window.lost(now, lost) | begins);
        drop(window);
        if begins {
            self.window_begun.notify_one();
        }
    }

    pub(crate) async fn window_begun(&self) {
        self.window_begun.notified().await;
    }

    pub(crate) fn window_ends_at(&self, window: Duration) -> Option<Timestamp> {
        self.window().ends_at(window)
    }

    pub(crate) fn end_window(&self, least: u32) -> Vec<LostGroup> {
        self.window().end(least)
    }

    fn window(&self) -> MutexGuard<'_, LostTogether> {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn noticed(&self, kind: NoticeKind) {
        self.made.get_or_create(&NoticeTypeLabel { r#type: kind.as_str() }).inc();
        self.followers.tell_of_notices();
    }

    pub(crate) fn given_up(&self) {
        self.given_up.inc();
    }

    pub(crate) fn left_out(&self) {
        self.left_out.inc();
    }

    pub(crate) fn mark_due(&self) {
        self.due.notify_one();
    }

    pub(crate) async fn due(&self) {
        self.due.notified().await;
    }
}
