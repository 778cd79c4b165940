//! The stored form of a desired entry.

use std::borrow::Cow;

use records::{DesiredState, DeviceSlot};

use super::field::stored;
use super::key;
use crate::record::record;

stored!(
    DesiredState, "a desired entry", version 1:
    slot, key, desired, desired_at, confirmed, confirmed_at, command
);

record!(
    DesiredState: Wishes by (DeviceSlot, Box<str>),
    key: |(slot, of)| key::desired_state(*slot, of),
    place: |desired_state| Cow::Owned((desired_state.slot, desired_state.key.clone())),
);
