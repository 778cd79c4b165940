//! The engine as the edges hold it.

mod queues;
mod rollouts;
mod whole;
