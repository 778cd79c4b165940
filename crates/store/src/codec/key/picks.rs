//! Keys of tasks, campaigns and picks.

use base::{DeviceId, EntityId, Incarnation, Timestamp};
use records::DevicePlace;

use super::{SIGN, TableKey, incarnation, time};
use crate::codec::CodecError;

/// A campaign by its id.
pub(crate) fn campaign(id: &str) -> TableKey {
    TableKey::from_slice(id.as_bytes())
}

/// A task by its id.
pub(crate) fn task_id(id: EntityId) -> TableKey {
    TableKey::from_slice(&id.to_bytes())
}

/// The slot of a campaign that was due then.
pub(crate) fn slot_of_campaign(campaign: Incarnation, due_at: Timestamp, task: Incarnation) -> TableKey {
    let mut key = incarnation(campaign);
    key.extend_from_slice(&time(due_at));
    key.extend_from_slice(&incarnation(task));
    key
}

/// What the keys of ended tasks begin with, or of ended slots.
pub(crate) fn ended_tasks(is_slot: bool) -> TableKey {
    TableKey::from_slice(&[u8::from(is_slot)])
}

/// A task, behind those that ended before.
pub(crate) fn ended_task(is_slot: bool, at: Timestamp, task: Incarnation) -> TableKey {
    let mut key = ended_tasks(is_slot);
    key.extend_from_slice(&time(at));
    key.extend_from_slice(&incarnation(task));
    key
}

/// The key of the task whose incarnation stands at the end of a row's key.
pub(crate) fn task_at_end_of(row: &[u8]) -> Result<TableKey, CodecError> {
    let invalid = CodecError::Truncated { what: "the key of a task", at: row.len() };
    row.last_chunk::<8>().map(|task| TableKey::from_slice(task)).ok_or(invalid)
}

/// A pick by its number; or by its number among those of the task that have ended.
pub(crate) fn pick(task: Incarnation, number: u32) -> TableKey {
    let mut key = incarnation(task);
    key.extend_from_slice(&number.to_be_bytes());
    key
}

/// The key of the pick of a number, where `task` is the task's incarnation.
pub(crate) fn pick_from(task: &[u8], number: &[u8]) -> Result<TableKey, CodecError> {
    if (task.len(), number.len()) != (8, 4) {
        return Err(CodecError::Invalid { what: "the key of a pick", at: 0 });
    }
    let mut key = TableKey::from_slice(task);
    key.extend_from_slice(number);
    Ok(key)
}

/// A device: its partition, and its slot there.
pub(crate) fn device_place(place: DevicePlace) -> TableKey {
    let mut key = TableKey::from_slice(&place.partition.0.to_be_bytes());
    key.extend_from_slice(&place.slot.0.to_be_bytes());
    key
}

/// The clock of picks: there is one.
pub(crate) fn pick_clock() -> TableKey {
    TableKey::from_slice(&[0])
}

/// A pick of a device, behind those before. A task picks a device once.
pub(crate) fn pick_of_device(place: DevicePlace, picked_at: Timestamp, task: Incarnation) -> TableKey {
    let mut key = device_place(place);
    key.extend_from_slice(&time(picked_at));
    key.extend_from_slice(&incarnation(task));
    key
}

/// What the keys of the results of a device begin with, within a campaign. No id holds a byte 0.
pub(crate) fn device_of_campaign(campaign: Incarnation, device: &DeviceId) -> TableKey {
    let mut key = incarnation(campaign);
    key.extend_from_slice(device.as_str().as_bytes());
    key.push(0);
    key
}

/// A result within a campaign, behind those before; `prefix` is what an index is by.
pub(crate) fn result(prefix: &[u8], at: Timestamp, task: Incarnation, ended: u32) -> TableKey {
    let mut key = TableKey::from_slice(prefix);
    key.extend_from_slice(&time(at));
    key.extend_from_slice(&pick(task, ended));
    key
}

/// The incarnation of the task in a key that [`result`] made.
pub(crate) fn task_of_result(row: &[u8]) -> Result<&[u8], CodecError> {
    let invalid = CodecError::Truncated { what: "the key of a result", at: row.len() };
    let end = row.len().checked_sub(4).ok_or(invalid)?;
    row[..end].last_chunk::<8>().map(|task| &task[..]).ok_or(invalid)
}

/// When the pick was, and its task, in a key that [`pick_of_device`] made.
pub(crate) fn picked_at(row: &[u8]) -> Result<(Timestamp, Incarnation), CodecError> {
    let invalid = CodecError::Invalid { what: "the key of a pick of a device", at: 0 };
    let row: &[u8; 22] = row.try_into().map_err(|_| invalid)?;
    let wide = |at: usize| row[at..at + 8].iter().fold(0_u64, |all, byte| all << 8 | u64::from(*byte));
    Ok((Timestamp((wide(6) ^ SIGN).cast_signed()), Incarnation(wide(14))))
}
