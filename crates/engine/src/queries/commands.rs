//! Commands, desired entries and the timeline, as far as they are durable.

use std::sync::Arc;

use base::{DeviceId, EntityId, Problem, Timestamp};
use records::{
    Command, CommandKey, CommandState, CommandStatus, DesiredState, Event, EventKey, TimelineEntry,
    TimelineEntryKey,
};
use store::{FeedFilter, Page};

use super::feeds::{BoundedFeedPage, FeedScope, ItemFilter};
use super::{FeedKey, Queries, cost_of_row, unreadable};
use crate::commands::TrackedCommand;

/// Commands that are read at a time where some are dropped again: each may have a large payload.
const COMMANDS_PER_READ: usize = 32;

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
    /// Given then or later.
    pub given_from: Option<Timestamp>,
}

impl CommandFilter {
    /// Whether a command is as it is asked for, whosever it is.
    pub(super) fn is_met_by(&self, command: &Command, state: &CommandState) -> bool {
        self.status.is_none_or(|status| state.status == status)
            && self.origin.as_deref().is_none_or(|origin| command.origin.as_deref() == Some(origin))
    }
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
        let view = self.view(self.engine.partition_of(id.routing))?;
        let key = CommandKey::from(id);
        let command = view.command(key).map_err(unreadable)?.filter(|command| command.id == id);
        let state = view.command_state(key).map_err(unreadable)?;
        Ok(command.zip(state).map(|(command, state)| TrackedCommand { command: Arc::new(command), state }))
    }

    /// Commands by when they were given; see [`Queries::events`].
    ///
    /// # Errors
    /// 404 for an unknown device; see [`Queries::device`].
    pub fn commands(
        &self,
        filter: &CommandFilter,
        page: Page<FeedKey<CommandKey>>,
    ) -> Result<BoundedFeedPage<CommandKey, TrackedCommand>, Problem> {
        let of = FeedScope { device: filter.device.as_ref(), labels: &filter.labels, ..FeedScope::default() };
        let page = Page { from: filter.given_from.map_or(page.from, |from| from.max(page.from)), ..page };
        let keep = |TrackedCommand { command, state }: &TrackedCommand| filter.is_met_by(command, state);
        let is_filtered = filter.status.is_some() || filter.origin.is_some();
        let kept = ItemFilter {
            keep: is_filtered.then_some(&keep),
            device: |found: &TrackedCommand| &found.command.device,
            read_max: COMMANDS_PER_READ,
            cost: |found| cost_of_row(found.command.payload.len()),
        };
        self.feed(&of, page, &kept, |view, whose, page| {
            let commands = view.commands(whose.device, page, &|_, _| true)?;
            let tracked = |(command, state): (Command, CommandState)| {
                (command.id.into(), TrackedCommand { command: Arc::new(command), state })
            };
            Ok(commands.into_iter().map(tracked).collect())
        })
    }

    /// The desired entries of a device, in order of key.
    ///
    /// # Errors
    /// 404 for an unknown device; see [`Queries::device`].
    pub fn desired_states(&self, device: &DeviceId) -> Result<Vec<DesiredState>, Problem> {
        let (view, profile) = self.known_device(device)?;
        view.desired_states(profile.slot).map_err(unreadable)
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
        let (view, profile) = self.known_device(device)?;
        let page = Page { to: page.to.min(self.engine.feed_end()), ..page };
        let whose = FeedFilter { device: Some(profile.slot), client: None };
        let events = view.events(whose, page.of_events(), &|_| true).map_err(unreadable)?;
        let entries = view.timeline(profile.slot, page.of_entries()).map_err(unreadable)?;
        let events = events.into_iter().map(|event| {
            let key = TimelineKey { at: event.id.at, is_entry: false, number: event.id.number };
            (key, TimelineItem::Event(event))
        });
        let entries = entries.into_iter().map(|entry| {
            let key = TimelineKey { at: entry.at, is_entry: true, number: entry.number };
            (key, TimelineItem::Entry(entry))
        });
        let mut items: Vec<_> = events.chain(entries).collect();
        items.sort_by_key(|(key, _)| *key);
        if !page.ascending {
            items.reverse();
        }
        items.truncate(page.limit);
        Ok(items)
    }
}

/// The parts of a page of a timeline. At one time its events come before its entries.
trait TimelinePage {
    fn of_events(&self) -> Page<EventKey>;
    fn of_entries(&self) -> Page<TimelineEntryKey>;
}

impl TimelinePage for Page<TimelineKey> {
    fn of_events(&self) -> Page<EventKey> {
        let after = self.after.map(|after| match (after.is_entry, self.ascending) {
            (false, _) => EventKey { at: after.at, number: after.number },
            (true, true) => EventKey { at: after.at, number: u32::MAX },
            (true, false) => EventKey { at: Timestamp(after.at.0.saturating_add(1)), number: 0 },
        });
        Page { from: self.from, to: self.to, ascending: self.ascending, after, limit: self.limit }
    }

    fn of_entries(&self) -> Page<TimelineEntryKey> {
        let after = self.after.map(|after| match (after.is_entry, self.ascending) {
            (true, _) => TimelineEntryKey { at: after.at, number: after.number },
            (false, true) => {
                TimelineEntryKey { at: Timestamp(after.at.0.saturating_sub(1)), number: u32::MAX }
            }
            (false, false) => TimelineEntryKey { at: after.at, number: 0 },
        });
        Page { from: self.from, to: self.to, ascending: self.ascending, after, limit: self.limit }
    }
}
