//! What is looked for outside of the registry's machine: devices that a rollout means, and those
//! whose turn may come. A search reads a bounded chunk, and says where to go on.

use base::{DeviceId, PartitionId};
use fleet::Selection;
use fleet::index::DeviceSet;
use records::{DevicePlace, DeviceProfile, MemberPlace, MemberStatus, Rollout, RolloutCursor, RolloutMember};
use store::{StoreError, View};

use super::links::{DeviceNow, FoundDevice, Search};
use super::{NAMED_PER_RECORD, RolloutUpdate, entries, needs_reach, per_members};
use crate::context::EngineContext;
use crate::device_orders::partition_of;

/// Devices that a search looks at, at a time.
const SEARCHED: usize = 1_000;
/// Devices that are put in order, at most, for each that is found. Of more the rows are walked.
const SORTED_PER_FOUND: usize = 5;
/// Rows that the search for candidates looks at, at a time.
const LOOKED_AT: usize = 5_000;
/// Candidates that are found at a time.
const CANDIDATES_FOUND: usize = 512;
/// By which label a device says in what time zone it is.
const ZONE_LABEL: &str = "tz";

/// Looks for something.
pub(super) fn search(context: &EngineContext, search: Search) -> Result<RolloutUpdate, StoreError> {
    match search {
        Search::Devices(rollout, cursor) => match selection(&rollout) {
            Some(selection) => devices(context, &rollout, &selection, cursor),
            None => Ok(RolloutUpdate::Unreadable(rollout.incarnation)),
        },
        Search::Among(rollout, ids) => match selection(&rollout) {
            Some(selection) => {
                let mut looked_up = Vec::with_capacity(ids.len());
                for id in ids {
                    let now = device_now(context, &selection, &id)?;
                    looked_up.push((id, now));
                }
                Ok(RolloutUpdate::LookedUp(rollout.incarnation, looked_up))
            }
            None => Ok(RolloutUpdate::Unreadable(rollout.incarnation)),
        },
        Search::Candidates { rollout, after, boundary, looks_up } => {
            candidates(context, &rollout, after, (boundary, looks_up))
        }
        Search::Boundary(rollout, stage, devices) => {
            let view = context.kernel.store.view(PartitionId::REGISTRY)?;
            let rank = view.rollout_rank(rollout.incarnation, devices.saturating_sub(1))?;
            Ok(RolloutUpdate::Boundary(rollout.incarnation, stage, rank))
        }
    }
}

/// The devices that a rollout means. `None` if its stored selector cannot be read: then it means
/// none.
fn selection(rollout: &Rollout) -> Option<Selection> {
    let read = rollout.selector.as_deref().map_or_else(|| Ok(Selection::default()), Selection::parse);
    let wrong = |problem: &base::Problem| {
        tracing::error!(
            rollout = %rollout.id,
            error = %problem.detail,
            "a rollout stops: its stored selector cannot be read"
        );
    };
    read.inspect_err(wrong).ok()
}

fn devices(
    context: &EngineContext,
    rollout: &Rollout,
    selection: &Selection,
    cursor: RolloutCursor,
) -> Result<RolloutUpdate, StoreError> {
    let (found, next) = match &cursor {
        RolloutCursor::Named(number) => {
            let view = context.kernel.store.view(PartitionId::REGISTRY)?;
            match view.rollout_devices(rollout.incarnation, *number)? {
                Some(named) => {
                    let found = among(context, selection, &named.devices)?;
                    let limit = per_members(NAMED_PER_RECORD, &rollout.work);
                    let (found, is_more) = not_yet_members(&*view, rollout, found, limit)?;
                    let next = if is_more { *number } else { number + 1 };
                    (found, Some(RolloutCursor::Named(next)))
                }
                None => (Vec::new(), None),
            }
        }
        RolloutCursor::Partition(index, after) => {
            let partition = PartitionId(u16::try_from(*index).unwrap_or(u16::MAX));
            if partition.0 >= context.kernel.store.partitions() {
                (Vec::new(), None)
            } else {
                // Each device is as many rows as there are entries.
                let limit = per_members(SEARCHED, &rollout.work);
                let (found, last) = of_partition(context, selection, (partition, after.as_ref()), limit)?;
                let next = match last {
                    Some(last) => RolloutCursor::Partition(*index, Some(last)),
                    None => RolloutCursor::Partition(index + 1, None),
                };
                (found, Some(next))
            }
        }
    };
    Ok(RolloutUpdate::Found(rollout.incarnation, cursor, found, next))
}

/// Those that the rollout does not have yet, at most `limit`, and whether there are more. Records
/// of earlier versions name more devices than one batch takes.
fn not_yet_members(
    view: &dyn View,
    rollout: &Rollout,
    found: Vec<FoundDevice>,
    limit: usize,
) -> Result<(Vec<FoundDevice>, bool), StoreError> {
    if found.len() <= limit {
        return Ok((found, false));
    }
    let last = entries(rollout).saturating_sub(1);
    let mut missing = Vec::new();
    for device in found {
        let place = MemberPlace::of(rollout.incarnation, &device.0, last);
        if view.rollout_member(&place)?.is_none() {
            missing.push(device);
        }
    }
    let is_more = missing.len() > limit;
    missing.truncate(limit);
    Ok((missing, is_more))
}

/// The devices of a partition that are meant, behind one of them; at most `limit`. Behind which
/// device the search goes on; `None` at the end.
fn of_partition(
    context: &EngineContext,
    selection: &Selection,
    (partition, after): (PartitionId, Option<&DeviceId>),
    limit: usize,
) -> Result<(Vec<FoundDevice>, Option<DeviceId>), StoreError> {
    let view = context.kernel.store.view(partition)?;
    let fleet = &context.devices.fleet;
    let slots = fleet.evaluate_in(partition, selection);
    if slots.len() > (SORTED_PER_FOUND * limit) as u64 {
        let profiles = view.devices(after, limit)?;
        let last = profiles.last().filter(|_| profiles.len() == limit).map(|last| last.id.clone());
        let meant = profiles.into_iter().filter(|profile| slots.contains(profile.slot.0));
        return Ok((meant.map(found_device).collect(), last));
    }
    let set = DeviceSet::from_iter([(partition, slots)]);
    let mut ids: Vec<DeviceId> = fleet.device_ids(&set).into_iter().map(|(id, _)| id).collect();
    ids.retain(|id| after.is_none_or(|after| after < id));
    ids.sort_unstable();
    ids.truncate(limit);
    let last = ids.last().filter(|_| ids.len() == limit).cloned();
    Ok((among(context, selection, &ids)?, last))
}

/// Those of some devices that are meant.
fn among(
    context: &EngineContext,
    selection: &Selection,
    ids: &[DeviceId],
) -> Result<Vec<FoundDevice>, StoreError> {
    let mut found = Vec::new();
    for id in ids {
        let partition = partition_of(context, id);
        let view = context.kernel.store.view(partition)?;
        if let Some(profile) = view.device(id)? {
            let place = DevicePlace { partition, slot: profile.slot };
            found.extend(context.devices.fleet.matches(place, selection).then(|| found_device(profile)));
        }
    }
    Ok(found)
}

fn device_now(
    context: &EngineContext,
    selection: &Selection,
    id: &DeviceId,
) -> Result<DeviceNow, StoreError> {
    let partition = partition_of(context, id);
    let Some(profile) = context.kernel.store.view(partition)?.device(id)? else {
        return Ok(DeviceNow::Gone);
    };
    let place = DevicePlace { partition, slot: profile.slot };
    Ok(DeviceNow::Registered {
        tz: zone_of(&profile),
        is_meant: context.devices.fleet.matches(place, selection),
        can_be_reached: can_be_reached(context, id)?,
    })
}

fn found_device(profile: DeviceProfile) -> FoundDevice {
    let zone = zone_of(&profile);
    (profile.id, zone)
}

fn zone_of(profile: &DeviceProfile) -> Option<Box<str>> {
    let zone = profile.labels.iter().find(|(key, _)| key == ZONE_LABEL);
    zone.map(|(_, zone)| zone.as_str().into())
}

/// Devices that wait and can be reached, by rank.
fn candidates(
    context: &EngineContext,
    rollout: &Rollout,
    mut after: Option<MemberPlace>,
    (boundary, looks_up): (Option<u64>, bool),
) -> Result<RolloutUpdate, StoreError> {
    let view = context.kernel.store.view(PartitionId::REGISTRY)?;
    let (mut found, mut looked_up) = (Vec::new(), Vec::new());
    let mut looked_at = 0;
    let anybody = !needs_reach(rollout);
    let next = loop {
        let page =
            view.rollout_members(rollout.incarnation, Some(MemberStatus::Waiting), after.as_ref(), SEARCHED)?;
        let is_whole = page.len() < SEARCHED;
        looked_at += page.len();
        let mut is_over = is_whole;
        for member in page {
            if boundary.is_some_and(|boundary| member.place.rank > boundary) {
                is_over = true;
                break;
            }
            after = Some(member.place.clone());
            if looks_up && let Some(now) = changed_since(context, rollout, &member)? {
                looked_up.push((member.place.device.clone(), now));
            }
            if anybody || can_be_reached(context, &member.place.device)? {
                found.push(member.place);
            }
            if found.len() + looked_up.len() >= CANDIDATES_FOUND {
                is_over = false;
                break;
            }
        }
        if is_over {
            break None;
        }
        if looked_at >= LOOKED_AT || found.len() + looked_up.len() >= CANDIDATES_FOUND {
            break after;
        }
    };
    Ok(RolloutUpdate::Candidates(rollout.incarnation, found, looked_up, next))
}

/// How a device that waits is now, if it is gone, or in another time zone and that matters.
fn changed_since(
    context: &EngineContext,
    rollout: &Rollout,
    member: &RolloutMember,
) -> Result<Option<DeviceNow>, StoreError> {
    let id = &member.place.device;
    let Some(profile) = context.kernel.store.view(partition_of(context, id))?.device(id)? else {
        return Ok(Some(DeviceNow::Gone));
    };
    let tz = zone_of(&profile);
    if tz == member.tz || rollout.window.is_none() {
        return Ok(None);
    }
    Ok(Some(DeviceNow::Registered { tz, is_meant: true, can_be_reached: false }))
}

/// Whether a session covers the topic of a device's commands, as far as the listener has told.
fn can_be_reached(context: &EngineContext, id: &DeviceId) -> Result<bool, StoreError> {
    let partition = partition_of(context, id);
    let profile = || {
        let profile = context.kernel.store.view(partition)?.device(id)?;
        Ok::<_, StoreError>(profile.map(std::sync::Arc::new))
    };
    context.devices.sessions.can_be_reached(partition, id, profile)
}
