//! Digests of what was sent, by which a stream knows what looks different now. Devices and callers
//! choose the texts, so the digest has a key that nobody knows.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

/// Of this process.
static KEY: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// The digest of a text, within this process.
pub(super) fn digest(text: &[u8]) -> u64 {
    KEY.hash_one(text)
}
