//! Commands that a rollout takes back.

use records::{MemberPlace, Rollout, RolloutCommand, RolloutWork};

use super::*;
use crate::rollouts::{OrderKind, OrderOutcome, RolloutOrder};

#[test]
fn what_ends_beside_a_command_that_is_taken_back_is_told() {
    let mut bench = Bench::new();
    bench.connect(1);
    let notify = Some(OutcomeReceiver::Queue { namespace: "a".into(), queue: "b".into() });
    let first = bench.send(NewCommand { notify, attempts_max: Some(1), ..plain() });
    let order = |what, command| RolloutOrder {
        rollout: Arc::new(rollout()),
        place: MemberPlace::of(base::Incarnation(9), &device(), 0),
        turn: 1,
        handed_at: Timestamp(0),
        command,
        what,
    };
    let give = vec![order(OrderKind::Give, None)];
    let given = bench.rig.ask(|reply| DeviceInput::RolloutOrders { orders: give, reply }).remove(0).outcome;
    let OrderOutcome::Stands(given) = given else { panic!("{given:?}") };
    assert_eq!(given.status, CommandStatus::Scheduled, "it waits behind the first");
    bench.rig.stand_still(ACK_TIMEOUT);
    let take_back = vec![order(OrderKind::TakeBack, Some(given.id))];
    let taken =
        bench.rig.ask(|reply| DeviceInput::RolloutOrders { orders: take_back, reply }).remove(0).outcome;
    assert_eq!(taken, OrderOutcome::TakenBack);
    assert_eq!(bench.status(first).0, CommandStatus::Failed);
    let told: Vec<_> = bench.outcomes().iter().map(|due| due.command.id).collect();
    assert_eq!(told, [first]);
}

fn rollout() -> Rollout {
    let receiver = OutcomeReceiver::Queue { namespace: "a".into(), queue: "b".into() };
    let command = RolloutCommand {
        payload: Arc::from(*b"{}"),
        ttl_ms: None,
        not_before: None,
        ack_timeout_ms: None,
        run_timeout_ms: None,
        attempts_max: None,
        origin: None,
        key: None,
        priority: 0,
        notify: Some(receiver),
    };
    Rollout::of("r", base::Incarnation(9), RolloutWork::Command(Box::new(command)))
}
