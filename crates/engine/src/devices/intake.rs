//! How reports cross from a way in to the partitions: in slices, with one counter for the whole
//! slice.
//!
//! A slice is split by partition and handed over; its [`PendingSlice`] resolves when everything in
//! it is durable, accepted or refused. The number of slices that wait in a partition's inbox is
//! bounded: [`Intake::submit`] waits for room, and so slows the sender.

use base::{DeviceId, EntityId, Kind, Problem, Timestamp, Value, WayIn, hash};

use crate::devices::input::RefusedMessage;

mod completion;
mod mirror;
mod slice;

pub use completion::{PendingSlice, SlicePart};
pub use mirror::{Accepted, IntakeMirror};
pub(crate) use slice::ReceivedMessages;
pub use slice::{Received, Slice};

pub use crate::kernel::partition_handle::NotAccepting;

/// One message from a device, decoded and checked by its way in.
#[derive(Clone, Debug)]
pub struct Report {
    /// Who it is from.
    pub device: DeviceId,
    /// The kind that the sender claims; refused if the device is of another.
    pub kind: Option<Kind>,
    /// What it says.
    pub content: ReportContent,
    /// The sender's own id of it: a repeat of one of the device's last
    /// [`base::limits::REPORT_IDS_KEPT`] has no effect.
    pub id: Option<ReportId>,
}

/// The hash of a report's `id`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReportId(pub u64);

impl ReportId {
    /// Of the id's text.
    #[must_use]
    pub fn of(text: &str) -> Self {
        Self(hash::derived(0, text.as_bytes()))
    }
}

/// What a report says.
#[derive(Clone, Debug)]
pub enum ReportContent {
    /// A value.
    Value {
        /// In canonical form.
        value: Value,
        /// When the device says it was so.
        ts: Option<Timestamp>,
    },
    /// Only "alive": a heartbeat.
    Alive,
    /// What the device made of a command.
    Answer {
        /// The command.
        command: EntityId,
        /// Whether it did it.
        ok: bool,
        /// What it says about that: compact JSON text.
        result: Option<Box<str>>,
    },
    /// The device is at work on a command.
    Progress {
        /// The command.
        command: EntityId,
        /// What it says about that: compact JSON text.
        progress: Box<str>,
    },
    /// An entry was changed at the device.
    Confirmed {
        /// The entry's key.
        key: Box<str>,
        /// What the device has: canonical JSON text; `None` if it has no such entry any more.
        value: Option<Box<str>>,
    },
    /// Something that the way in refuses. If the device is registered it is still a sign of life.
    Refused(Box<Problem>),
}

/// A report that was not accepted, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// Its place in the slice, from 0.
    pub index: u32,
    /// Who it is from, if that can be said.
    pub device: Option<DeviceId>,
    /// Why.
    pub problem: Problem,
}

/// What became of a slice; all that was accepted is durable, and all else is in the quarantine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SliceOutcome {
    /// Reports accepted.
    pub accepted: u32,
    /// The others, in order of `index`.
    pub rejected: Vec<Rejection>,
}

/// A way in's access to the partitions. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Intake {
    engine: crate::Engine,
    way: WayIn,
}

impl Intake {
    pub(crate) fn new(engine: crate::Engine, way: WayIn) -> Self {
        Self { engine, way }
    }

    /// The way in.
    #[must_use]
    pub fn way(&self) -> WayIn {
        self.way
    }

    /// Hands in a slice, in order. Waits while an inbox is full. Reports of one device keep their
    /// order within a slice and from one `submit` to the next. What is refused is in the quarantine
    /// when the slice is durable.
    ///
    /// # Errors
    /// When the server is not accepting.
    pub async fn submit(&self, slice: impl Into<Slice>) -> Result<PendingSlice, NotAccepting> {
        self.engine.submit(self.way, slice.into()).await
    }

    /// Shows what was accepted of a slice to whoever watches.
    fn mirror(&self, rejected: &[Rejection], received: &ReceivedMessages) {
        if let Some(mirror) = self.engine.mirror().filter(|mirror| mirror.is_watched()) {
            mirror::show(&**mirror, self.way, rejected, received);
        }
    }

    /// Keeps what was refused of a slice, as it was received: in one partition, so that its order
    /// stays.
    async fn quarantine(
        &self,
        rejected: &[Rejection],
        received: &ReceivedMessages,
    ) -> Result<(), NotAccepting> {
        let kept = rejected.iter().filter_map(|rejection| Some((rejection, received.get(rejection.index)?)));
        let mut routing = None;
        let message = |(rejection, kept): (&Rejection, slice::QuarantinedMessage<'_>)| RefusedMessage {
            routing: *routing.get_or_insert_with(|| {
                hash::routing_hash(match &rejection.device {
                    Some(device) => hash::device_hash(device.as_str()),
                    None => hash::derived(0, kept.payload),
                })
            }),
            device: rejection.device.clone(),
            topic: kept.topic.map(str::to_owned),
            problem: rejection.problem.clone(),
            payload: kept.payload.to_vec(),
            cut: kept.cut,
        };
        let messages: Vec<_> = kept.map(message).collect();
        match messages.first().map(|first| first.routing) {
            Some(routing) => self.engine.quarantine(self.way, routing, messages).await,
            None => Ok(()),
        }
    }

    /// Tells that the way in listens from now on, or no longer. Silence counts only while it does.
    pub async fn attend(&self, attended: bool) {
        self.engine.attend(self.way, attended).await;
    }
}
