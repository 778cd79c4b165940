//! The rules against naive models, under random calls.

mod limit_lives;
mod limits;
mod locks;
