//! What the engine is told of one session: whose session it is, and which devices it reaches.
//!
//! [`PresenceTracker`] decides what to tell and remembers it, so that the end of the session takes
//! everything back. [`tell`] tells it.

use base::DeviceId;
use engine::Presence;
use engine::intake::NotAccepting;
use engine::presence::{KindSet, LoginDevices, Reach, Session};
use engine::records::DisconnectReason;
use futures_util::future::{join_all, try_join_all};

use super::limits::DEVICES_PER_SESSION_MAX;
use super::reach::CoveredDevices;

/// What the engine was told of a session. One that is nobody's and reaches nobody holds no memory.
#[derive(Debug, Default)]
pub(super) struct PresenceTracker(Option<Box<TrackedSession>>);

#[derive(Debug)]
struct TrackedSession {
    devices: Vec<TrackedDevice>,
    /// The kinds whose devices it reaches by wildcards.
    wide: KindSet,
    /// The devices that its login speaks for.
    login: LoginDevices,
}

#[derive(Debug)]
struct TrackedDevice {
    device: DeviceId,
    /// The session is the device's own if the device is of one of these kinds.
    own_kinds: Option<KindSet>,
    reach: Option<KindSet>,
}

/// Something to tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PresenceCall {
    /// It is a session of this device, if that is of one of these kinds.
    Connected(DeviceId, KindSet),
    /// It was; it has ended.
    Disconnected(DeviceId),
    /// It reaches this device, or no longer.
    Reaches(DeviceId, Option<Reach>),
    /// It reaches these.
    ReachesWidely(Vec<Reach>),
}

impl PresenceTracker {
    /// Whether so many more devices fit. Devices of a session stay its own until it ends.
    pub(super) fn has_room_for(&self, devices: usize) -> bool {
        let booked = self.0.as_ref().map_or(0, |entries| entries.devices.len());
        booked + devices <= DEVICES_PER_SESSION_MAX
    }

    /// It is a session of this device, if that is of one of these kinds.
    pub(super) fn connect(&mut self, device: DeviceId, kinds: KindSet, calls: &mut Vec<PresenceCall>) {
        let entry = self.entry(device);
        let connected = match entry.own_kinds.clone() {
            Some(known) => known.or(kinds),
            None => kinds,
        };
        if entry.own_kinds.as_ref() != Some(&connected) {
            entry.own_kinds = Some(connected.clone());
            calls.push(PresenceCall::Connected(entry.device.clone(), connected));
        }
    }

    /// It subscribed to what covers these; `login` says for which devices its login speaks.
    pub(super) fn subscribe(
        &mut self,
        covered: CoveredDevices,
        login: &LoginDevices,
        calls: &mut Vec<PresenceCall>,
    ) {
        if covered.is_nothing() {
            return;
        }
        if self.entries().login != *login {
            self.entries().login = login.clone();
        }
        for (device, kind) in covered.named {
            if covered.by_name {
                self.connect(device.clone(), kind.clone(), calls);
            }
            let entry = self.entry(device);
            let reach = match entry.reach.clone() {
                Some(known) => known.or(kind),
                None => kind,
            };
            entry.change(Some(reach), login, calls);
        }
        let entries = self.entries();
        let wide = entries.wide.clone().or(covered.widely);
        entries.change_wide(wide, calls);
    }

    /// Its subscriptions cover only these any more.
    pub(super) fn keep(&mut self, left: impl Iterator<Item = CoveredDevices>, calls: &mut Vec<PresenceCall>) {
        let Some(entries) = &mut self.0 else { return };
        let (mut reached, mut wide) = (Vec::new(), KindSet::among([]));
        for covered in left {
            reached.extend(covered.named);
            wide = wide.or(covered.widely);
        }
        let login = entries.login.clone();
        for entry in &mut entries.devices {
            let of_device = reached.iter().filter(|(device, _)| *device == entry.device);
            let kinds = of_device.map(|(_, kind)| kind.clone());
            entry.change(kinds.reduce(KindSet::or), &login, calls);
        }
        // What it was not told of stays so.
        let wide = entries.wide.clone().and(wide);
        entries.change_wide(wide, calls);
        entries.devices.retain(|entry| entry.own_kinds.is_some() || entry.reach.is_some());
        if entries.devices.is_empty() && entries.wide.is_nothing() {
            self.0 = None;
        }
    }

    /// It has ended.
    pub(super) fn close(&mut self) -> Vec<PresenceCall> {
        let Some(entries) = self.0.take() else { return Vec::new() };
        let TrackedSession { devices, wide, .. } = *entries;
        let ended = devices.into_iter().map(|entry| match entry.own_kinds {
            Some(_) => PresenceCall::Disconnected(entry.device),
            None => PresenceCall::Reaches(entry.device, None),
        });
        ended.chain((!wide.is_nothing()).then(|| PresenceCall::ReachesWidely(Vec::new()))).collect()
    }

    fn entries(&mut self) -> &mut TrackedSession {
        self.0.get_or_insert_with(|| {
            let (wide, login) = (KindSet::among([]), LoginDevices::default());
            Box::new(TrackedSession { devices: Vec::new(), wide, login })
        })
    }

    fn entry(&mut self, device: DeviceId) -> &mut TrackedDevice {
        let devices = &mut self.entries().devices;
        let at = devices.iter().position(|entry| entry.device == device).unwrap_or_else(|| {
            // Most sessions are of one device, and many thousands of them are.
            devices.reserve_exact(1);
            devices.push(TrackedDevice { device, own_kinds: None, reach: None });
            devices.len() - 1
        });
        &mut devices[at]
    }
}

impl TrackedSession {
    fn change_wide(&mut self, wide: KindSet, calls: &mut Vec<PresenceCall>) {
        if self.wide == wide {
            return;
        }
        let reach = Reach { kind: wide.clone(), login: self.login.clone() };
        let reach = (!wide.is_nothing()).then_some(reach);
        calls.push(PresenceCall::ReachesWidely(reach.into_iter().collect()));
        self.wide = wide;
    }
}

impl TrackedDevice {
    /// The login's right to the device was checked at the subscription. Only a label may change
    /// later, so only a label is told with the reach.
    fn change(&mut self, reach: Option<KindSet>, login: &LoginDevices, calls: &mut Vec<PresenceCall>) {
        if self.reach == reach {
            return;
        }
        self.reach = reach;
        let told = self.reach.clone().map(|kind| match login {
            LoginDevices::Label(..) => Reach { kind, login: login.clone() },
            LoginDevices::All | LoginDevices::Device(_) | LoginDevices::Prefix(_) => Reach::from(kind),
        });
        calls.push(PresenceCall::Reaches(self.device.clone(), told));
    }
}

/// Tells the engine; returns when all of it is durable. The order among different devices is left
/// open.
pub(super) async fn tell(
    presence: Presence,
    session: Session,
    calls: Vec<PresenceCall>,
) -> Result<(), NotAccepting> {
    let told = calls.into_iter().map(|call| tell_one(&presence, &session, call, None));
    try_join_all(told).await.map(drop)
}

/// Tells the engine that the session has ended. What cannot be told is found out at the next start.
pub(super) async fn tell_end(
    presence: Presence,
    session: Session,
    calls: Vec<PresenceCall>,
    reason: DisconnectReason,
) {
    let told = calls.into_iter().map(|call| tell_one(&presence, &session, call, Some(reason)));
    join_all(told).await;
}

async fn tell_one(
    presence: &Presence,
    session: &Session,
    call: PresenceCall,
    reason: Option<DisconnectReason>,
) -> Result<(), NotAccepting> {
    let number = session.number;
    match call {
        PresenceCall::Connected(device, kinds) => presence.connected(device, kinds, session.clone()).await,
        PresenceCall::Disconnected(device) => {
            let reason = reason.unwrap_or(DisconnectReason::ConnectionLost);
            presence.disconnected(device, number, reason).await
        }
        PresenceCall::Reaches(device, reach) => presence.reaches(device, number, reach).await,
        PresenceCall::ReachesWidely(reach) => presence.reaches_widely(number, reach).await,
    }
}

#[cfg(test)]
mod tests {
    use base::Kind;

    use super::*;
    use crate::decode::kinds::KindForms;
    use crate::mqtt::reach;

    fn covered(filter: &str) -> CoveredDevices {
        reach::covered(filter, &KindForms::default())
    }

    fn id(device: &str) -> DeviceId {
        DeviceId::new(device).expect("an id")
    }

    fn connected(device: &str, kinds: KindSet) -> PresenceCall {
        PresenceCall::Connected(id(device), kinds)
    }

    fn reaches(device: &str) -> PresenceCall {
        PresenceCall::Reaches(id(device), Some(KindSet::Only(Kind::lock()).into()))
    }

    fn reaches_kinds(device: &str, kinds: &[&str]) -> PresenceCall {
        let kinds = KindSet::among(kinds.iter().filter_map(|kind| Kind::new(kind)));
        PresenceCall::Reaches(id(device), Some(kinds.into()))
    }

    fn reaches_not(device: &str) -> PresenceCall {
        PresenceCall::Reaches(id(device), None)
    }

    fn widely(kind: Option<KindSet>) -> PresenceCall {
        PresenceCall::ReachesWidely(kind.into_iter().map(Reach::from).collect())
    }

    fn subscribe(presence: &mut PresenceTracker, filter: &str) -> Vec<PresenceCall> {
        let mut calls = Vec::new();
        presence.subscribe(covered(filter), &LoginDevices::All, &mut calls);
        calls
    }

    fn keep(presence: &mut PresenceTracker, filters: &[&str]) -> Vec<PresenceCall> {
        let mut calls = Vec::new();
        presence.keep(filters.iter().map(|filter| covered(filter)), &mut calls);
        calls
    }

    #[test]
    fn a_device_is_told_of_once_and_ends_with_its_session() {
        let (mut presence, mut calls) = (PresenceTracker::default(), Vec::new());
        presence.connect(id("0xA"), KindSet::Any, &mut calls);
        presence.connect(id("0xA"), KindSet::Any, &mut calls);
        assert_eq!(calls, [connected("0xA", KindSet::Any)]);
        assert_eq!(subscribe(&mut presence, "dev/lock/0xA"), [reaches("0xA")]);
        assert_eq!(subscribe(&mut presence, "dev/lock/0xA/#"), []);
        assert_eq!(subscribe(&mut presence, "dev/lock/0x1/#"), [reaches("0x1")]);
        assert_eq!(subscribe(&mut presence, "dev/lock/0xA/state"), []);
        assert_eq!(presence.close(), [PresenceCall::Disconnected(id("0xA")), reaches_not("0x1")]);
        assert_eq!(presence.close(), []);
    }

    #[test]
    fn a_subscription_by_name_makes_the_session_the_devices() {
        let mut presence = PresenceTracker::default();
        let locks = KindSet::Only(Kind::lock());
        assert_eq!(subscribe(&mut presence, "dev/lock/0xA"), [connected("0xA", locks), reaches("0xA")]);
        assert_eq!(keep(&mut presence, &["+/lock/0xA"]), []);
        assert_eq!(keep(&mut presence, &[]), [reaches_not("0xA")]);
        assert_eq!(subscribe(&mut presence, "dev/lock/0xA"), [reaches("0xA")], "it is connected still");
        assert_eq!(presence.close(), [PresenceCall::Disconnected(id("0xA"))]);
    }

    #[test]
    fn a_session_is_a_devices_if_that_is_of_a_kind_whose_topic_it_named() {
        let mut presence = PresenceTracker::default();
        let face = KindSet::among(Kind::new("face"));
        let both = KindSet::among(["face", "lock"].iter().filter_map(|kind| Kind::new(kind)));
        let of_face = [connected("0xA", face), reaches_kinds("0xA", &["face"])];
        assert_eq!(subscribe(&mut presence, "dev/face/0xA"), of_face);
        let of_both = [connected("0xA", both), reaches_kinds("0xA", &["face", "lock"])];
        assert_eq!(subscribe(&mut presence, "dev/lock/0xA"), of_both);
        assert_eq!(presence.close(), [PresenceCall::Disconnected(id("0xA"))]);
    }

    #[test]
    fn a_device_is_reached_if_it_is_of_a_kind_that_is_named() {
        let mut presence = PresenceTracker::default();
        assert_eq!(subscribe(&mut presence, "+/lock/0xA"), [reaches("0xA")]);
        assert_eq!(subscribe(&mut presence, "+/meter/0xA"), [reaches_kinds("0xA", &["lock", "meter"])]);
        let any = || PresenceCall::Reaches(id("0xA"), Some(KindSet::Any.into()));
        assert_eq!(subscribe(&mut presence, "dev/+/0xA"), [any()]);
        assert_eq!(keep(&mut presence, &["+/lock/0xA", "dev/+/0xA"]), []);
        assert_eq!(keep(&mut presence, &["+/lock/0xA"]), [reaches("0xA")]);
    }

    #[test]
    fn wildcards_are_told_of_all_together() {
        let mut presence = PresenceTracker::default();
        let locks = || Some(KindSet::Only(Kind::lock()));
        assert_eq!(subscribe(&mut presence, "dev/lock/+"), [widely(locks())]);
        assert_eq!(subscribe(&mut presence, "#"), [widely(Some(KindSet::Any))]);
        assert_eq!(subscribe(&mut presence, "dev/#"), []);
        assert_eq!(keep(&mut presence, &["dev/#", "dev/lock/+"]), []);
        assert_eq!(keep(&mut presence, &["dev/lock/+"]), [widely(locks())]);
        assert_eq!(keep(&mut presence, &["dev/+/+/state"]), [widely(None)]);
        assert!(presence.0.is_none(), "nothing is left");
    }

    #[test]
    fn a_session_is_of_so_many_devices_and_no_more() {
        let (mut presence, mut calls) = (PresenceTracker::default(), Vec::new());
        for number in 0..DEVICES_PER_SESSION_MAX {
            assert!(presence.has_room_for(1));
            presence.connect(id(&number.to_string()), KindSet::Any, &mut calls);
        }
        assert!(!presence.has_room_for(1));
    }

    #[test]
    fn the_label_of_a_login_is_told_with_the_devices_that_it_names() {
        let (mut presence, mut calls) = (PresenceTracker::default(), Vec::new());
        let login = LoginDevices::Label("site".into(), "12".into());
        presence.subscribe(covered("+/lock/0xA"), &login, &mut calls);
        let reach = Reach { kind: KindSet::Only(Kind::lock()), login };
        assert_eq!(calls, [PresenceCall::Reaches(id("0xA"), Some(reach))]);
    }
}
