//! Traffic of campaigns: tasks, slots, picks, and what devices have had of them.

use std::sync::Arc;

use base::{DeviceId, EntityId, Incarnation, PartitionId, Timestamp};
use records::{
    CampaignPace, CampaignRecord, CampaignSlot, CampaignState, DevicePlace, DeviceSlot, EndPost, LateAnswer,
    MissedSlots, Op, OutcomeReceiver, Pick, PickClass, PickClock, PickCounts, PickEnd, PickMinute,
    PickOutcome, PickShare, PickTerms, TaskRecord, TaskRelation, TaskStanding, TaskState, TokenPicks,
};

use super::{Traffic, device_id};

/// Campaigns there may be.
const CAMPAIGNS: u64 = 4;

/// What a partition of campaigns has.
#[derive(Clone, Debug, Default)]
pub(super) struct InCampaigns {
    last_number: u32,
    terms: Vec<Incarnation>,
    tasks: Vec<KnownTask>,
}

#[derive(Clone, Debug)]
struct KnownTask {
    task: TaskRecord,
    state: TaskState,
    picks: Vec<Pick>,
}

impl Traffic {
    /// Tasks that are there.
    pub fn tasks(&self) -> impl Iterator<Item = &TaskRecord> {
        self.in_campaigns.tasks.iter().map(|known| &known.task)
    }

    /// Incarnations of campaigns.
    pub fn campaigns() -> impl Iterator<Item = Incarnation> {
        (0..CAMPAIGNS).map(Incarnation)
    }

    /// Places of devices that may be picked.
    #[must_use]
    pub fn place(number: u64) -> DevicePlace {
        DevicePlace { partition: PartitionId((number % 2) as u16), slot: DeviceSlot((number / 2) as u32) }
    }

    pub(super) fn change_of_campaigns(&mut self, ops: &mut Vec<Op>) {
        match self.below(24) {
            0 => self.put_terms(ops),
            1 => self.delete_terms(ops),
            2..=4 => self.put_task(ops),
            5..=6 => self.put_task_state(ops),
            7..=13 => self.put_pick(ops),
            14..=17 => self.end_pick(ops),
            18 => self.delete_task(ops),
            19..=20 => self.put_share(ops),
            21 => self.put_clock(ops),
            _ => self.put_campaign(ops),
        }
    }

    fn new_incarnation(&mut self) -> Incarnation {
        self.head.next_incarnation += 1;
        Incarnation(CAMPAIGNS + self.head.next_incarnation)
    }

    fn put_terms(&mut self, ops: &mut Vec<Op>) {
        let incarnation = self.new_incarnation();
        self.in_campaigns.terms.push(incarnation);
        let task = self.id_of_task();
        let relations = [None, Some(TaskRelation::SameAs(task)), Some(TaskRelation::NotAs(task))];
        let receiver = OutcomeReceiver::Queue { namespace: "shop".into(), queue: "results".into() };
        ops.push(Op::PutPickTerms(Box::new(PickTerms {
            incarnation,
            payload: Arc::from(&b"{\"do\":\"ping\"}"[..]),
            selector: self.maybe(|_| "country=CN".into()),
            exclude: self.maybe(|_| "city=\"Москва\"".into()),
            devices: self.maybe(|traffic| (0..traffic.below(5)).filter_map(device_id).collect()),
            relation: relations[self.below(3) as usize],
            spread_by: self.maybe(|_| "operator".into()),
            count: 1 + self.below(100) as u32,
            answer_timeout_ms: 10_000,
            class: PickClass::ALL[self.below(3) as usize],
            receiver: self.maybe(|_| receiver),
            token: self.maybe(|_| "ops".into()),
            request: u128::from(self.random.next_u64()),
        })));
    }

    fn delete_terms(&mut self, ops: &mut Vec<Op>) {
        let gone = self.forget(|traffic| &mut traffic.in_campaigns.terms);
        ops.extend(gone.map(Op::DeletePickTerms));
    }

    fn id_of_task(&mut self) -> EntityId {
        self.in_campaigns.last_number += 1;
        let number = self.in_campaigns.last_number;
        EntityId { routing: 1, at: self.head.now, number, tag: 9 }
    }

    fn put_task(&mut self, ops: &mut Vec<Op>) {
        let slot = self.maybe(|traffic| CampaignSlot {
            campaign: Incarnation(traffic.below(CAMPAIGNS)),
            number: traffic.below(1_000),
            due_at: traffic.some_ts(),
        });
        let task = TaskRecord {
            id: self.id_of_task(),
            incarnation: self.new_incarnation(),
            terms: Incarnation(self.below(100)),
            created_at: self.head.now,
            wanted: self.below(100) as u32,
            deadline_ms: 30_000,
            slot,
            request: slot.is_none().then(|| u128::from(self.below(1 << 20)) << 64),
        };
        let state = TaskState {
            task: task.incarnation,
            is_slot: slot.is_some(),
            standing: TaskStanding::Running,
            replaced_until: self.some_ts(),
            counts: PickCounts::default(),
            ended: 0,
            was_skipped: false,
            ended_at: None,
            post: None,
        };
        ops.extend([Op::PutTask(Box::new(task.clone())), Op::PutTaskState(Box::new(state.clone()))]);
        self.in_campaigns.tasks.push(KnownTask { task, state, picks: Vec::new() });
    }

    fn some_task(&mut self) -> Option<usize> {
        let tasks = self.in_campaigns.tasks.len() as u64;
        (tasks > 0).then(|| self.below(tasks) as usize)
    }

    /// It goes on, ends, or its end is told.
    fn put_task_state(&mut self, ops: &mut Vec<Op>) {
        let Some(at) = self.some_task() else { return };
        let (ends, until) = (self.below(2) == 0, self.some_ts());
        let post = self.maybe(|traffic| EndPost { attempts: 1, due_at: traffic.head.now });
        let now = self.head.now;
        let state = &mut self.in_campaigns.tasks[at].state;
        if state.standing != TaskStanding::Running {
            state.post = None;
        } else if ends {
            let standing = [TaskStanding::Done, TaskStanding::Cancelled][usize::from(post.is_some())];
            let was_skipped = state.counts.picked == 0;
            *state = TaskState { standing, was_skipped, ended_at: Some(now), post, ..state.clone() };
        } else {
            state.replaced_until = until;
        }
        ops.push(Op::PutTaskState(Box::new(state.clone())));
    }

    fn put_pick(&mut self, ops: &mut Vec<Op>) {
        let Some(at) = self.some_task() else { return };
        let known = &mut self.in_campaigns.tasks[at];
        if known.state.standing != TaskStanding::Running {
            return;
        }
        // a task picks each device once
        let number = known.picks.len() as u64;
        let (Some(device), place) = (device_id(number), Self::place(number)) else { return };
        let pick = Pick {
            task: known.task.incarnation,
            number: number as u32,
            slot: known.task.slot,
            device,
            place,
            picked_at: self.head.now,
            command: None,
            was_sent: false,
            end: None,
            late: None,
        };
        known.picks.push(pick.clone());
        known.state.counts.picked += 1;
        let state = known.state.clone();
        ops.extend([Op::PutPick(Box::new(pick)), Op::PutTaskState(Box::new(state))]);
    }

    /// A pick ends, or is answered late.
    fn end_pick(&mut self, ops: &mut Vec<Op>) {
        let Some(at) = self.some_task() else { return };
        let (now, outcome) = (self.head.now, PickOutcome::ALL[self.below(6) as usize]);
        let result: Option<Arc<str>> = self.maybe(|_| Arc::from("{\"rtt\":7}"));
        let of = self.below(8) as usize;
        let known = &mut self.in_campaigns.tasks[at];
        let Some(pick) = known.picks.get_mut(of) else { return };
        if pick.end.is_some() {
            pick.late = Some(LateAnswer { ok: true, at: now, result: Some("1".into()) });
        } else {
            pick.was_sent = true;
            pick.command = Some(EntityId { routing: 1, at: now, number: 1, tag: 1 });
            pick.end = Some(PickEnd { at: now, number: known.state.ended, outcome, result });
            known.state.ended += 1;
        }
        ops.push(Op::PutPick(Box::new(pick.clone())));
        ops.push(Op::PutTaskState(Box::new(known.state.clone())));
    }

    fn delete_task(&mut self, ops: &mut Vec<Op>) {
        let Some(at) = self.some_task() else { return };
        if self.in_campaigns.tasks[at].state.ended_at.is_none() {
            return;
        }
        let KnownTask { task, state, picks } = self.in_campaigns.tasks.swap_remove(at);
        ops.extend(picks.iter().map(|pick| Op::DeletePick(Box::new(pick.key()))));
        ops.push(Op::DeleteTask(Box::new(task), Box::new(state)));
    }

    fn put_share(&mut self, ops: &mut Vec<Op>) {
        let place = Self::place(self.random.below(100));
        if self.below(6) == 0 {
            ops.push(Op::DeletePickShare(place));
            return;
        }
        ops.push(Op::PutPickShare(PickShare {
            place,
            reached: self.below(1 << 40),
            last_picked_at: self.head.now,
            turn: 0,
            expired_in_a_row: self.below(5) as u32,
            benched_until: self.maybe(Self::some_ts),
        }));
    }

    fn put_clock(&mut self, ops: &mut Vec<Op>) {
        let minute = |minute| PickMinute { minute, tasks: 2, picked: 200 };
        let token = |number| TokenPicks { token: format!("token-{number}").into(), picks: number };
        ops.push(Op::PutPickClock(Box::new(PickClock {
            at: self.head.now,
            reached: self.below(1 << 40),
            punishment_milli: 1_000,
            minutes: (0..self.below(60)).map(minute).collect(),
            token_hour: self.below(1 << 20),
            token_picks: (0..self.below(3)).map(token).collect(),
        })));
    }

    fn put_campaign(&mut self, ops: &mut Vec<Op>) {
        let number = self.below(CAMPAIGNS);
        let id: Box<str> = format!("campaign-{number}").into();
        if self.below(6) == 0 {
            ops.push(Op::DeleteCampaign(id));
            return;
        }
        ops.push(Op::PutCampaign(Box::new(CampaignRecord {
            id: id.clone(),
            incarnation: Incarnation(number),
            created_at: self.head.now,
            name: self.maybe(|_| "Пинг".into()),
            terms: Incarnation(self.below(100)),
            pace: [CampaignPace::Every(1_000), CampaignPace::Over(3_600_000)][self.below(2) as usize],
            phase_ms: self.below(1_000),
            is_phase_fixed: self.below(2) == 0,
            from: self.maybe(Self::some_ts),
            until: self.maybe(Self::some_ts),
            missed: MissedSlots::ALL[self.below(2) as usize],
            is_panel: self.below(2) == 0,
        })));
        ops.push(Op::PutCampaignState(Box::new(CampaignState {
            id,
            is_paused: self.below(2) == 0,
            passed: self.maybe(|traffic| traffic.below(1_000)),
            panel: self.maybe(|traffic| Incarnation(traffic.below(1_000))),
        })));
    }

    /// A time that a pick may have ended at, and a device that may have been picked.
    pub fn some_result(&self) -> Option<(Timestamp, DeviceId)> {
        let ended = |pick: &Pick| pick.end.as_ref().map(|end| (end.at, pick.device.clone()));
        self.in_campaigns.tasks.iter().flat_map(|known| &known.picks).find_map(ended)
    }
}
