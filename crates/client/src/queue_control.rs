//! What the workers of a queue are told to do.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Whether workers take jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ControlState {
    /// They do.
    Run,
    /// They take no more, and wait until they may.
    Drain,
    /// They take no more, and end.
    Stop,
}

/// What the workers of a queue are told to do. Workers of this crate do it by themselves; of
/// several queues the first one's control counts.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[non_exhaustive]
pub struct QueueControl {
    /// Whether they take jobs.
    pub state: ControlState,
    /// So many jobs at a time for each worker at most, also where it could do more; at least 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_in_flight: Option<u64>,
    /// Anything else, for the program: up to 16 KiB of JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

impl QueueControl {
    /// This, without a bound.
    #[must_use]
    pub fn new(state: ControlState) -> Self {
        Self { state, max_in_flight: None, data: None }
    }

    /// So many jobs at a time for each worker, at least one.
    #[must_use]
    pub fn max_in_flight(self, jobs: u64) -> Self {
        Self { max_in_flight: Some(jobs), ..self }
    }

    /// With something for the program.
    #[must_use]
    pub fn data(self, data: Value) -> Self {
        Self { data: Some(data), ..self }
    }

    /// What is there for the program, in this shape.
    ///
    /// # Errors
    /// When it has another one.
    pub fn read_data<T: DeserializeOwned>(&self) -> Result<Option<T>, serde_json::Error> {
        self.data.clone().map(serde_json::from_value).transpose()
    }
}
