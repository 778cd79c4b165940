//! Tasks in their lists, picks in the orders in which they are asked for, and shares of devices.

use std::slice;
use std::sync::Arc;

use base::{DeviceId, EntityId, Incarnation, PartitionId, Timestamp};
use records::{
    CampaignPace, CampaignRecord, CampaignSlot, CampaignState, EndPost, MissedSlots, Op, Pick, PickClass,
    PickClock, PickCounts, PickEnd, PickMinute, PickOutcome, PickShare, PickTerms, TaskRecord, TaskStanding,
    TaskState, TokenPicks,
};

use super::basics::id;
use super::retention::throughout;
use super::traffic::Traffic;
use super::{Make, Subject};
use crate::port::View;
use crate::queries::ResultPage;

const CAMPAIGN: Incarnation = Incarnation(1);
const TERMS: Incarnation = Incarnation(2);

/// The task of a number: an even one is no slot.
pub(crate) fn task(number: u64) -> TaskRecord {
    let due_at = Timestamp(1_000 - number as i64);
    let slot = CampaignSlot { campaign: CAMPAIGN, number, due_at };
    TaskRecord {
        id: EntityId { routing: 0, at: Timestamp(5), number: number as u32, tag: 7 },
        incarnation: Incarnation(number),
        terms: TERMS,
        created_at: Timestamp(5),
        wanted: 1,
        deadline_ms: 30_000,
        slot: (number % 2 == 1).then_some(slot),
        request: number.is_multiple_of(2).then_some(7),
    }
}

pub(crate) fn running(of: &TaskRecord) -> TaskState {
    TaskState {
        task: of.incarnation,
        is_slot: of.slot.is_some(),
        standing: TaskStanding::Running,
        replaced_until: Timestamp(9),
        counts: PickCounts::default(),
        ended: 0,
        was_skipped: false,
        ended_at: None,
        post: None,
    }
}

pub(crate) fn ended(of: &TaskRecord, at: i64) -> TaskState {
    TaskState { standing: TaskStanding::Done, ended_at: Some(Timestamp(at)), ..running(of) }
}

/// A pick of the device of the same number.
pub(crate) fn pick(of: &TaskRecord, number: u32, picked_at: i64) -> Pick {
    Pick {
        task: of.incarnation,
        number,
        slot: of.slot,
        device: id(["A", "B", "C"][number as usize]),
        place: Traffic::place(u64::from(number)),
        picked_at: Timestamp(picked_at),
        command: None,
        was_sent: true,
        end: None,
        late: None,
    }
}

pub(crate) fn answered(pick: &Pick, at: i64, number: u32) -> Pick {
    let result = Some(Arc::from("{\"rtt\":7}"));
    let end = PickEnd { at: Timestamp(at), number, outcome: PickOutcome::Answered, result };
    Pick { end: Some(end), ..pick.clone() }
}

pub(crate) fn terms() -> PickTerms {
    PickTerms {
        incarnation: TERMS,
        payload: Arc::from(&b"{}"[..]),
        selector: Some("country=CN".into()),
        exclude: None,
        devices: None,
        relation: None,
        spread_by: None,
        count: 1,
        answer_timeout_ms: 10_000,
        class: PickClass::Large,
        receiver: None,
        token: None,
        request: 7,
    }
}

pub(crate) fn campaign(id: &str) -> (CampaignRecord, CampaignState) {
    let campaign = CampaignRecord {
        id: id.into(),
        incarnation: CAMPAIGN,
        created_at: Timestamp(5),
        name: None,
        terms: TERMS,
        pace: CampaignPace::Every(300_000),
        phase_ms: 7,
        is_phase_fixed: true,
        from: None,
        until: None,
        missed: MissedSlots::CatchUp,
        is_panel: true,
    };
    (campaign, CampaignState { id: id.into(), is_paused: false, passed: Some(3), panel: None })
}

struct CampaignsUnderTest {
    subject: Box<dyn Subject>,
    head: records::PartitionHead,
}

impl CampaignsUnderTest {
    fn new(make: Make<'_>) -> Self {
        Self { subject: make(), head: records::PartitionHead::default() }
    }

    fn put(&mut self, ops: Vec<Op>) {
        let batch = super::next(&mut self.head, ops);
        super::put(&mut *self.subject, records::Batch { partition: PartitionId::CAMPAIGNS, ..batch });
    }

    fn throughout(&mut self, look: impl Fn(&dyn View, &str)) {
        let view = |subject: &dyn Subject| subject.store().view(PartitionId::CAMPAIGNS).expect("opens");
        throughout(&mut *self.subject, |subject, context| look(&*view(subject), context));
    }
}

fn put_task(task: &TaskRecord, state: &TaskState) -> [Op; 2] {
    [Op::PutTask(Box::new(task.clone())), Op::PutTaskState(Box::new(state.clone()))]
}

fn put_pick(pick: &Pick) -> Op {
    Op::PutPick(Box::new(pick.clone()))
}

/// Among those that run, those whose end is to be told, or those that ended; by id, and as slots of
/// their campaign.
pub fn a_task_is_in_the_lists_where_it_stands(make: Make<'_>) {
    let mut store = CampaignsUnderTest::new(make);
    let tasks = [task(10), task(11), task(12), task(13), task(14)];
    store.put(tasks.iter().flat_map(|task| put_task(task, &running(task))).collect());
    let post = Some(EndPost { attempts: 2, due_at: Timestamp(9) });
    let untold = TaskState { post, ..ended(&tasks[2], 70) };
    let states =
        [running(&tasks[0]), ended(&tasks[1], 50), untold.clone(), ended(&tasks[3], 40), running(&tasks[4])];
    store.put(states.iter().map(|state| Op::PutTaskState(Box::new(state.clone()))).collect());
    store.put(vec![Op::DeleteTask(Box::new(tasks[4].clone()), Box::new(states[4].clone()))]);
    store.throughout(|view, context| {
        let list = |states: Vec<TaskState>| states.iter().map(|state| state.task.0).collect::<Vec<_>>();
        assert_eq!(view.running_tasks(None, 9).expect("reads"), [states[0].clone()], "{context}");
        assert_eq!(list(view.running_tasks(Some(Incarnation(10)), 9).expect("reads")), [], "{context}");
        assert_eq!(view.untold_tasks(None, 9).expect("reads"), slice::from_ref(&untold), "{context}");
        for (is_slot, before, limit, expect) in [
            (false, 71, 9, vec![12]),
            (false, 70, 9, vec![]),
            (true, 99, 9, vec![13, 11]),
            (true, 99, 1, vec![13]),
        ] {
            let found = list(view.tasks_ended(is_slot, None, Timestamp(before), limit).expect("reads"));
            assert_eq!(found, expect, "{context} {is_slot} {before}");
        }
        let behind = |at, number: usize| {
            let after = Some((Timestamp(at), tasks[number].incarnation));
            list(view.tasks_ended(true, after, Timestamp(99), 9).expect("reads"))
        };
        let found = [behind(0, 0), behind(40, 3), behind(50, 1)];
        assert_eq!(found, [vec![13, 11], vec![11], vec![]], "{context}");
        let by_id = |task: &TaskRecord| view.task_of(&task.id).expect("reads");
        assert_eq!([&tasks[0], &tasks[1], &tasks[4]].map(by_id), [Some(tasks[0].clone()), None, None]);
        let slots = |until, after| {
            let slots = view.slots(CAMPAIGN, (Timestamp(0), Timestamp(until)), after, 9).expect("reads");
            slots.iter().map(|(task, _)| task.incarnation.0).collect::<Vec<_>>()
        };
        assert_eq!(slots(1_000, None), [11, 13], "{context}");
        assert_eq!(slots(989, None), [13], "{context}");
        assert_eq!(slots(1_000, Some((Timestamp(989), Incarnation(11)))), [13], "{context}");
    });
    store.put(vec![Op::PutTaskState(Box::new(ended(&tasks[2], 70)))]);
    store.throughout(|view, context| {
        assert_eq!(view.untold_tasks(None, 9).expect("reads"), [], "{context}");
        assert_eq!(view.tasks_ended(false, None, Timestamp(71), 9).expect("reads").len(), 1, "{context}");
    });
}

/// Results that ended up to 50.
fn page(
    device: Option<&DeviceId>,
    after: Option<(Timestamp, Incarnation, u32)>,
    is_descending: bool,
    limit: usize,
) -> ResultPage<'_> {
    ResultPage { from: Timestamp(0), until: Timestamp(50 + 1), device, after, is_descending, limit }
}

/// By number, by the order in which they ended, by campaign, and by device.
pub fn picks_are_found_in_each_of_their_orders(make: Make<'_>) {
    let mut store = CampaignsUnderTest::new(make);
    let (plain, slot, later) = (task(10), task(11), task(13));
    let open = [
        pick(&plain, 0, 20),
        pick(&plain, 1, 20),
        pick(&plain, 2, 21),
        pick(&slot, 0, 30),
        pick(&later, 0, 40),
    ];
    let tasks = [&plain, &slot, &later].into_iter().flat_map(|task| put_task(task, &running(task)));
    store.put(tasks.chain(open.iter().map(put_pick)).collect());
    let done = [
        answered(&open[1], 25, 0),
        answered(&open[0], 26, 1),
        answered(&open[3], 50, 0),
        answered(&open[4], 45, 0),
    ];
    store.put(done.iter().map(put_pick).collect());
    let late = Some(records::LateAnswer { ok: true, at: Timestamp(99), result: None });
    let late = Pick { late, ..done[1].clone() };
    store.put(vec![put_pick(&late)]);
    let [a, b] = ["A", "B"].map(id);
    store.throughout(|view, context| {
        let all = view.picks(plain.incarnation, None, 9).expect("reads");
        assert_eq!(all, [late.clone(), done[0].clone(), open[2].clone()], "{context}");
        assert_eq!(view.picks(plain.incarnation, Some(0), 1).expect("reads"), [done[0].clone()], "{context}");
        let mut first = Vec::new();
        assert_eq!(view.each_pick(plain.incarnation, 2, &mut |pick| first.push(pick)).expect("reads"), 2);
        assert_eq!(first, all[..2], "{context}");
        assert_eq!(view.each_pick(plain.incarnation, 9, &mut |_| {}).expect("reads"), 3, "{context}");
        let results =
            |after, descending| view.results(plain.incarnation, after, descending, 9).expect("reads");
        assert_eq!(results(None, false), [done[0].clone(), late.clone()], "{context}");
        assert_eq!(results(Some(1), true), [done[0].clone()], "{context}");
        assert_eq!(view.results(slot.incarnation, None, false, 9).expect("reads"), [], "{context}");
        let of_campaign = |page| view.campaign_results(CAMPAIGN, page).expect("reads");
        assert_eq!(of_campaign(page(None, None, true, 9)), [done[2].clone(), done[3].clone()], "{context}");
        let behind = Some((Timestamp(45), later.incarnation, 0));
        assert_eq!(of_campaign(page(None, behind, false, 9)), [done[2].clone()], "{context}");
        assert_eq!(of_campaign(page(None, behind, true, 9)), [], "{context}");
        assert_eq!(of_campaign(page(Some(&a), None, false, 1)), [done[3].clone()], "{context}");
        assert_eq!(of_campaign(page(Some(&b), None, false, 9)), [], "{context}");
        let since =
            |number, since| view.picks_since(Traffic::place(number), Timestamp(since), 9).expect("reads");
        let of = |at, task: &TaskRecord| (Timestamp(at), task.incarnation);
        assert_eq!(since(0, 30), [of(40, &later), of(30, &slot)], "{context}");
        assert_eq!(since(2, 0), [of(21, &plain)], "{context}");
    });
    store.put([&late, &done[2]].map(|pick| Op::DeletePick(Box::new(pick.key()))).into());
    store.throughout(|view, context| {
        assert_eq!(view.pick(plain.incarnation, 0).expect("reads"), None, "{context}");
        assert_eq!(view.results(plain.incarnation, None, false, 9).expect("reads"), [done[0].clone()]);
        let left = view.campaign_results(CAMPAIGN, page(Some(&a), None, true, 9)).expect("reads");
        assert_eq!(left, [done[3].clone()], "{context}");
        assert_eq!(
            view.picks_since(Traffic::place(0), Timestamp(0), 9).expect("reads").len(),
            1,
            "{context}"
        );
    });
}

/// Campaigns with their terms, what devices have had, and the clock.
pub fn campaigns_and_shares_are_what_was_put_last(make: Make<'_>) {
    let mut store = CampaignsUnderTest::new(make);
    let share = |number, reached| PickShare {
        place: Traffic::place(number),
        reached,
        last_picked_at: Timestamp(3),
        turn: 0,
        expired_in_a_row: 3,
        benched_until: Some(Timestamp(60_000)),
    };
    let minutes = vec![PickMinute { minute: 7, tasks: 1, picked: 100 }];
    let token_picks = vec![TokenPicks { token: "lab".into(), picks: 100 }];
    let clock = |reached| PickClock {
        at: Timestamp(4),
        reached,
        punishment_milli: 1_000,
        minutes: minutes.clone(),
        token_hour: 9,
        token_picks: token_picks.clone(),
    };
    let campaigns = ["b", "a", "c"].map(campaign);
    let mut ops: Vec<Op> = (0..4).map(|number| Op::PutPickShare(share(number, number))).collect();
    ops.extend([Op::PutPickClock(Box::new(clock(1))), Op::PutPickTerms(Box::new(terms()))]);
    for (campaign, state) in campaigns.clone() {
        ops.extend([Op::PutCampaign(Box::new(campaign)), Op::PutCampaignState(Box::new(state))]);
    }
    store.put(ops);
    let changed = [Op::PutPickShare(share(2, 99)), Op::DeletePickShare(Traffic::place(1))];
    store.put(changed.into_iter().chain([Op::PutPickClock(Box::new(clock(2)))]).collect());
    store.put(vec![Op::DeleteCampaign("c".into())]);
    let [b, a, _] = campaigns;
    store.throughout(|view, context| {
        // in order of partition, then of slot
        let shares = view.pick_shares(None, 9).expect("reads");
        assert_eq!(shares, [share(0, 0), share(2, 99), share(3, 3)], "{context}");
        assert_eq!(view.pick_shares(Some(Traffic::place(2)), 9).expect("reads"), [share(3, 3)], "{context}");
        assert_eq!(view.pick_share(Traffic::place(1)).expect("reads"), None, "{context}");
        assert_eq!(view.pick_clock().expect("reads"), Some(clock(2)), "{context}");
        assert_eq!(view.pick_terms(TERMS).expect("reads"), Some(terms()), "{context}");
        assert_eq!(view.campaigns(None, 9).expect("reads"), [a.clone(), b.clone()], "{context}");
        assert_eq!(view.campaigns(Some("a"), 9).expect("reads"), slice::from_ref(&b), "{context}");
        assert_eq!(view.campaign_state("c").expect("reads"), None, "{context}");
    });
    store.put(vec![Op::DeletePickTerms(TERMS)]);
    store.throughout(|view, context| assert_eq!(view.pick_terms(TERMS).expect("reads"), None, "{context}"));
}
