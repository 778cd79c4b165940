//! `[operations]`: one action on everything that matches.

use engine::OperationSettings;

use super::reader::SettingsReader;
use super::shape::{DurationRange, Whole};
use super::{KEPT_FOR, MINUTE};

const RUNNING: Whole = Whole { least: 1, most: 64 };
const RATE: Whole = Whole { least: 1, most: 100_000 };

pub(super) fn read(from: &mut SettingsReader) -> OperationSettings {
    OperationSettings {
        running_max: from.read("operations.max_running", &RUNNING).value as usize,
        rate_max: from.read("operations.max_rate", &RATE).value as u32,
        keep: from.read("operations.keep", &DurationRange(MINUTE, KEPT_FOR.1)).value,
    }
}
