//! Shows that the checkers of tasks and campaigns bite: a harness that is broken on purpose is
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
/// The same where only some of the runs can meet it.
const SEEDS_OF_SOME: std::ops::Range<u64> = 0..600;

fn check(fault: InjectedFault, expected: &[Invariant]) {
    for storage in [StorageKind::Memory, StorageKind::Embedded] {
        check_fault_is_found::<World>(SEEDS.map(Plan::of), (fault, storage), expected);
    }
}

#[test]
fn answers_let_go_before_they_are_durable_are_found() {
    // A machine that takes a batch for durable goes on to the next without end.
    let expected = [Invariant::DURABLE_BEFORE_ACKNOWLEDGED, Invariant::AS_THE_MODEL, Invariant::BOUNDED];
    check(InjectedFault::EffectsBeforeDurable, &expected);
}

#[test]
fn a_pick_that_is_carried_out_twice_is_found() {
    check(ORDER_CARRIED_TWICE_AS_NEW, &[Invariant::ONE_EFFECT_PER_CAUSE]);
}

#[test]
fn shares_that_are_lost_are_found() {
    check(SHARE_LOST, &[Invariant::AS_THE_MODEL, Invariant::PICKS_ARE_FAIR]);
}

/// A fault that only some runs can show.
fn check_in(runs: fn(&Plan) -> bool, fault: InjectedFault, expected: Invariant) {
    for storage in [StorageKind::Memory, StorageKind::Embedded] {
        let plans = SEEDS_OF_SOME.map(Plan::of).filter(runs);
        check_fault_is_found::<World>(plans, (fault, storage), &[expected]);
    }
}

#[test]
fn picks_that_are_not_spread_are_found() {
    let spreads = |plan: &Plan| plan.workload.all_stay() && plan.workload.spreads;
    check_in(spreads, VALUES_NOT_KNOWN, Invariant::SPREAD_IS_EVEN);
}

#[test]
fn a_panel_that_does_not_stay_is_found() {
    let panels = |plan: &Plan| plan.workload.all_stay() && plan.workload.panels && !plan.workload.spreads;
    check_in(panels, DEVICE_NOT_FOUND, Invariant::PANELS_STAY);
}

#[test]
fn picks_of_deleted_devices_are_found() {
    let deletes = |plan: &Plan| plan.workload.weights.deletions > 0;
    check_in(deletes, DELETION_NOT_SEEN, Invariant::GONE_DEVICES_ARE_FORGOTTEN);
}

#[test]
fn picks_beyond_a_quota_are_found() {
    let bounds_tokens = |plan: &Plan| !plan.workload.settings.campaigns.token_picks_per_hour.is_empty();
    check_in(bounds_tokens, QUOTAS_DOUBLED, Invariant::QUOTAS_HOLD);
    check_in(|plan| plan.workload.bounds_devices(), QUOTAS_DOUBLED, Invariant::QUOTAS_HOLD);
}

#[test]
fn a_slot_that_is_forgotten_is_found() {
    check(SLOT_FORGOTTEN, &[Invariant::SLOTS_ARE_NOT_FORGOTTEN]);
}

#[test]
fn a_pick_that_is_lost_is_found() {
    let expected =
        [Invariant::AS_THE_MODEL, Invariant::NOT_BEYOND_ITS_COUNT, Invariant::ONE_EFFECT_PER_CAUSE];
    check(PICK_LOST, &expected);
}
