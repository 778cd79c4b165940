//! What a run with tasks and campaigns saw of each kind.

use crate::harness::counts::counts;

counts! {
    /// What a run saw.
    Counts:
    tasks,
    tasks_cancelled,
    tasks_done,
    campaigns,
    campaigns_changed,
    campaigns_resumed,
    campaigns_removed,
    slots_begun,
    slots_skipped,
    /// Slots that were missed and begun late.
    slots_caught_up,
    picks,
    /// Picks of a task that had begun in an earlier life.
    picks_after_a_start,
    replaced,
    answered,
    refused,
    no_answer,
    went_away,
    not_sent,
    /// Answers after the end.
    late,
    /// Devices that were set aside for being mute.
    benched,
    /// Sessions that began and ended.
    devices_came,
    devices_left,
    devices_deleted,
    /// Devices with an open pick that were deleted.
    deleted_while_asked,
    /// Tasks and slots whose picks were found to be spread evenly over more than one value.
    spread_evenly,
    /// Slots that picked the devices of the slot before.
    panels_kept,
    /// Tokens, and devices, that had all that they may have in an hour.
    token_quotas_full,
    device_quotas_full,
    /// Tasks that were refused, since their token has no picks left.
    tasks_refused,
    /// Tasks and slots of a token that is not configured.
    of_gone_token,
}
