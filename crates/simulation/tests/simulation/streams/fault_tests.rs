//! Shows that the checkers of streams bite: a harness that is broken on purpose is found out, and
//! by the right one.

use super::fault_injection::*;
use super::plan::Plan;
use super::world::World;
use crate::harness::fault_injection::InjectedFault;
use crate::harness::machine::StorageKind;
use crate::harness::seeds::check_fault_is_found;
use crate::harness::violation::Invariant;

/// Seeds that a checker may need to meet the fault.
const SEEDS: std::ops::Range<u64> = 0..120;

fn check(fault: InjectedFault, expected: &[Invariant]) {
    for storage in [StorageKind::Memory, StorageKind::Embedded] {
        check_fault_is_found::<World>(SEEDS.map(Plan::of), (fault, storage), expected);
    }
}

#[test]
fn answers_let_go_before_they_are_durable_are_found() {
    let expected =
        [Invariant::DURABLE_BEFORE_ACKNOWLEDGED, Invariant::AS_THE_MODEL, Invariant::IDS_ARE_GIVEN_ONCE];
    check(InjectedFault::EffectsBeforeDurable, &expected);
}

#[test]
fn a_sync_that_is_skipped_is_found() {
    let expected = [
        Invariant::DURABLE_BEFORE_ACKNOWLEDGED,
        Invariant::AS_THE_MODEL,
        Invariant::BLOCKS_HAVE_FILES,
        Invariant::ROWS_AGREE,
    ];
    let plans = SEEDS.map(Plan::of);
    check_fault_is_found::<World>(plans, (InjectedFault::ForgottenSync, StorageKind::Embedded), &expected);
}

#[test]
fn a_deadline_that_is_lost_is_found() {
    check(InjectedFault::DeadlineLost, &[Invariant::NEVER_EARLY_HARDLY_LATE]);
}

#[test]
fn a_chunk_that_is_not_stored_is_found() {
    let duplicates = Invariant::DUPLICATES_NAME_THE_FIRST;
    check(CHUNK_LOST, &[Invariant::AS_THE_MODEL, Invariant::READ_AS_ANSWERED, duplicates]);
}

#[test]
fn a_span_that_is_dropped_is_found() {
    check(SPAN_LOST, &[Invariant::AS_THE_MODEL, Invariant::DUPLICATES_NAME_THE_FIRST]);
}

#[test]
fn numbers_that_are_forgotten_are_found() {
    check(NUMBERS_FORGOTTEN, &[Invariant::AS_THE_MODEL, Invariant::ONCE_ONLY]);
}

#[test]
fn ids_that_are_given_again_are_found() {
    check(RESERVATION_FORGOTTEN, &[Invariant::IDS_ARE_GIVEN_ONCE, Invariant::POSITIONS_ARE_GIVEN]);
}

#[test]
fn a_block_that_goes_too_soon_is_found() {
    let untaken = Invariant::KEPT_UNTIL_PUSHED;
    check(YOUNG_BLOCK_DROPPED, &[Invariant::KEPT_AS_SET, Invariant::AS_THE_MODEL, untaken]);
}

#[test]
fn answers_that_come_before_a_save_are_found() {
    check(ANSWERED_AT_ONCE, &[Invariant::DURABLE_BEFORE_ACKNOWLEDGED]);
}

#[test]
fn a_file_that_is_missing_is_found() {
    let duplicates = Invariant::DUPLICATES_NAME_THE_FIRST;
    check(FILE_NOT_WRITTEN, &[Invariant::BLOCKS_HAVE_FILES, Invariant::READ_AS_ANSWERED, duplicates]);
}

#[test]
fn a_file_that_is_left_is_found() {
    check(FILE_NOT_DELETED, &[Invariant::FILES_HAVE_BLOCKS]);
}

#[test]
fn a_block_that_is_lost_on_its_way_is_found() {
    check(MOVED_FILE_LOST, &[Invariant::BLOCKS_HAVE_FILES, Invariant::READ_AS_ANSWERED]);
}

#[test]
fn blocks_that_go_before_a_push_has_taken_them_are_found() {
    check(UNTIL_TAKEN_FORGOTTEN, &[Invariant::KEPT_UNTIL_PUSHED]);
}

#[test]
fn positions_that_are_answered_before_they_are_durable_are_found() {
    check(COMMIT_ANSWERED_EARLY, &[Invariant::POSITIONS_STAY]);
}

#[test]
fn rewinding_that_is_forgotten_is_found() {
    check(REWIND_FORGOTTEN, &[Invariant::SUBSCRIPTIONS_AS_ASKED]);
}

#[test]
fn two_readers_of_a_subscription_are_found() {
    check(READER_MISTAKEN, &[Invariant::ONE_READER]);
}

#[test]
fn a_position_that_is_not_stored_is_found() {
    let asked = Invariant::SUBSCRIPTIONS_AS_ASKED;
    check(POSITION_LOST, &[Invariant::AS_THE_MODEL, Invariant::POSITIONS_STAY, asked]);
}

#[test]
fn a_subscription_that_comes_back_is_found() {
    let asked = Invariant::SUBSCRIPTIONS_AS_ASKED;
    check(SUBSCRIPTION_STAYS, &[Invariant::AS_THE_MODEL, Invariant::ROWS_AGREE, asked]);
}
