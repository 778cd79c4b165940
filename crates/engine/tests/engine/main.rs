//! The engine as the edges hold it.

mod notices;
mod queues;
mod rollouts;
mod whole;
