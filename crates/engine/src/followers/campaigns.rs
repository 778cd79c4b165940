//! What batches of the partition of tasks and campaigns have for followers: results, and rows that
//! changed.
//!
//! Whoever waits for results names the task or the campaign, and no other one wakes it.

use std::sync::atomic::Ordering;

use base::Incarnation;
use base::locks::locked;
use records::{Batch, Op};

use super::live::WatchTarget;
use super::registry::{RegistryRows, RegistryUpdate};
use super::{FollowedFeed, Followers};

/// What a batch has for followers of tasks and campaigns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CampaignUpdate {
    rows: RegistryUpdate,
    /// Tasks and campaigns of whose picks some have ended, or were answered late; in order.
    results_of: Vec<Incarnation>,
}

impl CampaignUpdate {
    fn of(batch: &Batch) -> Self {
        let mut update = Self::default();
        for op in &batch.ops {
            match op {
                Op::PutTask(task) | Op::DeleteTask(task, _) if task.slot.is_none() => {
                    update.rows.add(RegistryRows::Tasks);
                }
                Op::PutTaskState(state) if !state.is_slot => {
                    update.rows.add(RegistryRows::Tasks);
                    // Whoever waits for results waits for their end, too.
                    update.results_of.extend(state.ended_at.map(|_| state.task));
                }
                // Nothing that is shown changes with a campaign's state alone, or with terms alone.
                Op::PutCampaign(_) | Op::DeleteCampaign(_) => update.rows.add(RegistryRows::Campaigns),
                Op::PutPick(pick) if pick.end.is_some() => {
                    update.results_of.push(pick.task);
                    update.results_of.extend(pick.slot.map(|slot| slot.campaign));
                }
                _ => {}
            }
        }
        update.results_of.sort_unstable();
        update.results_of.dedup();
        update
    }
}

/// The task or the campaign whose results are followed.
pub(super) fn results_followed(watched: &WatchTarget) -> Option<Incarnation> {
    match watched {
        WatchTarget::Feed(followed) => match followed.feed {
            FollowedFeed::TaskResults(of) | FollowedFeed::CampaignResults(of) => Some(of),
            _ => None,
        },
        WatchTarget::Devices(_) | WatchTarget::Queues(_) | WatchTarget::Registry(_) => None,
    }
}

/// Whether anything that the partition has may concern it.
fn is_of_campaigns(watched: &WatchTarget) -> bool {
    let rows = matches!(watched, WatchTarget::Registry(RegistryRows::Tasks | RegistryRows::Campaigns));
    rows || results_followed(watched).is_some()
}

impl Followers {
    /// What a batch of the partition of campaigns will have for followers; `None` while there are
    /// none, when nobody looks.
    pub(crate) fn campaign_update(&self, batch: &Batch) -> Option<CampaignUpdate> {
        (self.count.load(Ordering::SeqCst) > 0).then(|| CampaignUpdate::of(batch))
    }

    /// A batch of the partition of campaigns is durable. Without `update` it may concern everybody
    /// who follows tasks and campaigns.
    pub(crate) fn campaigns_changed(&self, update: Option<&CampaignUpdate>) {
        if self.count.load(Ordering::SeqCst) == 0 {
            return;
        }
        match update {
            Some(CampaignUpdate { rows, results_of }) => {
                if !rows.is_empty() {
                    self.index.tell_of_rows(|changed| rows.has(changed));
                }
                self.index.tell_of_results(results_of);
            }
            None => self.tell_all_of_campaigns(),
        }
    }

    fn tell_all_of_campaigns(&self) {
        for (watched, signal) in locked(&self.table).followers.values() {
            for (number, watched) in watched.iter().enumerate() {
                if is_of_campaigns(watched) {
                    signal.tell(number);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use base::{DeviceId, EntityId, PartitionId, Timestamp};
    use records::{
        CampaignSlot, CampaignState, DevicePlace, DeviceSlot, Pick, PickCounts, PickEnd, PickOutcome,
        TaskStanding, TaskState,
    };

    use super::super::Followed;
    use super::*;

    fn batch(ops: Vec<Op>) -> Batch {
        Batch { ops, ..Batch::new(PartitionId::CAMPAIGNS) }
    }

    /// A pick of the task, which has ended or goes on; of a slot of the campaign, if one is given.
    fn pick(task: u64, campaign: Option<u64>, has_ended: bool) -> Op {
        let slot =
            |campaign| CampaignSlot { campaign: Incarnation(campaign), number: 1, due_at: Timestamp(0) };
        let end = PickEnd { at: Timestamp(1), number: 0, outcome: PickOutcome::Answered, result: None };
        Op::PutPick(Box::new(Pick {
            task: Incarnation(task),
            number: 0,
            slot: campaign.map(slot),
            device: DeviceId::new("d").expect("an id"),
            place: DevicePlace { partition: PartitionId(0), slot: DeviceSlot(0) },
            picked_at: Timestamp(0),
            command: Some(EntityId::from_bytes(&[0; EntityId::BYTES])),
            was_sent: true,
            end: has_ended.then_some(end),
            late: None,
        }))
    }

    fn state(is_slot: bool, has_ended: bool) -> Op {
        Op::PutTaskState(Box::new(TaskState {
            task: Incarnation(1),
            is_slot,
            standing: TaskStanding::Running,
            replaced_until: Timestamp(0),
            counts: PickCounts::default(),
            ended: 0,
            was_skipped: false,
            ended_at: has_ended.then_some(Timestamp(1)),
            post: None,
        }))
    }

    fn passed_slot() -> Op {
        let state = CampaignState { id: "c".into(), is_paused: false, passed: Some(1), panel: None };
        Op::PutCampaignState(Box::new(state))
    }

    #[test]
    fn whoever_waits_for_results_is_woken_by_those_of_that_task_or_campaign() {
        let followers = Followers::default();
        assert_eq!(followers.campaign_update(&batch(Vec::new())), None, "nobody watches");
        let results =
            [FollowedFeed::TaskResults(Incarnation(1)), FollowedFeed::CampaignResults(Incarnation(7))];
        let results = results.map(|feed| WatchTarget::Feed(Followed { feed, device: None }));
        let rows = [RegistryRows::Tasks, RegistryRows::Campaigns].map(WatchTarget::Registry);
        let watched: Vec<_> = results.into_iter().chain(rows).collect();
        let (_, signal) = followers.add_live(watched.into_boxed_slice()).expect("room");
        for (op, expect) in [
            (pick(1, None, true), 0b0001),
            (pick(1, None, false), 0),
            (pick(2, None, true), 0),
            (pick(2, Some(7), true), 0b0010),
            (pick(2, Some(8), true), 0),
            (state(false, false), 0b0100),
            (state(false, true), 0b0101),
            (state(true, true), 0),
            (Op::DeleteCampaign("c".into()), 0b1000),
            (passed_slot(), 0),
        ] {
            let update = followers.campaign_update(&batch(vec![op.clone()])).expect("somebody watches");
            followers.campaigns_changed(Some(&update));
            assert_eq!(signal.told.swap(0, Ordering::SeqCst), expect, "{op:?}");
        }
        followers.campaigns_changed(None);
        assert_eq!(signal.told.swap(0, Ordering::SeqCst), 0b1111);
    }
}
