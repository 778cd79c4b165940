//! Jobs by queue, for metrics: each partition names some queues, and counts the others together.
//!
//! A queue's name becomes a metric label, and labels must be few. A partition names the oldest
//! queues, up to [`NAMED_MAX`], until they are gone. After each step it reports the named queues
//! whose counts changed.

use std::sync::Mutex;

use base::PartitionId;
use base::locks::locked;
use records::QueueKey;

use super::QueueName;
use super::stats::PartitionStats;

/// Queues that a partition names at most: with 16 partitions there are 256 names, and about a
/// hundred queues all have theirs.
pub(crate) const NAMED_MAX: usize = 16;
/// Stands for all queues that are not named; no queue is called so, since a slash is in each name.
const OTHERS: &str = "-";

/// How many jobs of a queue stand where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobsByState {
    /// They wait for their time.
    pub scheduled: u64,
    /// They can be consumed.
    pub ready: u64,
    /// Consumers have them.
    pub reserved: u64,
    /// Dead letters.
    pub dead: u64,
}

/// What a named queue has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QueueJobs {
    /// `{namespace}/{queue}`, or `-`.
    pub(crate) queue: String,
    pub(crate) jobs: JobsByState,
}

/// A place among the named ones is otherwise than before.
#[derive(Debug, PartialEq, Eq)]
pub enum NamedChange {
    /// No place is taken: the partition was loaded.
    Anew,
    /// A queue has taken a place.
    Taken(usize, QueueName, JobsByState),
    /// The queue in a place has other jobs.
    Moved(usize, JobsByState),
    /// The queue in a place is gone.
    Left(usize),
}

/// The named queues of a partition.
#[derive(Debug, Default)]
pub(super) struct NamedPlaces {
    places: Vec<Option<(QueueKey, JobsByState)>>,
    was_told: bool,
}

impl NamedPlaces {
    /// What changed since this was last called. `names` are all queues there are, `now` what one
    /// has if it is still there.
    pub(super) fn changes<'a>(
        &mut self,
        names: impl ExactSizeIterator<Item = (&'a QueueName, &'a QueueKey)>,
        now: impl Fn(QueueKey) -> Option<JobsByState>,
    ) -> Vec<NamedChange> {
        let mut changes = Vec::new();
        if !std::mem::replace(&mut self.was_told, true) {
            changes.push(NamedChange::Anew);
        }
        for (place, named) in self.places.iter_mut().enumerate() {
            let Some((queue, was)) = named else { continue };
            match now(*queue) {
                Some(is) if is == *was => {}
                Some(is) => {
                    *was = is;
                    changes.push(NamedChange::Moved(place, is));
                }
                None => {
                    *named = None;
                    changes.push(NamedChange::Left(place));
                }
            }
        }
        let taken = self.places.iter().flatten().count();
        if taken < names.len().min(NAMED_MAX) {
            self.name_more(names, now, &mut changes);
        }
        changes
    }

    /// Of so many first ones one is not named, as long as there is room.
    fn name_more<'a>(
        &mut self,
        names: impl Iterator<Item = (&'a QueueName, &'a QueueKey)>,
        now: impl Fn(QueueKey) -> Option<JobsByState>,
        changes: &mut Vec<NamedChange>,
    ) {
        for (name, queue) in names.take(2 * NAMED_MAX) {
            if self.places.iter().flatten().any(|(named, _)| named == queue) {
                continue;
            }
            let free = self.places.iter().position(Option::is_none).unwrap_or(self.places.len());
            let (true, Some(jobs)) = (free < NAMED_MAX, now(*queue)) else { continue };
            if free == self.places.len() {
                self.places.push(None);
            }
            self.places[free] = Some((*queue, jobs));
            changes.push(NamedChange::Taken(free, name.clone(), jobs));
        }
    }
}

/// The named queues of all partitions.
#[derive(Debug, Default)]
pub(crate) struct NamedQueues(Mutex<Vec<Vec<Option<QueueJobs>>>>);

impl NamedQueues {
    pub(crate) fn change(&self, partition: PartitionId, changes: Vec<NamedChange>) {
        let Some(index) = partition.queues_index().map(usize::from) else { return };
        let mut all = locked(&self.0);
        if all.len() <= index {
            all.resize_with(index + 1, Vec::new);
        }
        let places = &mut all[index];
        for change in changes {
            match change {
                NamedChange::Anew => places.clear(),
                NamedChange::Taken(place, name, jobs) => {
                    if places.len() <= place {
                        places.resize_with(place + 1, || None);
                    }
                    let queue = format!("{}/{}", name.namespace(), name.queue());
                    places[place] = Some(QueueJobs { queue, jobs });
                }
                NamedChange::Moved(place, is) => {
                    let queue = places.get_mut(place).and_then(Option::as_mut);
                    queue.into_iter().for_each(|queue| queue.jobs = is);
                }
                NamedChange::Left(place) => places.get_mut(place).into_iter().for_each(|place| *place = None),
            }
        }
    }

    /// Each of them, and what is left of `all` for the others.
    pub(crate) fn with_others(&self, all: &PartitionStats) -> Vec<QueueJobs> {
        let partitions = locked(&self.0);
        let mut queues: Vec<QueueJobs> = partitions.iter().flatten().flatten().cloned().collect();
        let rest = |all: u64, of: fn(&JobsByState) -> u64| {
            // The two are told one after the other, and may be asked in between.
            all.saturating_sub(queues.iter().map(|queue| of(&queue.jobs)).sum())
        };
        let jobs = JobsByState {
            scheduled: rest(all.scheduled, |jobs| jobs.scheduled),
            ready: rest(all.ready, |jobs| jobs.ready),
            reserved: rest(all.reserved, |jobs| jobs.reserved),
            dead: rest(all.dead, |jobs| jobs.dead),
        };
        queues.push(QueueJobs { queue: OTHERS.to_owned(), jobs });
        queues
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Queues with as many ready jobs as their numbers say.
    #[derive(Default)]
    struct Scene {
        names: BTreeMap<QueueName, QueueKey>,
        ready: BTreeMap<QueueKey, u64>,
        named: NamedPlaces,
        shown: NamedQueues,
    }

    impl Scene {
        fn put(&mut self, number: u64, ready: u64) {
            self.names.insert(QueueName::unchecked("a", &format!("{number:03}")), QueueKey(number));
            self.ready.insert(QueueKey(number), ready);
        }

        fn remove(&mut self, number: u64) {
            self.names.retain(|_, key| key.0 != number);
            self.ready.remove(&QueueKey(number));
        }

        /// What is shown after a step: the queues with their ready jobs.
        fn shown(&mut self) -> BTreeMap<String, u64> {
            let ready = |key| {
                self.ready.get(&key).map(|ready| JobsByState { ready: *ready, ..JobsByState::default() })
            };
            let changes = self.named.changes(self.names.iter(), ready);
            self.shown.change(PartitionId::of_queues(3), changes);
            let all = PartitionStats { ready: self.ready.values().sum(), ..PartitionStats::default() };
            let shown = self.shown.with_others(&all);
            shown.into_iter().map(|queue| (queue.queue, queue.jobs.ready)).collect()
        }
    }

    fn row(queue: &str, ready: u64) -> (String, u64) {
        (queue.to_owned(), ready)
    }

    #[test]
    fn queues_are_shown_by_name_as_they_stand() {
        let mut scene = Scene::default();
        assert_eq!(scene.shown(), BTreeMap::from([row("-", 0)]));
        scene.put(1, 5);
        scene.put(2, 0);
        assert_eq!(scene.shown(), BTreeMap::from([row("-", 0), row("a/001", 5), row("a/002", 0)]));
        scene.put(1, 4);
        scene.remove(2);
        scene.put(3, 7);
        assert_eq!(scene.shown(), BTreeMap::from([row("-", 0), row("a/001", 4), row("a/003", 7)]));
        let unchanged = scene.named.changes(scene.names.iter(), |key| {
            scene.ready.get(&key).map(|ready| JobsByState { ready: *ready, ..JobsByState::default() })
        });
        assert_eq!(unchanged, []);
    }

    #[test]
    fn of_many_queues_few_have_names_and_the_others_are_shown_together() {
        let mut scene = Scene::default();
        (100..200).for_each(|number| scene.put(number, 1));
        let shown = scene.shown();
        assert_eq!(shown.len(), NAMED_MAX + 1);
        assert_eq!(shown["-"], 100 - NAMED_MAX as u64);
        // who has a name keeps it, also when others come that stand before it
        (0..50).for_each(|number| scene.put(number, 1));
        assert_eq!(scene.shown().keys().collect::<Vec<_>>(), shown.keys().collect::<Vec<_>>());
        scene.remove(100);
        let shown = scene.shown();
        assert!(shown.contains_key("a/000") && !shown.contains_key("a/100"), "{shown:?}");
        assert_eq!(shown.values().sum::<u64>(), 149);
    }

    #[test]
    fn what_a_partition_showed_before_it_was_loaded_again_is_forgotten() {
        let mut scene = Scene::default();
        (1..4).for_each(|number| scene.put(number, 1));
        assert_eq!(scene.shown().len(), 4);
        scene.named = NamedPlaces::default();
        scene.remove(2);
        assert_eq!(scene.shown(), BTreeMap::from([row("-", 0), row("a/001", 1), row("a/003", 1)]));
    }
}
