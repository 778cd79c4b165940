//! Shows that the checkers bite: a harness that is broken on purpose is found out, and by the right
//! one.

use std::time::Duration;

use super::fault_injection::*;
use super::plan::Plan;
use super::world::World;
use crate::harness::fault_injection::InjectedFault;
use crate::harness::machine::StorageKind;
use crate::harness::seeds::check_fault_is_found;
use crate::harness::violation::Invariant;
use crate::queues::fault_injection::{ALIAS_NOT_FREED, BODY_STAYS};

/// Seeds that a checker may need to meet the fault.
const SEEDS: std::ops::Range<u64> = 0..60;

fn check(fault: InjectedFault, storage: StorageKind, expected: &[Invariant]) {
    check_in(|plan| plan, fault, storage, expected);
}

/// The same in runs of a certain kind.
fn check_in(kind: impl Fn(Plan) -> Plan, fault: InjectedFault, storage: StorageKind, expected: &[Invariant]) {
    check_fault_is_found::<World>(SEEDS.map(|seed| kind(Plan::of(seed))), (fault, storage), expected);
}

#[test]
fn effects_let_go_before_they_are_durable_are_found() {
    // A partition that takes a batch for durable looks for it in the store, and answers as if it
    // had never been made. Then it goes on to the next without end.
    let expected = [Invariant::DURABLE_BEFORE_ACKNOWLEDGED, Invariant::AS_THE_MODEL, Invariant::BOUNDED];
    check(InjectedFault::EffectsBeforeDurable, StorageKind::Memory, &expected);
    check(InjectedFault::EffectsBeforeDurable, StorageKind::Embedded, &expected);
}

#[test]
fn a_forgotten_sync_is_found() {
    check(InjectedFault::ForgottenSync, StorageKind::Embedded, &[Invariant::DURABLE_BEFORE_ACKNOWLEDGED]);
}

#[test]
fn a_late_sync_that_is_forgotten_is_found() {
    let later = |mut plan: Plan| {
        plan.machine.syncs_later = Some(Duration::from_millis(100));
        plan
    };
    let expected = [Invariant::DURABLE_BEFORE_ACKNOWLEDGED];
    check_in(later, InjectedFault::ForgottenLateSync, StorageKind::Embedded, &expected);
}

#[test]
fn a_checkpoint_that_forgets_its_sync_is_found() {
    check(
        InjectedFault::ForgottenCheckpointSync,
        StorageKind::Embedded,
        &[Invariant::DURABLE_BEFORE_ACKNOWLEDGED],
    );
}

#[test]
fn a_checkpoint_that_forgets_its_position_is_found() {
    // What is replayed on tables that hold it already is read twice, or contradicts what came
    // later.
    let expected = [Invariant::ONE_EFFECT_PER_CAUSE, Invariant::AS_THE_MODEL];
    check(InjectedFault::ForgottenPosition, StorageKind::Embedded, &expected);
}

#[test]
fn a_batch_lost_at_a_restart_is_found() {
    // What was lost is missed by whoever was answered, or by the model that knows what was written.
    let expected = [Invariant::DURABLE_BEFORE_ACKNOWLEDGED, Invariant::AS_THE_MODEL];
    check(InjectedFault::BatchLostAtRestart, StorageKind::Memory, &expected);
}

#[test]
fn an_event_recorded_twice_is_found() {
    check(EVENT_TWICE, StorageKind::Memory, &[Invariant::ONE_EFFECT_PER_CAUSE]);
}

#[test]
fn an_attempt_begun_twice_is_found() {
    check(ATTEMPT_TWICE, StorageKind::Memory, &[Invariant::ONE_LEASE]);
}

#[test]
fn a_stale_lease_that_is_honoured_is_found() {
    check(STALE_LEASE_HONOURED, StorageKind::Memory, &[Invariant::ONE_LEASE]);
}

#[test]
fn a_deadline_that_is_lost_is_found() {
    check(InjectedFault::DeadlineLost, StorageKind::Memory, &[Invariant::NEVER_EARLY_HARDLY_LATE]);
}

#[test]
fn an_alias_that_is_not_freed_is_found() {
    for storage in [StorageKind::Memory, StorageKind::Embedded] {
        // Loading a job twice would stop the process before anybody looks.
        let expected = [Invariant::ONE_EFFECT_PER_CAUSE];
        check_in(Plan::without_ends, ALIAS_NOT_FREED, storage, &expected);
    }
}

#[test]
fn a_body_that_stays_when_its_job_is_gone_is_found() {
    check(BODY_STAYS, StorageKind::Embedded, &[Invariant::ROWS_AGREE]);
}

#[test]
fn one_stored_record_that_is_another_is_found() {
    for storage in [StorageKind::Memory, StorageKind::Embedded] {
        check(STATE_CORRUPTED, storage, &[Invariant::AS_THE_MODEL]);
        check(READING_CORRUPTED, storage, &[Invariant::ORDER_PER_DEVICE]);
    }
}

#[test]
fn an_attempt_after_its_link_was_cut_is_found() {
    check(ATTEMPTS_WAIT, StorageKind::Memory, &[Invariant::LOOKED_UP_AT_THE_LAST_MOMENT]);
}

#[test]
fn a_retry_that_comes_too_soon_is_found() {
    check(RETRIES_TOO_SOON, StorageKind::Memory, &[Invariant::NEVER_EARLY_HARDLY_LATE]);
}

#[test]
fn a_way_in_that_closes_without_a_word_is_found() {
    check(SILENT_CLOSE, StorageKind::Memory, &[Invariant::SILENCE_IS_MEASURED]);
}

#[test]
fn reports_in_another_order_are_found() {
    check(
        SWAPPED_REPORTS,
        StorageKind::Memory,
        &[Invariant::ORDER_PER_DEVICE, Invariant::ONE_EFFECT_PER_CAUSE],
    );
}

#[test]
fn a_repeat_that_has_an_effect_is_found() {
    let expected = [Invariant::ONE_EFFECT_PER_CAUSE, Invariant::ORDER_PER_DEVICE, Invariant::AS_THE_MODEL];
    check(REPEATS_TAKEN_FOR_NEW, StorageKind::Memory, &expected);
}

#[test]
fn a_body_that_hides_what_was_skipped_is_found() {
    check(NOTHING_SKIPPED, StorageKind::Memory, &[Invariant::NEWEST_WINS]);
}

#[test]
fn a_breaker_that_never_opens_is_found() {
    let expected = [Invariant::BOUNDED, Invariant::NEVER_EARLY_HARDLY_LATE];
    let kind = Plan::with_receivers_that_keep_failing;
    check_in(kind, BREAKER_IGNORED, StorageKind::Memory, &expected);
}

#[test]
fn a_breaker_that_drops_what_it_holds_back_is_found() {
    let kind = Plan::with_receivers_that_keep_failing;
    check_in(kind, BREAKER_DROPS, StorageKind::Memory, &[Invariant::NEVER_EARLY_HARDLY_LATE]);
}

#[test]
fn a_limit_that_is_ignored_is_found() {
    check(LIMIT_IGNORED, StorageKind::Memory, &[Invariant::BOUNDED]);
}
