//! The engine as the edges hold it.

mod campaigns;
mod commands;
mod fleet;
mod notices;
mod queues;
mod rollouts;
mod streams;
mod whole;
