//! A step of a partition: whether each command may have moved as its batch says.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use base::{DeviceId, EntityId, Timestamp};
use engine::EngineSettings;
use engine::settings::CommandPace;
use records::{Batch, Command, CommandKey, CommandState, CommandStatus, Happening, Op};

use super::{Known, Partition};
use crate::commands::meant::{Meant, MeantOrder, Word};
use crate::commands::plan::kind_of;
use crate::harness::violation::{Checked, Invariant};

/// What a step took and made.
pub(crate) struct Stepped<'a> {
    pub(crate) now: Timestamp,
    pub(crate) inputs: &'a [Meant],
    pub(crate) batch: Option<&'a Batch>,
    pub(crate) settings: &'a EngineSettings,
    /// Devices that poll, as far as they know.
    pub(crate) polling: &'a BTreeSet<DeviceId>,
}

impl Stepped<'_> {
    fn cancels(&self, id: EntityId) -> bool {
        self.inputs.iter().any(|input| matches!(input, Meant::Cancel { id: of, .. } if *of == id))
    }

    fn retries(&self, id: EntityId) -> bool {
        self.inputs.iter().any(|input| matches!(input, Meant::Retry { id: of, .. } if *of == id))
    }

    fn sends(&self, is: impl Fn(&DeviceId, u64, Option<&str>) -> bool) -> bool {
        self.inputs.iter().any(|input| {
            matches!(input, Meant::Send { device, number, key, .. } if is(device, *number, key.as_deref()))
        })
    }

    /// Whether a command is ordered, or to be taken back.
    fn is_ordered(&self, command: &Command, takes_back: bool) -> bool {
        let Some(of) = command.cause.turn() else { return false };
        self.orders().any(|order| {
            let is_its =
                order.device == command.device && order.rollout == of.rollout && order.turn == of.turn;
            is_its && order.takes_back == takes_back
        })
    }

    fn orders(&self) -> impl Iterator<Item = &MeantOrder> {
        let orders = self.inputs.iter().filter_map(|input| match input {
            Meant::Orders { orders, .. } => Some(orders),
            _ => None,
        });
        orders.flatten()
    }

    fn pace(&self, device: &DeviceId) -> &CommandPace {
        let commands = &self.settings.commands;
        commands.by_kind.get(&kind_of(device)).unwrap_or(&commands.pace)
    }
}

impl Partition {
    pub(crate) fn step(&mut self, step: &Stepped<'_>) -> Checked {
        let before = self.commands.clone();
        let reached = self.take_inputs(step);
        let mut given: BTreeMap<CommandKey, Arc<Command>> = BTreeMap::new();
        let mut published = BTreeSet::new();
        for op in step.batch.iter().flat_map(|batch| &batch.ops) {
            match op {
                Op::PutCommand(command) => {
                    let is = |device: &DeviceId, number: u64, _: Option<&str>| {
                        *device == command.device && *command.payload == *payload(number)
                    };
                    Invariant::ONE_EFFECT_PER_CAUSE
                        .check(step.sends(is) || step.is_ordered(command, false), || {
                            format!("nobody gave {command:?}")
                        })?;
                    given.insert(command.id.into(), Arc::new((**command).clone()));
                }
                Op::DeleteCommand(key, _) => {
                    let known = self.commands.remove(key);
                    let detail = || format!("a command is forgotten too soon: {known:?}");
                    return Err(Invariant::DURABLE_BEFORE_ACKNOWLEDGED.broken(detail()));
                }
                Op::PutCommandState(key, state)
                    if self.moved(step, *key, state, given.get(key), &reached)? =>
                {
                    published.insert(*key);
                }
                Op::PutTimelineEntry(entry) => {
                    if let Happening::Command { id, status, tries } = entry.what {
                        self.noted(id.into(), given.get(&id.into()), (status, tries))?;
                    }
                }
                _ => {}
            }
        }
        self.check_order(step, &before, &published)
    }

    /// Takes in what was said; who could be reached in this step, at any time of it.
    fn take_inputs(&mut self, step: &Stepped<'_>) -> BTreeSet<DeviceId> {
        let mut reached: BTreeSet<DeviceId> = step.polling.clone();
        let mut devices: BTreeSet<DeviceId> =
            self.commands.values().map(|known| known.command.device.clone()).collect();
        for input in step.inputs {
            if let Meant::Send { device, .. } = input {
                devices.insert(device.clone());
            }
        }
        devices.extend(step.orders().map(|order| order.device.clone()));
        let reachable = |presence: &super::Presence| {
            devices.iter().filter(|device| presence.reaches(device)).cloned().collect::<Vec<_>>()
        };
        reached.extend(reachable(&self.presence));
        for input in step.inputs {
            match input {
                Meant::Create { device, .. } => drop(self.devices.insert(device.clone())),
                Meant::Presence { change, .. } => {
                    self.presence.apply(change);
                    reached.extend(reachable(&self.presence));
                }
                Meant::Said { device, id, said, .. } => {
                    let key = CommandKey::from(*id);
                    let is_its = self.commands.get(&key).is_some_and(|known| known.command.device == *device);
                    if is_its {
                        let all = self.replies.entry(key).or_default();
                        match said {
                            Word::Answer(true) => all.done = true,
                            Word::Answer(false) => all.refused = true,
                            Word::AtWork => all.at_work = true,
                        }
                    }
                }
                _ => {}
            }
        }
        reached
    }

    fn known(&mut self, key: CommandKey, given: Option<&Arc<Command>>) -> Checked<&mut Known> {
        if let Some(command) = given {
            self.commands.entry(key).or_insert_with(|| {
                let state = CommandState::WAITING;
                let command = Arc::clone(command);
                Rc::new(Known {
                    command,
                    state,
                    timeline: Vec::new(),
                    was_cancelled: false,
                    was_retried: false,
                })
            });
        }
        let known = self.commands.get_mut(&key).map(Rc::make_mut);
        known.ok_or_else(|| Invariant::ONE_EFFECT_PER_CAUSE.broken(format!("there is no command {key:?}")))
    }

    fn noted(
        &mut self,
        key: CommandKey,
        given: Option<&Arc<Command>>,
        entry: (CommandStatus, u32),
    ) -> Checked {
        self.known(key, given)?.timeline.push(entry);
        Ok(())
    }

    /// A command has come this far; whether it went out.
    fn moved(
        &mut self,
        step: &Stepped<'_>,
        key: CommandKey,
        new: &CommandState,
        given: Option<&Arc<Command>>,
        reached: &BTreeSet<DeviceId>,
    ) -> Checked<bool> {
        let replies = self.replies.get(&key).copied().unwrap_or_default();
        let (id, mut old) = {
            let known = self.known(key, given)?;
            (known.command.id, known.state.clone())
        };
        let one_effect = |holds: bool, what: &str| {
            Invariant::ONE_EFFECT_PER_CAUSE.check(holds, || format!("{id:?} {what}: from {old:?} to {new:?}"))
        };
        let mut retried = false;
        if old.status.has_ended() && !new.status.has_ended() {
            one_effect(step.retries(id), "goes on, and nobody has asked for that")?;
            retried = true;
        }
        one_effect(!old.status.has_ended() || retried || old.status == new.status, "ends twice")?;
        one_effect(new.late.is_none() || replies.done || replies.refused, "has an answer that nobody gave")?;
        if new.late.is_some() && old.late.is_none() {
            self.counts.late += 1;
        }
        if retried {
            self.counts.retried += 1;
            self.replies.remove(&key);
            // What is said in this very step may be of the new try.
            self.said_again(step, id);
            old = CommandState { published_at: old.published_at, ..CommandState::WAITING };
        }
        let is_published = new.tries > old.tries;
        if is_published {
            self.went_out(step, key, (&old, new), reached)?;
        }
        if old.status != new.status && new.status.has_ended() {
            self.ended(step, key, (&old, new))?;
        }
        if new.status == CommandStatus::Running && old.status != CommandStatus::Running {
            Invariant::ONE_EFFECT_PER_CAUSE.check(replies.at_work, || format!("{id:?} runs by itself"))?;
            self.counts.running += 1;
        }
        let is_early = old.is_held && !new.is_held && new.status == CommandStatus::Scheduled;
        let known = self.known(key, None)?;
        let not_before = known.command.terms.not_before.filter(|at| is_early && *at > step.now);
        Invariant::NEVER_EARLY_HARDLY_LATE
            .check(not_before.is_none(), || format!("{id:?} is ready before {not_before:?}"))?;
        known.was_retried |= retried;
        known.was_cancelled |= new.status == CommandStatus::Cancelled;
        known.state = new.clone();
        Ok(is_published)
    }

    fn said_again(&mut self, step: &Stepped<'_>, of: EntityId) {
        for input in step.inputs {
            if let Meant::Said { id, said, .. } = input
                && *id == of
            {
                let all = self.replies.entry(of.into()).or_default();
                match said {
                    Word::Answer(true) => all.done = true,
                    Word::Answer(false) => all.refused = true,
                    Word::AtWork => all.at_work = true,
                }
            }
        }
    }

    fn went_out(
        &mut self,
        step: &Stepped<'_>,
        key: CommandKey,
        (old, new): (&CommandState, &CommandState),
        reached: &BTreeSet<DeviceId>,
    ) -> Checked {
        let known = Rc::clone(&self.commands[&key]);
        let (command, terms) = (&known.command, &known.command.terms);
        let what = || format!("{:?} for {} goes out, from {old:?} to {new:?}", command.id, command.device);
        Invariant::LOOKED_UP_AT_THE_LAST_MOMENT.check(reached.contains(&command.device), || {
            format!("{}, and the device cannot be reached", what())
        })?;
        let is_next = new.tries == old.tries + 1 && new.tries <= terms.attempts_max;
        Invariant::ONE_EFFECT_PER_CAUSE.check(is_next, what)?;
        let is_over = new.expires_at.is_some_and(|at| at <= step.now);
        let is_early = terms.not_before.is_some_and(|at| at > step.now);
        Invariant::NEVER_EARLY_HARDLY_LATE.check(!is_over && !is_early, what)?;
        let pace = step.pace(&command.device);
        let unanswered = || self.of_device(&command.device).filter(|other| other.is_unanswered());
        let count = unanswered().filter(|other| other.command.id != command.id).count() + 1;
        // A device may say that it is at work on what it was sent earlier.
        Invariant::BOUNDED.check(known.is_unanswered() || count <= pace.in_flight as usize, || {
            format!("{}, as the device has {count} unanswered", what())
        })?;
        let latest = unanswered().filter_map(|other| other.state.published_at).max();
        Invariant::NEVER_EARLY_HARDLY_LATE
            .check(pace.gap.is_zero() || latest.is_none_or(|at| at.after(pace.gap) <= step.now), || {
                format!("{} within the gap after {latest:?}", what())
            })?;
        self.counts.repeats += u64::from(new.tries > 1);
        Ok(())
    }

    fn ended(
        &mut self,
        step: &Stepped<'_>,
        key: CommandKey,
        (old, new): (&CommandState, &CommandState),
    ) -> Checked {
        let known = Rc::clone(&self.commands[&key]);
        let replies = self.replies.get(&key).copied().unwrap_or_default();
        let (command, counts) = (&known.command, &mut self.counts);
        let has_cause = match new.status {
            CommandStatus::Acknowledged => {
                counts.acknowledged += 1;
                replies.done
            }
            CommandStatus::Failed if new.result.is_some() => {
                counts.refused += 1;
                replies.refused
            }
            CommandStatus::Failed => {
                counts.failed_unanswered += 1;
                old.tries >= command.terms.attempts_max && deadline(command, old) <= step.now
            }
            CommandStatus::Expired => {
                counts.expired += 1;
                new.expires_at.is_some_and(|at| at <= step.now)
            }
            CommandStatus::Cancelled => {
                counts.cancelled += 1;
                step.cancels(command.id) || step.is_ordered(command, true)
            }
            CommandStatus::Superseded => {
                counts.superseded += 1;
                let is = |device: &DeviceId, _: u64, name: Option<&str>| {
                    *device == command.device && name.is_some() && name == command.key.as_deref()
                };
                // A newer one that is tried anew takes its place too.
                let mut others = self.of_device(&command.device);
                let is_retried = others.any(|other| {
                    let is_newer = CommandKey::from(other.command.id) > key;
                    is_newer && other.command.key == command.key && step.retries(other.command.id)
                });
                old.status == CommandStatus::Scheduled && (step.sends(is) || is_retried)
            }
            CommandStatus::Scheduled | CommandStatus::Published | CommandStatus::Running => true,
        };
        Invariant::ONE_EFFECT_PER_CAUSE
            .check(has_cause, || format!("{:?} ends by itself, from {old:?} to {new:?}", command.id))
    }

    /// What goes out for the first time goes before all that waited when the step began, and still
    /// does.
    fn check_order(
        &self,
        step: &Stepped<'_>,
        before: &BTreeMap<CommandKey, Rc<Known>>,
        published: &BTreeSet<CommandKey>,
    ) -> Checked {
        for key in published {
            let known = &self.commands[key];
            // A device that is at work on an earlier try is asked again before what waits.
            let was_unanswered = before.get(key).is_some_and(|was| was.is_unanswered());
            if known.state.tries != 1 || was_unanswered {
                continue;
            }
            let waits = |other: &&Rc<Known>| {
                let is_over = other.state.expires_at.is_some_and(|at| at <= step.now);
                let waited = before.get(&other.command.id.into()).is_some_and(|was| was.state == other.state);
                // One that was called off and tried anew in this step has not waited all the time.
                other.is_waiting() && waited && !is_over && !step.retries(other.command.id)
            };
            let passed = self.of_device(&known.command.device).filter(waits);
            let passed: Vec<_> =
                passed.filter(|other| other.rank() < known.rank()).map(|other| other.command.id).collect();
            Invariant::ORDER_PER_DEVICE
                .check(passed.is_empty(), || format!("{:?} goes out before {passed:?}", known.command.id))?;
        }
        Ok(())
    }
}

/// What the command of that number tells its device.
pub(crate) fn payload(number: u64) -> Vec<u8> {
    format!("{{\"n\":{number}}}").into_bytes()
}

/// What the commands of the rollout of that number tell their devices.
pub(crate) fn rollout_payload(number: u64) -> Vec<u8> {
    format!("{{\"r\":{number}}}").into_bytes()
}

/// The number of a command that its device is shown.
pub(crate) fn number_in(payload: &[u8]) -> Option<u64> {
    std::str::from_utf8(payload).ok()?.strip_prefix("{\"n\":")?.strip_suffix('}')?.parse().ok()
}

fn deadline(command: &Command, state: &CommandState) -> Timestamp {
    let terms = &command.terms;
    let (since, ms) = match state.status {
        CommandStatus::Running => (state.progress_at, terms.run_timeout_ms),
        _ => (state.published_at, terms.ack_timeout_ms),
    };
    since.unwrap_or(Timestamp(0)).after(Duration::from_millis(ms))
}
