//! Which devices are picked for a task or a campaign, and on which terms.

use std::time::Duration;

use serde::Serialize;

use crate::span::Milliseconds;
use crate::task::TaskId;

/// How many devices are picked, of which, and on which terms. What is not said here is as the
/// server's settings have it. Only connected devices are picked, the one that has had least first.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Picks {
    count: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    selector: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    devices: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exclude: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    same_as: Option<TaskId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    not_as: Option<TaskId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    spread_by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    answer_timeout: Option<Milliseconds>,
    #[serde(skip_serializing_if = "Option::is_none")]
    class: Option<CustomerClass>,
}

/// Who goes first where the server's rate makes picks wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CustomerClass {
    /// Large customers.
    Large,
    /// Enterprises.
    Enterprise,
    /// Everybody else.
    Ordinary,
}

impl Picks {
    /// So many of all devices: 1 to 100,000.
    #[must_use]
    pub fn of(count: u32) -> Self {
        Self { count, ..Self::default() }
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

    /// Only these, up to 10,000.
    #[must_use]
    pub fn devices<D: Into<String>>(mut self, devices: impl IntoIterator<Item = D>) -> Self {
        self.devices.extend(devices.into_iter().map(Into::into));
        self
    }

    /// No devices that a selector means.
    #[must_use]
    pub fn exclude(self, selector: impl Into<String>) -> Self {
        Self { exclude: Some(selector.into()), ..self }
    }

    /// Only devices that this task picked.
    #[must_use]
    pub fn same_as(self, task: &TaskId) -> Self {
        Self { same_as: Some(task.clone()), ..self }
    }

    /// No device that this task picked.
    #[must_use]
    pub fn not_as(self, task: &TaskId) -> Self {
        Self { not_as: Some(task.clone()), ..self }
    }

    /// Equal numbers for each value of a label, as far as there are devices.
    #[must_use]
    pub fn spread_by(self, key: impl Into<String>) -> Self {
        Self { spread_by: Some(key.into()), ..self }
    }

    /// How long a device has for its answer: 1 second to 1 hour, 10 seconds unless it is said here.
    #[must_use]
    pub fn answer_timeout(self, timeout: Duration) -> Self {
        Self { answer_timeout: Some(Milliseconds(timeout)), ..self }
    }

    /// Who goes first: ordinary unless it is said here.
    #[must_use]
    pub fn class(self, class: CustomerClass) -> Self {
        Self { class: Some(class), ..self }
    }
}
