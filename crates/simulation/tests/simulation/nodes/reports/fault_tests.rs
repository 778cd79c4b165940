//! Shows that the checkers of an edge node and a centre bite.

use super::plan::Plan;
use super::world::World;
use crate::harness::fault_injection::InjectedFault;
use crate::harness::machine::StorageKind;
use crate::harness::seeds::check_fault_is_found;
use crate::harness::violation::Invariant;
use crate::nodes::fault_injection::{ANSWERED_WHEN_TAKEN, GATHERED_TAKEN_AT_ONCE, REPORTS_WITHOUT_IDS};

/// Seeds that a checker may need to meet the fault: those of the run.
const SEEDS: std::ops::Range<u64> = 0..60;

/// Nodes are over the storages of their seeds.
fn check(fault: InjectedFault, expected: &[Invariant]) {
    check_fault_is_found::<World>(SEEDS.map(Plan::of), (fault, StorageKind::Embedded), expected);
}

#[test]
fn reports_that_take_effect_twice_are_found() {
    check(REPORTS_WITHOUT_IDS, &[Invariant::REPORTS_ONCE]);
}

#[test]
fn a_centre_that_answers_reports_before_they_are_durable_is_found() {
    check(ANSWERED_WHEN_TAKEN, &[Invariant::REPORTS_ONCE, Invariant::LAG_IS_TRUE]);
}

#[test]
fn gathered_reports_that_go_before_their_stream_has_them_are_found() {
    check(GATHERED_TAKEN_AT_ONCE, &[Invariant::REPORTS_ONCE, Invariant::LAG_IS_TRUE]);
}
