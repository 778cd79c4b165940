//! Notifications on their way: the notification state of a client and a device, each delivery, and
//! each attempt.

use base::limits::NOTIFICATION_TYPES_MAX;
use base::{ClientId, DeviceId, EntityId, Incarnation, Timestamp, Value};

use crate::weight::{RECORD_BYTES, text_of, weighs};
use crate::{DeviceSlot, EventKind, JobId};

/// What one client has not been told yet of one device. Exists only while something is untold, a
/// notification has not got through, or an attempt is under way.
///
/// Its job is the one in the queue of the client with the device's slot as its alias.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotificationState {
    /// The device.
    pub slot: DeviceSlot,
    /// The client.
    pub client: Incarnation,
    /// Kinds of the events since the last one delivered, oldest first; the newest
    /// [`base::limits::NOTIFICATION_TYPES_MAX`]. None of an event that was told and is sent again.
    pub untold: Vec<EventKind>,
    /// The value before the oldest untold event, or before the one that is sent again.
    pub previous: Option<Value>,
    /// Notifications superseded or failed since the last one delivered.
    pub skipped: u32,
    /// The notification that waits for its attempt, its first or a later one.
    pub pending: Option<PendingDelivery>,
    /// The notification with an attempt under way.
    pub in_flight: Option<Flight>,
    /// The newest notification, if it has failed for good and nothing has been queued since. Its
    /// body is kept, under [`NotificationState::body_of_failed`].
    pub failed: Option<PendingDelivery>,
}

weighs!(NotificationState: |state| {
    let flying = state.in_flight.as_ref().and_then(|flight| flight.value.as_ref());
    RECORD_BYTES + text_of(state.previous.as_ref()) + text_of(flying)
});

impl NotificationState {
    /// Where the body of a notification that failed for good is kept, should it be sent again by
    /// hand.
    #[must_use]
    pub fn body_of_failed(delivery: EntityId) -> JobId {
        let bytes = delivery.to_bytes();
        let mut id = [0; 16];
        id.copy_from_slice(&bytes[EntityId::BYTES - 16..]);
        JobId(id)
    }
}

/// A notification that waits for an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PendingDelivery {
    /// The notification.
    pub delivery: EntityId,
    /// Attempts made so far. From the first on its body is fixed.
    pub attempts: u32,
}

/// A notification with an attempt under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flight {
    /// The notification.
    pub delivery: EntityId,
    /// Attempts made, this one included.
    pub attempts: u32,
    /// When this attempt was leased.
    pub since: Timestamp,
    /// How many of the untold, from the front, it tells; [`Flight::CANCELLED`] of one that was
    /// cancelled meanwhile.
    pub tells: u8,
    /// How many of the skipped it tells.
    pub skipped: u32,
    /// The value that it shows.
    pub value: Option<Value>,
}

impl Flight {
    /// What [`Flight::tells`] is where the notification was cancelled meanwhile. The attempt is
    /// recorded when it ends, and nothing follows from it.
    pub const CANCELLED: u8 = u8::MAX;

    /// Whether the notification was cancelled meanwhile.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.tells == Self::CANCELLED
    }
}

const _: () = assert!(NOTIFICATION_TYPES_MAX < Flight::CANCELLED as usize, "no attempt tells so many");

/// Where a delivery is kept within its partition, and the order of the feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeliveryKey {
    /// When it was made.
    pub at: Timestamp,
    /// Its number among the partition's deliveries, modulo 2^32.
    pub number: u32,
}

/// A notification with where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Its id, the `webhook-id`, which holds its key.
    pub id: EntityId,
    /// The device it tells of.
    pub slot: DeviceSlot,
    /// The device's id.
    pub device: DeviceId,
    /// The client it is for.
    pub client: Incarnation,
    /// The client's id.
    pub client_id: ClientId,
    /// The kind of the newest event it tells.
    pub kind: EventKind,
    /// The `sequence` of that event.
    pub sequence: u64,
    /// Where it stands.
    pub progress: DeliveryProgress,
    /// The delivery that this one repeats by hand.
    pub resend_of: Option<EntityId>,
}

weighs!(Delivery: |_| RECORD_BYTES);

/// How far a delivery has come. Kept apart from the rest, so that it can move without the rest
/// being read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeliveryProgress {
    /// Where it stands.
    pub status: DeliveryStatus,
    /// Attempts made, interrupted ones included.
    pub attempts: u32,
    /// When the next attempt is due; only while one is waited for.
    pub next_attempt_at: Option<Timestamp>,
}

weighs!(DeliveryProgress: |_| 0);

/// Where a delivery stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeliveryStatus {
    /// Waiting for an attempt, or with one under way.
    Pending,
    /// Answered with 2xx.
    Delivered,
    /// Out of attempts.
    Failed,
    /// A newer event took its place.
    Superseded,
    /// The client is no longer linked, or gone.
    Cancelled,
}

base::names! {
    /// Every status.
    pub DeliveryStatus: Pending = "pending", Delivered = "delivered", Failed = "failed",
        Superseded = "superseded", Cancelled = "cancelled"
}

impl DeliveryStatus {
    /// Whether nothing more comes of it by itself.
    #[must_use]
    pub fn has_ended(self) -> bool {
        match self {
            Self::Pending => false,
            Self::Delivered | Self::Failed | Self::Superseded | Self::Cancelled => true,
        }
    }
}

/// One attempt at a delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The delivery's key.
    pub delivery: DeliveryKey,
    /// Counts the delivery's attempts from 1.
    pub number: u32,
    /// When it began.
    pub at: Timestamp,
    /// How long it took; 0 when it was interrupted.
    pub duration_ms: u32,
    /// The status of the answer, if there was one.
    pub status_code: Option<u16>,
    /// What went wrong, if there was no answer.
    pub error: Option<AttemptError>,
    /// What was seen of the receiver.
    pub detail: AttemptDetail,
}

weighs!(Attempt: |attempt| attempt.detail.answer.as_deref().map_or(0, <[u8]>::len));

/// What an attempt saw of its receiver. Nothing, for one that was cut off.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AttemptDetail {
    /// How long its parts took.
    pub timings: AttemptTimings,
    /// The first bytes of the answer's body, at most [`ANSWER_BYTES_MAX`]; `None` if it had none.
    pub answer: Option<Box<[u8]>>,
    /// Where the error is [`AttemptError::TlsExpired`]: when the receiver's certificate ended, or
    /// when it begins to hold.
    pub certificate_bound: Option<Timestamp>,
}

/// Most that is kept of an answer: enough for what servers say of a failure.
pub const ANSWER_BYTES_MAX: usize = 2 * 1_024;

/// How long the parts of an attempt took, in milliseconds; `None` for those that it did not come
/// to, or did not need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttemptTimings {
    /// The look-up of the name.
    pub dns_ms: Option<u32>,
    /// TCP.
    pub connect_ms: Option<u32>,
    /// TLS.
    pub tls_ms: Option<u32>,
    /// From the end of the request to the first byte of its answer.
    pub first_byte_ms: Option<u32>,
    /// It went out on a connection that an earlier attempt had made.
    pub reused: bool,
}

/// Why an attempt had no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AttemptError {
    /// The server was stopped or crashed while it was under way.
    Interrupted,
    /// The address is private and that is not allowed.
    AddressRefused,
    /// The name has no address.
    NameUnresolved,
    /// Nobody listens there, or the connection could not be made.
    ConnectFailed,
    /// TLS could not be agreed on, for another reason than those below.
    TlsFailed,
    /// No answer within `notify.timeout`.
    TimedOut,
    /// The connection broke before the answer was complete.
    ConnectionBroken,
    /// No authority that is trusted stands for the receiver's certificate.
    TlsUntrusted,
    /// The receiver's certificate has expired, or is not valid yet.
    TlsExpired,
    /// The receiver's certificate is for another name.
    TlsWrongName,
    /// The receiver does not speak TLS.
    TlsNotSpoken,
}

base::names! {
    /// Every one, in the order of their stored numbers: new ones go to the end.
    pub AttemptError: Interrupted = "interrupted", AddressRefused = "address_refused",
        NameUnresolved = "name_unresolved", ConnectFailed = "connect_failed", TlsFailed = "tls_failed",
        TimedOut = "timed_out", ConnectionBroken = "connection_broken", TlsUntrusted = "tls_untrusted",
        TlsExpired = "tls_expired", TlsWrongName = "tls_wrong_name", TlsNotSpoken = "tls_not_spoken"
}
