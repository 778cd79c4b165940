//! The engine as the edges hold it.

mod commands;
mod notices;
mod queues;
mod rollouts;
mod whole;
