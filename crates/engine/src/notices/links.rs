//! What notices reach outside the registry: whoever posts them, those who follow them, and figures.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use base::locks::locked;
use base::{ClientId, Incarnation, LogLimit, PartitionId, Timestamp, hash};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use records::{NOTICE_ID_PREFIX, Notice, NoticeKind};
use tokio::sync::Notify;

use super::firing::FiringConditions;
use super::lost_together::{LostDevices, LostGroup, LostTogether};
use super::pending::PendingSignals;
use super::{Signal, SignalTopic};
use crate::followers::Followers;
use crate::name::QueueName;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct NoticeTypeLabel {
    r#type: &'static str,
}

/// A notice that a client is not told of any more, for the log.
#[derive(Debug)]
pub struct NoticeGivenUp {
    /// `None` if it is kept no more.
    pub(crate) notice: Option<Notice>,
    pub(crate) client: Incarnation,
    /// Those that failed.
    pub(crate) attempts: u32,
}

/// Where notices come from and go to.
#[derive(Debug)]
pub(crate) struct NoticeLinks {
    pub(crate) pending: PendingSignals,
    firing: Mutex<FiringConditions>,
    due: Notify,
    lost: Mutex<LostTogether>,
    window_begun: Notify,
    followers: Arc<Followers>,
    made: Family<NoticeTypeLabel, Counter>,
    given_up: Counter,
    /// Log lines of notices that were given up, by client.
    given_up_log: LogLimit<Incarnation>,
    left_out: Counter,
}

impl NoticeLinks {
    pub(crate) fn new(followers: Arc<Followers>) -> Self {
        Self {
            pending: PendingSignals::default(),
            firing: Mutex::default(),
            due: Notify::new(),
            lost: Mutex::default(),
            window_begun: Notify::new(),
            followers,
            made: Family::default(),
            given_up: Counter::default(),
            given_up_log: LogLimit::default(),
            left_out: Counter::default(),
        }
    }

    pub(crate) fn register(&self, registry: &mut Registry) {
        registry.register("fieldpost_notices_made", "Notices made, by type", self.made.clone());
        let help = "Notices that a client was not told of: out of attempts, or too many waited";
        registry.register("fieldpost_notices_posts_given_up", help, self.given_up.clone());
        let help = "Conditions that no notice tells of, because there were too many subjects";
        registry.register("fieldpost_notices_left_out", help, self.left_out.clone());
    }

    /// A subject is in another condition.
    pub(crate) fn signal(&self, signal: Signal) {
        locked(&self.firing).note(&signal);
        if !self.pending.signal(signal) {
            self.left_out();
        }
    }

    /// The registry was loaded, and takes it that these conditions hold.
    pub(crate) fn registry_loaded(&self, standing: Vec<Signal>) {
        let missed = locked(&self.firing).registry_loaded(standing);
        missed.into_iter().for_each(|signal| self.signal(signal));
    }

    /// Subjects of a topic that are in a lasting condition, as far as is known.
    pub(crate) fn firing_subjects(&self, topic: SignalTopic) -> Vec<String> {
        locked(&self.firing).subjects(topic).map(ToOwned::to_owned).collect()
    }

    /// Queues of a partition that are in a lasting condition, as far as is known.
    pub(crate) fn firing_queues(
        &self,
        partition: PartitionId,
        partitions: u16,
    ) -> Vec<(SignalTopic, QueueName)> {
        let of_topic = |topic| {
            self.firing_subjects(topic).into_iter().filter_map(move |subject| {
                let (namespace, queue) = subject.strip_prefix("queue ")?.split_once('/')?;
                let is_here = hash::queue_partition(namespace, queue, partitions) == partition;
                is_here.then(|| (topic, QueueName::unchecked(namespace, queue)))
            })
        };
        [SignalTopic::Backlog, SignalTopic::DeadLetters].into_iter().flat_map(of_topic).collect()
    }

    /// Devices were lost.
    pub(crate) fn lost(&self, now: Timestamp, lost: Vec<LostDevices>) {
        let mut window = locked(&self.lost);
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
        locked(&self.lost).ends_at(window)
    }

    pub(crate) fn end_window(&self, least: u32) -> Vec<LostGroup> {
        locked(&self.lost).end(least)
    }

    pub(crate) fn noticed(&self, kind: NoticeKind) {
        self.made.get_or_create(&NoticeTypeLabel { r#type: kind.as_str() }).inc();
        self.followers.tell_of_notices();
    }

    /// A client is not told of a notice any more; its id unless it is gone.
    pub(crate) fn given_up(&self, given_up: &NoticeGivenUp, client: Option<&ClientId>) {
        self.given_up.inc();
        let Some(left_out) = self.given_up_log.take(given_up.client, Instant::now()) else { return };
        let notice = given_up.notice.as_ref();
        tracing::warn!(
            notice = notice.map(|notice| notice.id.to_text(NOTICE_ID_PREFIX)),
            kind = notice.map(|notice| notice.kind.as_str()),
            subject = notice.map(|notice| &*notice.subject),
            client = client.map(ClientId::as_str),
            attempts = given_up.attempts,
            left_out,
            "a notice failed for good"
        );
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
