//! What a login may do. It may publish and subscribe under `dev/+/{its ids}/#` and to what the
//! settings of kinds have in place of that. And it may report on `sensors` for its own devices.
//!
//! Asked anew for every publish and subscription, because labels change.

use std::sync::Arc;

use access::{Login, Principal};
use base::{DeviceId, Problem};
use engine::Report;
use engine::presence::LoginDevices;

use super::labels::{LabelOf, Labels};
use crate::decode::kinds::KindForms;
use crate::decode::{INVALID_ID, SENSORS, quoted};

/// The code of a publish that its login may not make; MQTT 5 has its own reason code for it.
pub(crate) const NOT_ALLOWED: &str = "not_allowed";

/// The rights of one connection.
#[derive(Clone, Debug)]
pub(super) struct Rights(Arc<Principal>);

/// What is known of the labels of devices: what is remembered, and what this connection was just
/// answered.
#[derive(Clone, Copy)]
pub(super) struct KnownLabels<'a> {
    pub(super) labels: &'a Labels,
    pub(super) kinds: &'a KindForms,
    pub(super) answers: &'a [(DeviceId, bool)],
}

/// Whether this device has the login's label has to be looked up first.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unknown(pub(super) DeviceId);

impl KnownLabels<'_> {
    fn has(self, login: u32, device: &DeviceId) -> Option<bool> {
        let answered = self.answers.iter().find(|(of, _)| of == device).map(|(_, has)| *has);
        answered.or_else(|| self.labels.known(login, device))
    }
}

impl Rights {
    pub(super) fn new(principal: Arc<Principal>) -> Self {
        Self(principal)
    }

    /// The username; empty where none is asked for.
    pub(super) fn username(&self) -> &str {
        &self.0.username
    }

    /// The label that decides, if one does.
    pub(super) fn label(&self) -> Option<LabelOf> {
        match &self.0.login {
            Login::Label { key, value } => {
                Some(LabelOf { login: self.0.number, key: key.clone(), value: value.clone() })
            }
            Login::Admin | Login::Device(_) | Login::Prefix(_) => None,
        }
    }

    /// For which devices the login speaks.
    pub(super) fn devices(&self) -> LoginDevices {
        match &self.0.login {
            Login::Admin => LoginDevices::All,
            Login::Device(device) => LoginDevices::Device(device.clone()),
            Login::Prefix(prefix) => LoginDevices::Prefix(prefix.as_str().into()),
            Login::Label { key, value } => LoginDevices::Label(key.as_str().into(), value.as_str().into()),
        }
    }

    /// The device whose session this is before it says anything: that of its login, or the one
    /// whose id its client id is. The login of a label may speak for it or not.
    pub(super) fn own_device(&self, client_id: &str) -> Option<DeviceId> {
        match &self.0.login {
            Login::Device(device) => Some(device.clone()),
            Login::Prefix(prefix) if !client_id.starts_with(&**prefix) => None,
            Login::Admin | Login::Prefix(_) | Login::Label { .. } => DeviceId::new(client_id),
        }
    }

    /// Whether the login speaks for this device.
    pub(super) fn speaks_for(&self, device: &DeviceId, known: KnownLabels<'_>) -> Result<bool, Unknown> {
        self.covers(device.as_str(), known)
    }

    /// The device whose label has to be known before it can be said whether something of this
    /// topic, or of this filter, is allowed.
    pub(super) fn asks_about(&self, topic: &str, known: KnownLabels<'_>) -> Option<DeviceId> {
        match &self.0.login {
            Login::Label { .. } => {
                let device = known.kinds.device_level(topic).and_then(DeviceId::new)?;
                known.has(self.0.number, &device).is_none().then_some(device)
            }
            Login::Admin | Login::Device(_) | Login::Prefix(_) => None,
        }
    }

    /// The decoded publish if the login may make it, else why not. A refused one is no sign of life
    /// of anybody.
    pub(super) fn publish(
        &self,
        topic: &str,
        decoded: Result<Report, Problem>,
        known: KnownLabels<'_>,
    ) -> Result<Result<Report, Problem>, Unknown> {
        if self.0.login == Login::Admin {
            return Ok(decoded);
        }
        let allowed = match &decoded {
            Ok(report) => self.covers(report.device.as_str(), known)?,
            // Another device's id may be one that is read after an upgrade: a replay must not count
            // it.
            Err(problem) if topic == SENSORS && problem.code == INVALID_ID => false,
            // Nobody can be found to have sent it, which is no reason to tell more than is there.
            Err(_) if topic == SENSORS => true,
            Err(_) => match known.kinds.device_level(topic) {
                Some(device) => self.covers(device, known)?,
                None => false,
            },
        };
        Ok(if allowed { decoded } else { Err(self.not_allowed(topic)) })
    }

    /// Whether the login may subscribe to what the filter stands for. A wildcard in place of an id
    /// stands for any device.
    pub(super) fn subscribe(&self, filter: &str, known: KnownLabels<'_>) -> Result<bool, Unknown> {
        if self.0.login == Login::Admin {
            return Ok(true);
        }
        match known.kinds.device_level(filter) {
            Some(device) => self.covers(device, known),
            None => Ok(false),
        }
    }

    fn covers(&self, device: &str, known: KnownLabels<'_>) -> Result<bool, Unknown> {
        match &self.0.login {
            Login::Admin => Ok(true),
            Login::Device(own) => Ok(own.as_str() == device),
            // `+` and `#` stand for ids that may begin with anything.
            Login::Prefix(prefix) => Ok(device.starts_with(&**prefix) && !device.contains(['+', '#'])),
            Login::Label { .. } => match DeviceId::new(device) {
                Some(device) => known.has(self.0.number, &device).ok_or(Unknown(device)),
                None => Ok(false),
            },
        }
    }

    fn not_allowed(&self, topic: &str) -> Problem {
        let detail = format!("{}; it may not publish this to {}", self.bounds(), quoted(topic));
        Problem::not_allowed(NOT_ALLOWED, detail)
    }

    /// Why a subscription was refused, and what may be subscribed to.
    pub(super) fn not_subscribed(&self) -> String {
        let bounds = self.bounds();
        match &self.0.login {
            Login::Device(device) => format!("{bounds}: subscribe to dev/+/{device}/#"),
            Login::Admin | Login::Prefix(_) | Login::Label { .. } => {
                format!("{bounds}: subscribe to dev/+/{{id}}/# for each of them")
            }
        }
    }

    /// The login, and for whom it speaks.
    fn bounds(&self) -> String {
        let whose = match &self.0.login {
            Login::Admin => "any device".into(),
            Login::Device(device) => format!("device {device}"),
            Login::Prefix(prefix) => format!("devices whose ids begin with {prefix}"),
            Login::Label { key, value } => format!("devices with the label {key}={value}"),
        };
        format!("login {} speaks for {whose} only", quoted(&self.0.username))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_of_its_login_or_of_the_device_that_its_client_id_names() {
        let device = |id: &str| DeviceId::new(id).expect("an id");
        let label = Login::Label { key: "site".into(), value: "12".into() };
        for (login, client_id, expect) in [
            (Login::Admin, "0xA", Some("0xA")),
            (Login::Admin, "no id", None),
            (Login::Device(device("0xA")), "0xB", Some("0xA")),
            (Login::Prefix("0x".into()), "0xB", Some("0xB")),
            (Login::Prefix("0x".into()), "1", None),
            (label, "0xB", Some("0xB")),
        ] {
            let shown = format!("{login:?} {client_id}");
            let rights = Rights::new(Arc::new(Principal { number: 1, username: "u".into(), login }));
            assert_eq!(rights.own_device(client_id), expect.map(device), "{shown}");
        }
    }

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
            assert_eq!(KindForms::default().device_level(topic), expect, "{topic}");
        }
    }
}
