//! Shows that the checkers of commands bite: a harness that is broken on purpose is found out, and
//! by the right one.

use super::fault_injection::*;
use super::plan::Plan;
use super::world::World;
use crate::harness::fault_injection::InjectedFault;
use crate::harness::machine::StorageKind;
use crate::harness::seeds::check_fault_is_found;
use crate::harness::violation::Invariant;

/// Seeds that a checker may need to meet the fault.
const SEEDS: std::ops::Range<u64> = 0..40;

fn check(fault: InjectedFault, expected: &[Invariant]) {
    for storage in [StorageKind::Memory, StorageKind::Embedded] {
        check_fault_is_found::<World>(SEEDS.map(Plan::of), (fault, storage), expected);
    }
}

#[test]
fn answers_let_go_before_they_are_durable_are_found() {
    let expected = [
        Invariant::DURABLE_BEFORE_ACKNOWLEDGED,
        Invariant::AS_THE_MODEL,
        Invariant::BOUNDED,
        Invariant::ORDER_PER_DEVICE,
    ];
    check(InjectedFault::EffectsBeforeDurable, &expected);
}

#[test]
fn a_batch_lost_at_a_restart_is_found() {
    let expected = [Invariant::DURABLE_BEFORE_ACKNOWLEDGED, Invariant::AS_THE_MODEL];
    let fault = (InjectedFault::BatchLostAtRestart, StorageKind::Memory);
    check_fault_is_found::<World>(SEEDS.map(Plan::of), fault, &expected);
}

#[test]
fn a_deadline_that_is_lost_is_found() {
    check(InjectedFault::DeadlineLost, &[Invariant::NEVER_EARLY_HARDLY_LATE]);
}

#[test]
fn an_answer_that_no_device_gave_is_found() {
    check(ANSWER_INVENTED, &[Invariant::ONE_EFFECT_PER_CAUSE]);
}

#[test]
fn a_window_that_is_ignored_is_found() {
    check(WINDOW_IGNORED, &[Invariant::BOUNDED]);
}

#[test]
fn a_gap_that_is_ignored_is_found() {
    check(GAP_IGNORED, &[Invariant::NEVER_EARLY_HARDLY_LATE]);
}

#[test]
fn a_command_for_a_device_that_is_gone_is_found() {
    check(GOODBYE_UNHEARD, &[Invariant::LOOKED_UP_AT_THE_LAST_MOMENT]);
}

#[test]
fn a_command_that_goes_out_after_it_was_called_off_is_found() {
    check(CANCELLED_GOES_ON, &[Invariant::ONE_EFFECT_PER_CAUSE]);
}

#[test]
fn a_publish_that_is_forgotten_is_found() {
    // A command whose state is missing is taken for gone, and the next goes out beside it.
    let expected = [Invariant::AS_THE_MODEL, Invariant::ONE_EFFECT_PER_CAUSE, Invariant::BOUNDED];
    check(PUBLISH_FORGOTTEN, &expected);
}

#[test]
fn a_rollout_that_goes_on_after_its_pause_is_found() {
    let expected = [Invariant::DURABLE_BEFORE_ACKNOWLEDGED, Invariant::ONE_EFFECT_PER_CAUSE];
    check(TAKE_BACK_INVENTED, &expected);
}

#[test]
fn a_command_that_is_lost_is_found() {
    check(COMMAND_LOST, &[Invariant::AS_THE_MODEL]);
}
