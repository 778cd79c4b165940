//! How a handler says that a job is not done.

use std::error::Error;
use std::fmt::Write;
use std::time::Duration;

/// Why a job is not done, and when it is to be tried again. Any error turns into one with `?`.
///
/// It is no `Error` itself: then others could not turn into it.
#[derive(Debug)]
pub struct Failure {
    pub(super) error: String,
    pub(super) delay: Option<Duration>,
}

impl Failure {
    /// A failure in words.
    #[must_use]
    pub fn new(error: impl Into<String>) -> Self {
        Self { error: error.into(), delay: None }
    }

    /// To be tried again after this, whatever the worker's own delay is.
    #[must_use]
    pub fn after(self, delay: Duration) -> Self {
        Self { delay: Some(delay), ..self }
    }
}

/// What is known of an error: it and all that caused it.
impl<E: Into<Box<dyn Error + Send + Sync>>> From<E> for Failure {
    fn from(error: E) -> Self {
        let error = error.into();
        let mut text = error.to_string();
        let mut cause = error.source();
        while let Some(deeper) = cause {
            let written = write!(text, ": {deeper}");
            debug_assert!(written.is_ok(), "a String takes every write");
            cause = deeper.source();
        }
        Self::new(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error;

    #[test]
    fn any_error_becomes_one_with_all_that_caused_it() {
        let cause = "connection refused".into();
        let error = error::Error::Unreachable { server: "http://a".to_owned(), cause };
        assert_eq!(Failure::from(error).error, "http://a cannot be reached: connection refused");
        assert_eq!(Failure::from("out of paper").after(Duration::ZERO).delay, Some(Duration::ZERO));
    }
}
