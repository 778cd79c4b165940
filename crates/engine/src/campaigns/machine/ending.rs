//! How picks end, who takes their place, and how a task ends.

use std::sync::Arc;

use ::campaigns::device_set;
use base::Incarnation;
use records::{CommandStatus, EndPost, LateAnswer, Op, Pick, PickEnd, PickOutcome, PickShare, TaskStanding};
use store::StoreError;

use super::picking::order;
use super::running::{PickProgress, RunningTask};
use super::{CampaignMachine, CampaignsStep};
use crate::campaigns::effect::CampaignsEffect;
use crate::campaigns::links::{OrderKind, PickOrderOutcome, PickReport, PickStanding};

impl CampaignMachine {
    /// An order was carried out.
    pub(super) fn reported(
        &mut self,
        report: PickReport,
        step: &mut CampaignsStep<'_>,
    ) -> Result<(), StoreError> {
        let PickReport { task, number, outcome } = report;
        match outcome {
            PickOrderOutcome::Stands(standing) => return self.stands(task, number, standing, step),
            PickOrderOutcome::TakenBack => {
                let reason = match self.progress(task, number) {
                    Some(PickProgress::CalledOff(reason)) => reason,
                    _ => PickOutcome::NotSent,
                };
                self.end_pick((task, number), reason, None, step);
            }
            PickOrderOutcome::Away => self.end_pick((task, number), PickOutcome::WentAway, None, step),
            // It is called off at the deadline, if there is no room until then.
            PickOrderOutcome::Busy => self.try_again_later((task, number), step.now),
            PickOrderOutcome::Nobody => self.end_pick((task, number), PickOutcome::NotSent, None, step),
        }
        Ok(())
    }

    /// The command of a pick stands here.
    pub(super) fn stands(
        &mut self,
        task: Incarnation,
        number: u32,
        standing: PickStanding,
        step: &mut CampaignsStep<'_>,
    ) -> Result<(), StoreError> {
        let PickStanding { command, status, is_connected, was_sent, was_answered, result, late } = standing;
        let Some(running) = self.running.get_mut(&task) else {
            return self.answered_late((task, number), late, step);
        };
        let Some(open) = running.open.get_mut(&number) else {
            return self.answered_late((task, number), late, step);
        };
        (open.pick.command, open.pick.was_sent) = (Some(command), was_sent);
        let outcome = match status {
            CommandStatus::Scheduled => {
                if let PickProgress::CalledOff(_) = open.progress {
                    // The order to call it off came before the command was there.
                    order(running, number, OrderKind::TakeBack, step);
                } else if !is_connected && !running.is_recovering {
                    // That it went away was not told, or the command came after.
                    self.call_off((task, number), PickOutcome::WentAway, step);
                }
                return Ok(());
            }
            CommandStatus::Published | CommandStatus::Running => {
                if let PickProgress::WaitsForRate(_) = open.progress {
                    self.rate.drop_one(task);
                }
                open.progress = PickProgress::Sent;
                step.own.touched.insert(task);
                return Ok(());
            }
            CommandStatus::Acknowledged => PickOutcome::Answered,
            CommandStatus::Failed if was_answered => PickOutcome::Refused,
            _ if was_sent => PickOutcome::NoAnswer,
            _ => match open.progress {
                PickProgress::CalledOff(reason) => reason,
                _ => PickOutcome::NotSent,
            },
        };
        self.end_pick((task, number), outcome, result, step);
        self.answered_late((task, number), late, step)
    }

    pub(super) fn progress(&self, task: Incarnation, number: u32) -> Option<PickProgress> {
        self.running.get(&task)?.open.get(&number).map(|open| open.progress)
    }

    /// A pick ends. Another device may take its place.
    pub(super) fn end_pick(
        &mut self,
        (task, number): (Incarnation, u32),
        outcome: PickOutcome,
        result: Option<Arc<str>>,
        step: &mut CampaignsStep<'_>,
    ) {
        let Some(running) = self.running.get_mut(&task) else { return };
        let Some(open) = running.open.remove(&number) else { return };
        if let PickProgress::WaitsForRate(_) = open.progress {
            self.rate.drop_one(task);
        }
        let mut pick = open.pick;
        step.own.touched.insert(task);
        step.own.counted.ended[outcome as usize] += 1;
        running.is_changed = true;
        pick.end = Some(PickEnd { at: step.now, number: running.state.ended, outcome, result });
        running.state.ended += 1;
        let counts = &mut running.state.counts;
        match outcome {
            PickOutcome::Answered => counts.answered += 1,
            PickOutcome::Refused => counts.failed += 1,
            PickOutcome::NotSent | PickOutcome::NoAnswer | PickOutcome::WentAway | PickOutcome::Cancelled => {
                counts.expired += 1;
            }
        }
        if is_replaced(outcome) {
            device_set::insert(&mut running.dropped, pick.place);
        }
        if is_replaced(outcome) && running.may_replace(step.now) {
            running.missing += 1;
            running.replacing += 1;
            running.look();
        }
        self.open_picks.release(running.terms.token.as_deref(), 1);
        self.close(&pick, step);
        let share = match outcome {
            PickOutcome::Answered | PickOutcome::Refused => self.shares.free(pick.place),
            PickOutcome::NoAnswer | PickOutcome::WentAway => self.shares.expired(pick.place, step.now),
            PickOutcome::NotSent | PickOutcome::Cancelled => None,
        };
        self.put_share(share, step);
    }

    /// Writes a pick that has ended: it is not in memory any more.
    fn close(&mut self, pick: &Pick, step: &mut CampaignsStep<'_>) {
        if let Some(open) = self.open.get_mut(&pick.place) {
            open.retain(|one| *one != (pick.task, pick.number));
            if open.is_empty() {
                self.open.remove(&pick.place);
            }
        }
        self.write_ended(pick.clone(), step);
    }

    fn write_ended(&mut self, pick: Pick, step: &mut CampaignsStep<'_>) {
        step.push(Op::PutPick(Box::new(pick.clone())));
        self.picks.put(step.seq, (pick.task, pick.number), Some(pick));
    }

    /// Writes a share that has changed, and tells whether its device answers.
    pub(super) fn put_share(&mut self, share: Option<PickShare>, step: &mut CampaignsStep<'_>) {
        let Some(share) = share else { return };
        step.push(Op::PutPickShare(share));
        step.emit(CampaignsEffect::Answering(share.place, share.benched_until.is_none()));
    }

    /// A device answered when its pick had ended.
    fn answered_late(
        &mut self,
        key: (Incarnation, u32),
        late: Option<LateAnswer>,
        step: &mut CampaignsStep<'_>,
    ) -> Result<(), StoreError> {
        let Some(late) = late else { return Ok(()) };
        let read = || step.fetch.view()?.pick(key.0, key.1);
        let Some(mut pick) = self.picks.get_or_read(&key, read)? else { return Ok(()) };
        if pick.end.is_none() || pick.late.as_ref() == Some(&late) {
            return Ok(());
        }
        pick.late = Some(late);
        let freed = self.shares.free(pick.place);
        self.put_share(freed, step);
        self.write_ended(pick, step);
        Ok(())
    }

    /// Nothing more comes of a task.
    pub(super) fn end_task(&mut self, task: Incarnation, step: &mut CampaignsStep<'_>) {
        let Some(mut running) = self.running.remove(&task) else { return };
        self.running_of.release(running.terms.token.as_deref(), 1);
        self.deadlines.remove(&(running.state.replaced_until, task));
        self.recovering.remove(&task);
        self.rate.remove(task);
        let is_told = running.terms.receiver.is_some() && running.task.slot.is_none();
        if running.is_running() {
            running.state.standing = TaskStanding::Done;
        }
        running.state.ended_at = Some(step.now);
        running.state.post = is_told.then_some(EndPost { attempts: 0, due_at: step.now });
        step.push(Op::PutTaskState(Box::new(running.state.clone())));
        self.retention.ended(running.task.slot.is_some(), step.now);
        let tracked = running.tracked();
        let id = running.task.id;
        self.running_ids.remove(&id);
        self.ended.put(step.seq, id, Some(tracked.clone()));
        if is_told {
            self.posts.add(tracked, &running.terms);
        } else {
            self.terms.release(running.terms.incarnation, step);
        }
        answer_all(running, step);
    }

    /// Tasks whose time is over pick nobody any more; what did not go out is called off.
    pub(super) fn pass_deadlines(&mut self, step: &mut CampaignsStep<'_>) {
        while let Some((at, task)) = self.deadlines.first().copied().filter(|(at, _)| *at <= step.now) {
            self.deadlines.remove(&(at, task));
            let Some(running) = self.running.get_mut(&task) else { continue };
            step.own.touched.insert(task);
            running.stop_picking();
            running.call_off(PickOutcome::NotSent);
            self.rate.remove(task);
        }
    }
}

/// Whether another device may take the place of one whose pick ended like this.
pub(super) fn is_replaced(outcome: PickOutcome) -> bool {
    match outcome {
        PickOutcome::NotSent | PickOutcome::NoAnswer | PickOutcome::WentAway => true,
        PickOutcome::Answered | PickOutcome::Refused | PickOutcome::Cancelled => false,
    }
}

fn answer_all(running: RunningTask, step: &mut CampaignsStep<'_>) {
    for waiter in running.end_waiters {
        step.emit(CampaignsEffect::Kept(waiter));
    }
    for waiter in running.quiet_waiters {
        step.emit(CampaignsEffect::Done(waiter, Ok(())));
    }
}
