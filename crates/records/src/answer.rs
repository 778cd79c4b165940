//! What a request was answered that may be repeated.

use std::sync::Arc;

use base::Timestamp;

/// A request's idempotency key, made one with all that it belongs to, hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AnswerKey(pub u128);

/// The answer that a repeat gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptAnswer {
    /// Whose.
    pub key: AnswerKey,
    /// When it was given; it is kept from then on.
    pub at: Timestamp,
    /// A hash of the request's body.
    pub body: u128,
    /// What was made, in the form of whoever answers.
    pub answer: Arc<[u8]>,
}
