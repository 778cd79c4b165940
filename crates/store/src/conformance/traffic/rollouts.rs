//! Traffic of rollouts: what was asked for, how far that has come, and where each device stands.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base::{EntityId, Incarnation};
use records::{
    MemberPlace, MemberStatus, Op, Rollout, RolloutCommand, RolloutCounts, RolloutCursor, RolloutDevices,
    RolloutEntry, RolloutMember, RolloutStage, RolloutStanding, RolloutState, RolloutStop, RolloutWait,
    RolloutWindow, RolloutWork,
};

use super::{DEVICE_IDS, Traffic, device_id};

/// Rollouts that there may be at a time.
const ROLLOUTS: usize = 4;

/// A rollout that is there.
#[derive(Clone, Debug)]
pub(super) struct KnownRollout {
    id: Box<str>,
    incarnation: Incarnation,
    /// Numbers of the rows of its named devices.
    named: BTreeSet<u32>,
    members: BTreeMap<MemberPlace, MemberStatus>,
}

impl Traffic {
    /// Rollouts that are there, with what their devices are kept under.
    pub fn rollouts(&self) -> impl Iterator<Item = (&str, Incarnation)> {
        self.rollouts.iter().map(|known| (&*known.id, known.incarnation))
    }

    pub(super) fn change_of_rollouts(&mut self, ops: &mut Vec<Op>) {
        let count = self.rollouts.len();
        if count == 0 || (count < ROLLOUTS && self.below(10) == 0) {
            return self.put_rollout(ops);
        }
        let at = self.below(count as u64) as usize;
        match self.below(12) {
            0..=2 => self.put_rollout_state(at, ops),
            3..=4 => self.change_of_named_devices(at, ops),
            5..=10 => self.put_member(at, ops),
            _ => self.delete_rollout(at, ops),
        }
    }

    fn put_rollout(&mut self, ops: &mut Vec<Op>) {
        let id: Box<str> = format!("rollout-{}", self.below(6)).into();
        if self.rollouts.iter().any(|known| known.id == id) {
            return;
        }
        let incarnation = self.incarnation();
        let rollout = Rollout {
            created_at: self.head.now,
            request: u128::from(self.random.next_u64()),
            selector: self.maybe(|_| "site=\"Москва\"".into()),
            is_named: self.below(2) == 0,
            rate: self.maybe(|traffic| traffic.below(1_000) as u32),
            in_flight: self.maybe(|traffic| traffic.below(1_000) as u32),
            stages: (0..self.below(3)).map(|_| self.rollout_stage()).collect(),
            window: self.maybe(|_| RolloutWindow { cron: "0 2 * * *".into(), for_ms: 3_600_000, tz: None }),
            stop: self.maybe(|_| RolloutStop { failed_ppm: 100_000, after: 50 }),
            include_later: self.below(2) == 0,
            ..Rollout::of(&id, incarnation, self.rollout_work())
        };
        ops.push(Op::PutRollout(Box::new(rollout)));
        ops.push(Op::PutRolloutState(Box::new(self.rollout_state(&id))));
        let (named, members) = (BTreeSet::new(), BTreeMap::new());
        self.rollouts.push(KnownRollout { id, incarnation, named, members });
    }

    fn rollout_stage(&mut self) -> RolloutStage {
        RolloutStage {
            share_ppm: self.below(1_000_000) as u32,
            soak_ms: self.below(1 << 40),
            approve: self.below(2) == 0,
        }
    }

    fn rollout_work(&mut self) -> RolloutWork {
        if self.below(2) == 0 {
            let value = self.maybe(|_| "true".into());
            return RolloutWork::Entries(vec![RolloutEntry { key: "door".into(), value }]);
        }
        RolloutWork::Command(Box::new(RolloutCommand {
            payload: Arc::from(&b"{\"version\":7}"[..]),
            ttl_ms: self.maybe(|traffic| traffic.below(1 << 40)),
            not_before: self.maybe(Self::some_ts),
            ack_timeout_ms: self.maybe(|traffic| traffic.below(1 << 40)),
            run_timeout_ms: self.maybe(|traffic| traffic.below(1 << 40)),
            attempts_max: self.maybe(|traffic| traffic.below(10) as u32),
            origin: self.maybe(|_| "консоль".into()),
            key: self.maybe(|_| "ключ".into()),
            priority: [-100, 0, 100][self.below(3) as usize],
            notify: self.maybe(Self::outcome_receiver),
        }))
    }

    fn rollout_state(&mut self, id: &str) -> RolloutState {
        let waits = [RolloutWait::Nothing, RolloutWait::Soak, RolloutWait::Approval, RolloutWait::Window];
        let cursor = |traffic: &mut Self| match traffic.below(2) {
            0 => RolloutCursor::Named(traffic.below(3) as u32),
            _ => RolloutCursor::Partition(1, device_id(traffic.below(DEVICE_IDS))),
        };
        let mut counts = RolloutCounts::default();
        for count in &mut counts.0 {
            *count = self.random.below(1_000);
        }
        RolloutState {
            id: id.into(),
            standing: RolloutStanding::ALL[self.below(5) as usize],
            collecting: self.maybe(cursor),
            counts,
            stage: self.below(4) as u32,
            boundary: self.maybe(|traffic| traffic.random.next_u64()),
            stage_ended: self.below(1_000),
            last_ended_at: self.maybe(Self::some_ts),
            approved: self.below(2) == 0,
            next_us: self.below(1 << 50),
            ended: self.below(1_000),
            failed: self.below(1_000),
            waits_for: waits[self.below(4) as usize],
            passed_at: self.maybe(Self::some_ts),
            ended_at: self.maybe(Self::some_ts),
        }
    }

    fn put_rollout_state(&mut self, at: usize, ops: &mut Vec<Op>) {
        let id = self.rollouts[at].id.clone();
        ops.push(Op::PutRolloutState(Box::new(self.rollout_state(&id))));
    }

    /// Some of the devices that it names are written, or it has looked for them.
    fn change_of_named_devices(&mut self, at: usize, ops: &mut Vec<Op>) {
        let number = self.below(3) as u32;
        let devices = (0..self.below(5)).filter_map(device_id).collect();
        let KnownRollout { incarnation, named, .. } = &mut self.rollouts[at];
        let rollout = *incarnation;
        ops.push(if named.remove(&number) {
            Op::DeleteRolloutDevices(rollout, number)
        } else {
            named.insert(number);
            Op::PutRolloutDevices(Box::new(RolloutDevices { rollout, number, devices }))
        });
    }

    /// A device belongs to it from now on, or stands elsewhere.
    fn put_member(&mut self, at: usize, ops: &mut Vec<Op>) {
        let Some(device) = device_id(self.below(DEVICE_IDS)) else { return };
        let status = MemberStatus::ALL[self.below(8) as usize];
        let place = MemberPlace::of(self.rollouts[at].incarnation, &device, self.below(2) as u32);
        let stood = self.rollouts[at].members.insert(place.clone(), status);
        ops.extend(stood.map(|stood| Op::DeleteRolloutMember(Box::new(place.clone()), stood)));
        let command = |traffic: &mut Self| EntityId { routing: 1, at: traffic.head.now, number: 3, tag: 9 };
        ops.push(Op::PutRolloutMember(Box::new(RolloutMember {
            place,
            status,
            is_recalled: self.below(2) == 0,
            turn: self.below(9) as u32,
            handed_at: self.maybe(Self::some_ts),
            command: self.maybe(command),
            tz: self.maybe(|_| "Asia/Tokyo".into()),
        })));
    }

    /// With its devices, one by one.
    fn delete_rollout(&mut self, at: usize, ops: &mut Vec<Op>) {
        let KnownRollout { id, incarnation, named, members } = self.rollouts.swap_remove(at);
        ops.extend(named.into_iter().map(|number| Op::DeleteRolloutDevices(incarnation, number)));
        let members = members.into_iter();
        ops.extend(members.map(|(place, status)| Op::DeleteRolloutMember(Box::new(place), status)));
        ops.push(Op::DeleteRollout(id));
    }
}
