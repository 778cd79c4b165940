//! The limits of the consumer, each with its reason.

use std::time::Duration;

use base::limits::{NDJSON_LINE_BYTES_MAX, QUARANTINED_PAYLOAD_BYTES_MAX};

/// Largest message that is read as a report, in bytes: as long as a line of NDJSON may be.
pub(super) const MESSAGE_BYTES_MAX: usize = NDJSON_LINE_BYTES_MAX;
/// A slice is handed in when its messages have this many bytes, even if they are few.
pub(super) const SLICE_BYTES_MAX: usize = 256 * 1_024;
/// Looks at the queue that wait for what they saw to be worked off; more are not remembered until
/// one is.
pub(super) const LOOKS_MAX: usize = 64;

const _: () = assert!(MESSAGE_BYTES_MAX <= SLICE_BYTES_MAX, "a slice holds the largest report");
const _: () =
    assert!(MESSAGE_BYTES_MAX <= QUARANTINED_PAYLOAD_BYTES_MAX, "whatever could be a report is kept whole");

/// Times that tests shorten.
#[derive(Clone, Copy, Debug)]
pub struct AmqpLimits {
    /// How long connecting may take, until the consumer is there.
    pub connect_timeout: Duration,
    /// How often the queue is looked at: how many messages wait, and whether others consume them.
    pub look_every: Duration,
    /// How far behind the consumer may be and still count as listening; much shorter than any
    /// sensible report interval.
    pub lag_max: Duration,
    /// The pause before the first new attempt to connect; each further one is twice as long.
    pub retry_first: Duration,
    /// The longest pause between two attempts to connect.
    pub retry_max: Duration,
    /// How long a stop waits for what is under way to become durable and acknowledged.
    pub stop_max: Duration,
}

impl Default for AmqpLimits {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(10),
            look_every: Duration::from_secs(1),
            lag_max: Duration::from_secs(10),
            retry_first: Duration::from_millis(250),
            retry_max: Duration::from_secs(30),
            stop_max: Duration::from_secs(5),
        }
    }
}
