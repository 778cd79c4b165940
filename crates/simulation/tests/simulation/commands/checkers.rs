//! Checkers apart from the model: what is stored, and what was told.

pub(crate) mod contents;
pub(crate) mod history;
pub(crate) mod rollouts;
