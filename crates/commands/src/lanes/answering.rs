//! What a device says of a command: its answer, or that it is at work.

use records::{CommandKey, CommandPhase, CommandState, CommandStatus, DeviceSlot, LateAnswer};

use crate::outcome::{AnswerOutcome, How};
use crate::place::CommandPlace;
use crate::step::{LaneStep, MOVES_MAX, Tracked};
use crate::store::CommandStore;
use crate::unanswered::Unanswered;

/// The result of a device that could not do a command and says no more: JSON text.
const NO_RESULT: &str = "null";

impl<S: CommandStore> LaneStep<'_, S> {
    pub(crate) fn answer(
        &mut self,
        slot: DeviceSlot,
        key: CommandKey,
        ok: bool,
        result: Option<Box<str>>,
    ) -> Result<AnswerOutcome, S::Error> {
        let Some((command, state)) = self.sent(slot, key)? else { return Ok(AnswerOutcome::Unknown) };
        if state.status.has_ended() {
            let late = LateAnswer { ok, at: self.time_for(&command), result };
            return Ok(self.keep_late((command, state), late));
        }
        // A failure that the device told is known by its result.
        let (status, result) = match ok {
            true => (CommandStatus::Acknowledged, result),
            false => (CommandStatus::Failed, Some(result.unwrap_or_else(|| NO_RESULT.into()))),
        };
        self.end(&command, CommandState { result, ..state }, status)?;
        self.move_on(slot, MOVES_MAX)?;
        Ok(AnswerOutcome::Moved)
    }

    pub(crate) fn progress(
        &mut self,
        slot: DeviceSlot,
        key: CommandKey,
        progress: Box<str>,
    ) -> Result<AnswerOutcome, S::Error> {
        let Some((command, state)) = self.sent(slot, key)? else { return Ok(AnswerOutcome::Unknown) };
        if state.status.has_ended() {
            return Ok(if state.was_answered() { AnswerOutcome::Repeated } else { AnswerOutcome::Late });
        }
        let (before, phase) = (CommandPlace::of(&command, &state), state.phase());
        let (status, progress_at) = (CommandStatus::Running, Some(self.time_for(&command)));
        let progress = Some(progress);
        let state = CommandState { status, progress, progress_at, is_held: false, ..state };
        self.write(before, &command, &state);
        self.tell(&command, &state, How::Progressed);
        self.lanes.put(Unanswered::new(command, state));
        if phase == Some(CommandPhase::Waiting) {
            self.look_for_waiting(slot)?;
        }
        self.move_on(slot, MOVES_MAX)?;
        Ok(AnswerOutcome::Moved)
    }

    /// A command that was sent to this device. If its lane has it, it is taken out.
    fn sent(&mut self, slot: DeviceSlot, key: CommandKey) -> Result<Option<Tracked>, S::Error> {
        if let Some(known) = self.lanes.take(slot, key).and_then(Unanswered::remembered) {
            return Ok(Some(known));
        }
        let found = self.read(key)?;
        Ok(found.filter(|(command, state)| command.slot == slot && state.published_at.is_some()))
    }

    /// The first answer after the end is kept, unless it is the one that ended the command: devices
    /// and networks repeat answers.
    fn keep_late(&mut self, (command, state): Tracked, late: LateAnswer) -> AnswerOutcome {
        if state.late.is_some() || is_same_answer(&state, &late) {
            return AnswerOutcome::Repeated;
        }
        let before = CommandPlace::of(&command, &state);
        let state = CommandState { late: Some(Box::new(late)), ..state };
        self.write(before, &command, &state);
        self.tell(&command, &state, How::Late);
        AnswerOutcome::Late
    }
}

/// Whether a command ended by this very answer. Without a result it is the same as with `null`.
fn is_same_answer(state: &CommandState, answer: &LateAnswer) -> bool {
    state.was_answered()
        && (state.status == CommandStatus::Acknowledged) == answer.ok
        && non_null(state.result.as_deref()) == non_null(answer.result.as_deref())
}

fn non_null(result: Option<&str>) -> Option<&str> {
    result.filter(|text| *text != NO_RESULT)
}
