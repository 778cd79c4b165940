//! Windows of time: whether commands are handed out now, on the clock of a device.

use std::time::Duration;

use base::Timestamp;
use records::RolloutWindow;

use crate::calendar;

/// Whether a window is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WindowState {
    /// It is, until then.
    Open(Timestamp),
    /// It opens then, if ever.
    Shut(Option<Timestamp>),
}

impl WindowState {
    /// The window at a moment, for a device in this time zone. A zone that is none is left aside.
    /// All times are on the wall clock.
    pub(super) fn at(window: &RolloutWindow, tz: Option<&str>, wall: Timestamp) -> Self {
        let own = tz.filter(|tz| calendar::check(&window.cron, Some(tz)).is_ok());
        let zone = own.or(window.tz.as_deref());
        let closes = calendar::latest(&window.cron, zone, wall)
            .map(|opened| opened.after(Duration::from_millis(window.for_ms)));
        match closes {
            Some(closes) if closes > wall => Self::Open(closes),
            _ => Self::Shut(calendar::first(&window.cron, zone, wall)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_opens_on_the_clock_of_the_device() {
        let window =
            RolloutWindow { cron: "0 2 * * *".into(), for_ms: 3_600_000, tz: Some("Asia/Tokyo".into()) };
        let at = |text| Timestamp::parse(text).expect("a time");
        for (tz, now, expect) in [
            (None, "2026-03-01T17:30:00Z", WindowState::Open(at("2026-03-01T18:00:00Z"))),
            (None, "2026-03-01T18:00:00Z", WindowState::Shut(Some(at("2026-03-02T17:00:00Z")))),
            (
                Some("Europe/Berlin"),
                "2026-03-01T17:30:00Z",
                WindowState::Shut(Some(at("2026-03-02T01:00:00Z"))),
            ),
            (Some("Europe/Berlin"), "2026-03-02T01:00:00Z", WindowState::Open(at("2026-03-02T02:00:00Z"))),
            (Some("Nowhere"), "2026-03-01T17:30:00Z", WindowState::Open(at("2026-03-01T18:00:00Z"))),
        ] {
            assert_eq!(WindowState::at(&window, tz, at(now)), expect, "{tz:?} {now}");
        }
    }
}
