//! Signals on their way to the registry, the latest of each subject.
//!
//! Whoever signals never waits. What comes while the registry is busy replaces what it has not
//! taken yet: bounded by the subjects that there are.

use std::collections::BTreeMap;
use std::sync::Mutex;

use base::locks::locked;
use tokio::sync::Notify;

use super::{Condition, Signal, SignalTopic};

/// Subjects with a signal on its way. Beyond it a new one is left out, and counted.
const SUBJECTS_MAX: usize = 16_384;

/// The signals that nobody has taken yet.
#[derive(Debug, Default)]
pub(crate) struct PendingSignals {
    signals: Mutex<BTreeMap<(SignalTopic, Box<str>), Signal>>,
    some: Notify,
}

impl PendingSignals {
    /// A subject is in another condition; false if that finds no room.
    pub(crate) fn signal(&self, signal: Signal) -> bool {
        let mut signals = locked(&self.signals);
        let key = (signal.topic, signal.subject.clone());
        let is_known = signals.contains_key(&key);
        if !is_known && signals.len() >= SUBJECTS_MAX {
            return false;
        }
        // What happened is not undone by a subject that is well.
        let stays = |known: &Signal| {
            matches!(known.condition, Condition::Occurred(_))
                && matches!(signal.condition, Condition::Cleared | Condition::Resolved)
        };
        if !signals.get(&key).is_some_and(stays) {
            signals.insert(key, signal);
        }
        drop(signals);
        self.some.notify_one();
        true
    }

    /// Waits for signals, and takes them all.
    pub(crate) async fn take(&self) -> Vec<Signal> {
        loop {
            let some = self.some.notified();
            let taken = self.take_now();
            if !taken.is_empty() {
                return taken;
            }
            some.await;
        }
    }

    /// Takes all there are.
    pub(crate) fn take_now(&self) -> Vec<Signal> {
        std::mem::take(&mut *locked(&self.signals)).into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use records::NoticeKind;

    use super::*;
    use crate::notices::Detail;

    fn signal(subject: usize, condition: Condition) -> Signal {
        let subject = format!("client {subject}").into();
        Signal { topic: SignalTopic::Client, subject, condition, detail: Detail::default() }
    }

    #[tokio::test]
    async fn the_latest_signal_of_a_subject_is_taken_and_there_are_so_many_at_most() {
        let pending = PendingSignals::default();
        assert!(pending.signal(signal(1, Condition::Firing(NoticeKind::ClientFailing))));
        assert!(pending.signal(signal(1, Condition::Resolved)));
        assert_eq!(pending.take().await, [signal(1, Condition::Resolved)]);
        let taken =
            (0..SUBJECTS_MAX + 5).filter(|subject| pending.signal(signal(*subject, Condition::Resolved)));
        assert_eq!(taken.count(), SUBJECTS_MAX);
        assert!(pending.signal(signal(0, Condition::Cleared)), "one that is known has its place");
        assert_eq!(pending.take().await.len(), SUBJECTS_MAX);
    }
}
