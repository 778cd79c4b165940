//! Shows that the checkers of several nodes bite: a world that is broken on purpose is found out,
//! and by the right one.

use super::fault_injection::*;
use super::plan::Plan;
use super::world::World;
use crate::harness::fault_injection::InjectedFault;
use crate::harness::seeds::run_plan;
use crate::harness::violation::Invariant;

/// Seeds that a checker may need to meet the fault: those of the run.
const SEEDS: std::ops::Range<u64> = 0..70;

fn check(fault: InjectedFault, expected: &[Invariant]) {
    for seed in SEEDS {
        if let Err(failure) = run_plan::<World>(Plan::of(seed).with_fault(fault)) {
            let found = failure.invariant().is_some_and(|invariant| expected.contains(&invariant));
            assert!(found, "{fault:?}, seed {seed} {failure}");
            return;
        }
    }
    panic!("{fault:?} is never found out");
}

#[test]
fn a_position_that_moves_before_the_peer_is_durable_is_found() {
    check(ANSWERED_WHEN_TAKEN, &[Invariant::POSITIONS_ARE_TRUE, Invariant::RECEIPTS_ARE_TRUE]);
}

#[test]
fn a_duplicate_that_counts_as_durable_before_its_first_is_saved_is_found() {
    check(NOT_ASKED_DURABLE, &[Invariant::POSITIONS_ARE_TRUE, Invariant::RECEIPTS_ARE_TRUE]);
}

#[test]
fn copies_of_what_a_crash_may_take_are_found() {
    let expected = [
        Invariant::COPIED_IS_SAVED,
        Invariant::POSITIONS_ARE_TRUE,
        Invariant::EVERYWHERE_IN_THE_END,
        Invariant::EVERYWHERE_ONCE,
    ];
    check(UNSAVED_COPIED, &expected);
}

#[test]
fn an_origin_that_is_used_again_after_a_restore_is_found() {
    check(
        ORIGIN_REUSED,
        &[Invariant::EVERYWHERE_IN_THE_END, Invariant::POSITIONS_ARE_TRUE, Invariant::RECEIPTS_ARE_TRUE],
    );
}

#[test]
fn messages_that_are_sent_again_without_an_origin_are_found() {
    check(ORIGIN_NOT_SENT, &[Invariant::EVERYWHERE_ONCE, Invariant::COPIES_COME_TO_REST]);
}

#[test]
fn a_stream_that_is_another_one_unnoticed_is_found() {
    let expected = [Invariant::EVERYWHERE_IN_THE_END, Invariant::COPIES_COME_TO_REST];
    check(RESET_NOT_NOTICED, &expected);
}

#[test]
fn retention_that_does_not_wait_for_copies_is_found() {
    check(COPIES_NOT_WAITED_FOR, &[Invariant::KEPT_UNTIL_COPIED, Invariant::DROPPED_IS_SAID]);
}

#[test]
fn a_receipt_that_counts_who_has_not_answered_is_found() {
    check(RECEIPT_BEFORE_ANSWER, &[Invariant::RECEIPTS_ARE_TRUE]);
}

#[test]
fn a_page_that_skips_a_message_is_found() {
    check(
        POSITION_FORGOTTEN,
        &[Invariant::POSITIONS_ARE_TRUE, Invariant::EVERYWHERE_IN_THE_END, Invariant::RECEIPTS_ARE_TRUE],
    );
}
