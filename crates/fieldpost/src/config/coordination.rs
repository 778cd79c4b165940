//! `[coordination]`: how much there may be of locks, limits, cached values and listeners.

use engine::CoordinationSettings;

use super::reader::SettingsReader;
use super::shape::{Bytes, Whole};

/// Reads the section.
pub(super) fn read(from: &mut SettingsReader) -> CoordinationSettings {
    let many = |most| Whole { least: 1, most };
    CoordinationSettings {
        cache_bytes: from.read("coordination.cache", &Bytes(1_000_000, 1_000_000_000_000)).value,
        locks_max: from.read("coordination.locks", &many(10_000_000)).value as usize,
        lock_waits_max: from.read("coordination.lock_waits", &many(1_000_000)).value as usize,
        limits_max: from.read("coordination.limits", &many(100_000_000)).value as usize,
        listeners_max: from.read("coordination.listeners", &many(1_000_000)).value as usize,
    }
}
