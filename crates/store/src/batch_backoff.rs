//! Exponential back-off from batches: after one that did not pay, the next rows are taken singly.
//! After each further failure these are twice as many, up to a bound.

/// Rows that are taken singly after the first failure.
const AFTER_FAILURE: usize = 16;
/// The number doubles at most this often: to 1,024.
const DOUBLINGS_MAX: u32 = 6;

/// How many rows are to be taken singly.
#[derive(Debug, Default)]
pub(crate) struct BatchBackoff {
    left: usize,
    failures: u32,
}

impl BatchBackoff {
    /// The first ones are taken singly: often there are no more.
    pub(crate) fn with_first(left: usize) -> Self {
        Self { left, failures: 0 }
    }

    /// A batch paid, or did not.
    pub(crate) fn note(&mut self, paid: bool) {
        if paid {
            self.failures = 0;
        } else {
            self.left = AFTER_FAILURE << self.failures;
            self.failures = (self.failures + 1).min(DOUBLINGS_MAX);
        }
    }

    /// Whether the next row is to be taken singly. It counts as taken then.
    pub(crate) fn take_single(&mut self) -> bool {
        let is_single = self.left > 0;
        self.left -= usize::from(is_single);
        is_single
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_in_a_row_doubles_what_is_taken_singly() {
        let mut backoff = BatchBackoff::default();
        let mut alone = |paid| {
            backoff.note(paid);
            std::iter::from_fn(|| backoff.take_single().then_some(())).count()
        };
        let failing: Vec<usize> = (0..9).map(|_| alone(false)).collect();
        assert_eq!(failing, [16, 32, 64, 128, 256, 512, 1_024, 1_024, 1_024]);
        assert_eq!([alone(true), alone(false)], [0, 16]);
        let mut backoff = BatchBackoff::with_first(2);
        assert_eq!([(); 3].map(|()| backoff.take_single()), [true, true, false]);
    }
}
