//! The stored form of a desired entry.

use std::borrow::Cow;

use records::{DeviceSlot, Wish};

use super::field::stored;
use super::key;
use crate::record::record;

stored!(
    Wish, "a desired entry", version 1:
    slot, key, desired, desired_at, confirmed, confirmed_at, command
);

record!(
    Wish: Wishes by (DeviceSlot, Box<str>),
    key: |(slot, of)| key::wish(*slot, of),
    place: |wish| Cow::Owned((wish.slot, wish.key.clone())),
);
