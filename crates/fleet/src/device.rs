//! Registering and changing devices.

use std::time::Duration;

use base::{Attended, DeviceId, Incarnation, Kind, Problem, Timestamp};
use records::{DeviceProfile, DeviceSlot, PaceOverride};

use crate::{LabelChange, PaceChange, Patch, RegistryRefusal, RegistryRules, id, interval, label, text};

/// A device as a caller asks for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewDevice {
    /// Its id.
    pub id: String,
    /// Its kind; `lock` when left out.
    pub kind: Option<String>,
    /// Where it is installed.
    pub address: Option<String>,
    /// Its labels, in any order; none when left out.
    pub labels: Option<Vec<(String, String)>>,
    /// How often it reports; the setting `devices.report_interval` when left out.
    pub report_interval: Option<Duration>,
    /// How commands go to it; as the settings say when left out.
    pub commands: Option<PaceChange>,
}

impl NewDevice {
    /// The device, if it may be registered.
    ///
    /// # Errors
    /// `invalid_id`, `invalid_kind`, `too_long`, `invalid_label`, `too_many_labels`,
    /// `invalid_interval` or `invalid_pace`.
    pub fn check(self, rules: &RegistryRules) -> Result<CheckedDevice, Problem> {
        let id = id::device_id(&self.id, rules.device_ids)?;
        self.check_but_id(id)
    }

    /// The same under an id that is known to be one.
    pub(crate) fn check_but_id(self, id: DeviceId) -> Result<CheckedDevice, Problem> {
        Ok(CheckedDevice {
            id,
            kind: self.kind.map_or_else(|| Ok(Kind::lock()), |kind| id::kind(&kind))?,
            address: self.address.map(|address| text::checked("address", address)).transpose()?,
            labels: self.labels.map(label::checked).transpose()?,
            report_interval_ms: self.report_interval.map(interval::report_interval_ms).transpose()?,
            pace: self.commands.map(|change| change.merged(PaceOverride::default())).transpose()?,
        })
    }
}

/// A device that may be registered, if its id is free.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckedDevice {
    id: DeviceId,
    kind: Kind,
    address: Option<String>,
    labels: Option<Vec<(String, String)>>,
    report_interval_ms: Option<u64>,
    pace: Option<PaceOverride>,
}

/// What the registry gives a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registration {
    /// New at every registration.
    pub incarnation: Incarnation,
    /// Never used before.
    pub slot: DeviceSlot,
    /// When.
    pub registered_at: Timestamp,
    /// From where the silence of a device never seen is measured.
    pub expected_from: Attended,
}

impl CheckedDevice {
    /// Its id, for looking up whether it is free.
    #[must_use]
    pub fn id(&self) -> &DeviceId {
        &self.id
    }

    /// Its kind.
    #[must_use]
    pub fn kind(&self) -> &Kind {
        &self.kind
    }

    /// Sets in a registered device's profile what was asked for; the rest stays.
    pub(crate) fn set_what_is_named(self, profile: &mut DeviceProfile) {
        if let Some(address) = self.address {
            profile.address = Some(address);
        }
        if let Some(labels) = self.labels {
            profile.labels = labels;
        }
        if let Some(ms) = self.report_interval_ms {
            profile.report_interval_ms = Some(ms);
        }
        profile.pace = self.pace.unwrap_or(profile.pace);
    }

    /// The device's profile; it has no clients yet.
    #[must_use]
    pub fn register(self, registration: Registration) -> DeviceProfile {
        DeviceProfile {
            id: self.id,
            incarnation: registration.incarnation,
            slot: registration.slot,
            kind: self.kind,
            address: self.address,
            labels: self.labels.unwrap_or_default(),
            report_interval_ms: self.report_interval_ms,
            pace: self.pace.unwrap_or_default(),
            registered_at: registration.registered_at,
            expected_from: registration.expected_from,
            clients: Vec::new(),
        }
    }
}

/// A change of a device's profile, as a JSON merge patch says it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DevicePatch {
    /// May be named, but stays.
    pub id: Patch<String>,
    /// May be named, but stays.
    pub kind: Patch<String>,
    /// Where it is installed.
    pub address: Patch<String>,
    /// Labels to set and to drop; the others stay. Clearing drops all.
    pub labels: Patch<Vec<LabelChange>>,
    /// How often it reports; clearing goes back to the setting.
    pub report_interval: Patch<Duration>,
    /// How commands go to it; clearing goes back to the settings.
    pub commands: Patch<PaceChange>,
}

impl DevicePatch {
    /// The profile after the change. Equal to `present` when there is nothing to change.
    ///
    /// # Errors
    /// `cannot_change`, `too_long`, `invalid_label`, `too_many_labels`, `invalid_interval` or
    /// `invalid_pace`; then nothing changes.
    pub fn merged(self, present: &DeviceProfile) -> Result<DeviceProfile, Problem> {
        check_stays("id", &self.id, present.id.as_str())?;
        check_stays("kind", &self.kind, present.kind.as_str())?;
        let address = self.address.try_map(|address| text::checked("address", address))?;
        let labels = match self.labels {
            Patch::Keep => present.labels.clone(),
            Patch::Clear => Vec::new(),
            Patch::Set(changes) => label::merged(&present.labels, changes)?,
        };
        let report_interval_ms = self.report_interval.try_map(interval::report_interval_ms)?;
        let pace = match self.commands {
            Patch::Keep => present.pace,
            Patch::Clear => PaceOverride::default(),
            Patch::Set(change) => change.merged(present.pace)?,
        };
        Ok(DeviceProfile {
            pace,
            address: address.merged(&present.address),
            labels,
            report_interval_ms: report_interval_ms.merged(&present.report_interval_ms),
            ..present.clone()
        })
    }
}

/// Naming a fixed field is fine as long as it says what is there.
pub(crate) fn check_stays(field: &str, change: &Patch<String>, present: &str) -> Result<(), Problem> {
    let stays = match change {
        Patch::Keep => true,
        Patch::Clear => false,
        Patch::Set(value) => value == present,
    };
    if stays {
        return Ok(());
    }
    let detail = format!("{field} is {present:?} and cannot change; delete and register anew instead");
    Err(RegistryRefusal::CannotChange.problem(detail))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: RegistryRules =
        RegistryRules { device_ids: base::DeviceIdForm::DEFAULT, allow_private: false };

    fn pair(key: &str, value: &str) -> (String, String) {
        (key.to_owned(), value.to_owned())
    }

    fn named(id: &str) -> NewDevice {
        NewDevice { id: id.to_owned(), ..NewDevice::default() }
    }

    fn registered(device: NewDevice) -> DeviceProfile {
        device.check(&RULES).expect("may be registered").register(Registration {
            incarnation: Incarnation(3),
            slot: DeviceSlot(9),
            registered_at: Timestamp(77),
            expected_from: Attended(55),
        })
    }

    fn full() -> NewDevice {
        NewDevice {
            kind: Some("face".to_owned()),
            address: Some("Moscow, Russia, Svobody st. 23 fl 1 room 16".to_owned()),
            labels: Some(vec![pair("site", "12"), pair("city", "Moscow")]),
            report_interval: Some(Duration::from_secs(90)),
            commands: Some(PaceChange { in_flight: Patch::Set(2), ..PaceChange::default() }),
            ..named("0xA")
        }
    }

    #[test]
    fn a_device_is_a_lock_unless_it_says_otherwise() {
        let profile = registered(named("0xA"));
        assert!(profile.kind.is_lock());
        assert_eq!((profile.address, profile.labels, profile.report_interval_ms), (None, vec![], None));
    }

    #[test]
    fn what_was_asked_for_is_in_the_profile() {
        let expect = DeviceProfile {
            id: DeviceId::new("0xA").expect("an id"),
            incarnation: Incarnation(3),
            slot: DeviceSlot(9),
            kind: Kind::new("face").expect("a kind"),
            address: Some("Moscow, Russia, Svobody st. 23 fl 1 room 16".to_owned()),
            labels: vec![pair("city", "Moscow"), pair("site", "12")],
            report_interval_ms: Some(90_000),
            pace: PaceOverride { in_flight: Some(2), gap_ms: None },
            registered_at: Timestamp(77),
            expected_from: Attended(55),
            clients: vec![],
        };
        assert_eq!(registered(full()), expect);
    }

    #[test]
    fn a_device_that_may_not_be_is_refused() {
        for (device, expect) in [
            (named("a-b"), "invalid_id"),
            (named("0123456789aBcDeF0"), "invalid_id"),
            (NewDevice { kind: Some("Face".to_owned()), ..full() }, "invalid_kind"),
            (NewDevice { address: Some("x".repeat(257)), ..full() }, "too_long"),
            (NewDevice { labels: Some(vec![pair("A", "x")]), ..full() }, "invalid_label"),
            (NewDevice { report_interval: Some(Duration::from_millis(999)), ..full() }, "invalid_interval"),
        ] {
            let name = format!("{device:?}");
            assert_eq!(device.check(&RULES).map_err(|problem| problem.code), Err(expect), "{name}");
        }
    }

    #[test]
    fn a_patch_changes_what_it_names() {
        let present = registered(full());
        let site = |change: Option<&str>| vec![("site".to_owned(), change.map(str::to_owned))];
        for (patch, expect) in [
            (DevicePatch::default(), present.clone()),
            (
                DevicePatch { address: Patch::Set("Tver".to_owned()), ..DevicePatch::default() },
                DeviceProfile { address: Some("Tver".to_owned()), ..present.clone() },
            ),
            (
                DevicePatch {
                    address: Patch::Clear,
                    labels: Patch::Clear,
                    report_interval: Patch::Clear,
                    commands: Patch::Clear,
                    ..DevicePatch::default()
                },
                DeviceProfile {
                    address: None,
                    labels: vec![],
                    report_interval_ms: None,
                    pace: PaceOverride::default(),
                    ..present.clone()
                },
            ),
            (
                DevicePatch { labels: Patch::Set(site(Some("13"))), ..DevicePatch::default() },
                DeviceProfile { labels: vec![pair("city", "Moscow"), pair("site", "13")], ..present.clone() },
            ),
            (
                DevicePatch { labels: Patch::Set(site(None)), ..DevicePatch::default() },
                DeviceProfile { labels: vec![pair("city", "Moscow")], ..present.clone() },
            ),
            (
                DevicePatch { report_interval: Patch::Set(Duration::from_secs(1)), ..DevicePatch::default() },
                DeviceProfile { report_interval_ms: Some(1_000), ..present.clone() },
            ),
            (
                DevicePatch {
                    commands: Patch::Set(PaceChange {
                        in_flight: Patch::Keep,
                        gap: Patch::Set(Duration::ZERO),
                    }),
                    ..DevicePatch::default()
                },
                DeviceProfile {
                    pace: PaceOverride { in_flight: Some(2), gap_ms: Some(0) },
                    ..present.clone()
                },
            ),
        ] {
            let name = format!("{patch:?}");
            assert_eq!(patch.merged(&present), Ok(expect), "{name}");
        }
    }

    #[test]
    fn id_and_kind_stay() {
        let present = registered(full());
        let of = |id, kind| DevicePatch { id, kind, ..DevicePatch::default() };
        let set = |text: &str| Patch::Set(text.to_owned());
        for (patch, expect) in [
            (of(set("0xA"), set("face")), None),
            (of(set("0xB"), Patch::Keep), Some("cannot_change")),
            (of(Patch::Clear, Patch::Keep), Some("cannot_change")),
            (of(Patch::Keep, set("lock")), Some("cannot_change")),
            (of(Patch::Keep, Patch::Clear), Some("cannot_change")),
        ] {
            let name = format!("{patch:?}");
            assert_eq!(patch.merged(&present).err().map(|problem| problem.code), expect, "{name}");
        }
    }

    #[test]
    fn a_patch_is_checked_like_a_registration() {
        let present = registered(full());
        for (patch, expect) in [
            (DevicePatch { address: Patch::Set("x".repeat(257)), ..DevicePatch::default() }, "too_long"),
            (
                DevicePatch { report_interval: Patch::Set(Duration::ZERO), ..DevicePatch::default() },
                "invalid_interval",
            ),
        ] {
            assert_eq!(patch.merged(&present).map_err(|problem| problem.code), Err(expect));
        }
    }
}
