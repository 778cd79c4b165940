//! For how long somebody listened to each way in.
//!
//! There are two measures. `counted` is what the server may count against a device, which skips
//! gaps. `listened` is all the time in which the doors were open and the process was up, and never
//! goes back. A device may be lost only when both agree that it was silent for long enough, and
//! must be when the first does.

use base::{Timestamp, WayIn};

/// Clocks: one for each way, and the one that runs while every configured way is attended.
const CLOCKS: usize = 4;
/// The index of the last.
pub(crate) const EVERY: usize = 3;
/// Most of a time without any step that counts, in milliseconds.
const GAP_MS_MAX: i64 = 5_000;

/// The clocks of a partition.
#[derive(Clone, Debug)]
pub(crate) struct Listening {
    pub(crate) counted: [i64; CLOCKS],
    pub(crate) listened: [i64; CLOCKS],
    at: Timestamp,
    still_until: Timestamp,
    attended: [bool; 3],
    configured: [bool; 3],
}

/// What a clock showed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    pub(crate) clock: usize,
    pub(crate) counted: i64,
    pub(crate) listened: i64,
}

impl Listening {
    pub(crate) fn new(configured: [bool; 3]) -> Self {
        Self {
            counted: [0; CLOCKS],
            listened: [0; CLOCKS],
            at: Timestamp(0),
            still_until: Timestamp(0),
            attended: [false; 3],
            configured,
        }
    }

    /// The partition was loaded, with the counted clocks of its latest batch.
    pub(crate) fn start(
        &mut self,
        now: Timestamp,
        grace_ms: i64,
        listened: [i64; CLOCKS],
        (configured, attended): ([bool; 3], [bool; 3]),
    ) {
        self.configured = configured;
        self.at = now;
        self.still_until = Timestamp(now.0 + grace_ms);
        self.listened = listened;
        self.attended = attended;
    }

    pub(crate) fn pass(&mut self, now: Timestamp) {
        let passed = (now.0 - self.at.0.max(self.still_until.0)).max(0);
        for clock in 0..CLOCKS {
            if self.is_attended(clock) {
                self.counted[clock] += passed.min(GAP_MS_MAX);
                self.listened[clock] += passed;
            }
        }
        self.at = self.at.max(now);
    }

    /// From the latest [`Listening::pass`] on.
    pub(crate) fn attend(&mut self, way: WayIn, attended: bool) {
        self.attended[way.index()] = attended;
    }

    pub(crate) fn runs(&self, clock: usize) -> bool {
        self.at >= self.still_until && self.is_attended(clock)
    }

    pub(crate) fn mark(&self, clock: usize) -> Mark {
        Mark { clock, counted: self.counted[clock], listened: self.listened[clock] }
    }

    fn is_attended(&self, clock: usize) -> bool {
        if clock != EVERY && self.configured[clock] {
            return self.attended[clock];
        }
        (0..3).all(|way| self.attended[way] || !self.configured[way]) && self.configured.contains(&true)
    }
}
