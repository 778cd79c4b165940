//! When what was appended is saved, and when its callers are answered.
//!
//! | mode | saved | answered |
//! |---|---|---|
//! | sync | in the step that appends | when saved |
//! | wait | once in the interval | when saved |
//! | periodic | once in the interval | at once, once the id is reserved |
//! | memory | with the block | at once, once the id is reserved |
//!
//! A save takes all that is not saved, in order. So a crash leaves a beginning of the stream, never
//! a part without the one before it.

use std::time::Duration;

use base::Timestamp;
use records::{SaveMode, StreamSettings};

/// When the callers of an append are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerTime {
    /// With the step that appends.
    AtOnce,
    /// When the messages are durable.
    WhenSaved,
}

/// When callers are answered in a mode.
#[must_use]
pub fn answer_time(mode: SaveMode) -> AnswerTime {
    match mode {
        SaveMode::Sync | SaveMode::Wait => AnswerTime::WhenSaved,
        SaveMode::Periodic | SaveMode::Memory => AnswerTime::AtOnce,
    }
}

/// What is appended to a stream and not saved yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnsavedMessages {
    /// When the oldest was appended; `None` if all are saved.
    since: Option<Timestamp>,
    /// Whether somebody is answered when they are saved.
    is_awaited: bool,
}

impl UnsavedMessages {
    /// Notes an append.
    pub fn append(&mut self, mode: SaveMode, now: Timestamp) {
        self.since.get_or_insert(now);
        self.is_awaited |= answer_time(mode) == AnswerTime::WhenSaved;
    }

    /// When they are saved at the latest, by the settings that hold now. `None` if nothing is to be
    /// saved, or only with the block. Callers that wait are answered within the interval, whatever
    /// mode the stream has by now.
    #[must_use]
    pub fn due_at(&self, settings: &StreamSettings) -> Option<Timestamp> {
        let since = self.since?;
        let within = since.after(Duration::from_millis(settings.save_interval_ms));
        match settings.save {
            SaveMode::Sync => Some(since),
            SaveMode::Wait | SaveMode::Periodic => Some(within),
            SaveMode::Memory => self.is_awaited.then_some(within),
        }
    }

    /// Whether a step that ends now saves them. `has_block_closed` says that their block was.
    #[must_use]
    pub fn is_due(&self, settings: &StreamSettings, now: Timestamp, has_block_closed: bool) -> bool {
        let is_time = self.due_at(settings).is_some_and(|due_at| due_at <= now);
        is_time || (has_block_closed && self.since.is_some())
    }

    /// Whether there are any.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.since.is_none()
    }

    /// All are in a batch now.
    pub fn save(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn settings(save: SaveMode, save_interval_ms: u64) -> StreamSettings {
        StreamSettings { save, save_interval_ms, ..StreamSettings::default() }
    }

    #[test]
    fn each_mode_saves_in_its_own_time() {
        for (mode, due_at) in [
            (SaveMode::Sync, Some(Timestamp(100))),
            (SaveMode::Wait, Some(Timestamp(600))),
            (SaveMode::Periodic, Some(Timestamp(600))),
            (SaveMode::Memory, None),
        ] {
            let mut unsaved = UnsavedMessages::default();
            assert_eq!(unsaved.due_at(&settings(mode, 500)), None);
            unsaved.append(mode, Timestamp(100));
            unsaved.append(mode, Timestamp(200));
            assert_eq!(unsaved.due_at(&settings(mode, 500)), due_at, "{}", mode.as_str());
            assert!(unsaved.is_due(&settings(mode, 500), Timestamp(200), true), "a closed block is saved");
            unsaved.save();
            assert!(unsaved.is_empty() && !unsaved.is_due(&settings(mode, 500), Timestamp(999), true));
        }
    }

    #[test]
    fn callers_that_wait_are_answered_though_the_mode_changes() {
        let mut unsaved = UnsavedMessages::default();
        unsaved.append(SaveMode::Wait, Timestamp(0));
        unsaved.append(SaveMode::Memory, Timestamp(400));
        assert_eq!(unsaved.due_at(&settings(SaveMode::Memory, 500)), Some(Timestamp(500)));
        assert_eq!(unsaved.due_at(&settings(SaveMode::Sync, 500)), Some(Timestamp(0)));
    }

    #[derive(Clone, Debug)]
    enum Do {
        Append,
        Wait(u64),
        Set(SaveMode, u64),
        CloseBlock,
        Crash,
    }

    fn doing() -> impl Strategy<Value = Do> {
        let mode = proptest::sample::select(SaveMode::ALL.to_vec());
        prop_oneof![
            6 => Just(Do::Append),
            4 => (1..400_u64).prop_map(Do::Wait),
            1 => (mode, 100..1_000_u64).prop_map(|(mode, interval_ms)| Do::Set(mode, interval_ms)),
            1 => Just(Do::CloseBlock),
            1 => Just(Do::Crash),
        ]
    }

    /// A message of the naive model.
    #[derive(Clone, Copy, Debug)]
    struct Appended {
        at: u64,
        mode: SaveMode,
        is_saved: bool,
    }

    proptest! {
        #[test]
        fn every_mode_keeps_its_promise(doings in proptest::collection::vec(doing(), 1..100)) {
            let mut now = 0_u64;
            let mut current = settings(SaveMode::Sync, 500);
            let mut unsaved = UnsavedMessages::default();
            let mut naive: Vec<Appended> = Vec::new();
            for doing in doings {
                let mut has_block_closed = false;
                match doing {
                    Do::Append => {
                        unsaved.append(current.save, Timestamp(now.cast_signed()));
                        naive.push(Appended { at: now, mode: current.save, is_saved: false });
                    }
                    Do::Wait(ms) => {
                        // A step comes when a save is due.
                        let due_at = unsaved.due_at(&current).map_or(u64::MAX, |at| at.0.cast_unsigned());
                        now = (now + ms).min(due_at.max(now));
                    }
                    Do::Set(save, interval_ms) => current = settings(save, interval_ms),
                    Do::CloseBlock => has_block_closed = true,
                    Do::Crash => {
                        let answered_when_saved = naive.iter().filter(|message| message.is_saved).count();
                        naive.retain(|message| message.is_saved);
                        prop_assert_eq!(naive.len(), answered_when_saved);
                        unsaved = UnsavedMessages::default();
                    }
                }
                if unsaved.is_due(&current, Timestamp(now.cast_signed()), has_block_closed) {
                    unsaved.save();
                    naive.iter_mut().for_each(|message| message.is_saved = true);
                }
                let first_unsaved = naive.iter().position(|message| !message.is_saved);
                prop_assert_eq!(first_unsaved.is_none(), unsaved.is_empty());
                let Some(first_unsaved) = first_unsaved else { continue };
                prop_assert!(naive[first_unsaved..].iter().all(|message| !message.is_saved));
                prop_assert!(!has_block_closed && current.save != SaveMode::Sync);
                let waits = |message: &&Appended| {
                    current.save != SaveMode::Memory || answer_time(message.mode) == AnswerTime::WhenSaved
                };
                let oldest = naive[first_unsaved..].iter().find(waits);
                prop_assert!(oldest.is_none_or(|message| now < message.at + current.save_interval_ms));
            }
        }
    }
}
