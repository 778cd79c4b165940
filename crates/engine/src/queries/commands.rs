//! Commands, desired entries and the timeline, as far as they are durable.

use base::{DeviceId, EntityId, Problem};
use records::{CommandKey, CommandStatus, Event, TimelineEntry, Wish};
use store::Page;

use super::{FeedKey, Queries};
use crate::commands::TrackedCommand;

/// Which commands a feed shows.
#[derive(Clone, Debug, Default)]
pub struct CommandFilter {
    /// Of this device.
    pub device: Option<DeviceId>,
    /// Of devices that have each of these labels now.
    pub labels: Vec<(String, String)>,
    /// Standing here.
    pub status: Option<CommandStatus>,
    /// Asked for by this origin.
    pub origin: Option<String>,
}

/// A place in a device's timeline: behind this item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TimelineKey {
    /// When it happened.
    pub at: base::Timestamp,
    /// Whether it is an entry of the timeline, and not an event.
    pub is_entry: bool,
    /// Its number among those.
    pub number: u32,
}

/// Something that happened to a device.
#[derive(Clone, Debug, PartialEq)]
pub enum TimelineItem {
    /// An event.
    Event(Event),
    /// Anything else.
    Entry(TimelineEntry),
}

impl Queries {
    /// A command.
    ///
    /// # Errors
    /// See [`Queries::device`].
    pub fn command(&self, id: EntityId) -> Result<Option<TrackedCommand>, Problem> {
        let _ = id;
        todo!()
    }

    /// Commands by when they were given.
    ///
    /// # Errors
    /// 404 for an unknown device; see [`Queries::device`].
    pub fn commands(
        &self,
        filter: &CommandFilter,
        page: Page<FeedKey<CommandKey>>,
    ) -> Result<Vec<(FeedKey<CommandKey>, TrackedCommand)>, Problem> {
        let _ = (filter, page);
        todo!()
    }

    /// The desired entries of a device, in order of key.
    ///
    /// # Errors
    /// 404 for an unknown device; see [`Queries::device`].
    pub fn wishes(&self, device: &DeviceId) -> Result<Vec<Wish>, Problem> {
        let _ = device;
        todo!()
    }

    /// Everything about one device, by time.
    ///
    /// # Errors
    /// 404 for an unknown device; see [`Queries::device`].
    pub fn timeline(
        &self,
        device: &DeviceId,
        page: Page<TimelineKey>,
    ) -> Result<Vec<(TimelineKey, TimelineItem)>, Problem> {
        let _ = (device, page);
        todo!()
    }
}
