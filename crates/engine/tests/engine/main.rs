//! The engine as the edges hold it.

mod commands;
mod queues;
mod rollouts;
mod whole;
