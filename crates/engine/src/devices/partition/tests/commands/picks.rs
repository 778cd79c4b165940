//! Commands of devices that a task or a campaign picked.

use base::Incarnation;
use records::{CampaignSlot, DevicePlace, DeviceSlot, PickClass, PickOutcome, PickTerms};

use super::*;
use crate::campaigns::{OrderKind, PickOrder, PickOrderOutcome, PickStanding};

const ANSWER_TIMEOUT: Duration = Duration::from_millis(5_000);
const SLOT_DUE_AT: Timestamp = Timestamp(1_795_222_920_000);

fn queue() -> OutcomeReceiver {
    OutcomeReceiver::Queue { namespace: "a".into(), queue: "b".into() }
}

fn terms(receiver: Option<OutcomeReceiver>) -> Arc<PickTerms> {
    Arc::new(PickTerms {
        incarnation: Incarnation(3),
        payload: Arc::from(*b"{}"),
        selector: None,
        exclude: None,
        devices: None,
        relation: None,
        spread_by: None,
        count: 1,
        answer_timeout_ms: 5_000,
        class: PickClass::Ordinary,
        receiver,
        token: None,
        request: 0,
    })
}

impl Bench {
    /// An order for a pick of a task; with a receiver, of a slot of a campaign.
    fn pick_order(&self, what: OrderKind, receiver: Option<OutcomeReceiver>) -> PickOrder {
        let slot = self.rig.view().device(&device()).expect("readable").expect("there").slot;
        let of_campaign = CampaignSlot { campaign: Incarnation(8), number: 17, due_at: SLOT_DUE_AT };
        PickOrder {
            task: Incarnation(9),
            number: 4,
            id: EntityId { routing: 1, at: Timestamp(5), number: 6, tag: 7 },
            device: device(),
            place: DevicePlace { partition: base::PartitionId(0), slot },
            slot: receiver.is_some().then(|| (Arc::from("ping"), of_campaign)),
            terms: terms(receiver),
            picked_at: self.rig.now(),
            command: None,
            what,
            why: PickOutcome::NotSent,
        }
    }

    fn order(&mut self, order: PickOrder) -> PickOrderOutcome {
        let orders = vec![order];
        let report = self.rig.ask(|reply| DeviceInput::PickOrders { orders, reply }).remove(0);
        assert_eq!((report.task, report.number), (Incarnation(9), 4));
        report.outcome
    }

    fn stands(&mut self, order: PickOrder) -> PickStanding {
        match self.order(order) {
            PickOrderOutcome::Stands(standing) => standing,
            other => panic!("{other:?}"),
        }
    }

    fn told(&mut self) -> Vec<PickOutcome> {
        self.outcomes().iter().map(OutcomeDue::pick_outcome).collect()
    }
}

#[test]
fn a_pick_is_given_once_however_often_it_is_ordered() {
    let mut bench = Bench::new();
    bench.connect(1);
    let given = bench.stands(bench.pick_order(OrderKind::Give, None));
    assert_eq!((given.status, given.was_sent), (CommandStatus::Published, true));
    let again = bench.stands(bench.pick_order(OrderKind::Ensure, None));
    assert_eq!(again.command, given.command);
    assert_eq!(bench.carried(), [given.command], "it went out once");
    let command = bench.rig.view().command(given.command.into()).expect("readable").expect("there");
    let task = bench.pick_order(OrderKind::Give, None).id.to_text("tsk_");
    assert_eq!(command.origin.as_deref(), Some(format!("task {task}").as_str()));
    let terms = command.terms;
    assert_eq!((terms.attempts_max, terms.ack_timeout_ms, terms.ttl_ms), (1, 5_000, Some(5_000)));
    bench.rig.say(DEVICE, answer(given.command, true));
    let ended = bench.stands(bench.pick_order(OrderKind::Ensure, None));
    assert_eq!((ended.was_answered, ended.result.as_deref()), (true, Some("7")));
    assert_eq!(bench.told(), [], "a task tells its end itself");
}

#[test]
fn a_device_that_is_away_is_given_nothing_unless_it_was_picked_before() {
    let mut bench = Bench::new();
    assert_eq!(bench.order(bench.pick_order(OrderKind::Give, None)), PickOrderOutcome::Away);
    let waits = bench.stands(bench.pick_order(OrderKind::Ensure, None));
    assert_eq!((waits.status, waits.was_sent), (CommandStatus::Scheduled, false));
    assert!(!waits.is_connected);
    bench.connect(1);
    assert_eq!(bench.carried(), [waits.command]);
    assert!(bench.stands(bench.pick_order(OrderKind::Ensure, None)).is_connected);
}

#[test]
fn another_device_of_the_same_id_is_nobody() {
    let mut bench = Bench::new();
    bench.connect(1);
    let mut order = bench.pick_order(OrderKind::Give, None);
    order.place.slot = DeviceSlot(order.place.slot.0 + 1);
    assert_eq!(bench.order(order), PickOrderOutcome::Nobody);
}

#[test]
fn a_campaign_is_told_every_end_once() {
    let receiver = || Some(queue());
    for (what, expect) in [
        ("answers", PickOutcome::Answered),
        ("refuses", PickOutcome::Refused),
        ("is mute", PickOutcome::NoAnswer),
    ] {
        let mut bench = Bench::new();
        bench.connect(1);
        let given = bench.stands(bench.pick_order(OrderKind::Give, receiver()));
        if what == "is mute" {
            bench.rig.pass(ACK_TIMEOUT);
        }
        bench.rig.say(DEVICE, answer(given.command, what != "refuses"));
        assert_eq!(bench.told(), [expect], "the device {what}");
        let standing = bench.stands(bench.pick_order(OrderKind::Ensure, receiver()));
        assert_eq!(standing.late.is_some(), what == "is mute");
        let origin = bench.rig.view().command(given.command.into()).expect("readable").expect("there").origin;
        assert_eq!(origin.as_deref(), Some("campaign ping slot 17"));
    }
}

#[test]
fn a_campaign_is_told_of_picks_that_never_went_out() {
    for (before, what, why, expect) in [
        (Some(OrderKind::Ensure), OrderKind::TakeBack, PickOutcome::WentAway, PickOutcome::WentAway),
        (Some(OrderKind::Ensure), OrderKind::TakeBack, PickOutcome::NotSent, PickOutcome::NotSent),
        (None, OrderKind::TakeBack, PickOutcome::NotSent, PickOutcome::NotSent),
        (None, OrderKind::Give, PickOutcome::NotSent, PickOutcome::WentAway),
    ] {
        let mut bench = Bench::new();
        before.iter().for_each(|before| drop(bench.order(bench.pick_order(*before, Some(queue())))));
        let order = PickOrder { why, ..bench.pick_order(what, Some(queue())) };
        let is_give = what == OrderKind::Give;
        let expect_outcome = if is_give { PickOrderOutcome::Away } else { PickOrderOutcome::TakenBack };
        assert_eq!(bench.order(order), expect_outcome, "{before:?} {what:?}");
        bench.connect(1);
        assert_eq!(bench.carried(), [], "nothing goes out");
        assert_eq!(bench.told(), [expect], "{before:?} {what:?} {why:?}");
    }
}

#[test]
fn a_pick_is_not_tried_anew() {
    let mut bench = Bench::new();
    bench.connect(1);
    let given = bench.stands(bench.pick_order(OrderKind::Give, None));
    bench.rig.say(DEVICE, answer(given.command, false));
    let id = given.command;
    let retried = bench.rig.ask(|reply| CommandInput::Retry { id, reply }.into());
    assert_eq!(retried.map_err(|problem| problem.code), Err("not_retryable"));
}

#[test]
fn what_went_out_is_not_taken_back() {
    let mut bench = Bench::new();
    bench.connect(1);
    let given = bench.stands(bench.pick_order(OrderKind::Give, Some(queue())));
    let stands = bench.stands(bench.pick_order(OrderKind::TakeBack, Some(queue())));
    assert_eq!((stands.command, stands.status), (given.command, CommandStatus::Published));
    assert_eq!(bench.told(), []);
}

#[test]
fn a_pick_that_waits_expires_unsent_and_one_that_went_out_has_its_whole_time() {
    let mut bench = Bench::new();
    let waits = bench.stands(bench.pick_order(OrderKind::Ensure, Some(queue())));
    bench.rig.pass(ANSWER_TIMEOUT);
    let ended = bench.stands(PickOrder {
        command: Some(waits.command),
        ..bench.pick_order(OrderKind::Ensure, Some(queue()))
    });
    assert_eq!((ended.status, ended.was_sent), (CommandStatus::Expired, false));
    assert_eq!(bench.told(), [PickOutcome::NotSent]);

    let mut bench = Bench::new();
    let waits = bench.stands(bench.pick_order(OrderKind::Ensure, Some(queue())));
    bench.rig.pass(ANSWER_TIMEOUT / 2);
    bench.connect(1);
    bench.rig.pass(ANSWER_TIMEOUT - Duration::from_millis(1));
    bench.rig.say(DEVICE, answer(waits.command, true));
    assert_eq!(bench.told(), [PickOutcome::Answered], "its ttl was over long before");
}

#[test]
fn a_pick_whose_command_may_be_forgotten_is_given_none() {
    let mut bench = Bench::new();
    bench.connect(1);
    let order = bench.pick_order(OrderKind::Ensure, None);
    let given = bench.stands(order.clone());
    bench.rig.say(DEVICE, answer(given.command, true));
    bench.rig.pass(crate::settings::CommandSettings::default().keep);
    assert_eq!(bench.order(order), PickOrderOutcome::Nobody);
    assert_eq!(bench.carried(), [given.command], "it went out once");
}

#[test]
fn a_receiver_that_hangs_keeps_picks_from_being_given_and_not_from_ending() {
    const OUTCOMES_MAX: usize = 65_536;
    const ORDERS: usize = 1_024;
    let mut bench = Bench::new();
    bench.connect(1);
    let given = bench.stands(bench.pick_order(OrderKind::Give, Some(queue())));
    bench.disconnect(1);
    let orders = vec![bench.pick_order(OrderKind::Give, Some(queue())); ORDERS];
    for _ in 0..OUTCOMES_MAX / ORDERS {
        let orders = orders.clone();
        let reports = bench.rig.ask(|reply| DeviceInput::PickOrders { orders, reply });
        assert!(reports.iter().all(|report| report.outcome == PickOrderOutcome::Away));
    }
    for what in [OrderKind::Give, OrderKind::Ensure] {
        let order = PickOrder { number: 5, ..bench.pick_order(what, Some(queue())) };
        let report = bench.rig.ask(|reply| DeviceInput::PickOrders { orders: vec![order], reply }).remove(0);
        assert_eq!(report.outcome, PickOrderOutcome::Busy, "{what:?}");
    }
    let order = PickOrder { number: 5, ..bench.pick_order(OrderKind::TakeBack, Some(queue())) };
    let report = bench.rig.ask(|reply| DeviceInput::PickOrders { orders: vec![order], reply }).remove(0);
    assert_eq!(report.outcome, PickOrderOutcome::TakenBack, "a pick ends whatever the room");
    bench.rig.pass(ANSWER_TIMEOUT);
    assert_eq!(bench.status(given.command).0, CommandStatus::Failed);
    let mut registry = prometheus_client::registry::Registry::default();
    bench.rig.context.campaigns.links.register(&mut registry);
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).expect("encodable");
    assert!(text.contains("fieldpost_pick_results_dropped_total 2\n"), "{text}");
}

#[test]
fn a_campaign_is_told_of_a_device_whose_kind_refuses_the_payload() {
    let mut bench = Bench::new();
    bench.rig.refuse_payloads();
    bench.connect(1);
    assert_eq!(bench.order(bench.pick_order(OrderKind::Give, Some(queue()))), PickOrderOutcome::Nobody);
    assert_eq!(bench.told(), [PickOutcome::NotSent]);
    assert_eq!(bench.carried(), []);
}
