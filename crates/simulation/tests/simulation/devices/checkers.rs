//! Checkers that compare what is there with what should be, apart from whoever made it so. What can
//! be seen only at the moment of a step is checked there: by the model, and where attempts begin.

pub(crate) mod contents;
mod indexes;
pub(crate) mod newest;
pub(crate) mod quarantine_and_counts;
