//! `[commands]`: how commands go to devices of any kind.

use std::collections::BTreeMap;
use std::time::Duration;

use base::limits::{COMMAND_ATTEMPTS_MAX, COMMAND_GAP_MS_MAX, COMMANDS_IN_FLIGHT_MAX};
use engine::CommandSettings;
use engine::settings::CommandPace;

use super::reader::SettingsReader;
use super::shape::{DurationRange, Whole};
use super::{DAY, KEPT_FOR, MINUTE, MS};

const ATTEMPTS: Whole = Whole { least: 1, most: COMMAND_ATTEMPTS_MAX as u64 };
pub(super) const IN_FLIGHT: Whole = Whole { least: 1, most: COMMANDS_IN_FLIGHT_MAX as u64 };
pub(super) const GAP: DurationRange =
    DurationRange(Duration::ZERO, Duration::from_millis(COMMAND_GAP_MS_MAX));

/// Reads it; what kinds say of themselves is not here.
pub(super) fn read(from: &mut SettingsReader) -> CommandSettings {
    CommandSettings {
        ack_timeout: from.read("commands.ack_timeout", &DurationRange(MS, DAY)).value,
        attempts_max: from.read("commands.max_attempts", &ATTEMPTS).value as u32,
        pace: CommandPace {
            in_flight: from.read("commands.in_flight", &IN_FLIGHT).value as u32,
            gap: from.read("commands.gap", &GAP).value,
        },
        by_kind: BTreeMap::new(),
        keep: from.read("commands.keep", &DurationRange(MINUTE, KEPT_FOR.1)).value,
    }
}
