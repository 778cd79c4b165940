//! What costs less for many rows side by side, and more for scattered ones: it is tried with some,
//! and where it did not pay the next ones are taken one by one. After each failure in a row these
//! are twice as many.

/// So many after the first failure.
const AFTER_FAILURE: usize = 16;
/// After so many failures in a row they are no more than before.
const FAILURES_MAX: u32 = 6;

/// How many are to be taken one by one.
#[derive(Debug, Default)]
pub(crate) struct OneByOne {
    left: usize,
    failures: u32,
}

impl OneByOne {
    /// The first ones are taken alone: often there are no more.
    pub(crate) fn with_first(left: usize) -> Self {
        Self { left, failures: 0 }
    }

    /// Taking some together paid, or did not.
    pub(crate) fn note(&mut self, paid: bool) {
        if paid {
            self.failures = 0;
        } else {
            self.left = AFTER_FAILURE << self.failures;
            self.failures = (self.failures + 1).min(FAILURES_MAX);
        }
    }

    /// Whether the next one is to be taken alone.
    pub(crate) fn takes_next(&mut self) -> bool {
        let takes = self.left > 0;
        self.left -= usize::from(takes);
        takes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_in_a_row_doubles_what_is_taken_alone() {
        let mut one_by_one = OneByOne::default();
        let mut alone = |paid| {
            one_by_one.note(paid);
            std::iter::from_fn(|| one_by_one.takes_next().then_some(())).count()
        };
        let failing: Vec<usize> = (0..9).map(|_| alone(false)).collect();
        assert_eq!(failing, [16, 32, 64, 128, 256, 512, 1_024, 1_024, 1_024]);
        assert_eq!([alone(true), alone(false)], [0, 16]);
        let mut one_by_one = OneByOne::with_first(2);
        assert_eq!([(); 3].map(|()| one_by_one.takes_next()), [true, true, false]);
    }
}
