//! Who can be reached.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::DeviceId;
use engine::devices::sessions::PresenceChange;
use engine::presence::{LoginDevices, Reach};

use crate::commands::plan::kind_of;

/// The live sessions, as far as they reach somebody.
#[derive(Clone, Debug, Default)]
pub(crate) struct Presence {
    named: BTreeMap<(DeviceId, u64), Reach>,
    wide: BTreeMap<u64, Arc<[Reach]>>,
}

impl Presence {
    pub(crate) fn apply(&mut self, change: &PresenceChange) {
        match change {
            PresenceChange::Connected(..) => {}
            PresenceChange::Disconnected(device, session, _) => {
                self.named.remove(&(device.clone(), *session));
            }
            PresenceChange::Reaches(device, session, None) => {
                self.named.remove(&(device.clone(), *session));
            }
            PresenceChange::Reaches(device, session, Some(reach)) => {
                self.named.insert((device.clone(), *session), reach.clone());
            }
            PresenceChange::ReachesWidely(session, reach) => {
                self.wide.insert(*session, Arc::clone(reach));
            }
        }
    }

    /// Whether a session has a subscription that covers the topic of this device's commands.
    pub(crate) fn reaches(&self, device: &DeviceId) -> bool {
        let kind = kind_of(device);
        let named = self.named.iter().filter(|((of, _), _)| of == device);
        let covers = |reach: &Reach| {
            reach.kind.covers(&kind)
                && match &reach.login {
                    LoginDevices::All => true,
                    LoginDevices::Device(one) => one == device,
                    LoginDevices::Prefix(prefix) => device.as_str().starts_with(&**prefix),
                    LoginDevices::Label(..) => false,
                }
        };
        let named = named.map(|(_, reach)| reach);
        named.chain(self.wide.values().flat_map(|reach| reach.iter())).any(covers)
    }
}
