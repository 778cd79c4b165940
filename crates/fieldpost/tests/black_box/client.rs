//! The client crate as programs use it: against a built server.

mod calls;
mod commands;
mod control;
mod coordination;
mod rig;
mod stops;
mod working;
