//! What names a log and its frames.

use std::fmt;

/// The random id of a log. Every frame carries it, so that a frame of another log is never taken
/// for one of this.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LogId(pub u64);

/// The place of a frame in its log: frames are counted from 1, and 0 stands before the first.
///
/// The position of a frame that was durable, or was handed out by an opening, never names another
/// frame. Only that of a frame which was never confirmed, and was cut with a torn tail, is given
/// again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Position(pub u64);

impl Position {
    /// Before the first frame.
    pub const ZERO: Position = Position(0);

    /// The position after this one.
    #[must_use]
    pub fn next(self) -> Position {
        Position(self.0 + 1)
    }

    /// The position before this one; that of [`Position::ZERO`] is itself.
    #[must_use]
    pub fn previous(self) -> Position {
        Position(self.0.saturating_sub(1))
    }
}

impl fmt::Display for LogId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:016x}", self.0)
    }
}

impl fmt::Display for Position {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}
