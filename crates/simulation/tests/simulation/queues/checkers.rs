//! Checkers that compare what is there with what should be, apart from whoever made it so.

pub(crate) mod contents;
pub(crate) mod history;
pub(crate) mod locks;
