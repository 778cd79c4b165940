//! What a checker says when a promise is broken.

use std::fmt;

use store::StoreError;

/// A promise that the checkers hold the server to, by its name. A workload adds those of its own.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Invariant(pub(crate) &'static str);

impl Invariant {
    pub(crate) const DURABLE_BEFORE_ACKNOWLEDGED: Self = Self("DurableBeforeAcknowledged");
    pub(crate) const ONE_EFFECT_PER_CAUSE: Self = Self("OneEffectPerCause");
    pub(crate) const ONE_LEASE: Self = Self("OneLease");
    pub(crate) const NEVER_EARLY_HARDLY_LATE: Self = Self("NeverEarlyHardlyLate");
    pub(crate) const BOUNDED: Self = Self("Bounded");
    /// Rows name each other: nothing is stored that nothing asks for, and nothing is missing.
    pub(crate) const ROWS_AGREE: Self = Self("RowsAgree");
    /// What is stored, and every answer, is what the model has after the same inputs.
    pub(crate) const AS_THE_MODEL: Self = Self("AsTheModel");
}

impl fmt::Debug for Invariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// A broken promise.
#[derive(Clone, Debug)]
pub(crate) struct Violation {
    pub(crate) invariant: Invariant,
    pub(crate) detail: String,
}

/// What cannot be read may as well be lost.
#[expect(clippy::needless_pass_by_value, reason = "it ends the error")]
pub(crate) fn unreadable(error: StoreError) -> Violation {
    Invariant::DURABLE_BEFORE_ACKNOWLEDGED.broken(format!("what is stored cannot be read: {error}"))
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
