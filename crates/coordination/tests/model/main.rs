//! The rules against naive models, under random calls.

mod limits;
mod locks;
