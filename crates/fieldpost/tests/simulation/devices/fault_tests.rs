//! Shows that the checkers bite: a harness that is broken on purpose is found out, and by the right
//! one.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use crate::devices::plan::{Plan, Storage};
use crate::devices::world;
use crate::harness::fault_injection::InjectedFault;
use crate::harness::violation::Invariant;

/// Seeds that a checker may need to meet the fault.
const SEEDS: std::ops::Range<u64> = 0..60;

/// Runs seeds with the fault until something is found: the first thing must be one of these.
fn check(fault: InjectedFault, storage: Storage, expected: &[Invariant]) {
    check_in(|plan| plan, fault, storage, expected);
}

/// The same in runs of a certain kind.
fn check_in(kind: impl Fn(Plan) -> Plan, fault: InjectedFault, storage: Storage, expected: &[Invariant]) {
    for seed in SEEDS {
        let plan = Plan { injected: Some(fault), storage, ..kind(Plan::of(seed)) };
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

#[test]
fn effects_let_go_before_they_are_durable_are_found() {
    // A partition that takes a batch for durable looks for it in the store, and answers as if it
    // had never been made; and it goes on to the next without end.
    let expected = [Invariant::DurableBeforeAcknowledged, Invariant::AsTheModel, Invariant::Bounded];
    check(InjectedFault::EffectsBeforeDurable, Storage::Memory, &expected);
    check(InjectedFault::EffectsBeforeDurable, Storage::Embedded, &expected);
}

#[test]
fn a_forgotten_sync_is_found() {
    check(InjectedFault::ForgottenSync, Storage::Embedded, &[Invariant::DurableBeforeAcknowledged]);
}

#[test]
fn a_late_sync_that_is_forgotten_is_found() {
    let later = |plan| Plan { syncs_later: Some(Duration::from_millis(100)), ..plan };
    let expected = [Invariant::DurableBeforeAcknowledged];
    check_in(later, InjectedFault::ForgottenLateSync, Storage::Embedded, &expected);
}

#[test]
fn a_checkpoint_that_forgets_its_sync_is_found() {
    check(InjectedFault::ForgottenCheckpointSync, Storage::Embedded, &[Invariant::DurableBeforeAcknowledged]);
}

#[test]
fn a_checkpoint_that_forgets_its_position_is_found() {
    // What is replayed on tables that hold it already is read twice, or contradicts what came
    // later.
    let expected = [Invariant::OneEffectPerCause, Invariant::AsTheModel];
    check(InjectedFault::ForgottenPosition, Storage::Embedded, &expected);
}

#[test]
fn a_batch_lost_at_a_restart_is_found() {
    // What was lost is missed by whoever was answered, or by the model that knows what was written.
    let expected = [Invariant::DurableBeforeAcknowledged, Invariant::AsTheModel];
    check(InjectedFault::BatchLostAtRestart, Storage::Memory, &expected);
}

#[test]
fn an_event_recorded_twice_is_found() {
    check(InjectedFault::EventTwice, Storage::Memory, &[Invariant::OneEffectPerCause]);
}

#[test]
fn an_attempt_begun_twice_is_found() {
    check(InjectedFault::AttemptTwice, Storage::Memory, &[Invariant::OneLease]);
}

#[test]
fn a_stale_lease_that_is_honoured_is_found() {
    check(InjectedFault::StaleLeaseHonoured, Storage::Memory, &[Invariant::OneLease]);
}

#[test]
fn a_deadline_that_is_lost_is_found() {
    check(InjectedFault::DeadlineLost, Storage::Memory, &[Invariant::NeverEarlyHardlyLate]);
}

#[test]
fn an_alias_that_is_not_freed_is_found() {
    for storage in [Storage::Memory, Storage::Embedded] {
        // Loading a job twice would stop the process before anybody looks.
        let expected = [Invariant::OneEffectPerCause];
        check_in(Plan::without_ends, InjectedFault::AliasNotFreed, storage, &expected);
    }
}

#[test]
fn a_body_that_stays_when_its_job_is_gone_is_found() {
    check(InjectedFault::BodyStays, Storage::Embedded, &[Invariant::RowsAgree]);
}

#[test]
fn one_stored_record_that_is_another_is_found() {
    for storage in [Storage::Memory, Storage::Embedded] {
        check(InjectedFault::StateCorrupted, storage, &[Invariant::AsTheModel]);
        check(InjectedFault::ReadingCorrupted, storage, &[Invariant::OrderPerDevice]);
    }
}

#[test]
fn an_attempt_after_its_link_was_cut_is_found() {
    check(InjectedFault::AttemptsWait, Storage::Memory, &[Invariant::LookedUpAtTheLastMoment]);
}

#[test]
fn a_retry_that_comes_too_soon_is_found() {
    check(InjectedFault::RetriesTooSoon, Storage::Memory, &[Invariant::NeverEarlyHardlyLate]);
}

#[test]
fn a_door_that_closes_without_a_word_is_found() {
    check(InjectedFault::SilentDoor, Storage::Memory, &[Invariant::SilenceIsMeasured]);
}

#[test]
fn reports_in_another_order_are_found() {
    check(
        InjectedFault::SwappedReports,
        Storage::Memory,
        &[Invariant::OrderPerDevice, Invariant::OneEffectPerCause],
    );
}

#[test]
fn a_repeat_that_has_an_effect_is_found() {
    let expected = [Invariant::OneEffectPerCause, Invariant::OrderPerDevice, Invariant::AsTheModel];
    check(InjectedFault::RepeatsTakenForNew, Storage::Memory, &expected);
}

#[test]
fn a_body_that_hides_what_was_skipped_is_found() {
    check(InjectedFault::NothingSkipped, Storage::Memory, &[Invariant::NewestWins]);
}

#[test]
fn a_breaker_that_never_opens_is_found() {
    let expected = [Invariant::Bounded, Invariant::NeverEarlyHardlyLate];
    let kind = Plan::with_receivers_that_keep_failing;
    check_in(kind, InjectedFault::BreakerIgnored, Storage::Memory, &expected);
}

#[test]
fn a_breaker_that_drops_what_it_holds_back_is_found() {
    let kind = Plan::with_receivers_that_keep_failing;
    check_in(kind, InjectedFault::BreakerDrops, Storage::Memory, &[Invariant::NeverEarlyHardlyLate]);
}

#[test]
fn a_limit_that_is_ignored_is_found() {
    check(InjectedFault::LimitIgnored, Storage::Memory, &[Invariant::Bounded]);
}
