//! Text forms of times, durations and values.

use std::time::Duration;

use base::{Timestamp, Value, duration};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

/// A time: RFC 3339 in UTC with milliseconds.
pub(super) struct Time(pub Timestamp);

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
pub(super) fn of_value(value: &Value) -> Box<RawValue> {
    RawValue::from_string(value.to_json()).expect("a canonical value is JSON")
}
