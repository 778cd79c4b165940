//! Shows that the checkers of queues bite: a harness that is broken on purpose is found out, and by
//! the right one.

use super::fault_injection::*;
use super::plan::{ENOUGH_RESIDENT, Plan};
use super::world::World;
use crate::harness::fault_injection::InjectedFault;
use crate::harness::machine::StorageKind;
use crate::harness::seeds::check_fault_is_found;
use crate::harness::violation::Invariant;

/// Seeds that a checker may need to meet the fault.
const SEEDS: std::ops::Range<u64> = 0..80;

/// The seeds were chosen for faults of jobs: who uses locks or controls workers would only move
/// them.
fn check_in(kind: impl Fn(Plan) -> Plan, fault: InjectedFault, storage: StorageKind, expected: &[Invariant]) {
    check_fault_is_found::<World>(
        SEEDS.map(|seed| kind(Plan::of(seed).without_locks().without_controls())),
        (fault, storage),
        expected,
    );
}

/// Plans for faults of locks.
fn with_locks() -> impl Iterator<Item = Plan> {
    SEEDS.map(|seed| Plan::of(seed).without_controls())
}

/// Plans for faults of what workers are told.
fn with_controls() -> impl Iterator<Item = Plan> {
    SEEDS.map(|seed| Plan::of(seed).without_locks())
}

/// What is found by those who look at the store.
fn check_stored(fault: InjectedFault, expected: &[Invariant]) {
    for storage in [StorageKind::Memory, StorageKind::Embedded] {
        check_in(|plan| plan, fault, storage, expected);
    }
}

/// What is found by those who are only answered, in lives that end often: by what they were
/// answered before, or by the model.
fn check_answered(fault: InjectedFault, expected: Invariant) {
    let expected = [expected, Invariant::AS_THE_MODEL];
    check_in(|plan| plan.without_audits().with_many_lives(), fault, StorageKind::Memory, &expected);
}

#[test]
fn answers_let_go_before_they_are_durable_are_found() {
    let expected = [Invariant::DURABLE_BEFORE_ACKNOWLEDGED, Invariant::AS_THE_MODEL, Invariant::BOUNDED];
    check_stored(InjectedFault::EffectsBeforeDurable, &expected);
}

#[test]
fn a_forgotten_sync_is_found_by_what_queues_hold() {
    let expected = [Invariant::DURABLE_BEFORE_ACKNOWLEDGED];
    check_in(|plan| plan, InjectedFault::ForgottenSync, StorageKind::Embedded, &expected);
}

#[test]
fn a_batch_of_a_queue_that_is_lost_at_a_restart_is_found() {
    let expected = [Invariant::DURABLE_BEFORE_ACKNOWLEDGED, Invariant::AS_THE_MODEL];
    check_in(|plan| plan, InjectedFault::BatchLostAtRestart, StorageKind::Memory, &expected);
}

#[test]
fn a_lease_given_twice_after_a_restart_is_found() {
    check_stored(LEASE_FORGOTTEN, &[Invariant::ONE_LEASE]);
    check_answered(LEASE_FORGOTTEN, Invariant::ONE_LEASE);
}

#[test]
fn a_lock_that_has_two_holders_after_a_restart_is_found() {
    // By a caller that is given it where the model has it wait, too.
    let expected = [Invariant::AS_THE_MODEL, Invariant::DURABLE_BEFORE_ACKNOWLEDGED, Invariant::ONE_HOLDER];
    for storage in [StorageKind::Memory, StorageKind::Embedded] {
        check_fault_is_found::<World>(with_locks(), (LOCK_FORGOTTEN, storage), &expected);
    }
    let answered = with_locks().map(|plan| plan.without_audits().with_many_lives());
    check_fault_is_found::<World>(answered, (LOCK_FORGOTTEN, StorageKind::Memory), &expected);
}

#[test]
fn a_fence_that_goes_back_after_a_restart_is_found() {
    let expected = [Invariant::FENCES_RISE];
    for storage in [StorageKind::Memory, StorageKind::Embedded] {
        let plans = with_locks().map(Plan::with_many_lives);
        check_fault_is_found::<World>(plans, (FENCE_GOES_BACK, storage), &expected);
    }
    let answered = with_locks().map(|plan| plan.without_audits().with_many_lives());
    check_fault_is_found::<World>(answered, (FENCE_GOES_BACK, StorageKind::Memory), &expected);
}

#[test]
fn a_fence_that_two_holders_have_is_found() {
    let fault = (FENCE_TWICE, StorageKind::Memory);
    check_fault_is_found::<World>(with_locks(), fault, &[Invariant::FENCES_RISE]);
}

#[test]
fn a_control_that_is_forgotten_is_found() {
    let expected = [Invariant::DURABLE_BEFORE_ACKNOWLEDGED];
    for fault in [CONTROL_FORGOTTEN, CONTROL_STAYS] {
        for storage in [StorageKind::Memory, StorageKind::Embedded] {
            check_fault_is_found::<World>(with_controls(), (fault, storage), &expected);
        }
    }
}

#[test]
fn a_control_that_holds_jobs_back_is_found() {
    // By a consumer that is not given a job, or by the figures of the queue.
    let expected = [
        Invariant::NEVER_EARLY_HARDLY_LATE,
        Invariant::GROUP_ORDER,
        Invariant::STATS_ARE_RIGHT,
        Invariant::AS_THE_MODEL,
    ];
    // Where nothing is parked the model knows what a consumer must be given.
    let plans = with_controls().map(|plan| plan.with_resident(ENOUGH_RESIDENT).without_audits());
    check_fault_is_found::<World>(plans, (CONTROL_HOLDS_BACK, StorageKind::Memory), &expected);
}

#[test]
fn attempts_that_begin_anew_after_a_restart_are_found() {
    check_stored(ATTEMPTS_FORGOTTEN, &[Invariant::ATTEMPTS_ONLY_GROW]);
    check_answered(ATTEMPTS_FORGOTTEN, Invariant::ATTEMPTS_ONLY_GROW);
}

#[test]
fn a_group_that_is_free_while_a_job_of_it_waits_for_its_retry_is_found() {
    check_stored(GROUP_FORGOTTEN, &[Invariant::GROUP_ORDER]);
    check_answered(GROUP_FORGOTTEN, Invariant::GROUP_ORDER);
}

#[test]
fn a_job_that_is_done_and_stays_is_found() {
    // It may be dead before anybody looks.
    check_stored(ALIAS_NOT_FREED, &[Invariant::DONE_STAYS_DONE, Invariant::ONE_EFFECT_PER_CAUSE]);
    let expected = [Invariant::DONE_STAYS_DONE, Invariant::ONE_EFFECT_PER_CAUSE, Invariant::AS_THE_MODEL];
    let kind = |plan: Plan| plan.without_audits().with_many_lives();
    check_in(kind, ALIAS_NOT_FREED, StorageKind::Memory, &expected);
}

#[test]
fn a_body_that_stays_when_its_job_of_a_queue_is_gone_is_found() {
    check_in(|plan| plan, BODY_STAYS, StorageKind::Embedded, &[Invariant::ROWS_AGREE]);
}

#[test]
fn an_alias_that_is_not_free_after_a_death_is_found() {
    for storage in [StorageKind::Memory, StorageKind::Embedded] {
        // Loading an alias twice would stop the process before anybody looks.
        check_in(Plan::without_ends, DEATH_FORGOTTEN, storage, &[Invariant::DONE_STAYS_DONE]);
    }
}

#[test]
fn a_parked_job_that_is_forgotten_is_found() {
    // Or what is read in beside it shows first that one is missing.
    let expected = [
        Invariant::DURABLE_BEFORE_ACKNOWLEDGED,
        Invariant::STATS_ARE_RIGHT,
        Invariant::NEVER_EARLY_HARDLY_LATE,
        Invariant::AS_THE_MODEL,
    ];
    // The store in memory would stop where the job is taken out again.
    check_in(|plan| plan, PARKED_FORGOTTEN, StorageKind::Embedded, &expected);
}

#[test]
fn runs_that_are_counted_from_now_are_found() {
    check_stored(RUNS_FROM_NOW, &[Invariant::RUNS_IN_TURN]);
    check_answered(RUNS_FROM_NOW, Invariant::RUNS_IN_TURN);
}

#[test]
fn a_repeated_request_that_is_carried_out_twice_is_found() {
    check_stored(ANSWERS_FORGOTTEN, &[Invariant::ONE_EFFECT_PER_CAUSE]);
    // Or a job is consumed that the model, which carried it out once, does not know.
    let expected = [Invariant::ONE_EFFECT_PER_CAUSE, Invariant::DONE_STAYS_DONE, Invariant::AS_THE_MODEL];
    let kind = |plan: Plan| plan.without_audits().with_many_lives();
    check_in(kind, ANSWERS_FORGOTTEN, StorageKind::Memory, &expected);
}

#[test]
fn figures_that_are_wrong_after_a_restart_are_found() {
    check_stored(COUNTS_FORGOTTEN, &[Invariant::STATS_ARE_RIGHT]);
    check_answered(COUNTS_FORGOTTEN, Invariant::STATS_ARE_RIGHT);
}

#[test]
fn a_pause_that_is_forgotten_is_found() {
    check_stored(PAUSE_FORGOTTEN, &[Invariant::AS_THE_MODEL]);
}

#[test]
fn a_group_that_is_ignored_is_found() {
    check_in(|plan| plan, GROUP_IGNORED, StorageKind::Memory, &[Invariant::GROUP_ORDER]);
}

#[test]
fn a_job_that_comes_too_soon_is_found() {
    // The publisher is told another time than it asked for, if it is told before a consumer is.
    let expected = [Invariant::NEVER_EARLY_HARDLY_LATE, Invariant::AS_THE_MODEL];
    check_in(Plan::without_audits, JOBS_TOO_SOON, StorageKind::Memory, &expected);
}

#[test]
fn a_step_that_reads_more_than_it_may_is_found() {
    let fault = (READING_UNLIMITED, StorageKind::Memory);
    check_fault_is_found::<World>(SEEDS.map(Plan::crowded), fault, &[Invariant::BOUNDED]);
}

#[test]
fn a_stale_reservation_that_is_honoured_is_found() {
    // Its group goes on while the model sees the other lease.
    let expected = [Invariant::ONE_LEASE, Invariant::GROUP_ORDER, Invariant::AS_THE_MODEL];
    check_in(Plan::without_audits, STALE_LEASE_HONOURED, StorageKind::Memory, &expected);
}

#[test]
fn a_wake_up_that_is_lost_is_found() {
    check_in(
        |plan| plan,
        InjectedFault::DeadlineLost,
        StorageKind::Memory,
        &[Invariant::NEVER_EARLY_HARDLY_LATE],
    );
}
