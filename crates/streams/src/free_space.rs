//! How much room the disk with the data has left for streams.
//!
//! Two bounds, both relative to the disk and small: an operator is told much earlier. Below the
//! upper one `when_full` decides. Below the lower one nothing is appended unless something goes in
//! its favour, since the store ends intake for good once it cannot write.
//!
//! ```text
//!   free bytes   0 ...... none ............. little .............................. all
//!                | nothing | `when_full` decides |  appends as ever
//! ```

/// How much room the disk has left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum FreeSpace {
    /// Enough for a while.
    #[default]
    Enough,
    /// Hardly any: the oldest messages go in favour of new ones, or these are refused.
    Low,
    /// What is left is the store's own.
    Exhausted,
}

/// Where the room of a disk begins to be little, and where there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskBounds {
    little_bytes: u64,
    none_bytes: u64,
}

/// Of a small disk streams leave this share to others, in hundredths.
const FREE_PERCENT_MAX: u64 = 5;
/// What the store needs to go on: a checkpoint comes after 64 MiB of log, whose rows its tables
/// then take beside what they have.
const STORE_NEEDS_MAX: u64 = 128 << 20;
/// Of a small disk it is one part in so many: a store with less memory has its checkpoints earlier.
const STORE_NEEDS_PART: u64 = 16;
/// A message is written to the log, to a table and to its block's file, each with what stands
/// beside it.
const WRITTEN_PER_BYTE: u64 = 4;
/// Bytes of messages after which the disk is looked at again, at least: near a bound.
const LOOK_AFTER_MIN: u64 = 256 << 10;

impl DiskBounds {
    /// Those of a disk of so many bytes, of which streams leave `free_bytes_max` free, or a
    /// twentieth if that is less.
    #[must_use]
    pub fn of_disk(disk_bytes: u64, free_bytes_max: u64) -> Self {
        let none_bytes = STORE_NEEDS_MAX.min(disk_bytes / STORE_NEEDS_PART);
        let left_free = free_bytes_max.min(disk_bytes / 100 * FREE_PERCENT_MAX);
        Self { little_bytes: none_bytes.saturating_add(left_free), none_bytes }
    }

    /// How much room there is with so many free bytes. It becomes better only once a quarter more
    /// than the bound is free: what goes back and forth at it stays as it was.
    #[must_use]
    pub fn room(&self, free_bytes: u64, before: FreeSpace) -> FreeSpace {
        let is_below = |bound: u64, was_below: bool| {
            let until = if was_below { bound.saturating_add(bound / 4) } else { bound };
            free_bytes < until
        };
        if is_below(self.none_bytes, before == FreeSpace::Exhausted) {
            FreeSpace::Exhausted
        } else if is_below(self.little_bytes, before != FreeSpace::Enough) {
            FreeSpace::Low
        } else {
            FreeSpace::Enough
        }
    }

    /// After how many bytes of new messages the disk is looked at again, whatever the time: before
    /// they can have come to the next bound.
    #[must_use]
    pub fn look_after_bytes(&self, free_bytes: u64) -> u64 {
        let next = [self.little_bytes, self.none_bytes].into_iter().find(|bound| *bound <= free_bytes);
        let to_next = next.map_or(0, |bound| free_bytes - bound);
        (to_next / WRITTEN_PER_BYTE).max(LOOK_AFTER_MIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1_000_000;
    const GB: u64 = 1_000 * MB;

    #[test]
    fn bounds_are_relative_on_a_small_disk_and_absolute_on_a_large_one() {
        for (disk_bytes, left_free, little_bytes, none_bytes) in [
            (GB, 512 * MB, 112_500_000, 62_500_000),
            (1_000 * GB, 512 * MB, 512 * MB + (128 << 20), 128 << 20),
            (1_000 * GB, 10 * MB, 10 * MB + (128 << 20), 128 << 20),
        ] {
            let expect = DiskBounds { little_bytes, none_bytes };
            assert_eq!(DiskBounds::of_disk(disk_bytes, left_free), expect, "{disk_bytes}");
        }
        let card = DiskBounds::of_disk(GB, 512 * MB);
        assert_eq!(card.room(900 * MB, FreeSpace::Enough), FreeSpace::Enough, "below 2 GB is no matter");
    }

    #[test]
    fn what_goes_back_and_forth_at_a_bound_stays_as_it_was() {
        let bounds = DiskBounds { little_bytes: 1_000, none_bytes: 100 };
        let mut room = FreeSpace::Enough;
        for (free, expect) in [
            (1_000, FreeSpace::Enough),
            (999, FreeSpace::Low),
            (1_249, FreeSpace::Low),
            (100, FreeSpace::Low),
            (99, FreeSpace::Exhausted),
            (124, FreeSpace::Exhausted),
            (125, FreeSpace::Low),
            (1_250, FreeSpace::Enough),
            (0, FreeSpace::Exhausted),
            (9_999, FreeSpace::Enough),
        ] {
            room = bounds.room(free, room);
            assert_eq!(room, expect, "{free}");
        }
    }

    #[test]
    fn the_disk_is_looked_at_before_new_messages_can_have_come_to_a_bound() {
        let bounds = DiskBounds { little_bytes: 100 * MB, none_bytes: 10 * MB };
        for (free, expect) in [
            (900 * MB, 200 * MB),
            (50 * MB, 10 * MB),
            (100 * MB, LOOK_AFTER_MIN),
            (10 * MB, LOOK_AFTER_MIN),
            (0, LOOK_AFTER_MIN),
        ] {
            assert_eq!(bounds.look_after_bytes(free), expect, "{free}");
        }
    }
}
