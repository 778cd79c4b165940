//! Shows that the checkers of notices and operations bite: a harness that is broken on purpose is
//! found out, and by the right one.

use super::fault_injection::*;
use super::plan::Plan;
use super::world::World;
use crate::harness::fault_injection::InjectedFault;
use crate::harness::machine::StorageKind;
use crate::harness::seeds::check_fault_is_found;
use crate::harness::violation::Invariant;

/// Seeds that a checker may need to meet the fault.
const SEEDS: std::ops::Range<u64> = 0..60;

fn check(fault: InjectedFault, expected: &[Invariant]) {
    for storage in [StorageKind::Memory, StorageKind::Embedded] {
        check_fault_is_found::<World>(SEEDS.map(Plan::of), (fault, storage), expected);
    }
}

#[test]
fn rows_that_are_acted_on_before_they_are_written_are_found() {
    check(CHUNK_NOT_AWAITED, &[Invariant::WRITTEN_BEFORE_DONE, Invariant::ONE_EFFECT_PER_CAUSE]);
}

#[test]
fn rows_that_nobody_counts_are_found() {
    check(OUTCOME_TOLD_WRONG, &[Invariant::ROWS_ARE_COUNTED]);
}

#[test]
fn a_chunk_that_is_lost_is_found() {
    check(CHUNK_LOST, &[Invariant::AS_THE_MODEL, Invariant::WRITTEN_BEFORE_DONE]);
}

#[test]
fn a_recovery_that_nobody_is_told_of_after_a_start_is_found() {
    check(RECOVERY_UNSEEN, &[Invariant::NOTICES_ARE_RIGHT]);
}

#[test]
fn a_disabling_that_nobody_is_told_of_is_found() {
    check(DISABLED_UNTOLD, &[Invariant::NOTICES_ARE_RIGHT]);
}

#[test]
fn notices_that_come_too_often_are_found() {
    check(QUIET_IGNORED, &[Invariant::NOTICES_ARE_RARE]);
}

#[test]
fn answers_let_go_before_they_are_durable_are_found() {
    let expected =
        [Invariant::DURABLE_BEFORE_ACKNOWLEDGED, Invariant::AS_THE_MODEL, Invariant::WRITTEN_BEFORE_DONE];
    check(InjectedFault::EffectsBeforeDurable, &expected);
}
