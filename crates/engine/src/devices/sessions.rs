//! The live sessions of devices, and whom they reach.

use std::sync::{Arc, Mutex, MutexGuard};

use base::locks::locked;
use base::{DeviceId, Kind, PartitionId, Timestamp};
use records::{DeviceProfile, DisconnectReason};
use smallvec::SmallVec;

use crate::kernel::hashed::HashMap;
use crate::presence::{KindSet, LoginDevices, Reach, Session};

/// What an edge tells of its sessions.
#[derive(Clone, Debug)]
pub enum PresenceChange {
    /// A session of a device began then; its own only if the device is of one of these kinds.
    Connected(DeviceId, KindSet, Session, Timestamp),
    /// A session of a device ended.
    Disconnected(DeviceId, u64, DisconnectReason),
    /// A session names the topic of a device's commands, or no longer.
    Reaches(DeviceId, u64, Option<Reach>),
    /// All that a session reaches by wildcards.
    ReachesWidely(u64, Arc<[Reach]>),
}

/// A session as one device sees it.
#[derive(Clone, Debug)]
pub(super) struct Present {
    pub(super) session: u64,
    /// Where it is and since when, if the session is the device's own; what only reaches the device
    /// may be another's.
    pub(super) own: Option<(Session, Timestamp)>,
    /// It is the own one only of a device of these kinds.
    own_kinds: KindSet,
    /// The device lacks the label of the session's login: while that is so, the session is not its
    /// own.
    is_barred: bool,
    pub(super) reach: Option<Reach>,
}

/// What new labels of a device did to its sessions.
#[derive(Debug, Default)]
pub(super) struct RelabelledSessions {
    /// Those whose logins speak for it no longer, and since when they were its own.
    pub(super) barred: Vec<(Session, Timestamp)>,
    /// Those whose logins speak for it again, and since when they live.
    pub(super) back: Vec<(Session, Timestamp)>,
}

/// The live sessions that concern devices of a partition.
#[derive(Clone, Debug, Default)]
pub(crate) struct PartitionSessions {
    by_device: HashMap<DeviceId, SmallVec<[Present; 1]>>,
    wide: Vec<(u64, Arc<[Reach]>)>,
}

impl PartitionSessions {
    pub(super) fn apply(&mut self, change: &PresenceChange) {
        match change {
            PresenceChange::Connected(device, kinds, session, since) => {
                let present = self.present(device, session.number);
                // Told again, it may be the own one of a device of more kinds.
                let since = present.own.as_ref().map_or(*since, |(_, since)| *since);
                (present.own, present.is_barred) = (Some((session.clone(), since)), false);
                present.own_kinds.clone_from(kinds);
            }
            PresenceChange::Disconnected(device, session, _) => {
                self.change(device, |present| present.retain(|one| one.session != *session));
            }
            PresenceChange::Reaches(device, session, None) => self.change(device, |present| {
                present.retain(|one| {
                    one.reach = one.reach.take().filter(|_| one.session != *session);
                    one.reach.is_some() || one.own.is_some()
                });
            }),
            PresenceChange::Reaches(device, session, reach) => {
                self.present(device, *session).reach.clone_from(reach);
            }
            PresenceChange::ReachesWidely(session, reach) => {
                self.wide.retain(|(of, _)| of != session);
                if !reach.is_empty() {
                    self.wide.push((*session, Arc::clone(reach)));
                }
            }
        }
    }

    fn present(&mut self, device: &DeviceId, session: u64) -> &mut Present {
        let present = self.by_device.entry(device.clone()).or_default();
        let at = present.iter().position(|one| one.session == session).unwrap_or_else(|| {
            let own_kinds = KindSet::among([]);
            present.push(Present { session, own: None, own_kinds, is_barred: false, reach: None });
            present.len() - 1
        });
        &mut present[at]
    }

    fn change(&mut self, device: &DeviceId, change: impl FnOnce(&mut SmallVec<[Present; 1]>)) {
        let Some(present) = self.by_device.get_mut(device) else { return };
        change(present);
        if present.is_empty() {
            self.by_device.remove(device);
        }
    }

    /// The own sessions of a device of this kind, oldest first. A device that is not registered may
    /// be of any.
    pub(super) fn own(
        &self,
        device: &DeviceId,
        kind: Option<&Kind>,
    ) -> impl Iterator<Item = &(Session, Timestamp)> {
        let present = self.by_device.get(device).into_iter().flatten();
        let is_own =
            move |one: &&Present| !one.is_barred && kind.is_none_or(|kind| one.own_kinds.covers(kind));
        present.filter(is_own).filter_map(|one| one.own.as_ref())
    }

    /// Whether a label decides if a session is the device's own.
    pub(super) fn has_labelled(&self, device: &DeviceId) -> bool {
        let mut present = self.by_device.get(device).into_iter().flatten();
        present.any(|one| one.own.as_ref().is_some_and(|(session, _)| session.label.is_some()))
    }

    /// The device has these labels now: which of its sessions are its own follows from them.
    pub(super) fn relabel(&mut self, profile: &DeviceProfile) -> RelabelledSessions {
        let mut relabelled = RelabelledSessions::default();
        for one in self.by_device.get_mut(&profile.id).into_iter().flatten() {
            let Some(own) = &one.own else { continue };
            let is_barred =
                own.0.label.as_deref().is_some_and(|(key, value)| !has_label(profile, key, value));
            let was_barred = std::mem::replace(&mut one.is_barred, is_barred);
            if !one.own_kinds.covers(&profile.kind) {
                continue;
            }
            match (was_barred, is_barred) {
                (false, true) => relabelled.barred.push(own.clone()),
                (true, false) => relabelled.back.push(own.clone()),
                (false, false) | (true, true) => {}
            }
        }
        relabelled
    }

    /// Whether a session names the topic of the commands of this device, which is of this kind.
    /// `profile` is asked for only where labels decide.
    pub(super) fn reaches<E>(
        &self,
        device: &DeviceId,
        kind: &Kind,
        profile: impl Fn() -> Result<Option<Arc<DeviceProfile>>, E>,
    ) -> Result<bool, E> {
        let present = self.by_device.get(device).into_iter().flatten();
        any_covers(present.filter_map(|one| one.reach.as_ref()), (device, kind), profile)
    }

    /// Whether a session reaches the device by a wildcard; as [`PartitionSessions::reaches`].
    pub(super) fn reaches_widely<E>(
        &self,
        device: &DeviceId,
        kind: &Kind,
        profile: impl Fn() -> Result<Option<Arc<DeviceProfile>>, E>,
    ) -> Result<bool, E> {
        any_covers(self.wide.iter().flat_map(|(_, reach)| reach.iter()), (device, kind), profile)
    }

    /// The devices with sessions of their own, also where a label or the kind bars these.
    pub(super) fn connected(&self) -> impl Iterator<Item = &DeviceId> {
        let own = self.by_device.iter().filter(|(_, present)| present.iter().any(|one| one.own.is_some()));
        own.map(|(device, _)| device)
    }

    /// Whether any session reaches devices by wildcards.
    pub(super) fn has_wide(&self) -> bool {
        !self.wide.is_empty()
    }
}

/// Whether a device is within reach. Its profile is read once at most.
fn any_covers<'a, E>(
    mut reach: impl Iterator<Item = &'a Reach>,
    (device, kind): (&DeviceId, &Kind),
    profile: impl Fn() -> Result<Option<Arc<DeviceProfile>>, E>,
) -> Result<bool, E> {
    let mut known = None;
    while let Some(Reach { login, .. }) = reach.find(|reach| reach.kind.covers(kind)) {
        let covers = match login {
            LoginDevices::All => true,
            LoginDevices::Device(one) => one == device,
            LoginDevices::Prefix(prefix) => device.as_str().starts_with(&**prefix),
            LoginDevices::Label(key, value) => {
                if known.is_none() {
                    known = Some(profile()?);
                }
                known.iter().flatten().any(|profile| has_label(profile, key, value))
            }
        };
        if covers {
            return Ok(true);
        }
    }
    Ok(false)
}

fn has_label(profile: &DeviceProfile, key: &str, value: &str) -> bool {
    profile.labels.iter().any(|(its_key, its_value)| its_key == key && its_value == value)
}

/// The sessions of every partition as the edges last told them: a partition that is loaded again
/// begins with these.
#[derive(Debug)]
pub(crate) struct SessionTable {
    partitions: Box<[Mutex<PartitionSessions>]>,
}

impl SessionTable {
    pub(crate) fn new(partitions: u16) -> Self {
        Self { partitions: (0..partitions).map(|_| Mutex::default()).collect() }
    }

    pub(crate) fn note(&self, partition: PartitionId, change: &PresenceChange) {
        self.of(partition).apply(change);
    }

    /// Whether a session covers the topic of a device's commands.
    pub(crate) fn can_be_reached<E>(
        &self,
        partition: PartitionId,
        device: &DeviceId,
        profile: impl Fn() -> Result<Option<Arc<DeviceProfile>>, E>,
    ) -> Result<bool, E> {
        // The store is not read under the lock.
        let concerned = {
            let sessions = self.of(partition);
            let present = sessions.by_device.get_key_value(device);
            let present = present.map(|(device, present)| (device.clone(), present.clone()));
            PartitionSessions { by_device: present.into_iter().collect(), wide: sessions.wide.clone() }
        };
        if concerned.by_device.is_empty() && !concerned.has_wide() {
            return Ok(false);
        }
        let Some(known) = profile()? else { return Ok(false) };
        let profile = || Ok(Some(Arc::clone(&known)));
        Ok(concerned.reaches(device, &known.kind, profile)?
            || concerned.reaches_widely(device, &known.kind, profile)?)
    }

    pub(crate) fn sessions(&self, partition: PartitionId) -> PartitionSessions {
        self.of(partition).clone()
    }

    fn of(&self, partition: PartitionId) -> MutexGuard<'_, PartitionSessions> {
        locked(&self.partitions[usize::from(partition.0)])
    }
}
