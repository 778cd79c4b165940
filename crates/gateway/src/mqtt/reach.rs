//! Which devices a subscription reaches: those whose commands it covers. Commands of a device go to
//! `dev/{kind}/{id}`, or where the settings of its kind say.

use base::{DeviceId, Kind};
use engine::presence::OfKind;

use crate::decode::kinds::KindForms;

/// The devices whose commands a filter covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CoveredDevices {
    Nothing,
    /// The device with this id, if it is of this kind.
    Device {
        device: DeviceId,
        kind: OfKind,
        /// The filter is the topic itself, without a wildcard.
        by_name: bool,
    },
    /// All devices of these kinds; of any kind where it is `None`.
    Widely(Vec<Option<Kind>>),
}

/// What a valid filter covers.
pub(super) fn covered(filter: &str, kinds: &KindForms) -> CoveredDevices {
    match of_contract(filter, kinds) {
        CoveredDevices::Nothing => of_settings(filter, kinds),
        // What covers a kind by its name may cover other kinds by their settings.
        CoveredDevices::Widely(mut named) if !named.contains(&None) => {
            named.extend(kinds.covered(filter).map(|(kind, _)| Some(kind.clone())));
            CoveredDevices::Widely(named)
        }
        covered => covered,
    }
}

fn of_settings(filter: &str, kinds: &KindForms) -> CoveredDevices {
    let mut wide = Vec::new();
    for (kind, id) in kinds.covered(filter) {
        match id.map(DeviceId::new) {
            Some(Some(device)) => {
                let by_name = !filter.contains(['+', '#']);
                return CoveredDevices::Device { device, kind: OfKind::Only(kind.clone()), by_name };
            }
            Some(None) => {}
            None => wide.push(Some(kind.clone())),
        }
    }
    if wide.is_empty() { CoveredDevices::Nothing } else { CoveredDevices::Widely(wide) }
}

fn of_contract(filter: &str, kinds: &KindForms) -> CoveredDevices {
    let mut levels = filter.split('/');
    let [first, kind, id, below] = std::array::from_fn(|_| levels.next());
    let more = levels.next().is_some();
    match (first, kind, id, below) {
        (Some("#"), None, None, None) => return CoveredDevices::Widely(vec![None]),
        (Some("dev" | "+"), ..) => {}
        _ => return CoveredDevices::Nothing,
    }
    let named = match kind {
        Some("#") => return CoveredDevices::Widely(vec![None]),
        Some("+") => None,
        Some(kind) => match Kind::new(kind).filter(|kind| !kinds.has_down(kind)) {
            Some(kind) => Some(kind),
            None => return CoveredDevices::Nothing,
        },
        None => return CoveredDevices::Nothing,
    };
    match (id, below) {
        _ if more => CoveredDevices::Nothing,
        (Some("#"), None) | (Some("+"), None | Some("#")) => CoveredDevices::Widely(vec![named]),
        (Some(id), None | Some("#")) => match DeviceId::new(id) {
            Some(device) => {
                let by_name = first == Some("dev") && named.is_some() && below.is_none();
                CoveredDevices::Device { device, kind: named.map_or(OfKind::Any, OfKind::Only), by_name }
            }
            None => CoveredDevices::Nothing,
        },
        _ => CoveredDevices::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::kinds::{KindTopics, TopicTemplate};

    #[test]
    fn a_filter_covers_a_device_or_many_or_none() {
        let of_kind = |kind, by_name| CoveredDevices::Device {
            device: DeviceId::new("0xA").expect("an id"),
            kind,
            by_name,
        };
        let lock = |by_name| of_kind(OfKind::Only(Kind::lock()), by_name);
        let locks = || CoveredDevices::Widely(vec![Kind::new("lock")]);
        let all = || CoveredDevices::Widely(vec![None]);
        for (filter, expect) in [
            ("dev/lock/0xA", lock(true)),
            ("dev/+/0xA", of_kind(OfKind::Any, false)),
            ("+/lock/0xA", lock(false)),
            ("+/+/0xA", of_kind(OfKind::Any, false)),
            ("dev/lock/0xA/#", lock(false)),
            ("#", all()),
            ("+/#", all()),
            ("dev/#", all()),
            ("dev/+/#", all()),
            ("dev/+/+", all()),
            ("+/+/+/#", all()),
            ("dev/lock/#", locks()),
            ("dev/lock/+", locks()),
            ("dev/lock/+/#", locks()),
            ("+/lock/+", locks()),
            ("dev", CoveredDevices::Nothing),
            ("dev/lock", CoveredDevices::Nothing),
            ("dev/Lock/+", CoveredDevices::Nothing),
            ("dev/lock/0x A", CoveredDevices::Nothing),
            ("dev/lock/0xA/state", CoveredDevices::Nothing),
            ("dev/lock/0xA/+", CoveredDevices::Nothing),
            ("dev/+/+/+", CoveredDevices::Nothing),
            ("dev/lock/0xA/state/#", CoveredDevices::Nothing),
            ("sensors", CoveredDevices::Nothing),
            ("$SYS/#", CoveredDevices::Nothing),
            ("elsewhere/#", CoveredDevices::Nothing),
        ] {
            assert_eq!(covered(filter, &KindForms::default()), expect, "{filter}");
        }
    }

    #[test]
    fn commands_of_some_kinds_go_elsewhere() {
        let topics = KindTopics { down: TopicTemplate::new("mqtt/face/{id}"), ..KindTopics::default() };
        let face = Kind::new("face").expect("a kind");
        let kinds = KindForms::new([(face.clone(), topics)].into()).expect("one meaning");
        let device = |kind: &Kind, by_name| CoveredDevices::Device {
            device: DeviceId::new("0xA").expect("an id"),
            kind: OfKind::Only(kind.clone()),
            by_name,
        };
        let widely = |kinds: &[&Kind]| {
            CoveredDevices::Widely(kinds.iter().map(|kind| Some((*kind).clone())).collect())
        };
        for (filter, expect) in [
            ("mqtt/face/0xA", device(&face, true)),
            ("mqtt/+/0xA", device(&face, false)),
            ("mqtt/face/+", widely(&[&face])),
            ("mqtt/#", widely(&[&face])),
            ("+/lock/+", widely(&[&Kind::lock()])),
            ("#", CoveredDevices::Widely(vec![None])),
            ("dev/face/0xA", CoveredDevices::Nothing),
            ("dev/face/+", CoveredDevices::Nothing),
            ("dev/lock/0xA", device(&Kind::lock(), true)),
            ("mqtt/face/0xA/Ack", CoveredDevices::Nothing),
        ] {
            assert_eq!(covered(filter, &kinds), expect, "{filter}");
        }
    }
}
