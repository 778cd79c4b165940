//! Shows that the checkers of queues bite: a harness that is broken on purpose is found out, and by
//! the right one.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::plan::Plan;
use super::world;
use crate::devices::plan::Storage;
use crate::harness::fault_injection::InjectedFault;
use crate::harness::violation::Invariant;

/// Seeds that a checker may need to meet the fault.
const SEEDS: std::ops::Range<u64> = 0..80;

/// Runs seeds with the fault until something is found: the first thing must be one of these.
fn check_in(kind: impl Fn(Plan) -> Plan, fault: InjectedFault, storage: Storage, expected: &[Invariant]) {
    for seed in SEEDS {
        let mut plan = kind(Plan::of(seed));
        (plan.machine.injected, plan.machine.storage) = (Some(fault), storage);
        let ended = catch_unwind(AssertUnwindSafe(|| world::run(plan)));
        let (result, _) =
            ended.unwrap_or_else(|_| panic!("{fault:?}: seed {seed} panics before a checker speaks"));
        if let Err(violation) = result {
            assert!(expected.contains(&violation.invariant), "{fault:?}, seed {seed}: {violation}");
            return;
        }
    }
    panic!("{fault:?} is never found out");
}

/// What is found by those who look at the store.
fn check_stored(fault: InjectedFault, expected: &[Invariant]) {
    for storage in [Storage::Memory, Storage::Embedded] {
        check_in(|plan| plan, fault, storage, expected);
    }
}

/// What is found by those who are only answered, in lives that end often: by what they were
/// answered before, or by the model.
fn check_answered(fault: InjectedFault, expected: Invariant) {
    let expected = [expected, Invariant::AsTheModel];
    check_in(|plan| plan.without_audits().with_many_lives(), fault, Storage::Memory, &expected);
}

#[test]
fn answers_let_go_before_they_are_durable_are_found() {
    let expected = [Invariant::DurableBeforeAcknowledged, Invariant::AsTheModel, Invariant::Bounded];
    check_stored(InjectedFault::EffectsBeforeDurable, &expected);
}

#[test]
fn a_forgotten_sync_is_found_by_what_queues_hold() {
    let expected = [Invariant::DurableBeforeAcknowledged];
    check_in(|plan| plan, InjectedFault::ForgottenSync, Storage::Embedded, &expected);
}

#[test]
fn a_batch_of_a_queue_that_is_lost_at_a_restart_is_found() {
    let expected = [Invariant::DurableBeforeAcknowledged, Invariant::AsTheModel];
    check_in(|plan| plan, InjectedFault::BatchLostAtRestart, Storage::Memory, &expected);
}

#[test]
fn a_lease_given_twice_after_a_restart_is_found() {
    check_stored(InjectedFault::LeaseForgotten, &[Invariant::OneLease]);
    check_answered(InjectedFault::LeaseForgotten, Invariant::OneLease);
}

#[test]
fn attempts_that_begin_anew_after_a_restart_are_found() {
    check_stored(InjectedFault::AttemptsForgotten, &[Invariant::AttemptsOnlyGrow]);
    check_answered(InjectedFault::AttemptsForgotten, Invariant::AttemptsOnlyGrow);
}

#[test]
fn a_group_that_is_free_while_a_job_of_it_waits_for_its_retry_is_found() {
    check_stored(InjectedFault::GroupForgotten, &[Invariant::GroupOrder]);
    check_answered(InjectedFault::GroupForgotten, Invariant::GroupOrder);
}

#[test]
fn a_job_that_is_done_and_stays_is_found() {
    // It may be dead before anybody looks.
    check_stored(InjectedFault::AliasNotFreed, &[Invariant::DoneStaysDone, Invariant::OneEffectPerCause]);
    let expected = [Invariant::DoneStaysDone, Invariant::OneEffectPerCause, Invariant::AsTheModel];
    let kind = |plan: Plan| plan.without_audits().with_many_lives();
    check_in(kind, InjectedFault::AliasNotFreed, Storage::Memory, &expected);
}

#[test]
fn a_body_that_stays_when_its_job_of_a_queue_is_gone_is_found() {
    check_in(|plan| plan, InjectedFault::BodyStays, Storage::Embedded, &[Invariant::RowsAgree]);
}

#[test]
fn an_alias_that_is_not_free_after_a_death_is_found() {
    for storage in [Storage::Memory, Storage::Embedded] {
        // Loading an alias twice would stop the process before anybody looks.
        check_in(Plan::without_ends, InjectedFault::DeathForgotten, storage, &[Invariant::DoneStaysDone]);
    }
}

#[test]
fn a_parked_job_that_is_forgotten_is_found() {
    // Or what is read in beside it shows first that one is missing.
    let expected = [
        Invariant::DurableBeforeAcknowledged,
        Invariant::FiguresAreRight,
        Invariant::NeverEarlyHardlyLate,
        Invariant::AsTheModel,
    ];
    // The store in memory would stop where the job is taken out again.
    check_in(|plan| plan, InjectedFault::ParkedForgotten, Storage::Embedded, &expected);
}

#[test]
fn runs_that_are_counted_from_now_are_found() {
    check_stored(InjectedFault::RunsFromNow, &[Invariant::RunsInTurn]);
    check_answered(InjectedFault::RunsFromNow, Invariant::RunsInTurn);
}

#[test]
fn a_repeated_request_that_is_carried_out_twice_is_found() {
    check_stored(InjectedFault::AnswersForgotten, &[Invariant::OneEffectPerCause]);
    // Or a job is consumed that the model, which carried it out once, does not know.
    let expected = [Invariant::OneEffectPerCause, Invariant::DoneStaysDone, Invariant::AsTheModel];
    let kind = |plan: Plan| plan.without_audits().with_many_lives();
    check_in(kind, InjectedFault::AnswersForgotten, Storage::Memory, &expected);
}

#[test]
fn figures_that_are_wrong_after_a_restart_are_found() {
    check_stored(InjectedFault::CountsForgotten, &[Invariant::FiguresAreRight]);
    check_answered(InjectedFault::CountsForgotten, Invariant::FiguresAreRight);
}

#[test]
fn a_pause_that_is_forgotten_is_found() {
    check_stored(InjectedFault::PauseForgotten, &[Invariant::AsTheModel]);
}

#[test]
fn a_group_that_is_ignored_is_found() {
    check_in(|plan| plan, InjectedFault::GroupIgnored, Storage::Memory, &[Invariant::GroupOrder]);
}

#[test]
fn a_job_that_comes_too_soon_is_found() {
    // The publisher is told another time than it asked for, if it is told before a consumer is.
    let expected = [Invariant::NeverEarlyHardlyLate, Invariant::AsTheModel];
    check_in(Plan::without_audits, InjectedFault::JobsTooSoon, Storage::Memory, &expected);
}

#[test]
fn a_stale_reservation_that_is_honoured_is_found() {
    // Its group goes on while the model sees the other lease.
    let expected = [Invariant::OneLease, Invariant::GroupOrder, Invariant::AsTheModel];
    check_in(Plan::without_audits, InjectedFault::StaleLeaseHonoured, Storage::Memory, &expected);
}

#[test]
fn a_wake_up_that_is_lost_is_found() {
    check_in(|plan| plan, InjectedFault::DeadlineLost, Storage::Memory, &[Invariant::NeverEarlyHardlyLate]);
}
