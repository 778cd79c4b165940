//! `fieldpost device watch`: a device live. Its state now, then every event and reading as it
//! comes, until Ctrl-C.
//!
//! It asks again and again, from this side; the server keeps nothing for it. A server that goes
//! away is waited for.

use std::thread::sleep;
use std::time::Duration;

use base::Timestamp;
use clap::Args;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::feed_tail::FeedTail;
use super::view::{DeviceView, EventView, ReadingView};
use super::{below, of};
use crate::api::{ApiPath, ServerApi};
use crate::failure::CommandFailure;
use crate::list::{self, ListFlags};
use crate::polling::{interval, patiently};
use crate::screen::Screen;
use crate::table::{self, Cell};

#[derive(Args, Debug)]
pub struct WatchDevice {
    /// The device.
    #[arg(value_name = "DEVICE")]
    id: String,
    /// How long to wait between two looks.
    #[arg(long, value_name = "DURATION", default_value = "500ms", value_parser = interval)]
    every: Duration,
}

/// The two feeds of a device, and where they have been followed to.
struct Feeds {
    device: ApiPath,
    events: (ApiPath, FeedTail),
    readings: (ApiPath, FeedTail),
}

/// Something new, with its time.
struct FeedItem {
    ts: Timestamp,
    what: &'static str,
    item: Box<RawValue>,
    cells: Vec<Cell>,
}

/// An item of a feed that can be watched.
trait WatchedItem: DeserializeOwned {
    const WHAT: &'static str;

    fn ts(&self) -> &str;
    fn cells(&self) -> Vec<Cell>;
}

impl WatchedItem for EventView {
    const WHAT: &'static str = "event";

    fn ts(&self) -> &str {
        &self.ts
    }

    fn cells(&self) -> Vec<Cell> {
        self.line()
    }
}

impl WatchedItem for ReadingView {
    const WHAT: &'static str = "reading";

    fn ts(&self) -> &str {
        &self.ts
    }

    fn cells(&self) -> Vec<Cell> {
        self.line()
    }
}

impl WatchDevice {
    /// Ends only by a failure: the device is gone, or nobody reads any more.
    pub(super) fn run(&self, api: &ServerApi, screen: &mut Screen) -> Result<(), CommandFailure> {
        let mut feeds = Feeds::at_their_end(&self.id, api)?;
        // After the feeds, so that what happens meanwhile is told.
        let state = api.get(&feeds.device)?;
        let device: DeviceView = api.read(&state)?;
        screen.show_as("state", &state, || table::line(&device.line()))?;
        loop {
            screen.flush()?;
            sleep(self.every);
            let items = patiently(screen, || feeds.look(api))?;
            items
                .iter()
                .try_for_each(|new| screen.show_as(new.what, &new.item, || table::line(&new.cells)))?;
        }
    }
}

impl Feeds {
    fn at_their_end(id: &str, api: &ServerApi) -> Result<Self, CommandFailure> {
        let events = ApiPath::of(&["events"]).with("device", id);
        let readings = below(id, "readings");
        // A device that is not there has an empty feed of events; its readings say so.
        let last_reading = newest::<ReadingView>(&readings, api)?;
        let last_event = newest::<EventView>(&events, api)?;
        let mut feeds = Self {
            device: of(id),
            events: (events, FeedTail::behind(last_event)),
            readings: (readings, FeedTail::behind(last_reading)),
        };
        feeds.look(api)?;
        Ok(feeds)
    }

    /// What is new in both feeds, in order of time; what is in one feed stays in its order.
    fn look(&mut self, api: &ServerApi) -> Result<Vec<FeedItem>, CommandFailure> {
        let device: DeviceView = api.read(&api.get(&self.device)?)?;
        let present = device.last_seen_at().map(|text| moment(text, api)).transpose()?;
        let mut items = look::<EventView>(&mut self.events, None, api)?;
        items.extend(look::<ReadingView>(&mut self.readings, present, api)?);
        items.sort_by_key(|new| new.ts);
        Ok(items)
    }
}

fn look<T: WatchedItem>(
    (path, tail): &mut (ApiPath, FeedTail),
    present: Option<Timestamp>,
    api: &ServerApi,
) -> Result<Vec<FeedItem>, CommandFailure> {
    let path = path.clone().with("order", "asc").with_maybe("from", tail.from());
    let mut new_items = Vec::new();
    let mut look = tail.look();
    list::each_page(api, &path, &ListFlags::ALL, |items| {
        for item in items {
            let watched: T = api.read(item)?;
            let ts = moment(watched.ts(), api)?;
            if look.is_new(ts) {
                new_items.push(FeedItem { ts, what: T::WHAT, item: item.clone(), cells: watched.cells() });
            }
        }
        Ok(())
    })?;
    tail.go_on(present);
    Ok(new_items)
}

/// The time of a feed's newest item.
fn newest<T: WatchedItem>(path: &ApiPath, api: &ServerApi) -> Result<Option<Timestamp>, CommandFailure> {
    let mut newest = None;
    list::each_page(api, &path.clone().with("order", "desc"), &ListFlags::up_to(1), |items| {
        for item in items {
            newest = Some(moment(api.read::<T>(item)?.ts(), api)?);
        }
        Ok(())
    })?;
    Ok(newest)
}

fn moment(text: &str, api: &ServerApi) -> Result<Timestamp, CommandFailure> {
    Timestamp::parse(text).map_err(|error| api.foreign(format!("{text} in its answer is {error}")))
}
