//! Campaigns: some devices of many are asked again and again, by turns.

use std::time::{Duration, SystemTime};

use hyper::Method;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use crate::campaign_change::CampaignChange;
use crate::client::Client;
use crate::command::{OutcomeTarget, secret};
use crate::error::Error;
use crate::id::text_id;
use crate::path::Path;
use crate::picks::Picks;
use crate::queue_stats::{Cursor, FeedPage, Page};
use crate::request::Request;
use crate::retry::Repeat;
use crate::span::{JsonTime, Milliseconds, maybe_moment, moment};
use crate::task::PickResult;

text_id! {
    /// A campaign's id: its maker's.
    CampaignId
}

/// What a campaign is to be.
#[derive(Clone, Debug, Serialize)]
pub struct CampaignPlan {
    payload: Box<RawValue>,
    #[serde(flatten)]
    picks: Picks,
    #[serde(flatten)]
    pace: PlannedPace,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<JsonTime>,
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<JsonTime>,
    #[serde(skip_serializing_if = "Option::is_none")]
    missed: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    phase: Option<Milliseconds>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    panel: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    results: Option<OutcomeTarget>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum PlannedPace {
    Every(Milliseconds),
    Over(Milliseconds),
}

impl CampaignPlan {
    /// Devices are asked this value, as many as `picks` says once in each `interval`: at least a
    /// second.
    ///
    /// # Errors
    /// [`Error::Unwritable`] when the value cannot be written as JSON.
    pub fn every<T: Serialize + ?Sized>(value: &T, picks: Picks, interval: Duration) -> Result<Self, Error> {
        Ok(Self::new(to_raw_value(value)?, picks, PlannedPace::Every(Milliseconds(interval))))
    }

    /// Devices are asked this value, as many as `picks` says in total over each `period`, in 60
    /// slots of equal length: at least a minute.
    ///
    /// # Errors
    /// [`Error::Unwritable`] when the value cannot be written as JSON.
    pub fn over<T: Serialize + ?Sized>(value: &T, picks: Picks, period: Duration) -> Result<Self, Error> {
        Ok(Self::new(to_raw_value(value)?, picks, PlannedPace::Over(Milliseconds(period))))
    }

    fn new(payload: Box<RawValue>, picks: Picks, pace: PlannedPace) -> Self {
        Self {
            payload,
            picks,
            pace,
            name: None,
            from: None,
            until: None,
            missed: None,
            phase: None,
            panel: false,
            results: None,
        }
    }

    /// What people call it.
    #[must_use]
    pub fn name(self, name: impl Into<String>) -> Self {
        Self { name: Some(name.into()), ..self }
    }

    /// No slot before.
    #[must_use]
    pub fn from(self, moment: SystemTime) -> Self {
        Self { from: Some(JsonTime(moment)), ..self }
    }

    /// No slot from then on.
    #[must_use]
    pub fn until(self, moment: SystemTime) -> Self {
        Self { until: Some(JsonTime(moment)), ..self }
    }

    /// Of slots that the server was not there for, the newest is done late; without this they are
    /// skipped.
    #[must_use]
    pub fn catch_up(self) -> Self {
        Self { missed: Some("catch_up"), ..self }
    }

    /// By how much slots are shifted from multiples of their interval; unless it is said here, the
    /// server levels the minutes.
    #[must_use]
    pub fn phase(self, phase: Duration) -> Self {
        Self { phase: Some(Milliseconds(phase)), ..self }
    }

    /// The same devices in each slot, replaced only when they are gone.
    #[must_use]
    pub fn panel(self) -> Self {
        Self { panel: true, ..self }
    }

    /// Each result becomes a job of this queue; in place of [`CampaignPlan::results_url`].
    #[must_use]
    pub fn results_queue(self, namespace: &str, queue: &str) -> Self {
        Self { results: OutcomeTarget::queue(namespace, queue), ..self }
    }

    /// Each result becomes a message of this stream; in place of [`CampaignPlan::results_queue`].
    #[must_use]
    pub fn results_stream(self, namespace: &str, stream: &str) -> Self {
        Self { results: OutcomeTarget::stream(namespace, stream), ..self }
    }

    /// Each result is posted to this URL, signed with the secret that [`Campaign`] shows once; in
    /// place of [`CampaignPlan::results_queue`].
    #[must_use]
    pub fn results_url(self, url: impl Into<String>) -> Self {
        Self { results: OutcomeTarget::url(url), ..self }
    }
}

/// A campaign.
#[derive(Clone, Debug, Deserialize)]
#[non_exhaustive]
pub struct Campaign {
    /// Its id.
    pub id: CampaignId,
    /// What people call it.
    #[serde(default)]
    pub name: Option<String>,
    /// Whether it goes on: `running`, `paused` or `ended`.
    pub status: String,
    /// When it was made.
    #[serde(with = "moment")]
    pub created_at: SystemTime,
    /// How many devices.
    pub count: u32,
    /// With [`CampaignPlan::results_url`]: what each POST is signed with. It is not shown again.
    #[serde(rename = "results", default, deserialize_with = "secret")]
    pub secret: Option<String>,
}

/// A slot, and what came of its picks.
#[derive(Clone, Debug, Deserialize)]
#[non_exhaustive]
pub struct SlotSummary {
    /// Counts the campaign's interval since the epoch.
    pub slot: u64,
    /// When it was due.
    #[serde(with = "moment")]
    pub due_at: SystemTime,
    /// When it began.
    #[serde(default, with = "maybe_moment")]
    pub started_at: Option<SystemTime>,
    /// How many devices were wanted.
    pub wanted: u32,
    /// How many were picked, replacements included.
    pub picked: u32,
    /// How many did it.
    pub answered: u32,
    /// How many said that they could not.
    pub failed: u32,
    /// How many did not answer in time, or went away.
    pub expired: u32,
    /// In whose place another device was picked.
    pub replaced: u32,
    /// It was missed, and is not made up for.
    #[serde(default)]
    pub skipped: bool,
}

/// How evenly the devices that a campaign may pick now were picked over a period.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct Coverage {
    /// All of these devices together.
    #[serde(flatten)]
    pub all: CoverageSummary,
    /// Those of each value of a key, at most 1,000.
    #[serde(default)]
    pub items: Vec<CoverageItem>,
    /// There are more values than items.
    #[serde(default)]
    pub more: bool,
}

/// How evenly the devices that have a value were picked.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct CoverageItem {
    /// The value; `None` for devices without one.
    pub value: Option<String>,
    /// The devices that have it.
    #[serde(flatten)]
    pub summary: CoverageSummary,
}

/// How evenly some devices were picked.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct CoverageSummary {
    /// Devices that match and are connected.
    pub eligible: u64,
    /// Picks.
    pub picked: u64,
    /// Eligible devices without a pick.
    pub never_picked: u64,
    /// Picks of the device that had least.
    pub min: u64,
    /// Picks of the device that had most.
    pub max: u64,
    /// Picks per device.
    pub mean: f64,
    /// Gini's coefficient over all eligible devices: 0 where all had the same.
    pub gini: f64,
}

/// The campaigns of a server. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Campaigns {
    client: Client,
}

impl Campaigns {
    pub(crate) fn new(client: Client) -> Self {
        Self { client }
    }

    /// Creates a campaign under an id, or replaces it: the change is effective with its next slot.
    ///
    /// # Errors
    /// 422 `bad_selector`, 403 for what the token may not ask, 409 `too_many_campaigns`; see
    /// [`Error`].
    pub async fn put(&self, id: &CampaignId, plan: &CampaignPlan) -> Result<Campaign, Error> {
        let request = Request::document(Method::PUT, of(id), plan)?;
        self.client.fetch(&request, Repeat::Harmless).await
    }

    /// Changes a campaign in what is named; effective with its next slot.
    ///
    /// # Errors
    /// 404 `unknown_campaign`, 409 `changed_meanwhile`, and what [`Campaigns::put`] is refused
    /// with; see [`Error`].
    pub async fn change(&self, id: &CampaignId, change: &CampaignChange) -> Result<Campaign, Error> {
        let request = Request::document(Method::PATCH, of(id), change)?;
        self.client.fetch(&request, Repeat::Harmful).await
    }

    /// A campaign.
    ///
    /// # Errors
    /// 404 `unknown_campaign`; see [`Error`].
    pub async fn get(&self, id: &CampaignId) -> Result<Campaign, Error> {
        self.client.fetch(&Request::new(Method::GET, of(id)), Repeat::Harmless).await
    }

    /// Campaigns, in order of id.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn list(&self, after: Option<&Cursor>) -> Result<Page<Campaign>, Error> {
        self.page(Path::of(&["campaigns"]), after).await
    }

    /// The slots of a campaign, the newest first.
    ///
    /// # Errors
    /// 404 `unknown_campaign`; see [`Error`].
    pub async fn slots(&self, id: &CampaignId, after: Option<&Cursor>) -> Result<Page<SlotSummary>, Error> {
        self.page(of(id).and(&["slots"]), after).await
    }

    /// Results, in the order in which picks ended, from a place on. The first one is waited for as
    /// long as `wait` says, up to a minute.
    ///
    /// # Errors
    /// 404 `unknown_campaign`; see [`Error`].
    pub async fn results(
        &self,
        id: &CampaignId,
        after: Option<&Cursor>,
        wait: Duration,
    ) -> Result<FeedPage<PickResult>, Error> {
        self.client.follow(of(id).and(&["results"]), after, wait).await
    }

    /// How evenly a campaign picked over the last `period`, and how evenly among the devices of
    /// each value of `by`. That is a label, `kind`, `connection`, `connected`, `client` or
    /// `answering`.
    ///
    /// # Errors
    /// 404 `unknown_campaign`; see [`Error`].
    pub async fn coverage(
        &self,
        id: &CampaignId,
        period: Duration,
        by: Option<&str>,
    ) -> Result<Coverage, Error> {
        let path = of(id).and(&["coverage"]).with("period", &Milliseconds(period).to_string());
        let path = by.iter().fold(path, |path, by| path.with("by", by));
        self.client.fetch(&Request::new(Method::GET, path), Repeat::Harmless).await
    }

    /// Begins no more slots until it is resumed.
    ///
    /// # Errors
    /// 404 `unknown_campaign`; see [`Error`].
    pub async fn pause(&self, id: &CampaignId) -> Result<(), Error> {
        self.tell(id, "pause").await
    }

    /// Goes on.
    ///
    /// # Errors
    /// 404 `unknown_campaign`; see [`Error`].
    pub async fn resume(&self, id: &CampaignId) -> Result<(), Error> {
        self.tell(id, "resume").await
    }

    /// Removes a campaign with its slots and results.
    ///
    /// # Errors
    /// 404 `unknown_campaign`; see [`Error`].
    pub async fn delete(&self, id: &CampaignId) -> Result<(), Error> {
        self.client.order(&Request::new(Method::DELETE, of(id)), Repeat::Harmful).await
    }

    async fn tell(&self, id: &CampaignId, what: &str) -> Result<(), Error> {
        self.client.order(&Request::new(Method::POST, of(id).and(&[what])), Repeat::Harmless).await
    }

    async fn page<T: serde::de::DeserializeOwned>(
        &self,
        path: Path,
        after: Option<&Cursor>,
    ) -> Result<Page<T>, Error> {
        let path = after.iter().fold(path, |path, cursor| path.with("cursor", cursor.as_str()));
        self.client.fetch(&Request::new(Method::GET, path), Repeat::Harmless).await
    }
}

fn of(id: &CampaignId) -> Path {
    Path::of(&["campaigns", id.as_str()])
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    #[test]
    fn a_campaign_says_only_what_was_said_of_it() {
        let (five, hour) = (Duration::from_secs(300), Duration::from_secs(3_600));
        let every = CampaignPlan::every(&1, Picks::of(20).place("CN"), five).expect("a plan");
        let over = CampaignPlan::over(&1, Picks::of(6_000), hour).expect("a plan");
        let told = CampaignPlan::every(&1, Picks::of(1), five).expect("a plan").results_stream("a", "b");
        for (plan, expect) in [
            (every, r#"{"payload":1,"count":20,"place":"CN","every":"300000ms"}"#),
            (told, r#"{"payload":1,"count":1,"every":"300000ms","results":{"stream":"a/b"}}"#),
            (
                over.name("DNS")
                    .catch_up()
                    .panel()
                    .until(UNIX_EPOCH)
                    .phase(Duration::ZERO)
                    .results_queue("a", "b"),
                r#"{"payload":1,"count":6000,"over":"3600000ms","name":"DNS","until":"1970-01-01T00:00:00.000Z","missed":"catch_up","phase":"0ms","panel":true,"results":{"queue":"a/b"}}"#,
            ),
        ] {
            assert_eq!(serde_json::to_string(&plan).expect("JSON"), expect);
        }
    }
}
