//! What users may set of a stream, and which bounds of its blocks follow.

use std::time::Duration;

use base::duration::{self, DURATION_MAX};
use base::{Problem, size};
use records::{BlockBounds, StreamMove, StreamSettings};

const DAY_MS: u64 = 86_400_000;
/// Shortest time between two saves, in milliseconds: a sync takes some.
pub const SAVE_INTERVAL_MS_MIN: u64 = 10;
/// Longest one: so much may a crash cost.
pub const SAVE_INTERVAL_MS_MAX: u64 = 3_600_000;
/// Fewest bytes of a block that is full: each costs a row and a file.
pub const BLOCK_BYTES_MIN: u64 = 1_000;
/// Most bytes: a block is made in memory as a whole.
pub const BLOCK_BYTES_MAX: u64 = 64 << 20;
/// Shortest time for which a block is open, in milliseconds.
pub const BLOCK_AGE_MS_MIN: u64 = 100;
/// Longest one: an open block takes memory.
pub const BLOCK_AGE_MS_MAX: u64 = 7 * DAY_MS;
/// Most messages of a block: its index has an entry for each external id.
pub const BLOCK_MESSAGES_MAX: u32 = 1_000_000;
/// Most messages that a block gets, whatever is set. Each may be of a source of its own, and what
/// is found by source is written in one batch with the block.
pub const BLOCK_MESSAGES_MADE: u32 = 100_000;
/// Shortest time for which messages are kept, in milliseconds.
pub const KEEP_AGE_MS_MIN: u64 = 1_000;
/// Longest one, ten years; without a bound they are kept for ever.
pub const KEEP_AGE_MS_MAX: u64 = DURATION_MAX.as_secs() * 1_000;
/// Fewest bytes to which a stream can be bound.
pub const KEEP_BYTES_MIN: u64 = 1_000;
/// Shortest time after which an idle stream leaves memory, in milliseconds.
pub const UNLOAD_AFTER_MS_MIN: u64 = 100;
/// Longest one.
pub const UNLOAD_AFTER_MS_MAX: u64 = DAY_MS;
/// Most moves of a stream: each has a place in its tail.
pub const MOVES_MAX: usize = 8;
/// A stream that is full has at least so many blocks, so that a small part goes to make room.
const BLOCKS_WHEN_FULL: u64 = 8;

/// Checks that each setting is in its range.
///
/// # Errors
/// 422 `invalid_settings`, with the setting as the contract names it and its range.
pub fn check(settings: &StreamSettings) -> Result<(), Problem> {
    let StreamSettings { save: _, save_interval_ms, block, keep, when_full: _, unload_after_ms, moves } =
        settings;
    let messages = (u64::from(block.messages), 1, u64::from(BLOCK_MESSAGES_MAX));
    let keep_age = keep.age_ms.unwrap_or(KEEP_AGE_MS_MAX);
    let keep_bytes = keep.bytes.unwrap_or(u64::MAX);
    for (name, unit, (set, least, most)) in [
        ("save_interval", "ms", (*save_interval_ms, SAVE_INTERVAL_MS_MIN, SAVE_INTERVAL_MS_MAX)),
        ("block.bytes", "B", (block.bytes, BLOCK_BYTES_MIN, BLOCK_BYTES_MAX)),
        ("block.age", "ms", (block.age_ms, BLOCK_AGE_MS_MIN, BLOCK_AGE_MS_MAX)),
        ("block.messages", "", messages),
        ("keep.age", "ms", (keep_age, KEEP_AGE_MS_MIN, KEEP_AGE_MS_MAX)),
        ("keep.bytes", "B", (keep_bytes, KEEP_BYTES_MIN, u64::MAX)),
        ("unload_after", "ms", (*unload_after_ms, UNLOAD_AFTER_MS_MIN, UNLOAD_AFTER_MS_MAX)),
    ] {
        if set < least || set > most {
            let written = |value: u64| match unit {
                "ms" => duration::format(Duration::from_millis(value)),
                "B" => size::format(value),
                _ => value.to_string(),
            };
            let most = if most == u64::MAX { "on".to_owned() } else { format!("to {}", written(most)) };
            let (set, least) = (written(set), written(least));
            let detail = format!("{name} is {set}, and has to be from {least} {most}");
            return Err(Problem::not_allowed("invalid_settings", detail));
        }
    }
    check_moves(moves)
}

/// Each move leads to another storage, and comes later than the one before.
fn check_moves(moves: &[StreamMove]) -> Result<(), Problem> {
    let refused = |detail| Err(Problem::not_allowed("invalid_settings", detail));
    if moves.len() > MOVES_MAX {
        return refused(format!("move has {} entries, and may have {MOVES_MAX}", moves.len()));
    }
    for (place, one) in moves.iter().enumerate() {
        let item = place + 1;
        if one.after_ms > KEEP_AGE_MS_MAX {
            return refused(format!("move, item {item}: after is over {}", duration::format(DURATION_MAX)));
        }
        let earlier = &moves[..place];
        if earlier.last().is_some_and(|before| before.after_ms >= one.after_ms) {
            return refused(format!("move, item {item}: after must be longer than that of the item before"));
        }
        if earlier.iter().any(|before| before.to == one.to) {
            return refused(format!("move, item {item}: an earlier item goes to {:?} too", one.to));
        }
    }
    Ok(())
}

/// When the open block of a stream is closed. Messages go by whole blocks, so a block is open no
/// longer than messages are kept. It has an eighth of the bytes that the stream may have at most.
#[must_use]
pub fn block_bounds(settings: &StreamSettings) -> BlockBounds {
    let StreamSettings { block, keep, .. } = settings;
    BlockBounds {
        bytes: keep.bytes.map_or(block.bytes, |bytes| block.bytes.min(bytes / BLOCKS_WHEN_FULL)),
        age_ms: keep.age_ms.map_or(block.age_ms, |age_ms| block.age_ms.min(age_ms)),
        messages: block.messages.min(BLOCK_MESSAGES_MADE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The refusal of the default settings with a change.
    fn refusal(change: impl FnOnce(&mut StreamSettings)) -> String {
        let mut settings = StreamSettings::default();
        change(&mut settings);
        check(&settings).err().map(|problem| problem.to_string()).unwrap_or_default()
    }

    #[test]
    fn the_default_settings_are_in_range() {
        assert_eq!(check(&StreamSettings::default()), Ok(()));
        assert_eq!(block_bounds(&StreamSettings::default()), BlockBounds::default());
    }

    #[test]
    fn a_refusal_names_the_setting_and_its_range() {
        let too_small = refusal(|settings| settings.block.bytes = 999);
        let expect = "invalid_settings: block.bytes is 999B, and has to be from 1KB to 64MiB";
        assert_eq!(too_small, expect);
        let too_small = refusal(|settings| settings.keep.bytes = Some(1));
        assert_eq!(too_small, "invalid_settings: keep.bytes is 1B, and has to be from 1KB on");
    }

    #[test]
    fn both_ends_of_a_range_are_in_it() {
        type Change = fn(&mut StreamSettings, u64);
        let settings: [(Change, u64, u64); 6] = [
            (|of, ms| of.save_interval_ms = ms, SAVE_INTERVAL_MS_MIN, SAVE_INTERVAL_MS_MAX),
            (|of, bytes| of.block.bytes = bytes, BLOCK_BYTES_MIN, BLOCK_BYTES_MAX),
            (|of, ms| of.block.age_ms = ms, BLOCK_AGE_MS_MIN, BLOCK_AGE_MS_MAX),
            (|of, count| of.block.messages = count as u32, 1, u64::from(BLOCK_MESSAGES_MAX)),
            (|of, ms| of.keep.age_ms = Some(ms), KEEP_AGE_MS_MIN, KEEP_AGE_MS_MAX),
            (|of, ms| of.unload_after_ms = ms, UNLOAD_AFTER_MS_MIN, UNLOAD_AFTER_MS_MAX),
        ];
        for (place, (set, least, most)) in settings.into_iter().enumerate() {
            for (value, is_in) in [(least - 1, false), (least, true), (most, true), (most + 1, false)] {
                assert_eq!(refusal(|of| set(of, value)).is_empty(), is_in, "setting {place}: {value}");
            }
        }
        assert_eq!(refusal(|of| (of.keep.age_ms, of.keep.bytes) = (None, Some(u64::MAX))), "");
    }

    #[test]
    fn a_block_is_a_small_part_of_what_is_kept() {
        let mut settings = StreamSettings::default();
        (settings.keep.bytes, settings.keep.age_ms) = (Some(80_000), Some(5_000));
        let bounds = BlockBounds { bytes: 10_000, age_ms: 5_000, messages: 10_000 };
        assert_eq!(block_bounds(&settings), bounds);
    }

    #[test]
    fn a_block_has_no_more_messages_than_one_batch_can_tell_the_sources_of() {
        let mut settings = StreamSettings::default();
        settings.block.messages = BLOCK_MESSAGES_MAX;
        assert_eq!(block_bounds(&settings).messages, BLOCK_MESSAGES_MADE);
    }
}
