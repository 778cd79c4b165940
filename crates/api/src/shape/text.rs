//! Text forms of times, durations and values.

use std::fmt;
use std::time::Duration;

use base::{Timestamp, Value, duration};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::openapi::words;

/// A time: RFC 3339 in UTC with milliseconds.
#[derive(Clone, Copy)]
pub(crate) struct Time(pub Timestamp);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl PartialSchema for Time {
    fn schema() -> RefOr<Schema> {
        words::time().into()
    }
}

impl ToSchema for Time {}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

/// A duration such as `1h30m`.
pub(super) fn of_millis(ms: u64) -> String {
    duration::format(Duration::from_millis(ms))
}

/// A device's value, as it is.
#[derive(Serialize)]
pub(super) struct Data(Box<RawValue>);

impl Data {
    /// None.
    pub(super) fn null() -> Self {
        Self(RawValue::NULL.to_owned())
    }

    /// Its JSON.
    pub(super) fn json(&self) -> &RawValue {
        &self.0
    }
}

impl From<&Value> for Data {
    fn from(value: &Value) -> Self {
        Self(RawValue::from_string(value.to_json()).expect("a canonical value is JSON"))
    }
}

impl PartialSchema for Data {
    fn schema() -> RefOr<Schema> {
        words::any().into()
    }
}

impl ToSchema for Data {}
