//! What every implementation of the port must do, as checks that each of them runs.
//!
//! An implementation shows itself as a [`Subject`] and calls
//! [`conformance_tests!`](crate::conformance_tests); each check makes a subject of its own. The
//! checks drive the port alone. Where traffic is random they compare with a
//! [`MemoryStore`](crate::MemoryStore). The memory store itself is held to the checks whose
//! expectations are written out.

mod agreement;
mod basics;
mod block_storages;
mod commands;
mod deletion;
mod history;
mod paging;
mod picks;
mod queues;
mod retention;
mod streams;
pub mod traffic;

pub use agreement::{agree, random_traffic_agrees_with_the_model};
pub use basics::{
    a_repeated_batch_is_ignored_and_a_gap_is_fenced, an_empty_store_answers,
    an_open_view_shows_the_moment_it_was_opened, every_method_shows_what_was_committed,
    outcomes_come_in_the_order_of_commits, what_was_committed_is_there_after_a_restart,
};
#[cfg(test)]
pub(crate) use basics::{all, command, delivery, event, id, sign};
pub use block_storages::check_a_storage;
pub use commands::{
    a_command_is_shown_where_it_stands, a_large_payload_comes_back_whole,
    a_timeline_is_that_of_its_device_as_far_as_it_is_kept,
    desired_entries_and_sessions_belong_to_their_device, open_commands_are_found_in_each_of_their_orders,
};
pub use deletion::{a_deleted_device_is_gone_at_once_and_stays_so, a_device_registered_again_starts_anew};
pub use history::readings_of_many_days_are_those_of_a_plain_list;
pub use paging::{pages_neither_miss_nor_repeat, pages_stay_within_their_times};
pub use picks::{
    a_task_is_in_the_lists_where_it_stands, campaigns_and_shares_are_what_was_put_last,
    picks_are_found_in_each_of_their_orders,
};
#[cfg(test)]
pub(crate) use picks::{answered, campaign, ended, pick, running, task, terms};
pub use queues::{
    a_job_is_resident_or_parked_and_its_body_stays, answers_are_kept_until_they_are_deleted,
    dead_letters_are_read_in_order_and_by_id, jobs_of_a_queue_are_listed_wherever_they_are,
    long_lines_are_read_in_order, parked_jobs_are_found_by_their_times,
    parked_jobs_are_found_in_their_lines_and_by_alias, queues_are_loaded_before_their_jobs,
};
pub use retention::{
    a_late_reading_is_kept_from_its_receipt, counts_are_what_was_put_last,
    devices_are_found_by_label_and_kind, gathered_reports_are_read_in_order_of_their_numbers,
    ids_of_reports_belong_to_their_device, the_quarantine_keeps_what_was_refused, what_is_too_old_is_gone,
};
pub use streams::{
    a_stream_is_found_by_its_name_until_it_is_deleted, copies_are_found_by_stream,
    ids_of_sources_are_found_in_each_of_their_orders, subscriptions_are_found_by_stream_and_by_push,
    what_a_stream_holds_is_read_in_order,
};
#[cfg(test)]
pub(crate) use streams::{
    block, block_file, chunk, copy, interval, node, span, stream, subscription, tail, text,
};

use std::sync::mpsc::channel;

use base::PartitionId;
use records::{Batch, Op, PartitionHead};

use crate::port::{CommitOutcome, DeviceResident, QueueResident, Store};

/// A store under test, and what can be done to it from outside.
pub trait Subject {
    /// The store, open.
    fn store(&self) -> &dyn Store;
    /// Makes what was given to [`Store::commit`] durable.
    fn settle(&mut self);
    /// Moves data about as the store does by itself over time; without effect on what is seen.
    /// `turn` says how much.
    fn churn(&mut self, turn: u64);
    /// Closes the store and opens it again.
    fn restart(&mut self);
}

/// Declares a test for each check of the suite; `$subject` makes an empty store with two partitions
/// of devices and two of queues.
#[macro_export]
macro_rules! conformance_tests {
    ($subject:expr; $($check:ident),* $(,)?) => {$(
        #[test]
        fn $check() {
            let checked = $crate::conformance::checked(|| $crate::conformance::$check(&|| Box::new($subject)));
            assert!(checked, stringify!($check));
        }
    )*};
    ($subject:expr) => {
        $crate::conformance_tests!(
            $subject;
            a_command_is_shown_where_it_stands,
            a_large_payload_comes_back_whole,
            a_timeline_is_that_of_its_device_as_far_as_it_is_kept,
            desired_entries_and_sessions_belong_to_their_device,
            open_commands_are_found_in_each_of_their_orders,
            a_late_reading_is_kept_from_its_receipt,
            a_deleted_device_is_gone_at_once_and_stays_so,
            a_device_registered_again_starts_anew,
            a_job_is_resident_or_parked_and_its_body_stays,
            a_repeated_batch_is_ignored_and_a_gap_is_fenced,
            a_stream_is_found_by_its_name_until_it_is_deleted,
            a_task_is_in_the_lists_where_it_stands,
            an_empty_store_answers,
            an_open_view_shows_the_moment_it_was_opened,
            answers_are_kept_until_they_are_deleted,
            campaigns_and_shares_are_what_was_put_last,
            counts_are_what_was_put_last,
            dead_letters_are_read_in_order_and_by_id,
            devices_are_found_by_label_and_kind,
            every_method_shows_what_was_committed,
            gathered_reports_are_read_in_order_of_their_numbers,
            ids_of_reports_belong_to_their_device,
            ids_of_sources_are_found_in_each_of_their_orders,
            jobs_of_a_queue_are_listed_wherever_they_are,
            long_lines_are_read_in_order,
            outcomes_come_in_the_order_of_commits,
            pages_neither_miss_nor_repeat,
            pages_stay_within_their_times,
            parked_jobs_are_found_by_their_times,
            parked_jobs_are_found_in_their_lines_and_by_alias,
            picks_are_found_in_each_of_their_orders,
            queues_are_loaded_before_their_jobs,
            random_traffic_agrees_with_the_model,
            readings_of_many_days_are_those_of_a_plain_list,
            copies_are_found_by_stream,
            subscriptions_are_found_by_stream_and_by_push,
            the_quarantine_keeps_what_was_refused,
            what_a_stream_holds_is_read_in_order,
            what_is_too_old_is_gone,
            what_was_committed_is_there_after_a_restart,
        );
    };
}

/// Runs a check, which panics where it fails.
pub fn checked(check: impl FnOnce()) -> bool {
    check();
    true
}

/// Makes an empty store with two device partitions and two of queues.
pub type Make<'a> = &'a dyn Fn() -> Box<dyn Subject>;

/// The partition that most checks use.
pub(crate) const PARTITION: PartitionId = PartitionId(1);

/// Commits a batch and waits for its outcome.
pub(crate) fn commit(subject: &mut dyn Subject, batch: Batch) -> CommitOutcome {
    let (sender, receiver) = channel();
    subject.store().commit(batch, Box::new(move |outcome| drop(sender.send(outcome))));
    subject.settle();
    receiver.try_recv().expect("a settled batch has an outcome")
}

/// Commits a batch that must be durable.
pub(crate) fn put(subject: &mut dyn Subject, batch: Batch) {
    let outcome = commit(subject, batch);
    assert!(matches!(outcome, CommitOutcome::Durable), "{outcome}");
}

/// A batch with the next number.
pub(crate) fn next(head: &mut PartitionHead, ops: Vec<Op>) -> Batch {
    head.seq += 1;
    head.now.0 += 1_000;
    Batch { partition: PARTITION, head: head.clone(), ops }
}

/// The head of a partition, and all that a machine of devices, or one of queues, would keep of it
/// in memory.
pub(crate) fn loaded(
    store: &dyn Store,
    partition: PartitionId,
) -> (PartitionHead, Vec<DeviceResident>, Vec<QueueResident>) {
    let (view, mut of_devices, mut of_queues) =
        (store.load(partition).expect("loads"), Vec::new(), Vec::new());
    view.device_residents(&mut |resident| of_devices.push(resident)).expect("reads");
    view.queue_residents(&mut |resident| of_queues.push(resident)).expect("reads");
    (view.head().clone(), of_devices, of_queues)
}
