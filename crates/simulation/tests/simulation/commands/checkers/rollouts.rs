//! Rollouts: what readers are shown of them, and whether each device had its command once.

use std::collections::BTreeSet;

use base::DeviceId;
use records::{CommandStatus, MemberStatus, RolloutMember, RolloutStanding};
use store::View;

use crate::commands::model::{Known, KnownRollout, Ledger, Partition};
use crate::harness::violation::{Checked, Invariant, unreadable};

/// More than a rollout has devices.
const MEMBERS_MAX: usize = 1_000;

/// Compares what is stored of all rollouts.
pub(crate) fn check_stored(view: &dyn View, model: &Ledger) -> Checked {
    for (incarnation, known) in &model.rollouts {
        let state = view.rollout_state(&known.id).map_err(unreadable)?;
        Invariant::AS_THE_MODEL.same("how far a rollout has come", &state, &known.state)?;
        let members = view.rollout_members(*incarnation, None, None, MEMBERS_MAX).map_err(unreadable)?;
        let expected: Vec<_> = known.members.values().cloned().collect();
        Invariant::AS_THE_MODEL.same("devices of a rollout", &members, &expected)?;
    }
    Ok(())
}

/// At rest: every device that is meant belongs to each rollout, and has had its command once, or is
/// counted as one that had none.
pub(crate) fn check_members<'a>(
    model: &Ledger,
    meant: impl Fn(&KnownRollout) -> BTreeSet<DeviceId>,
    partition: impl Fn(&DeviceId) -> &'a Partition,
) -> Checked {
    for known in model.rollouts.values() {
        let devices: BTreeSet<_> = known.members.keys().map(|place| place.device.clone()).collect();
        let what = format_args!("devices of rollout {}", known.id);
        // One that was called off early need not have found all of them.
        let is_cancelled =
            known.state.as_ref().is_some_and(|state| state.standing == RolloutStanding::Cancelled);
        if !is_cancelled {
            Invariant::AS_THE_MODEL.same(what, &devices, &meant(known))?;
        }
        for member in known.members.values() {
            check_member(member, partition(&member.place.device))?;
        }
    }
    Ok(())
}

fn check_member(member: &RolloutMember, partition: &Partition) -> Checked {
    let is_its = |known: &&Known| {
        let turn = known.command.cause.turn();
        known.command.device == member.place.device
            && turn.is_some_and(|turn| turn.rollout == member.place.rollout)
    };
    let all = partition.commands.values().map(|known| &**known).filter(is_its);
    let went_out: Vec<_> = all.filter(|known| known.state.published_at.is_some()).collect();
    let told = || format!("{member:?}, whose commands went out: {went_out:?}");
    let is_right = match &went_out[..] {
        [] => matches!(member.status, MemberStatus::Waiting | MemberStatus::Cancelled),
        [one] => member.status == status_of(one.state.status),
        _ => false,
    };
    Invariant::ONE_EFFECT_PER_CAUSE.check(is_right, told)
}

fn status_of(status: CommandStatus) -> MemberStatus {
    match status {
        CommandStatus::Scheduled => MemberStatus::Scheduled,
        CommandStatus::Published | CommandStatus::Running => MemberStatus::Published,
        CommandStatus::Acknowledged => MemberStatus::Acknowledged,
        CommandStatus::Failed => MemberStatus::Failed,
        CommandStatus::Expired => MemberStatus::Expired,
        CommandStatus::Superseded => MemberStatus::Superseded,
        CommandStatus::Cancelled => MemberStatus::Cancelled,
    }
}
