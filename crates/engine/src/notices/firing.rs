//! The lasting conditions that hold, as they were signalled last.
//!
//! It outlives the machines: one that is loaded again in the same process goes on from here.

use std::collections::BTreeMap;

use super::{Condition, Signal, SignalTopic};

/// Conditions that are remembered; as many as there are subjects.
const CONDITIONS_MAX: usize = 16_384;

/// The conditions that hold, as far as is known.
#[derive(Debug, Default)]
pub(crate) struct FiringConditions {
    /// The registry was loaded before.
    is_loaded: bool,
    of: BTreeMap<(SignalTopic, Box<str>), Signal>,
}

impl FiringConditions {
    /// A subject is in another condition.
    pub(crate) fn note(&mut self, signal: &Signal) {
        let key = (signal.topic, signal.subject.clone());
        match signal.condition {
            Condition::Firing(_) if self.of.len() < CONDITIONS_MAX || self.of.contains_key(&key) => {
                self.of.insert(key, signal.clone());
            }
            Condition::Firing(_) | Condition::Occurred(_) => {}
            Condition::Resolved | Condition::Cleared => drop(self.of.remove(&key)),
        }
    }

    /// The registry was loaded, and takes it that these hold. What it is to be told because it does
    /// not know: nothing at the start of the process, when nobody knows more.
    pub(crate) fn registry_loaded(&mut self, standing: Vec<Signal>) -> Vec<Signal> {
        if !std::mem::replace(&mut self.is_loaded, true) {
            standing.iter().for_each(|signal| self.note(signal));
            return Vec::new();
        }
        let is_over = |signal: &Signal| !self.of.contains_key(&(signal.topic, signal.subject.clone()));
        let over = standing.into_iter().filter(is_over).map(end_of);
        over.chain(self.of.values().cloned()).collect()
    }

    /// The subjects of a topic that are in such a condition.
    pub(crate) fn subjects(&self, topic: SignalTopic) -> impl Iterator<Item = &str> {
        let of_topic = self.of.keys().filter(move |(of, _)| *of == topic);
        of_topic.map(|(_, subject)| &**subject)
    }
}

/// The signal that a condition is over.
fn end_of(signal: Signal) -> Signal {
    let condition = match signal.topic.resolved_notice() {
        Some(_) => Condition::Resolved,
        None => Condition::Cleared,
    };
    Signal { condition, ..signal }
}

#[cfg(test)]
mod tests {
    use records::NoticeKind;

    use super::*;
    use crate::notices::Detail;

    fn signal(topic: SignalTopic, subject: &str, condition: Condition) -> Signal {
        Signal { topic, subject: subject.into(), condition, detail: Detail::default() }
    }

    #[test]
    fn a_registry_that_is_loaded_again_is_told_what_it_missed() {
        let failing =
            |id: &str| signal(SignalTopic::Client, id, Condition::Firing(NoticeKind::ClientFailing));
        let backlog =
            |id: &str| signal(SignalTopic::Backlog, id, Condition::Firing(NoticeKind::QueueBacklog));
        let mut firing = FiringConditions::default();
        let told_before = vec![failing("client a"), backlog("queue n/a")];
        assert_eq!(firing.registry_loaded(told_before.clone()), []);
        assert_eq!(firing.subjects(SignalTopic::Backlog).collect::<Vec<_>>(), ["queue n/a"]);
        firing.note(&signal(SignalTopic::Client, "client a", Condition::Resolved));
        firing.note(&signal(SignalTopic::Backlog, "queue n/a", Condition::Cleared));
        firing.note(&backlog("queue n/b"));
        let missed = firing.registry_loaded(told_before);
        let expected = [
            signal(SignalTopic::Client, "client a", Condition::Resolved),
            signal(SignalTopic::Backlog, "queue n/a", Condition::Cleared),
            backlog("queue n/b"),
        ];
        assert_eq!(missed.len(), expected.len());
        assert!(expected.iter().all(|signal| missed.contains(signal)), "{missed:?}");
    }
}
