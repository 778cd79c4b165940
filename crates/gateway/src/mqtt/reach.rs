//! Which devices a subscription reaches: those whose commands it covers. Commands of a device go to
//! `dev/{kind}/{id}`, or where the settings of its kind say.

use base::{DeviceId, Kind};
use engine::presence::KindSet;

use crate::decode::kinds::KindForms;

/// The devices whose commands a filter covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CoveredDevices {
    /// Those with these ids, if they are of these kinds.
    pub(super) named: Vec<(DeviceId, KindSet)>,
    /// The filter is the topic of a device itself, without a wildcard.
    pub(super) by_name: bool,
    /// All devices of these kinds.
    pub(super) widely: KindSet,
}

impl CoveredDevices {
    pub(super) fn nothing() -> Self {
        Self { named: Vec::new(), by_name: false, widely: KindSet::among([]) }
    }

    pub(super) fn is_nothing(&self) -> bool {
        self.named.is_empty() && self.widely.is_nothing()
    }

    fn device(device: DeviceId, kind: KindSet, by_name: bool) -> Self {
        Self { named: vec![(device, kind)], by_name, ..Self::nothing() }
    }

    fn widely(widely: KindSet) -> Self {
        Self { widely, ..Self::nothing() }
    }

    fn add(&mut self, device: DeviceId, kind: KindSet) {
        match self.named.iter_mut().find(|(known, _)| *known == device) {
            Some((_, of)) => *of = of.clone().or(kind),
            None => self.named.push((device, kind)),
        }
    }
}

/// What a valid filter covers.
pub(super) fn covered(filter: &str, kinds: &KindForms) -> CoveredDevices {
    let mut covered = of_contract(filter, kinds);
    for (kind, id) in kinds.covered(filter) {
        let only = KindSet::Only(kind.clone());
        match id.map(DeviceId::new) {
            Some(Some(device)) => {
                covered.by_name |= !filter.contains(['+', '#']);
                covered.add(device, only);
            }
            Some(None) => {}
            None => covered.widely = covered.widely.or(only),
        }
    }
    covered
}

/// The devices whose commands go where the contract has it.
fn of_contract(filter: &str, kinds: &KindForms) -> CoveredDevices {
    let all = || KindSet::except(kinds.with_down().cloned());
    let mut levels = filter.split('/');
    let [first, kind, id, below] = std::array::from_fn(|_| levels.next());
    let more = levels.next().is_some();
    match (first, kind, id, below) {
        (Some("#"), None, None, None) => return CoveredDevices::widely(all()),
        (Some("dev" | "+"), ..) => {}
        _ => return CoveredDevices::nothing(),
    }
    let (of_kind, is_named) = match kind {
        Some("#") => return CoveredDevices::widely(all()),
        Some("+") => (all(), false),
        Some(kind) => match Kind::new(kind).filter(|kind| kinds.with_down().all(|other| other != kind)) {
            Some(kind) => (KindSet::Only(kind), true),
            None => return CoveredDevices::nothing(),
        },
        None => return CoveredDevices::nothing(),
    };
    match (id, below) {
        _ if more => CoveredDevices::nothing(),
        (Some("#"), None) | (Some("+"), None | Some("#")) => CoveredDevices::widely(of_kind),
        (Some(id), None | Some("#")) => match DeviceId::new(id) {
            Some(device) => {
                let by_name = first == Some("dev") && is_named && below.is_none();
                CoveredDevices::device(device, of_kind, by_name)
            }
            None => CoveredDevices::nothing(),
        },
        _ => CoveredDevices::nothing(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::kinds::{KindTopics, TopicTemplate};

    #[test]
    fn a_filter_covers_a_device_or_many_or_none() {
        let of_kind =
            |kind, by_name| CoveredDevices::device(DeviceId::new("0xA").expect("an id"), kind, by_name);
        let lock = |by_name| of_kind(KindSet::Only(Kind::lock()), by_name);
        let locks = || CoveredDevices::widely(KindSet::Only(Kind::lock()));
        let all = || CoveredDevices::widely(KindSet::Any);
        for (filter, expect) in [
            ("dev/lock/0xA", lock(true)),
            ("dev/+/0xA", of_kind(KindSet::Any, false)),
            ("+/lock/0xA", lock(false)),
            ("+/+/0xA", of_kind(KindSet::Any, false)),
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
            ("dev", CoveredDevices::nothing()),
            ("dev/lock", CoveredDevices::nothing()),
            ("dev/Lock/+", CoveredDevices::nothing()),
            ("dev/lock/0x A", CoveredDevices::nothing()),
            ("dev/lock/0xA/state", CoveredDevices::nothing()),
            ("dev/lock/0xA/+", CoveredDevices::nothing()),
            ("dev/+/+/+", CoveredDevices::nothing()),
            ("dev/lock/0xA/state/#", CoveredDevices::nothing()),
            ("sensors", CoveredDevices::nothing()),
            ("$SYS/#", CoveredDevices::nothing()),
            ("elsewhere/#", CoveredDevices::nothing()),
        ] {
            assert_eq!(covered(filter, &KindForms::default()), expect, "{filter}");
        }
    }

    #[test]
    fn commands_of_some_kinds_go_elsewhere() {
        let topics = KindTopics { down: TopicTemplate::new("mqtt/face/{id}"), ..KindTopics::default() };
        let face = Kind::new("face").expect("a kind");
        let kinds = KindForms::new([(face.clone(), topics)].into()).expect("one meaning");
        let named = |kind: KindSet, by_name| {
            CoveredDevices::device(DeviceId::new("0xA").expect("an id"), kind, by_name)
        };
        let device = |kind: &Kind, by_name| named(KindSet::Only(kind.clone()), by_name);
        let widely = |kinds: &[&Kind]| {
            CoveredDevices::widely(KindSet::among(kinds.iter().map(|kind| (*kind).clone())))
        };
        let others = || KindSet::except([face.clone()]);
        for (filter, expect) in [
            ("mqtt/face/0xA", device(&face, true)),
            ("mqtt/+/0xA", device(&face, false)),
            ("mqtt/face/+", widely(&[&face])),
            ("mqtt/#", widely(&[&face])),
            ("+/lock/+", widely(&[&Kind::lock()])),
            ("#", CoveredDevices::widely(KindSet::Any)),
            ("+/#", CoveredDevices::widely(KindSet::Any)),
            ("dev/#", CoveredDevices::widely(others())),
            ("dev/+/+", CoveredDevices::widely(others())),
            ("dev/+/0xA", named(others(), false)),
            ("+/+/0xA", named(KindSet::Any, false)),
            ("dev/face/0xA", CoveredDevices::nothing()),
            ("dev/face/+", CoveredDevices::nothing()),
            ("dev/lock/0xA", device(&Kind::lock(), true)),
            ("mqtt/face/0xA/Ack", CoveredDevices::nothing()),
        ] {
            assert_eq!(covered(filter, &kinds), expect, "{filter}");
        }
    }

    #[test]
    fn a_filter_may_cover_topics_of_several_kinds() {
        let kind = |name: &str| Kind::new(name).expect("a kind");
        let topics = |down: &str| KindTopics { down: TopicTemplate::new(down), ..KindTopics::default() };
        let kinds = [(kind("door"), topics("a/{id}/x")), (kind("gate"), topics("b/k/{id}"))];
        let kinds = KindForms::new(kinds.into()).expect("one meaning");
        let covered = covered("+/+/x", &kinds);
        assert_eq!(covered.widely, KindSet::Only(kind("door")));
        let id = DeviceId::new("x").expect("an id");
        assert_eq!(covered.named, [(id, KindSet::except([kind("door")]))]);
        assert_eq!(kinds.device_level("+/+/x"), None, "it stands for more than one device");
        assert_eq!(kinds.device_level("b/k/x"), Some("x"));
    }
}
