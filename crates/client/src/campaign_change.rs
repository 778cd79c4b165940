//! What to change of a campaign.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use crate::command::OutcomeTarget;
use crate::error::Error;
use crate::picks::CustomerClass;
use crate::span::{JsonTime, Milliseconds};
use crate::task::TaskId;

/// What to change of a campaign; what is not named stays as it is. Effective with its next slot.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(transparent)]
pub struct CampaignChange(BTreeMap<&'static str, ChangedField>);

/// What a field is to be.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
enum ChangedField {
    Text(String),
    Texts(Vec<String>),
    Count(u32),
    Flag(bool),
    Span(Milliseconds),
    Moment(JsonTime),
    Class(CustomerClass),
    Task(TaskId),
    Results(OutcomeTarget),
    Json(Box<RawValue>),
    Cleared(()),
}

/// What a campaign can be without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CampaignField {
    /// What people call it.
    Name,
    /// Selector and place: without them it may pick every device.
    Selector,
    /// The devices that are named.
    Devices,
    /// The selector of devices that are left out.
    Exclude,
    /// The task whose devices it picks, or leaves out.
    Relation,
    /// The label over whose values picks are spread.
    SpreadBy,
    /// When its first slot may be.
    From,
    /// When its slots end.
    Until,
    /// By how much slots are shifted: without it the server levels the minutes.
    Phase,
    /// Who is told each result.
    Results,
}

impl CampaignField {
    /// The fields in which it is said; the first one clears it.
    fn names(self) -> &'static [&'static str] {
        match self {
            Self::Name => &["name"],
            Self::Selector => &["selector", "place"],
            Self::Devices => &["devices"],
            Self::Exclude => &["exclude"],
            Self::Relation => &["same_as", "not_as"],
            Self::SpreadBy => &["spread_by"],
            Self::From => &["from"],
            Self::Until => &["until"],
            Self::Phase => &["phase"],
            Self::Results => &["results"],
        }
    }
}

impl CampaignChange {
    /// Nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Devices are asked this value.
    ///
    /// # Errors
    /// [`Error::Unwritable`] when the value cannot be written as JSON.
    pub fn payload<T: Serialize + ?Sized>(self, value: &T) -> Result<Self, Error> {
        Ok(self.with("payload", ChangedField::Json(to_raw_value(value)?)))
    }

    /// So many devices, at each slot or in each period: 1 to 100,000.
    #[must_use]
    pub fn count(self, count: u32) -> Self {
        self.with("count", ChangedField::Count(count))
    }

    /// What people call it.
    #[must_use]
    pub fn name(self, name: impl Into<String>) -> Self {
        self.text("name", name)
    }

    /// As many devices as its count says once in each `interval`: at least a second.
    #[must_use]
    pub fn every(self, interval: Duration) -> Self {
        self.cut(&["over"]).with("every", ChangedField::Span(Milliseconds(interval)))
    }

    /// As many devices as its count says in total over each `period`: at least a minute.
    #[must_use]
    pub fn over(self, period: Duration) -> Self {
        self.cut(&["every"]).with("over", ChangedField::Span(Milliseconds(period)))
    }

    /// Only devices that a selector means. Who names selector or place says what both mean.
    #[must_use]
    pub fn selector(self, selector: impl Into<String>) -> Self {
        self.text("selector", selector)
    }

    /// Only devices of a place. Who names selector or place says what both mean.
    #[must_use]
    pub fn place(self, place: impl Into<String>) -> Self {
        self.text("place", place)
    }

    /// Only these, up to 10,000.
    #[must_use]
    pub fn devices<D: Into<String>>(self, devices: impl IntoIterator<Item = D>) -> Self {
        self.with("devices", ChangedField::Texts(devices.into_iter().map(Into::into).collect()))
    }

    /// No devices that a selector means.
    #[must_use]
    pub fn exclude(self, selector: impl Into<String>) -> Self {
        self.text("exclude", selector)
    }

    /// Only devices that this task picked.
    #[must_use]
    pub fn same_as(self, task: &TaskId) -> Self {
        self.cut(&["not_as"]).with("same_as", ChangedField::Task(task.clone()))
    }

    /// No device that this task picked.
    #[must_use]
    pub fn not_as(self, task: &TaskId) -> Self {
        self.cut(&["same_as"]).with("not_as", ChangedField::Task(task.clone()))
    }

    /// Equal numbers for each value of a label, as far as there are devices.
    #[must_use]
    pub fn spread_by(self, key: impl Into<String>) -> Self {
        self.text("spread_by", key)
    }

    /// How long a device has for its answer: 1 second to 1 hour.
    #[must_use]
    pub fn answer_timeout(self, timeout: Duration) -> Self {
        self.with("answer_timeout", ChangedField::Span(Milliseconds(timeout)))
    }

    /// Who goes first where the server's rate makes picks wait.
    #[must_use]
    pub fn class(self, class: CustomerClass) -> Self {
        self.with("class", ChangedField::Class(class))
    }

    /// No slot before.
    #[must_use]
    pub fn from(self, moment: SystemTime) -> Self {
        self.with("from", ChangedField::Moment(JsonTime(moment)))
    }

    /// No slot from then on.
    #[must_use]
    pub fn until(self, moment: SystemTime) -> Self {
        self.with("until", ChangedField::Moment(JsonTime(moment)))
    }

    /// Whether the newest slot that the server was not there for is done late; else it is skipped.
    #[must_use]
    pub fn catch_up(self, catches_up: bool) -> Self {
        self.text("missed", if catches_up { "catch_up" } else { "skip" })
    }

    /// By how much slots are shifted from multiples of their interval.
    #[must_use]
    pub fn phase(self, phase: Duration) -> Self {
        self.with("phase", ChangedField::Span(Milliseconds(phase)))
    }

    /// Whether each slot has the same devices.
    #[must_use]
    pub fn panel(self, is_panel: bool) -> Self {
        self.with("panel", ChangedField::Flag(is_panel))
    }

    /// Each result becomes a job of this queue.
    #[must_use]
    pub fn results_queue(self, namespace: &str, queue: &str) -> Self {
        let target = OutcomeTarget::Queue(format!("{namespace}/{queue}"));
        self.with("results", ChangedField::Results(target))
    }

    /// Each result becomes a message of this stream.
    #[must_use]
    pub fn results_stream(self, namespace: &str, stream: &str) -> Self {
        let target = OutcomeTarget::Stream(format!("{namespace}/{stream}"));
        self.with("results", ChangedField::Results(target))
    }

    /// Each result is posted to this URL, signed with the secret that
    /// [`Campaign`](crate::Campaign) shows once.
    #[must_use]
    pub fn results_url(self, url: impl Into<String>) -> Self {
        self.with("results", ChangedField::Results(OutcomeTarget::Url(url.into())))
    }

    /// It is without this from now on.
    #[must_use]
    pub fn without(self, field: CampaignField) -> Self {
        let names = field.names();
        let cleared = names.iter().take(1);
        cleared.fold(self.cut(names), |change, name| change.with(name, ChangedField::Cleared(())))
    }

    fn text(self, name: &'static str, text: impl Into<String>) -> Self {
        self.with(name, ChangedField::Text(text.into()))
    }

    fn with(mut self, name: &'static str, field: ChangedField) -> Self {
        self.0.insert(name, field);
        self
    }

    fn cut(mut self, names: &[&str]) -> Self {
        self.0.retain(|name, _| !names.contains(name));
        self
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    fn check(change: &CampaignChange, expect: &str) {
        assert_eq!(serde_json::to_string(change).expect("JSON"), expect);
    }

    #[test]
    fn a_change_says_only_what_is_to_be_otherwise() {
        let (minute, new) = (Duration::from_secs(60), CampaignChange::new);
        check(&new(), "{}");
        check(&new().count(30).name("all"), r#"{"count":30,"name":"all"}"#);
        check(&new().payload(&[1]).expect("JSON").panel(false), r#"{"panel":false,"payload":[1]}"#);
        check(&new().every(minute).over(minute), r#"{"over":"60000ms"}"#);
        check(&new().over(minute).every(minute), r#"{"every":"60000ms"}"#);
        let task = TaskId::new("tsk_1");
        check(&new().same_as(&task).not_as(&task), r#"{"not_as":"tsk_1"}"#);
        let timed = new().until(UNIX_EPOCH).phase(Duration::ZERO).catch_up(true).class(CustomerClass::Large);
        check(
            &timed,
            r#"{"class":"large","missed":"catch_up","phase":"0ms","until":"1970-01-01T00:00:00.000Z"}"#,
        );
        check(
            &new().devices(["a", "b"]).results_queue("a", "b"),
            r#"{"devices":["a","b"],"results":{"queue":"a/b"}}"#,
        );
        check(&new().results_stream("a", "b"), r#"{"results":{"stream":"a/b"}}"#);
    }

    #[test]
    fn what_is_cleared_is_null() {
        let change = CampaignChange::new().place("CN").not_as(&TaskId::new("tsk_1"));
        let cleared = [CampaignField::Selector, CampaignField::Relation, CampaignField::Until];
        let change = cleared.into_iter().fold(change, CampaignChange::without);
        check(&change, r#"{"same_as":null,"selector":null,"until":null}"#);
    }
}
