//! Rollouts, and which devices they mean.

use base::Problem;
use fleet::{Selection, selection};

use super::Engine;
use crate::Rollouts;
use crate::kernel::partition_handle::PartitionHandle;
use crate::registry::RegistryInput;
use crate::rollouts::links::RolloutLinks;

impl Engine {
    /// The calls about rollouts.
    #[must_use]
    pub fn rollouts(&self) -> Rollouts {
        Rollouts::new(self.clone())
    }

    /// The devices that a selector and a place mean together; `None` where neither is given.
    ///
    /// # Errors
    /// `bad_selector` or `bad_place`.
    pub fn selection(
        &self,
        selector: Option<&str>,
        place: Option<&str>,
    ) -> Result<Option<Selection>, Problem> {
        let selector = selector.map(Selection::parse).transpose()?;
        let place = place.map(|place| selection::place(place, self.place_labels())).transpose()?;
        Ok(match (selector, place) {
            (Some(selector), Some(place)) => Some(selector.and(place)),
            (selector, place) => selector.or(place),
        })
    }

    /// How many devices there are.
    pub(crate) fn devices_registered(&self) -> u64 {
        let devices = self.shared.context.devices.stats.sum();
        devices.never_seen + devices.online + devices.lost
    }

    pub(crate) fn rollout_links(&self) -> &RolloutLinks {
        &self.shared.context.rollouts
    }

    pub(crate) fn registry(&self) -> &PartitionHandle<RegistryInput> {
        &self.shared.registry
    }

    /// Has places named by these labels, in this order. There is one such order: a second is not
    /// taken.
    pub fn name_places_by(&self, labels: Vec<String>) {
        let _there_is_one = self.shared.place_labels.set(labels);
    }

    /// The labels that the segments of a place are.
    #[must_use]
    pub fn place_labels(&self) -> &[String] {
        self.shared.place_labels.get().map_or(&[], Vec::as_slice)
    }
}
