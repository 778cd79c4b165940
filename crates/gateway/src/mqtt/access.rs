//! What a login may do: publish and subscribe under `dev/+/{its ids}/#`, and report on `sensors` for its own devices.
//!
//! Asked anew for every publish and subscription, because labels change.

use std::sync::Arc;

use base::{DeviceId, Problem};
use engine::intake::NotAccepting;
use engine::{Engine, Report};

use super::labels::Labels;
use super::logins::{KnownAs, Login};
use crate::decode::{SENSORS, quoted};

/// The code of a publish that its login may not make; MQTT 5 has its own reason code for it.
pub(crate) const NOT_ALLOWED: &str = "not_allowed";

/// The rights of one connection.
#[derive(Clone, Debug)]
pub(super) struct Access(Arc<KnownAs>);

/// What is asked about devices that only the engine knows.
#[derive(Clone, Copy)]
pub(super) struct Registered<'a> {
    pub(super) engine: &'a Engine,
    pub(super) labels: &'a Labels,
}

impl Access {
    pub(super) fn new(known_as: Arc<KnownAs>) -> Self {
        Self(known_as)
    }

    /// The decoded publish if the login may make it, else why not. A refused one is no sign of life of anybody.
    pub(super) fn publish(
        &self,
        topic: &str,
        decoded: Result<Report, Problem>,
        registered: Registered<'_>,
    ) -> Result<Result<Report, Problem>, NotAccepting> {
        if self.0.login == Login::Admin {
            return Ok(decoded);
        }
        let allowed = match &decoded {
            Ok(report) => self.covers(report.device.as_str(), registered)?,
            // Nobody can be found to have sent it, which is no reason to tell more than is there.
            Err(_) if topic == SENSORS => true,
            Err(_) => match device_level(topic) {
                Some(device) => self.covers(device, registered)?,
                None => false,
            },
        };
        Ok(if allowed { decoded } else { Err(self.not_allowed(topic)) })
    }

    /// Whether the login may subscribe to what the filter stands for. A wildcard in place of an id stands for any device.
    pub(super) fn subscribe(&self, filter: &str, registered: Registered<'_>) -> Result<bool, NotAccepting> {
        if self.0.login == Login::Admin {
            return Ok(true);
        }
        match device_level(filter) {
            Some(device) => self.covers(device, registered),
            None => Ok(false),
        }
    }

    fn covers(&self, device: &str, registered: Registered<'_>) -> Result<bool, NotAccepting> {
        match &self.0.login {
            Login::Admin => Ok(true),
            Login::Device(own) => Ok(own.as_str() == device),
            // `+` and `#` stand for ids that may begin with anything.
            Login::Prefix(prefix) => Ok(device.starts_with(&**prefix) && !device.contains(['+', '#'])),
            Login::Label { key, value } => match DeviceId::new(device) {
                Some(device) => self.is_labelled(&device, key, value, registered),
                None => Ok(false),
            },
        }
    }

    fn is_labelled(
        &self,
        device: &DeviceId,
        key: &str,
        value: &str,
        registered: Registered<'_>,
    ) -> Result<bool, NotAccepting> {
        registered.labels.has(registered.engine, self.0.number, device, key, value).map_err(|problem| {
            // Whether it may is not known: it is told to come back, not that it may not.
            tracing::debug!(%problem, "the labels of a device cannot be read");
            NotAccepting
        })
    }

    fn not_allowed(&self, topic: &str) -> Problem {
        let whose = match &self.0.login {
            Login::Admin => "any device".into(),
            Login::Device(device) => format!("device {device}"),
            Login::Prefix(prefix) => format!("devices whose ids begin with {prefix}"),
            Login::Label { key, value } => format!("devices with the label {key}={value}"),
        };
        let username = quoted(&self.0.username);
        let detail =
            format!("login {username} speaks for {whose} only; it may not publish this to {}", quoted(topic));
        Problem::not_allowed(NOT_ALLOWED, detail)
    }
}

/// The level of a topic or filter where the id of a device stands: `dev/{kind}/{id}`, and anything below.
fn device_level(topic: &str) -> Option<&str> {
    topic.strip_prefix("dev/")?.split('/').nth(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_stands_in_the_third_level() {
        for (topic, expect) in [
            ("dev/lock/0xA/state", Some("0xA")),
            ("dev/+/0xA/#", Some("0xA")),
            ("dev/lock/0xA", Some("0xA")),
            ("dev/+/+/state", Some("+")),
            ("dev/lock/#", Some("#")),
            ("dev/lock//x", Some("")),
            ("dev/#", None),
            ("dev/lock", None),
            ("+/lock/0xA/state", None),
            ("#", None),
            ("sensors", None),
            ("$SYS/dev/lock/0xA", None),
        ] {
            assert_eq!(device_level(topic), expect, "{topic}");
        }
    }
}
