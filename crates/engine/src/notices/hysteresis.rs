//! Which changes of a subject's condition become notices, so that flapping does not flood.
//!
//! The first change is told at once. After a notice nothing is told of its subject for `quiet`. At
//! the end of that time its present condition is told if it differs from the last one told, or
//! what occurred last meanwhile. So a subject has at most one notice in that time, and whoever
//! listens is right at its end.

use std::time::Duration;

use base::Timestamp;
use records::NoticeKind;

use super::Condition;

/// What is known of a subject. Nothing is: it is well, and nobody was told of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubjectState {
    /// What listeners were last told is wrong, if anything.
    last_told: Option<NoticeKind>,
    /// What is wrong.
    present: Option<NoticeKind>,
    /// What occurred while nothing was told.
    occurred: Option<NoticeKind>,
    /// Whether being well is told.
    tells_well: bool,
    /// Until when nothing is told.
    quiet_until: Option<Timestamp>,
}

/// What is to be told of a subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoticeDecision {
    /// Nothing.
    Nothing,
    /// This is wrong, or happened.
    Notice(NoticeKind),
    /// It is well again.
    Resolved,
}

impl SubjectState {
    /// A subject that nobody was told of.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A subject of which an earlier process told something at `at`. It last told that `last_told`
    /// is wrong; as far as is known, `present` is wrong now.
    #[must_use]
    pub fn loaded(
        at: Timestamp,
        quiet: Duration,
        last_told: Option<NoticeKind>,
        present: Option<NoticeKind>,
    ) -> Self {
        Self { last_told, present, quiet_until: Some(at.after(quiet)), ..Self::new() }
    }

    /// The subject is in this condition from now on.
    pub fn signal(&mut self, now: Timestamp, quiet: Duration, condition: Condition) -> NoticeDecision {
        match condition {
            Condition::Resolved => (self.present, self.tells_well) = (None, true),
            Condition::Cleared => (self.present, self.tells_well) = (None, false),
            Condition::Firing(kind) => self.present = Some(kind),
            Condition::Occurred(kind) => self.occurred = Some(kind),
        }
        self.decide(now, quiet)
    }

    /// Time has passed, or a condition came.
    pub fn decide(&mut self, now: Timestamp, quiet: Duration) -> NoticeDecision {
        if self.is_quiet(now) {
            return NoticeDecision::Nothing;
        }
        if let Some(kind) = self.occurred.take() {
            self.quiet_until = Some(now.after(quiet));
            return NoticeDecision::Notice(kind);
        }
        if self.last_told == self.present {
            return NoticeDecision::Nothing;
        }
        self.last_told = self.present;
        match self.present {
            None if !self.tells_well => return NoticeDecision::Nothing,
            _ => self.quiet_until = Some(now.after(quiet)),
        }
        self.present.map_or(NoticeDecision::Resolved, NoticeDecision::Notice)
    }

    /// What is wrong, as far as is known.
    #[must_use]
    pub fn present(&self) -> Option<NoticeKind> {
        self.present
    }

    /// Whether something that occurred is still to be told.
    #[must_use]
    pub fn has_occurred(&self) -> bool {
        self.occurred.is_some()
    }

    /// The end of the quiet time, if there was one.
    #[must_use]
    pub fn quiet_until(&self) -> Option<Timestamp> {
        self.quiet_until
    }

    /// When the passing of time may bring something: the end of the quiet time.
    #[must_use]
    pub fn decides_at(&self, now: Timestamp) -> Option<Timestamp> {
        let waits = self.last_told != self.present || self.occurred.is_some();
        self.quiet_until.filter(|until| waits || now < *until)
    }

    /// Whether it need not be remembered at `now`.
    #[must_use]
    pub fn is_forgettable(&self, now: Timestamp) -> bool {
        let is_well = self.last_told.is_none() && self.present.is_none() && self.occurred.is_none();
        is_well && !self.is_quiet(now)
    }

    fn is_quiet(&self, now: Timestamp) -> bool {
        self.quiet_until.is_some_and(|until| now < until)
    }
}

#[cfg(test)]
mod tests {
    use base::random::Random;

    use super::*;

    const QUIET: Duration = Duration::from_millis(100);
    const FAILING: NoticeKind = NoticeKind::ClientFailing;
    const DISABLED: NoticeKind = NoticeKind::ClientDisabled;

    /// What is told of these conditions at these times; `None` is the passing of time.
    fn check(steps: &[(i64, Option<Condition>, NoticeDecision)]) {
        let mut state = SubjectState::new();
        for (at, condition, expect) in steps {
            let now = Timestamp(*at);
            let told = match condition {
                Some(condition) => state.signal(now, QUIET, *condition),
                None => state.decide(now, QUIET),
            };
            assert_eq!(told, *expect, "at {at}: {condition:?} of {steps:?}");
        }
    }

    #[test]
    fn a_condition_is_told_once_and_its_end() {
        check(&[
            (0, Some(Condition::Firing(FAILING)), NoticeDecision::Notice(FAILING)),
            (1, Some(Condition::Firing(FAILING)), NoticeDecision::Nothing),
            (200, Some(Condition::Firing(FAILING)), NoticeDecision::Nothing),
            (300, Some(Condition::Resolved), NoticeDecision::Resolved),
        ]);
    }

    #[test]
    fn what_holds_at_the_end_of_the_quiet_time_is_told_then() {
        check(&[
            (0, Some(Condition::Firing(FAILING)), NoticeDecision::Notice(FAILING)),
            (10, Some(Condition::Resolved), NoticeDecision::Nothing),
            (20, Some(Condition::Firing(DISABLED)), NoticeDecision::Nothing),
            (99, None, NoticeDecision::Nothing),
            (100, None, NoticeDecision::Notice(DISABLED)),
        ]);
    }

    #[test]
    fn flapping_that_ends_as_it_was_told_tells_nothing_more() {
        check(&[
            (0, Some(Condition::Firing(FAILING)), NoticeDecision::Notice(FAILING)),
            (10, Some(Condition::Resolved), NoticeDecision::Nothing),
            (20, Some(Condition::Firing(FAILING)), NoticeDecision::Nothing),
            (100, None, NoticeDecision::Nothing),
        ]);
    }

    #[test]
    fn an_end_that_nobody_needs_to_be_told_is_not() {
        check(&[
            (
                0,
                Some(Condition::Firing(NoticeKind::QueueBacklog)),
                NoticeDecision::Notice(NoticeKind::QueueBacklog),
            ),
            (10, Some(Condition::Cleared), NoticeDecision::Nothing),
            (20, Some(Condition::Firing(NoticeKind::QueueBacklog)), NoticeDecision::Nothing),
            (30, Some(Condition::Cleared), NoticeDecision::Nothing),
            (100, None, NoticeDecision::Nothing),
            (
                150,
                Some(Condition::Firing(NoticeKind::QueueBacklog)),
                NoticeDecision::Notice(NoticeKind::QueueBacklog),
            ),
        ]);
    }

    #[test]
    fn what_occurs_in_the_quiet_time_is_told_at_its_end() {
        let lost = NoticeKind::DevicesLostTogether;
        check(&[
            (0, Some(Condition::Occurred(lost)), NoticeDecision::Notice(lost)),
            (50, Some(Condition::Occurred(lost)), NoticeDecision::Nothing),
            (99, Some(Condition::Occurred(lost)), NoticeDecision::Nothing),
            (100, None, NoticeDecision::Notice(lost)),
            (150, Some(Condition::Cleared), NoticeDecision::Nothing),
            (200, None, NoticeDecision::Nothing),
            (201, Some(Condition::Occurred(lost)), NoticeDecision::Notice(lost)),
        ]);
    }

    #[test]
    fn what_was_told_before_a_start_is_not_told_again_and_its_end_is() {
        let told = |present| SubjectState::loaded(Timestamp(0), QUIET, Some(FAILING), present);
        let mut holds = told(Some(FAILING));
        assert_eq!(holds.decide(Timestamp(500), QUIET), NoticeDecision::Nothing);
        assert!(!holds.is_forgettable(Timestamp(500)), "it stands until it is over");
        assert_eq!(holds.signal(Timestamp(501), QUIET, Condition::Firing(FAILING)), NoticeDecision::Nothing);
        assert_eq!(holds.signal(Timestamp(502), QUIET, Condition::Resolved), NoticeDecision::Resolved);
        let mut changed = told(Some(DISABLED));
        assert_eq!(changed.decides_at(Timestamp(500)), Some(Timestamp(100)), "at once");
        assert_eq!(changed.decide(Timestamp(500), QUIET), NoticeDecision::Notice(DISABLED));
        assert_eq!(told(Some(FAILING)).decides_at(Timestamp(500)), None);
    }

    #[test]
    fn however_it_flaps_it_is_told_once_in_the_quiet_time_and_rightly_at_the_end() {
        for seed in 0..200 {
            let mut random = Random::new(seed);
            let (mut state, mut now, mut told) = (SubjectState::new(), 0_i64, Vec::new());
            let (mut last, mut last_told) = (Condition::Resolved, None);
            let mut note = |at: i64, tell: NoticeDecision, last_told: &mut Option<NoticeKind>| match tell {
                NoticeDecision::Nothing => {}
                NoticeDecision::Notice(kind) => {
                    *last_told = Some(kind);
                    told.push(at);
                }
                NoticeDecision::Resolved => {
                    *last_told = None;
                    told.push(at);
                }
            };
            for _ in 0..100 {
                now += random.below(40) as i64;
                last = [Condition::Resolved, Condition::Firing(FAILING), Condition::Firing(DISABLED)]
                    [random.below(3) as usize];
                let tell = state.signal(Timestamp(now), QUIET, last);
                note(now, tell, &mut last_told);
            }
            let end = now + 200;
            let tell = state.decide(Timestamp(end), QUIET);
            note(end, tell, &mut last_told);
            let holds = if let Condition::Firing(kind) = last { Some(kind) } else { None };
            assert_eq!(last_told, holds, "seed {seed}");
            assert!(told.windows(2).all(|two| two[1] - two[0] >= 100), "seed {seed}: {told:?}");
        }
    }
}
