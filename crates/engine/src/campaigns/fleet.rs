//! What tasks and campaigns ask of the fleet as it is now.

use ::campaigns::DeviceSet;
use base::DeviceId;
use fleet::Selection;
use records::DevicePlace;

use super::search::plain;
use crate::FleetIndexes;

/// The fleet as its index knows it. The machine asks it while it steps: an answer is cheap, and
/// reads nothing of the store.
pub trait FleetView: Send + Sync {
    /// How many devices have a session.
    fn connected(&self) -> u64;

    /// The device that is kept there, if one is.
    fn device_id(&self, place: DevicePlace) -> Option<DeviceId>;

    /// The devices that are set aside for being mute.
    fn mute(&self) -> DeviceSet;

    /// A device is set aside for being mute, or no longer.
    fn set_answering(&self, place: DevicePlace, is_answering: bool);
}

impl FleetView for FleetIndexes {
    fn connected(&self) -> u64 {
        self.connected_len()
    }

    fn device_id(&self, place: DevicePlace) -> Option<DeviceId> {
        Self::device_id(self, place)
    }

    fn mute(&self) -> DeviceSet {
        plain(&self.evaluate(&Selection::parse("answering=false").expect("answering is a built-in key")))
    }

    fn set_answering(&self, place: DevicePlace, is_answering: bool) {
        Self::set_answering(self, place, is_answering);
    }
}
