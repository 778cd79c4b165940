//! The client crate as programs use it: against a built server.

mod calls;
mod commands;
mod rig;
mod stops;
mod working;
