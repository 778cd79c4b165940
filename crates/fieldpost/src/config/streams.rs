//! `[streams]`: how much of the disk they leave to others.

use super::reader::SettingsReader;
use super::shape::Bytes;

/// Largest such setting: more than any disk has.
const DISK_FREE_MAX: u64 = 1_000_000_000_000_000;

/// Reads it. What is 0 is off.
pub(super) fn disk_free(from: &mut SettingsReader) -> Option<u64> {
    let bytes = from.read("streams.disk_free", &Bytes(0, DISK_FREE_MAX)).value;
    (bytes > 0).then_some(bytes)
}
