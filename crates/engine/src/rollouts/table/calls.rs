//! What is asked of rollouts: one is begun, paused, resumed, approved or called off.

use std::sync::Arc;

use base::{Incarnation, Problem};
use records::{MemberStatus, Op, PartitionHead, Rollout, RolloutStanding};
use rollouts::CallRefused;
use store::StoreError;

use super::{ActiveRollout, RolloutEffect, RolloutTable, Scan, emit};
use crate::kernel::reply::{InputFailure, answered};
use crate::registry::RegistryStep;
use crate::rollouts::{
    DoneReply, NewRollout, RolloutCall, RolloutInput, TrackedRollout, needs_reach, unknown_rollout,
};

/// Rollouts that have not ended.
const LIVE_MAX: usize = 1_000;
/// Of them those that one token began. Who began which is not known beyond a restart.
const LIVE_OF_A_TOKEN_MAX: usize = LIVE_MAX / 2;

impl RolloutTable {
    pub(crate) fn apply(
        &mut self,
        input: RolloutInput,
        head: &mut PartitionHead,
        step: &mut RegistryStep<'_>,
    ) -> Result<(), StoreError> {
        match input {
            RolloutInput::Create { id, new, is_put, reply } => {
                let begun = answered(self.create(id, *new, is_put, head, step))?;
                emit(RolloutEffect::Begun(reply, begun.map(Box::new)), step);
            }
            RolloutInput::Call { id, call, reply } => self.call(&id, call, reply, step)?,
            RolloutInput::AwaitCollected { id, reply } => {
                let live = self.ids.get(&id).and_then(|incarnation| self.live.get_mut(incarnation));
                match live.filter(|live| live.is_collecting()) {
                    Some(live) => live.collected_waiters.push(reply),
                    None => emit(RolloutEffect::Kept(reply), step),
                }
            }
            RolloutInput::Update(update, reply) => self.take_update(update, reply, step)?,
        }
        Ok(())
    }

    /// Begins a rollout. The same request under the same id is the same rollout.
    pub(crate) fn create(
        &mut self,
        id: Box<str>,
        mut new: NewRollout,
        is_put: bool,
        head: &mut PartitionHead,
        step: &mut RegistryStep<'_>,
    ) -> Result<(TrackedRollout, bool), InputFailure> {
        if let Some(incarnation) = self.ids.get(&id).copied() {
            let present = self.tracked(incarnation, step)?.ok_or_else(|| unknown_rollout(&id))?;
            if is_put && present.rollout.request == new.request {
                return Ok((present, false));
            }
            let detail = format!("rollout {id} is there already, with another body; choose another id");
            return Err(Problem::conflict("exists", detail).into());
        }
        if self.live.len() >= LIVE_MAX {
            let detail = format!("{LIVE_MAX} rollouts have not ended; cancel some, or wait");
            return Err(Problem::conflict("too_many_rollouts", detail).into());
        }
        self.check_share(new.token.as_deref())?;
        let incarnation = Incarnation(head.next_incarnation);
        head.next_incarnation += 1;
        let is_named = new.devices.is_some();
        let named = new.named(incarnation);
        let rollout = Rollout {
            created_at: step.now,
            request: new.request,
            selector: new.selection.map(|selection| selection.to_string().into()),
            is_named,
            rate: new.rate,
            in_flight: new.in_flight,
            stages: new.stages,
            window: new.window,
            stop: new.stop,
            include_later: new.include_later,
            ..Rollout::of(&id, incarnation, new.work)
        };
        let state = rollouts::begin(&rollout);
        step.push(Op::PutRollout(Box::new(rollout.clone())));
        named.into_iter().for_each(|devices| step.push(Op::PutRolloutDevices(Box::new(devices))));
        self.by_incarnation.insert(incarnation, id.clone());
        self.ids.insert(id, incarnation);
        let mut live = ActiveRollout::new(Arc::new(rollout), state);
        (live.is_changed, live.token) = (true, new.token);
        let tracked = live.tracked();
        self.live.insert(incarnation, live);
        Ok((tracked, true))
    }

    /// Refuses another rollout of a token that has its share.
    fn check_share(&self, token: Option<&str>) -> Result<(), Problem> {
        let Some(token) = token else { return Ok(()) };
        let of_token = |live: &&ActiveRollout| live.token.as_deref() == Some(token);
        if self.live.values().filter(of_token).count() < LIVE_OF_A_TOKEN_MAX {
            return Ok(());
        }
        let detail = format!(
            "{LIVE_OF_A_TOKEN_MAX} rollouts of this token have not ended; cancel some, or wait for others"
        );
        Err(Problem::conflict("too_many_rollouts", detail))
    }

    fn tracked(
        &self,
        incarnation: Incarnation,
        step: &RegistryStep<'_>,
    ) -> Result<Option<TrackedRollout>, StoreError> {
        if let Some(live) = self.live.get(&incarnation) {
            return Ok(Some(live.tracked()));
        }
        let Some(id) = self.by_incarnation.get(&incarnation) else { return Ok(None) };
        let view = step.fetch.view()?;
        let found = view.rollout(id)?.zip(view.rollout_state(id)?);
        Ok(found.map(|(rollout, state)| TrackedRollout { rollout: Arc::new(rollout), state }))
    }

    fn call(
        &mut self,
        id: &str,
        call: RolloutCall,
        reply: DoneReply,
        step: &mut RegistryStep<'_>,
    ) -> Result<(), StoreError> {
        let Some(incarnation) = self.ids.get(id).copied() else {
            emit(RolloutEffect::Done(reply, Err(unknown_rollout(id))), step);
            return Ok(());
        };
        let seq = step.seq;
        let Some(live) = self.active(incarnation, step)? else { return Ok(()) };
        let done = live.call(call, step.now, seq).map_err(problem);
        if done.is_err() || live.is_quiet_enough(call) {
            emit(RolloutEffect::Done(reply, done), step);
            return Ok(());
        }
        live.quiet_waiters.push(reply);
        Ok(())
    }
}

impl ActiveRollout {
    fn call(&mut self, call: RolloutCall, now: base::Timestamp, seq: u64) -> Result<(), CallRefused> {
        let rollout = Arc::clone(&self.rollout);
        match call {
            RolloutCall::Pause => rollouts::pause(&mut self.state)?,
            RolloutCall::Resume => {
                rollouts::resume(&rollout, &mut self.state, now)?;
                // A window may have shut: then the walk goes on.
                self.look_again();
            }
            RolloutCall::Approve => rollouts::approve(&rollout, &mut self.state)?,
            RolloutCall::Cancel => rollouts::cancel(&mut self.state, now)?,
        }
        self.is_changed = true;
        self.go_on_with_end(seq);
        Ok(())
    }

    /// Whether a call can be answered before commands were taken back.
    fn is_quiet_enough(&self, call: RolloutCall) -> bool {
        let stops = matches!(call, RolloutCall::Pause | RolloutCall::Cancel);
        !stops || self.is_quiet() || !needs_reach(&self.rollout)
    }

    /// Whether nothing goes out any more that did not go out before.
    pub(super) fn is_quiet(&self) -> bool {
        self.state.standing == RolloutStanding::Done || self.state.counts.of(MemberStatus::Scheduled) == 0
    }

    /// Begins to take back what was handed out and did not go out. A walk that is under way has
    /// passed some of that by: another one follows it.
    pub(super) fn take_back(&mut self, seq: u64) {
        match &self.taking_back {
            Some(_) => self.take_back_again = Some(seq),
            None => self.taking_back = Some(Scan::behind(seq)),
        }
    }
}

fn problem(refused: CallRefused) -> Problem {
    match refused {
        CallRefused::HasEnded(standing) => {
            Problem::conflict("finished", format!("the rollout has ended: it is {}", standing.as_str()))
        }
        CallRefused::NothingToApprove => {
            let detail = "the rollout is in no stage that needs an approval";
            Problem::conflict("nothing_to_approve", detail)
        }
    }
}
