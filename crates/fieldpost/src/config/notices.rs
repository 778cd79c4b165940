//! `[notices]`: what operators are told of the system itself.

use std::time::Duration;

use engine::notices::NoticeSettings;

use super::reader::SettingsReader;
use super::shape::{Bytes, DurationRange, Whole};
use super::{DAY, HOUR, KEPT_FOR, MINUTE, SECOND};

/// What is told of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoticesOfMachine {
    /// A certificate is told of that ends within this time.
    pub certificate_before: Option<Duration>,
    /// A disk is told of with fewer free bytes.
    pub storage_free: Option<u64>,
}

/// Reads what is told of the machine. What is 0 is off.
pub(super) fn of_machine(from: &mut SettingsReader) -> NoticesOfMachine {
    let before = from.read("notices.certificate_before", &DurationRange(Duration::ZERO, 365 * DAY)).value;
    let free = from.read("notices.storage_free", &Bytes(0, 1_000_000_000_000_000)).value;
    NoticesOfMachine {
        certificate_before: (!before.is_zero()).then_some(before),
        storage_free: (free > 0).then_some(free),
    }
}

/// Reads it. What is 0 is off.
pub(super) fn read(from: &mut SettingsReader) -> NoticeSettings {
    let dead_letters = from.read("notices.dead_letters", &Whole { least: 0, most: 1_000_000_000 }).value;
    let lost_together = from.read("notices.lost_together", &Whole { least: 0, most: 1_000_000 }).value;
    let backlog_age = from.read("notices.backlog_age", &DurationRange(Duration::ZERO, 30 * DAY)).value;
    NoticeSettings {
        keep: from.read("notices.keep", &DurationRange(MINUTE, KEPT_FOR.1)).value,
        quiet: from.read("notices.quiet", &DurationRange(SECOND, DAY)).value,
        backlog_age: (!backlog_age.is_zero()).then_some(backlog_age),
        dead_letters: (dead_letters > 0).then_some(dead_letters),
        lost_together: u32::try_from(lost_together).ok().filter(|least| *least > 0),
        lost_window: from.read("notices.lost_window", &DurationRange(SECOND, HOUR)).value,
    }
}
