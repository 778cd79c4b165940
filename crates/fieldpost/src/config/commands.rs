//! `[commands]` and `[kinds.NAME]`: how commands go to devices, and to devices of one kind.

use std::collections::BTreeMap;
use std::time::Duration;

use base::Kind;
use base::limits::COMMAND_ATTEMPTS_MAX;
use engine::CommandSettings;
use engine::settings::CommandPace;

use super::entry::Entry;
use super::reader::Reader;
use super::shape::{Span, Whole};
use super::{DAY, HOUR, KEPT_FOR, MINUTE, MS};

const ATTEMPTS: Whole = Whole { least: 1, most: COMMAND_ATTEMPTS_MAX as u64 };
const IN_FLIGHT: Whole = Whole { least: 1, most: 1_000 };
const GAP: Span = Span(Duration::ZERO, HOUR);

/// Reads both sections.
pub(super) fn read(from: &mut Reader) -> CommandSettings {
    let pace = CommandPace {
        in_flight: from.read("commands.in_flight", &IN_FLIGHT).value as u32,
        gap: from.read("commands.gap", &GAP).value,
    };
    CommandSettings {
        ack_timeout: from.read("commands.ack_timeout", &Span(MS, DAY)).value,
        attempts_max: from.read("commands.max_attempts", &ATTEMPTS).value as u32,
        pace,
        by_kind: kinds(from, pace),
        keep: from.read("commands.keep", &Span(MINUTE, KEPT_FOR.1)).value,
    }
}

/// A kind takes from `[commands]` what it does not say itself.
fn kinds(from: &mut Reader, pace: CommandPace) -> BTreeMap<Kind, CommandPace> {
    let mut kinds = BTreeMap::new();
    for (name, mut section) in from.sections_below("kinds") {
        let of_kind = kind_pace(from, &mut section, pace);
        match Kind::new(&name) {
            Some(kind) => drop(kinds.insert(kind, of_kind)),
            None => section.refuse_name(
                from,
                "is not a kind",
                "write a name such as [kinds.face]: a letter, \
                then up to 31 of a-z, 0-9, _ and -",
            ),
        }
        section.finish(from);
    }
    kinds
}

fn kind_pace(from: &mut Reader, section: &mut Entry, pace: CommandPace) -> CommandPace {
    let in_flight = section.optional(from, "in_flight", &IN_FLIGHT);
    CommandPace {
        in_flight: in_flight.map_or(pace.in_flight, |count| count as u32),
        gap: section.optional(from, "gap", &GAP).unwrap_or(pace.gap),
    }
}
