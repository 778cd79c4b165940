//! The part of a workload that follows from its having one partition.
//!
//! Such a workload keeps the partition's port in its `server`, and the partition's model in its
//! `model`. Its method `step` steps both, and its `phase` is a [`Phase`]. What asks, what is drawn
//! and when nothing is left to do are its own.

use base::Timestamp;

/// Where a run is, as its workload has to know.
#[derive(Debug, Default)]
pub(crate) struct Phase {
    /// Everybody is well, and asks nothing new.
    pub(crate) is_quiet: bool,
    /// The process stops: no input is taken.
    pub(crate) is_closing: bool,
    /// Until when a workload waits at the end.
    pub(crate) rest_until: Option<Timestamp>,
}

/// The methods of a [`Workload`](super::workload::Workload) whose one partition has the port
/// `server.$port`.
macro_rules! one_partition {
    ($partition:expr, $port:ident) => {
        fn counts(&self) -> Self::Counts {
            let mut counts = self.counts;
            $crate::harness::counts::Counted::add(&mut counts, &self.model.present.counts);
            counts
        }

        fn partitions(&self) -> Vec<base::PartitionId> {
            vec![$partition]
        }

        fn any_partition(&mut self) -> base::PartitionId {
            $partition
        }

        fn port(&self, _: base::PartitionId) -> Option<&dyn $crate::harness::port::AnyPort> {
            self.server.as_ref().map(|server| &server.$port as &dyn $crate::harness::port::AnyPort)
        }

        fn port_mut(&mut self, _: base::PartitionId) -> Option<&mut dyn $crate::harness::port::AnyPort> {
            self.server.as_mut().map(|server| &mut server.$port as &mut dyn $crate::harness::port::AnyPort)
        }

        fn track(&mut self, _: base::PartitionId) -> &mut dyn $crate::harness::track::AnyTrack {
            &mut self.model
        }

        fn step_partition(
            &mut self,
            _: base::PartitionId,
            count: usize,
        ) -> $crate::harness::violation::Checked {
            self.step(count)
        }

        fn check_stored(
            &self,
            _: base::PartitionId,
            stored: $crate::harness::workload::Stored,
            past: $crate::harness::track::Past,
        ) -> $crate::harness::violation::Checked {
            self.model.at(stored.seq, past)?.check_stored(&stored)
        }

        fn loaded(
            &mut self,
            partition: base::PartitionId,
            seq: u64,
            _: bool,
        ) -> $crate::harness::violation::Checked {
            self.expectations.forget_after(partition, seq);
            self.model.back_to(seq)
        }

        fn closing(&mut self) {
            self.phase.is_closing = true;
        }

        fn told(&mut self) -> $crate::harness::violation::Checked {
            self.take_answers()
        }
    };
}

pub(crate) use one_partition;
