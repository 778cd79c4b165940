//! What a checker says when a promise is broken. The names are those of ARCHITECTURE.md, and those
//! of what is promised of queues.

use std::fmt;

/// A promise that the checkers hold the server to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Invariant {
    DurableBeforeAcknowledged,
    OneEffectPerCause,
    OrderPerDevice,
    OneLease,
    NeverEarlyHardlyLate,
    NewestWins,
    LookedUpAtTheLastMoment,
    SilenceIsMeasured,
    Bounded,
    GroupOrder,
    /// One waiting or reserved job of a queue has an alias.
    AliasIsUnique,
    /// Nothing but a new beginning that somebody asked for makes a job forget its attempts.
    AttemptsOnlyGrow,
    /// What was acknowledged or cancelled never comes back.
    DoneStaysDone,
    /// A recurring job has its runs one after the other, at their times, and as many as were asked
    /// for.
    RunsInTurn,
    FiguresAreRight,
    /// Rows name each other: nothing is stored that nothing asks for, and nothing is missing.
    RowsAgree,
    /// What is stored, and every answer, is what the model has after the same inputs.
    AsTheModel,
}

/// A broken promise.
#[derive(Clone, Debug)]
pub(crate) struct Violation {
    pub(crate) invariant: Invariant,
    pub(crate) detail: String,
}

/// A check: nothing, or what it found.
pub(crate) type Checked<T = ()> = Result<T, Violation>;

impl Invariant {
    /// Its violation.
    pub(crate) fn broken(self, detail: impl Into<String>) -> Violation {
        Violation { invariant: self, detail: detail.into() }
    }

    /// Fails unless `holds`; `detail` says what was found.
    pub(crate) fn check(self, holds: bool, detail: impl FnOnce() -> String) -> Checked {
        if holds { Ok(()) } else { Err(self.broken(detail())) }
    }

    /// Fails unless what was found is what was expected.
    pub(crate) fn same<T: PartialEq + fmt::Debug>(
        self,
        what: impl fmt::Display,
        found: &T,
        expected: &T,
    ) -> Checked {
        self.check(found == expected, || {
            let (found, expected) = (format!("{found:?}"), format!("{expected:?}"));
            let from = first_difference(&found, &expected);
            format!(
                "{what}, from character {from}:\n  found    {}\n  expected {}",
                cut(&found, from),
                cut(&expected, from)
            )
        })
    }
}

/// Characters that are shown of what differs, and of what comes before.
const SHOWN: usize = 400;
const SHOWN_BEFORE: usize = 120;

fn first_difference(one: &str, other: &str) -> usize {
    one.chars().zip(other.chars()).take_while(|(one, other)| one == other).count()
}

fn cut(text: &str, from: usize) -> String {
    text.chars().skip(from.saturating_sub(SHOWN_BEFORE)).take(SHOWN).collect()
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.invariant, self.detail)
    }
}
