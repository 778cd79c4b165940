//! Devices and queues in one life: one process, one store and one machine with its faults, under
//! both models and both sets of checkers.

use crate::devices::plan as devices;
use crate::harness::fault_injection::InjectedFault;
use crate::harness::machine::StorageKind;
use crate::harness::seeds::{Found, Runs, check_fault_is_found};
use crate::harness::two_workloads::TwoWorkloads;
use crate::harness::violation::Invariant;
use crate::harness::workload::Plan;
use crate::queues::plan as queues;

/// Queues come to rest first: what they wait for may take days, and devices need an hour.
type Both = TwoWorkloads<crate::queues::world::World, crate::devices::world::World>;
type BothPlan = Plan<(queues::QueuesPlan, devices::FleetPlan)>;

const RUNS: Runs<Both> = Runs { test: "many_lives_of_both", in_ci: 0..60, plan };

const FOUND_BUGS: &[Found] = &[Found {
    seed: 1_795_983_039,
    with: "steps=188 storage_fault=0 backlog=8 resident_max=5 work=0 attend=0 registry=50 variation=6",
    what: "the model gave a job at once to a consumer that was served behind the inputs of its step",
}];

/// Devices of the seed, on the machine that they have with it, and queues besides. Nobody tells
/// workers anything: the runs of queues see to that.
fn plan(seed: u64) -> BothPlan {
    let (devices, queues) = (devices::Plan::of(seed), queues::Plan::of(seed).without_controls());
    Plan { machine: devices.machine, workload: (queues.workload, devices.workload) }
}

#[test]
fn many_lives_of_both_keep_every_promise() {
    RUNS.check(|(_, (queues, devices)), runs| {
        devices.reports > 20 * runs && devices.delivered > 5 * runs && queues.leased > 20 * runs
    });
}

#[test]
fn what_once_went_wrong_with_both_stays_right() {
    RUNS.check_found(FOUND_BUGS);
}

/// Seeds that a checker may need to meet a fault.
const SEEDS: std::ops::Range<u64> = 0..40;

fn check(fault: InjectedFault, storage: StorageKind, expected: &[Invariant]) {
    check_fault_is_found::<Both>(SEEDS.map(plan), (fault, storage), expected);
}

#[test]
fn faults_of_the_machine_are_found_under_both() {
    let durable = [Invariant::DURABLE_BEFORE_ACKNOWLEDGED, Invariant::AS_THE_MODEL];
    check(InjectedFault::ForgottenSync, StorageKind::Embedded, &durable);
    check(InjectedFault::BatchLostAtRestart, StorageKind::Memory, &durable);
    check(InjectedFault::DeadlineLost, StorageKind::Memory, &[Invariant::NEVER_EARLY_HARDLY_LATE]);
}

#[test]
fn faults_of_devices_are_found_beside_queues() {
    use crate::devices::fault_injection::{ATTEMPT_TWICE, EVENT_TWICE, STATE_CORRUPTED};
    check(EVENT_TWICE, StorageKind::Memory, &[Invariant::ONE_EFFECT_PER_CAUSE]);
    check(ATTEMPT_TWICE, StorageKind::Memory, &[Invariant::ONE_LEASE]);
    check(STATE_CORRUPTED, StorageKind::Embedded, &[Invariant::AS_THE_MODEL]);
}

#[test]
fn faults_of_queues_are_found_beside_devices() {
    use crate::queues::fault_injection::{GROUP_FORGOTTEN, LEASE_FORGOTTEN, RUNS_FROM_NOW};
    check(LEASE_FORGOTTEN, StorageKind::Embedded, &[Invariant::ONE_LEASE]);
    check(GROUP_FORGOTTEN, StorageKind::Memory, &[Invariant::GROUP_ORDER]);
    check(RUNS_FROM_NOW, StorageKind::Embedded, &[Invariant::RUNS_IN_TURN]);
}

#[test]
fn a_run_of_both_that_fails_is_made_smaller() {
    let broken = |seed| plan(seed).with_fault(crate::devices::fault_injection::EVENT_TWICE);
    Runs::<Both> { plan: broken, ..RUNS }.check_shrinks(2);
}

#[test]
fn a_seed_repeats_its_run_of_both_to_the_last_step() {
    RUNS.check_repeats(3..5);
}
