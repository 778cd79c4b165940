//! How many bytes of frames lie behind a position, without remembering every frame.
//!
//! The answer is for pacing: it may be up to [`STEP_BYTES`] (or one frame, where that is longer)
//! too high, never too low.

use std::collections::VecDeque;

use crate::position::Position;

/// One mark is kept for this many bytes: 16 MiB of log need 4 KiB of memory.
pub(crate) const STEP_BYTES: u64 = 64 << 10;

#[derive(Debug, Default)]
pub(crate) struct Distance {
    /// Ascending; the frames up to and with `position` end at `bytes`.
    marks: VecDeque<Mark>,
    /// Where the oldest frame that is kept begins.
    begin: u64,
    /// Where the newest frame ends.
    end: u64,
}

#[derive(Debug)]
struct Mark {
    position: Position,
    bytes: u64,
}

impl Distance {
    /// Counts the frame at `position`.
    pub(crate) fn add(&mut self, position: Position, bytes: u64) {
        self.end += bytes;
        let marked = self.marks.back().map_or(self.begin, |mark| mark.bytes);
        if self.end - marked >= STEP_BYTES {
            self.marks.push_back(Mark { position, bytes: self.end });
        }
    }

    /// The bytes of all kept frames after `position`.
    pub(crate) fn since(&self, position: Position) -> u64 {
        let below = self.marks.partition_point(|mark| mark.position <= position);
        let from = below.checked_sub(1).map_or(self.begin, |last| self.marks[last].bytes);
        self.end - from
    }

    /// The frames up to and with `position` are gone.
    pub(crate) fn forget_through(&mut self, position: Position) {
        while self.marks.front().is_some_and(|mark| mark.position <= position) {
            self.begin = self.marks.pop_front().map_or(self.begin, |mark| mark.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME_BYTES: u64 = 1000;

    #[test]
    fn the_distance_is_never_too_low_and_hardly_too_high() {
        let mut distance = Distance::default();
        for position in 1..=1000 {
            distance.add(Position(position), FRAME_BYTES);
        }
        distance.forget_through(Position(300));
        for position in 300..=1000 {
            let exact = (1000 - position) * FRAME_BYTES;
            let answer = distance.since(Position(position));
            assert!(answer >= exact, "at {position}: {answer} is below {exact}");
            assert!(answer < exact + STEP_BYTES + FRAME_BYTES, "at {position}: {answer} is far over {exact}");
        }
    }

    #[test]
    fn nothing_lies_behind_the_end_of_an_empty_log() {
        assert_eq!(Distance::default().since(Position::ZERO), 0);
    }
}
