//! Keys of rollouts and their devices.

use base::Incarnation;
use records::{MemberPlace, MemberStatus};

use super::{TableKey, incarnation};
use crate::codec::CodecError;

/// A rollout by its id.
pub(crate) fn rollout(id: &str) -> TableKey {
    TableKey::from_slice(id.as_bytes())
}

/// Some of the devices that a rollout names.
pub(crate) fn rollout_devices(rollout: Incarnation, of: u32) -> TableKey {
    let mut key = incarnation(rollout);
    key.extend_from_slice(&of.to_be_bytes());
    key
}

/// A device of a rollout.
pub(crate) fn member(place: &MemberPlace) -> TableKey {
    let mut key = incarnation(place.rollout);
    put_member(place, &mut key);
    key
}

/// What the rows of the devices of a rollout begin with that stand there.
pub(crate) fn members_of_status(rollout: Incarnation, status: MemberStatus) -> TableKey {
    let mut key = incarnation(rollout);
    key.push(status as u8);
    key
}

/// A device of a rollout, among those that stand there.
pub(crate) fn member_of_status(place: &MemberPlace, status: MemberStatus) -> TableKey {
    let mut key = members_of_status(place.rollout, status);
    put_member(place, &mut key);
    key
}

/// The key of the device of a rollout that [`member_of_status`] stands for.
pub(crate) fn member_from(row: &[u8]) -> Result<TableKey, CodecError> {
    let invalid = CodecError::Invalid { what: "the key of a device of a rollout", at: 0 };
    let (rollout, rest) = row.split_first_chunk::<8>().ok_or(invalid)?;
    let (_status, place) = rest.split_first().ok_or(invalid)?;
    let mut key = TableKey::from_slice(rollout);
    key.extend_from_slice(place);
    Ok(key)
}

fn put_member(place: &MemberPlace, key: &mut TableKey) {
    key.extend_from_slice(&place.rank.to_be_bytes());
    key.extend_from_slice(place.device.as_str().as_bytes());
    key.push(0);
    key.extend_from_slice(&place.entry.to_be_bytes());
}
