//! How commands go to one device, in place of what the settings say.

use std::time::Duration;

use base::limits::{COMMAND_GAP_MS_MAX, COMMANDS_IN_FLIGHT_MAX};
use base::{Problem, duration};
use records::PaceOverride;

use crate::{Patch, RegistryRefusal};

/// What a caller asks for: how commands go to one device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PaceChange {
    /// Commands that may be unanswered at a time; clearing goes back to the settings. The contract
    /// calls it `window`.
    pub in_flight: Patch<u64>,
    /// Least time from one publish to the next; clearing goes back to the settings.
    pub gap: Patch<Duration>,
}

impl PaceChange {
    /// The pace after the change. What it does not name stays as in `present`.
    ///
    /// # Errors
    /// `invalid_pace` for a window that is not 1 to 1,000, or a gap of over an hour.
    pub(crate) fn merged(self, present: PaceOverride) -> Result<PaceOverride, Problem> {
        Ok(PaceOverride {
            in_flight: self.in_flight.try_map(in_flight)?.merged(&present.in_flight),
            gap_ms: self.gap.try_map(gap_ms)?.merged(&present.gap_ms),
        })
    }
}

fn in_flight(count: u64) -> Result<u32, Problem> {
    let wrong = || {
        let detail = format!("commands.window is {count}; it may be from 1 to {COMMANDS_IN_FLIGHT_MAX}");
        RegistryRefusal::InvalidPace.problem(detail)
    };
    u32::try_from(count).ok().filter(|count| (1..=COMMANDS_IN_FLIGHT_MAX).contains(count)).ok_or_else(wrong)
}

fn gap_ms(gap: Duration) -> Result<u64, Problem> {
    let longest = Duration::from_millis(COMMAND_GAP_MS_MAX);
    if gap <= longest {
        return Ok(u64::try_from(gap.as_millis()).expect("an hour of milliseconds fits"));
    }
    let (gap, longest) = (duration::format(gap), duration::format(longest));
    Err(RegistryRefusal::InvalidPace.problem(format!("commands.gap is {gap}; it may be up to {longest}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_sets_and_clears_what_it_names() {
        let present = PaceOverride { in_flight: Some(2), gap_ms: Some(500) };
        let (in_flight, gap) = (Patch::Set(1_000), Patch::Set(Duration::from_secs(3_600)));
        for (change, expect) in [
            (PaceChange::default(), present),
            (
                PaceChange { in_flight, gap: Patch::Clear },
                PaceOverride { in_flight: Some(1_000), gap_ms: None },
            ),
            (
                PaceChange { in_flight: Patch::Clear, gap },
                PaceOverride { in_flight: None, gap_ms: Some(3_600_000) },
            ),
        ] {
            let name = format!("{change:?}");
            assert_eq!(change.merged(present), Ok(expect), "{name}");
        }
    }

    #[test]
    fn a_pace_that_may_not_be_is_refused() {
        let of = |count| PaceChange { in_flight: Patch::Set(count), ..PaceChange::default() };
        let gap = Patch::Set(Duration::from_millis(3_600_001));
        for change in [of(0), of(1_001), of(u64::MAX), PaceChange { gap, ..PaceChange::default() }] {
            let name = format!("{change:?}");
            let refused = change.merged(PaceOverride::default());
            assert_eq!(refused.map_err(|problem| problem.code), Err("invalid_pace"), "{name}");
        }
    }
}
