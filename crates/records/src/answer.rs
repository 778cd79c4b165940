//! What a request was answered that may be repeated.

use std::sync::Arc;

use base::Timestamp;

use crate::weight::weighs;

/// A request's idempotency key, made one with all that it belongs to, hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AnswerKey(pub u128);

impl AnswerKey {
    /// The front of a digest: enough to tell any two apart that are not made up to be alike.
    #[must_use]
    pub fn of_digest(digest: &[u8; 32]) -> Self {
        let (front, _) = digest.split_first_chunk().expect("it is longer");
        Self(u128::from_be_bytes(*front))
    }
}

/// The answer that a repeat gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptAnswer {
    /// Whose.
    pub key: AnswerKey,
    /// It is kept for a day from then on: when it was given, or later if it is kept longer.
    pub at: Timestamp,
    /// A hash of the request's body.
    pub body: u128,
    /// What was made, in the form of whoever answers.
    pub answer: Arc<[u8]>,
}

weighs!(KeptAnswer: |kept| kept.answer.len());
