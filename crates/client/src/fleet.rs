//! All devices together: how many there are, and how fairly they are picked.

use std::time::SystemTime;

use hyper::Method;
use serde::Deserialize;

use crate::client::Client;
use crate::error::Error;
use crate::path::Path;
use crate::queue_stats::{Cursor, Page};
use crate::request::Request;
use crate::retry::Repeat;
use crate::span::maybe_moment;

/// Which devices: all, unless it is narrowed.
#[derive(Clone, Debug, Default)]
pub struct DeviceSelection {
    selector: Option<String>,
    place: Option<String>,
}

impl DeviceSelection {
    /// All.
    #[must_use]
    pub fn all() -> Self {
        Self::default()
    }

    /// Only devices that a selector means, such as `operator=7,kind!=lock`.
    #[must_use]
    pub fn selector(self, selector: impl Into<String>) -> Self {
        Self { selector: Some(selector.into()), ..self }
    }

    /// Only devices of a place, by the server's setting `[fleet] place`: `CN_520000`.
    #[must_use]
    pub fn place(self, place: impl Into<String>) -> Self {
        Self { place: Some(place.into()), ..self }
    }

    fn of(&self, path: Path) -> Path {
        let given = [("selector", &self.selector), ("place", &self.place)];
        let given = given.into_iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
        given.fold(path, |path, (name, value)| path.with(name, value))
    }
}

/// How many devices a selection means.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct FleetCount {
    /// All.
    pub total: u64,
    /// With a live session.
    pub connected: u64,
    /// That give signs of life.
    pub online: u64,
    /// That fell silent.
    pub lost: u64,
    /// That never gave a sign of life.
    pub never_seen: u64,
    /// Counts by a key, the most first, at most 1,000.
    #[serde(default)]
    pub items: Vec<FleetCountItem>,
    /// There are more values than items.
    #[serde(default)]
    pub more: bool,
}

/// How many devices have a value.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct FleetCountItem {
    /// The value; `None` for devices without one.
    pub value: Option<String>,
    /// All.
    pub total: u64,
    /// With a live session.
    pub connected: u64,
}

/// How near a device is to its next pick.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct DeviceWeight {
    /// The device.
    pub device_id: String,
    /// The heaviest are picked first; 1 at most.
    pub weight: f64,
    /// Picks of the last 24 hours.
    pub picks: u64,
    /// When it was picked last.
    #[serde(default, with = "maybe_moment")]
    pub last_picked_at: Option<SystemTime>,
    /// Until when it is set aside for never answering.
    #[serde(default, with = "maybe_moment")]
    pub benched_until: Option<SystemTime>,
}

/// What the weights of all devices follow from.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct Fairness {
    /// Devices with a live session.
    pub connected: u64,
    /// Devices per task, over the last hour.
    pub avg_picked: f64,
    /// Tasks per minute, over the last hour.
    pub avg_tasks: f64,
    /// A pick costs `constant * punishment`.
    pub punishment: f64,
    /// A weight recovers by this each period.
    pub constant: f64,
}

/// The fleet of a server. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Fleet {
    client: Client,
}

impl Fleet {
    pub(crate) fn new(client: Client) -> Self {
        Self { client }
    }

    /// Counts the devices of a selection, and those of each value of `by`: a label, `kind`,
    /// `connection`, `connected`, `client` or `answering`.
    ///
    /// # Errors
    /// 422 `bad_selector`; see [`Error`].
    pub async fn count(&self, selection: &DeviceSelection, by: Option<&str>) -> Result<FleetCount, Error> {
        let path = selection.of(Path::of(&["fleet", "count"]));
        let path = by.iter().fold(path, |path, by| path.with("by", by));
        self.client.fetch(&Request::new(Method::GET, path), Repeat::Harmless).await
    }

    /// The weights of the devices of a selection, in order of id.
    ///
    /// # Errors
    /// 422 `bad_selector`; see [`Error`].
    pub async fn weights(
        &self,
        selection: &DeviceSelection,
        after: Option<&Cursor>,
    ) -> Result<Page<DeviceWeight>, Error> {
        let path = selection.of(Path::of(&["fleet", "weights"]));
        let path = after.iter().fold(path, |path, cursor| path.with("cursor", cursor.as_str()));
        self.client.fetch(&Request::new(Method::GET, path), Repeat::Harmless).await
    }

    /// What the weights of all devices follow from.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn fairness(&self) -> Result<Fairness, Error> {
        self.client
            .fetch(&Request::new(Method::GET, Path::of(&["fleet", "fairness"])), Repeat::Harmless)
            .await
    }
}
