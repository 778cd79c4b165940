//! Rollouts: who begins, pauses, resumes and cancels them, and the courier between the registry and
//! the partitions of devices.

use std::collections::{BTreeMap, BTreeSet};

use base::{DeviceId, Incarnation, PartitionId};
use engine::RolloutCall;
use engine::devices::input::DeviceInput;
use engine::fleet::Selection;
use engine::kernel::reply::Reply;
use engine::registry::RegistryInput;
use engine::rollouts::{
    NewRollout, OrderKind, OrderOutcome, OrderReport, RolloutInput, RolloutOrder, RolloutUpdate,
};
use engine::{NewCommand, TrackedRollout};
use records::{Batch, CommandStatus, Op, RolloutStanding, RolloutWork};

use super::World;
use super::calls::{Answer, Then, Waiting};
use crate::commands::checkers::rollouts;
use crate::commands::fault_injection::TAKE_BACK_INVENTED;
use crate::commands::meant::{Meant, MeantOrder, MeantRollout};
use crate::commands::model::{KnownRollout, rollout_payload};
use crate::commands::plan::kind_of;
use crate::harness::calls::Call;
use crate::harness::port::AnyPort;
use crate::harness::violation::{Checked, Invariant};

/// Rollouts of a run.
const ROLLOUTS_MAX: u64 = 4;
/// Inputs that the courier makes at a time, at most.
const CARRIED_MAX: usize = 200;

/// What those who ask for rollouts know.
#[derive(Default)]
pub(crate) struct RolloutsSeen {
    begun: u64,
    ids: Vec<String>,
    /// How often somebody asked to go on with each.
    resumed: BTreeMap<String, u32>,
    /// Of these nothing goes out that did not go out before: that was answered.
    silent: BTreeSet<Incarnation>,
}

impl RolloutsSeen {
    /// The power has failed: what was answered may be as if it had never been.
    pub(super) fn power_failed(&mut self) {
        self.silent.clear();
    }
}

impl World {
    /// A rollout is begun, or one is paused, resumed or cancelled.
    pub(super) fn manage_rollouts(&mut self) {
        let is_known = |id: &DeviceId| {
            let track = &self.model[usize::from(self.partition_of(id).0)];
            track.durable().devices.contains(id)
        };
        if !self.plan.device_ids().iter().all(is_known) {
            return;
        }
        let may_begin = self.rollouts.begun < ROLLOUTS_MAX;
        if self.rollouts.ids.is_empty() || may_begin && self.machine.random.chance(1, 6) {
            if may_begin {
                self.begin_rollout();
            }
            return;
        }
        let id = self.machine.random.one_of(&self.rollouts.ids);
        let call = match self.machine.random.below(7) {
            0..=2 => RolloutCall::Pause,
            3..=5 => RolloutCall::Resume,
            _ => RolloutCall::Cancel,
        };
        self.call_rollout(id, call);
    }

    fn begin_rollout(&mut self) {
        self.rollouts.begun += 1;
        let (number, random) = (self.rollouts.begun, &self.machine.random);
        let mut command = NewCommand::new(rollout_payload(number).into());
        command.priority = random.below(5) as i8 - 2;
        let mut new = NewRollout::of(RolloutWork::Command(Box::new(command.into())), number.into());
        let selector = if random.chance(1, 3) { "kind=pump" } else { "" };
        new.selection = Some(Selection::parse(selector).expect("a selector"));
        new.rate = random.chance(1, 3).then(|| 30 + random.below(600) as u32);
        new.in_flight = random.chance(1, 2).then(|| 1 + random.below(4) as u32);
        let id = format!("r{number}");
        let (call, (reply, receiver)) = (self.next_call(), Reply::new());
        let input = RolloutInput::Create { id: id.as_str().into(), new: Box::new(new), is_put: true, reply };
        let answer = (Waiting::on(receiver, Answer::Begun), Then::RolloutBegun(id));
        self.ask_registry((input, MeantRollout::Asked { call }), answer);
    }

    fn call_rollout(&mut self, id: String, asked: RolloutCall) {
        let resumed = self.rollouts.resumed.entry(id.clone()).or_default();
        if asked == RolloutCall::Resume {
            *resumed += 1;
            if let Some((incarnation, _)) = self.ledger.present.by_id(&id) {
                self.rollouts.silent.remove(&incarnation);
            }
        }
        let resumed = *resumed;
        self.machine.trace.note(format_args!("{asked:?} of {id}"));
        let (call, (reply, receiver)) = (self.next_call(), Reply::new());
        let input = RolloutInput::Call { id: id.as_str().into(), call: asked, reply };
        let answer = (Waiting::on(receiver, Answer::Done), Then::RolloutCalled(id, asked, resumed));
        self.ask_registry((input, MeantRollout::Asked { call }), answer);
    }

    fn ask_registry(
        &mut self,
        (input, meant): (RolloutInput, MeantRollout),
        (waiting, then): (Waiting, Then),
    ) {
        let id = self.calls.last_id();
        self.machine.trace.note(format_args!("call {id}: {meant:?}"));
        if self.hand_in_registry(input, meant) {
            let life = self.registry().and_then(AnyPort::life);
            let asked = vec![(PartitionId::REGISTRY, life)];
            self.calls.waiting.push(Call { id, waiting, asked, then });
        }
    }

    fn hand_in_registry(&mut self, input: RolloutInput, meant: MeantRollout) -> bool {
        let server = self.server.as_mut().filter(|_| !self.is_closing);
        let registry = server.and_then(|server| server.registry.as_mut());
        registry.is_some_and(|registry| registry.hand_in(RegistryInput::Rollouts(input), meant))
    }

    fn registry(&self) -> Option<&dyn AnyPort> {
        Some(self.server.as_ref()?.registry.as_ref()?)
    }

    /// One step of the registry over some of its inbox.
    pub(super) fn step_registry(&mut self, count: usize) -> Checked {
        let Some(registry) = self.server.as_mut().and_then(|server| server.registry.as_mut()) else {
            return Ok(());
        };
        let Some(stepped) = registry.step(count, &self.machine) else { return self.take_answers() };
        if let Some(batch) = &stepped.batch {
            self.ledger.present.step(batch)?;
            self.ledger.made(batch.head.seq)?;
        }
        let seq = self.ledger.latest();
        for input in &stepped.inputs {
            if let MeantRollout::Asked { call } = input {
                self.expectations.expect(*call, PartitionId::REGISTRY, seq, ());
            }
        }
        self.take_answers()
    }

    /// Carries what the registry and the partitions of devices have for each other. Whether there
    /// was anything.
    pub(super) fn carry(&mut self) -> Checked<bool> {
        let Some(server) = self.server.as_ref().filter(|_| !self.is_closing) else { return Ok(false) };
        if server.registry.as_ref().is_none_or(|registry| !registry.has_room()) || !self.has_room() {
            return Ok(false);
        }
        let context = server.context.clone();
        let searches = context.take_rollout_searches().into_iter();
        let found = searches.map(|wanted| context.search_for_rollout(wanted)).collect::<Result<Vec<_>, _>>();
        // A store that shows nothing more ends the process.
        let Ok(found) = found else { return Ok(false) };
        let messages = context.take_rollout_messages();
        let orders: usize = messages.to_partitions.values().map(Vec::len).sum();
        let count = messages.to_machine.len() + found.len() + orders;
        Invariant::BOUNDED.check(count <= CARRIED_MAX, || format!("{count} inputs are carried at once"))?;
        messages.to_machine.into_iter().chain(found).for_each(|update| self.tell_registry(update));
        for (partition, inputs) in messages.to_partitions {
            inputs.into_iter().for_each(|orders| self.order(partition, orders));
        }
        Ok(count > 0)
    }

    fn tell_registry(&mut self, update: RolloutUpdate) {
        self.machine.trace.note(format_args!("the registry is told {update:?}"));
        let (reply, _nobody_waits) = Reply::new();
        let _not_accepting = self.hand_in_registry(RolloutInput::Update(update, reply), MeantRollout::Update);
    }

    fn order(&mut self, partition: PartitionId, mut orders: Vec<RolloutOrder>) {
        if self.machine.injects(TAKE_BACK_INVENTED) {
            let invented = orders.extract_if(.., |order| order.what == OrderKind::TakeBack);
            let taken_back = |RolloutOrder { place, turn, .. }: RolloutOrder| OrderReport {
                place,
                turn,
                outcome: OrderOutcome::TakenBack,
            };
            let reports = invented.map(taken_back).collect();
            self.reported(reports);
        }
        let (call, (reply, receiver)) = (self.next_call(), Reply::new());
        let meant = orders.iter().map(|order| MeantOrder {
            device: order.place.device.clone(),
            rollout: order.place.rollout,
            turn: order.turn,
            takes_back: order.what == OrderKind::TakeBack,
        });
        let meant = Meant::Orders { call, orders: meant.collect() };
        let input = DeviceInput::RolloutOrders { orders: orders.clone(), reply };
        let answer = (Waiting::on(receiver, Answer::Reports), Then::Carried(orders));
        self.ask(partition, (input, meant), answer);
    }

    /// What came of orders.
    pub(super) fn reported(&mut self, reports: Vec<OrderReport>) {
        self.tell_registry(RolloutUpdate::Reported(reports));
    }

    /// Whether orders were carried out is not known.
    pub(super) fn not_reported(&mut self, orders: Vec<RolloutOrder>) {
        if let Some(server) = &self.server {
            orders.into_iter().for_each(|order| server.context.give_rollout_order_again(order));
        }
    }

    pub(super) fn rollout_begun(
        &mut self,
        id: String,
        begun: Result<Box<(TrackedRollout, bool)>, base::Problem>,
    ) -> Checked {
        let (tracked, _) = *begun.map_err(|problem| {
            Invariant::AS_THE_MODEL.broken(format!("a rollout is refused without a reason: {problem:?}"))
        })?;
        Invariant::AS_THE_MODEL.same("id of a rollout", &tracked.rollout.id, &Box::from(id.as_str()))?;
        self.counts.rollouts += 1;
        self.rollouts.ids.push(id);
        Ok(())
    }

    pub(super) fn rollout_called(
        &mut self,
        (id, call, resumed): (String, RolloutCall, u32),
        done: Result<(), base::Problem>,
    ) -> Checked {
        if let Err(problem) = done {
            let is_right = matches!(problem.code, "finished" | "unknown_rollout");
            return Invariant::AS_THE_MODEL
                .check(is_right, || format!("rollout {id} is refused without a reason: {problem:?}"));
        }
        match call {
            RolloutCall::Pause => self.counts.rollouts_paused += 1,
            RolloutCall::Cancel => self.counts.rollouts_cancelled += 1,
            RolloutCall::Resume | RolloutCall::Approve => self.counts.rollouts_resumed += 1,
        }
        let stops = matches!(call, RolloutCall::Pause | RolloutCall::Cancel);
        let is_latest = self.rollouts.resumed.get(&id).copied().unwrap_or_default() == resumed;
        if let Some((incarnation, _)) = self.ledger.present.by_id(&id).filter(|_| stops && is_latest) {
            self.rollouts.silent.insert(incarnation);
        }
        Ok(())
    }

    /// Nothing of a rollout goes out for the first time after its pause was answered.
    pub(super) fn check_silence(&mut self, partition: PartitionId, batch: &Batch) -> Checked {
        let model = &self.model[usize::from(partition.0)].present;
        for op in &batch.ops {
            let Op::PutCommandState(key, state) = op else { continue };
            let known = model.commands.get(key);
            let turn = known.and_then(|known| known.command.cause.turn());
            let Some(turn) = turn.filter(|_| state.status == CommandStatus::Published && state.tries == 1)
            else {
                continue;
            };
            self.counts.rolled_out += 1;
            Invariant::DURABLE_BEFORE_ACKNOWLEDGED
                .check(!self.rollouts.silent.contains(&turn.rollout), || {
                    format!("a pause was answered, and {known:?} goes out")
                })?;
        }
        Ok(())
    }

    /// At rest every rollout goes on until it is done. Whether any had to be asked to.
    pub(super) fn resume_all(&mut self) -> bool {
        let is_paused = |known: &&KnownRollout| {
            known.state.as_ref().is_some_and(|state| state.standing == RolloutStanding::Paused)
        };
        let paused = self.ledger.present.rollouts.values().filter(is_paused);
        let paused: Vec<String> = paused.map(|known| known.id.to_string()).collect();
        let is_asked = |id: &String| {
            let mut calls = self.calls.waiting.iter();
            calls.any(|call| matches!(&call.then, Then::RolloutCalled(of, ..) if of == id))
        };
        let fresh: Vec<_> = paused.into_iter().filter(|id| !is_asked(id)).collect();
        let any = !fresh.is_empty();
        fresh.into_iter().for_each(|id| self.call_rollout(id, RolloutCall::Resume));
        any
    }

    /// Rollouts that have not ended.
    pub(super) fn open_rollouts(&self) -> Vec<&KnownRollout> {
        let is_open =
            |known: &&KnownRollout| known.state.as_ref().is_none_or(|state| !state.standing.has_ended());
        self.ledger.present.rollouts.values().filter(is_open).collect()
    }

    /// At rest, unless the power may have taken what was answered.
    pub(super) fn check_rollouts(&self) -> Checked {
        if self.machine.plan.sync_interval().is_some() {
            return Ok(());
        }
        let meant = |known: &KnownRollout| {
            let of_pumps = known.selector.as_deref().is_some_and(|selector| !selector.is_empty());
            let is_meant = |id: &DeviceId| !of_pumps || kind_of(id).as_str() == "pump";
            self.plan.device_ids().into_iter().filter(is_meant).collect()
        };
        let partition = |device: &DeviceId| &self.model[usize::from(self.partition_of(device).0)].present;
        rollouts::check_members(&self.ledger.present, meant, partition)
    }
}
