//! What every implementation of the port must do, as checks that each of them runs.

pub mod traffic;
