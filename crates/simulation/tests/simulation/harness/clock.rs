//! The virtual clocks: they stand still until the scheduler moves them.
//!
//! The engine clock follows the rule of the real one. It starts no earlier than what was recorded,
//! and runs on while the machine is up. It is slewed by at most a tenth towards the wall clock,
//! which may be set by an hour either way.

use std::sync::Mutex;

use base::locks::locked;
use base::{Clock, Timestamp};

/// The slew is at most one part in this many.
const SLEW_DIVISOR: i64 = 10;
/// When every run begins.
const BEGINNING: i64 = 1_795_000_000_000;

/// Both clocks.
pub(crate) struct VirtualClock(Mutex<Clocks>);

#[derive(Clone, Copy)]
struct Clocks {
    engine: i64,
    wall: i64,
}

impl VirtualClock {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Clocks { engine: BEGINNING, wall: BEGINNING }))
    }

    /// The process starts: like the real clock, at the later of the wall clock and what was
    /// recorded.
    pub(crate) fn start(&self, recorded: Timestamp) {
        let mut clocks = locked(&self.0);
        clocks.engine = clocks.wall.max(recorded.0);
    }

    /// Time passes while the process is up.
    pub(crate) fn pass(&self, ms: i64) {
        let mut clocks = locked(&self.0);
        clocks.wall += ms;
        let slew_max = ms / SLEW_DIVISOR;
        let behind = clocks.wall - (clocks.engine + ms);
        clocks.engine += ms + behind.clamp(-slew_max, slew_max);
    }

    /// Time passes while the process is down.
    pub(crate) fn pass_down(&self, ms: i64) {
        locked(&self.0).wall += ms;
    }

    /// Somebody sets the wall clock.
    pub(crate) fn step_wall(&self, ms: i64) {
        locked(&self.0).wall += ms;
    }

    /// How far the wall clock has been set from where it would be, roughly.
    pub(crate) fn wall_ahead(&self) -> i64 {
        let clocks = locked(&self.0);
        clocks.wall - clocks.engine
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Timestamp {
        Timestamp(locked(&self.0).engine)
    }

    fn wall(&self) -> Timestamp {
        Timestamp(locked(&self.0).wall)
    }
}
