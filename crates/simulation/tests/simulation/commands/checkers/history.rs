//! What callers and devices were told, and what contradicts it. It knows no batch, and no rules but
//! the promises.

use std::collections::BTreeMap;

use base::{DeviceId, EntityId, PartitionId};
use engine::PublishedCommand;

use crate::commands::model::number_in;
use crate::harness::calls::BatchRef;
use crate::harness::violation::{Checked, Invariant};

/// What was told of a command.
#[derive(Debug, Default)]
struct CommandAnswers {
    id: Option<EntityId>,
    /// It was accepted.
    accepted: Option<BatchRef>,
    /// It was called off, or its device's answer taken.
    ended: Option<BatchRef>,
    /// How often somebody asked to try it anew.
    retries: u32,
}

/// Commands by the number in their payload.
#[derive(Default)]
pub(crate) struct History {
    answers: BTreeMap<u64, CommandAnswers>,
    numbers: BTreeMap<EntityId, u64>,
}

impl History {
    /// A caller was answered that its command is accepted.
    pub(crate) fn accepted(&mut self, number: u64, id: EntityId, batch: BatchRef) -> Checked {
        self.is(number, id)?;
        self.answers.entry(number).or_default().accepted = Some(batch);
        Ok(())
    }

    /// A device is shown a command.
    pub(crate) fn shown(&mut self, device: &DeviceId, command: &PublishedCommand) -> Checked {
        if command.payload.starts_with(b"{\"r\":") {
            // Whether a device had its turn once is looked at in the end.
            return Ok(());
        }
        let number = number_in(&command.payload)
            .ok_or_else(|| Invariant::ONE_EFFECT_PER_CAUSE.broken(format!("nobody gave {command:?}")))?;
        Invariant::ONE_EFFECT_PER_CAUSE
            .check(command.device == *device, || format!("{device} is shown {command:?}"))?;
        self.is(number, command.id)?;
        let answers = self.answers.entry(number).or_default();
        Invariant::ONE_EFFECT_PER_CAUSE.check(answers.ended.is_none(), || {
            format!("{device} is shown {:?}, which has ended: {answers:?}", command.id)
        })
    }

    /// The same id each time.
    fn is(&mut self, number: u64, id: EntityId) -> Checked {
        let answers = self.answers.entry(number).or_default();
        let known = *answers.id.get_or_insert(id);
        self.numbers.insert(id, number);
        Invariant::ONE_EFFECT_PER_CAUSE.same("id of a command", &id, &known)
    }

    fn of(&mut self, id: EntityId) -> &mut CommandAnswers {
        let number = self.numbers.get(&id).copied().unwrap_or(0);
        self.answers.entry(number).or_default()
    }

    /// Somebody asks to try a command anew: from now on it may go out.
    pub(crate) fn retried(&mut self, id: EntityId) {
        let answers = self.of(id);
        (answers.ended, answers.retries) = (None, answers.retries + 1);
    }

    pub(crate) fn retries(&mut self, id: EntityId) -> u32 {
        self.of(id).retries
    }

    /// Somebody was answered that a command has ended, as it was after so many requests to try it
    /// anew.
    pub(crate) fn ended(&mut self, id: EntityId, retries: u32, batch: BatchRef) {
        let answers = self.of(id);
        if answers.retries == retries {
            answers.ended = Some(batch);
        }
    }

    /// Nobody can hold against the server what the power has taken.
    pub(crate) fn forget_after(&mut self, partition: PartitionId, kept: u64) {
        let stays = |batch: &BatchRef| batch.0 != partition || batch.1 <= kept;
        for answers in self.answers.values_mut() {
            answers.accepted = answers.accepted.filter(stays);
            answers.ended = answers.ended.filter(stays);
        }
    }

    /// All commands that were accepted.
    pub(crate) fn all_accepted(&self) -> impl Iterator<Item = EntityId> + '_ {
        self.answers.values().filter(|answers| answers.accepted.is_some()).filter_map(|answers| answers.id)
    }
}
