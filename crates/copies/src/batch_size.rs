//! How much a copy sends at a time: as much as its line and the node at its end manage soon. While
//! the stream there has no room, it is less.
//!
//! An answer that is not there within seconds counts as lost, so that a line which was cut without
//! a word is found soon. What is sent together must not take that long on a slow line either.

use std::time::Duration;

/// Messages of a batch, at most.
pub(crate) const BATCH_MESSAGES_MAX: usize = 1_000;
/// Bytes of a batch, at most; one message is always sent. With those in flight and the one that
/// is read, it bounds the memory of a copy.
const BATCH_BYTES_MAX: usize = 1 << 20;
/// Bytes of the first batch, before anything is known of the line.
const BATCH_BYTES_FIRST: usize = 128 << 10;
/// What takes longer goes with less: with another batch before it, it must stay well within the
/// time of an answer.
const SLOW: Duration = Duration::from_millis(1_500);
/// What is answered within this time goes with twice as much next time, which is not slow either.
const SOON: Duration = Duration::from_millis(750);

/// A slow answer makes no batch smaller than this, in bytes. Less would not be faster on any line,
/// and a line with a long way would bring hardly anything.
const SLOW_BYTES_MIN: usize = 4 << 10;

/// Most that is sent together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BatchSize {
    pub(crate) messages: usize,
    pub(crate) bytes: usize,
}

impl Default for BatchSize {
    fn default() -> Self {
        Self { messages: BATCH_MESSAGES_MAX, bytes: BATCH_BYTES_FIRST }
    }
}

impl BatchSize {
    /// A batch was answered after so long. What became tiny because nothing was answered grows
    /// again with any answer.
    pub(crate) fn answered(&mut self, after: Duration) {
        self.messages = (2 * self.messages).min(BATCH_MESSAGES_MAX);
        if after <= SOON {
            self.bytes = (2 * self.bytes).min(BATCH_BYTES_MAX);
        } else if self.bytes < SLOW_BYTES_MIN {
            self.bytes = (2 * self.bytes).min(SLOW_BYTES_MIN);
        } else if after > SLOW {
            self.bytes = (self.bytes / 2).max(SLOW_BYTES_MIN);
        }
    }

    /// There was no room for so many: the next batch has half of them. The line is as it was.
    pub(crate) fn had_no_room_for(&mut self, messages: u64) {
        let sent = usize::try_from(messages).unwrap_or(usize::MAX);
        self.messages = (self.messages.min(sent) / 2).max(1);
    }

    /// A batch was not answered in time.
    pub(crate) fn shrink(&mut self) {
        (self.messages, self.bytes) = ((self.messages / 2).max(1), (self.bytes / 2).max(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends batches over a line of so many bytes a second, and says how long the last one took.
    fn over_a_line(bytes_per_second: usize) -> (BatchSize, Duration) {
        let (mut size, mut took) = (BatchSize::default(), Duration::ZERO);
        for _ in 0..50 {
            // Another one is before it.
            took = Duration::from_millis((2 * 1_000 * size.bytes / bytes_per_second) as u64);
            if took > Duration::from_secs(4) { size.shrink() } else { size.answered(took) }
        }
        (size, took)
    }

    #[test]
    fn batches_become_as_large_as_a_line_takes_in_time() {
        for (bytes_per_second, expect) in
            [(100 << 20, BATCH_BYTES_MAX), (1 << 20, 512 << 10), (64 << 10, 32 << 10), (8 << 10, 4 << 10)]
        {
            let (size, took) = over_a_line(bytes_per_second);
            assert_eq!(size.bytes, expect, "{bytes_per_second}");
            assert!(took <= SLOW, "{bytes_per_second}: {took:?}");
        }
    }

    #[test]
    fn a_long_way_makes_no_batch_tiny() {
        let mut size = BatchSize::default();
        (0..99).for_each(|_| size.answered(2 * SLOW));
        assert_eq!(size, BatchSize { messages: BATCH_MESSAGES_MAX, bytes: SLOW_BYTES_MIN });
    }

    #[test]
    fn what_had_no_room_is_sent_in_smaller_batches() {
        let mut size = BatchSize::default();
        for (messages, expect) in [(30, 15), (15, 7), (7, 3), (1, 1), (0, 1)] {
            size.had_no_room_for(messages);
            assert_eq!(size.messages, expect, "{messages}");
        }
    }

    #[test]
    fn one_message_is_always_sent() {
        let mut size = BatchSize::default();
        (0..99).for_each(|_| size.shrink());
        assert_eq!(size, BatchSize { messages: 1, bytes: 1 });
        (0..99).for_each(|_| size.answered(2 * SLOW));
        assert_eq!(size, BatchSize { messages: BATCH_MESSAGES_MAX, bytes: SLOW_BYTES_MIN });
        (0..99).for_each(|_| size.answered(SOON));
        assert_eq!(size, BatchSize { messages: BATCH_MESSAGES_MAX, bytes: BATCH_BYTES_MAX });
    }
}
