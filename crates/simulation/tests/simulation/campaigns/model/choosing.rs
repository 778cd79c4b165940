//! Whom tasks pick: devices of each value alike, and those of a panel again.
//!
//! Both are looked at where every device that is kept is found by every search.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use base::Incarnation;
use records::{DevicePlace, Pick, PickOutcome};

use super::{Made, Model, TrackedCampaign, TrackedTask};
use crate::campaigns::plan::VALUES;
use crate::campaigns::world::place_of;
use crate::harness::violation::{Checked, Invariant};

/// Campaigns as they were before a batch.
type Before = BTreeMap<Box<str>, Rc<TrackedCampaign>>;

impl Model {
    /// The picks of these tasks, some of which this batch has made.
    pub(super) fn check_chosen(
        &mut self,
        before: &Before,
        touched: &BTreeSet<Incarnation>,
        made: Made,
    ) -> Checked {
        if !self.rules.finds_all {
            return Ok(());
        }
        for task in touched {
            let Some(tracked) = self.tasks.get(task).cloned() else { continue };
            if tracked.made_in.values().all(|seq| *seq < made.seq) {
                continue;
            }
            self.check_spread(&tracked)?;
            if tracked.made_in.values().all(|seq| *seq == made.seq)
                && self.picks_alone(&tracked, touched, made)
            {
                self.check_panel(before, &tracked)?;
            }
        }
        Ok(())
    }

    /// No value has two more than another one that has a device left.
    fn check_spread(&mut self, tracked: &TrackedTask) -> Checked {
        let Some(terms) = self.terms.get(&tracked.task.terms) else { return Ok(()) };
        let dropped =
            |pick: &Pick| pick.end.as_ref().is_some_and(|end| !matches!(end.outcome, PickOutcome::Answered));
        if terms.spread_by.is_none() || tracked.picks.values().any(dropped) || self.may_be_panel(tracked) {
            return Ok(());
        }
        let taken: BTreeSet<_> = tracked.picks.values().map(|pick| pick.place).collect();
        let is_named = |place: DevicePlace| {
            let id = crate::campaigns::world::device_id(place.slot.0);
            terms.devices.as_ref().is_none_or(|devices| devices.contains(&id))
        };
        let places: Vec<_> = (0..self.rules.devices).map(place_of).filter(|place| is_named(*place)).collect();
        let of_value =
            |value: u32| places.iter().copied().filter(move |place| place.slot.0 % VALUES == value);
        let has = |value| of_value(value).filter(|place| taken.contains(place)).count();
        let has_left =
            |value| of_value(value).any(|place| !taken.contains(&place) && !self.gone.contains(&place));
        let most = (0..VALUES).map(has).max().unwrap_or(0);
        let least = (0..VALUES).filter(|value| has_left(*value)).map(has).min();
        let holds = least.is_none_or(|least| most <= least + 1);
        self.counts.spread_evenly += u64::from((0..VALUES).filter(|value| has(*value) > 0).count() > 1);
        Invariant::SPREAD_IS_EVEN.check(holds, || format!("{most} and {least:?} of values: {tracked:?}"))
    }

    /// Whether a slot may have picked the devices of a panel first.
    fn may_be_panel(&self, tracked: &TrackedTask) -> bool {
        let Some(slot) = tracked.task.slot else { return false };
        let campaign = self.campaigns.values().find(|one| one.campaign.incarnation == slot.campaign);
        campaign.is_none_or(|one| one.campaign.is_panel || one.campaign.terms != tracked.task.terms)
    }

    /// Whether no other slot of its campaign has picked in this batch.
    fn picks_alone(&self, tracked: &TrackedTask, touched: &BTreeSet<Incarnation>, made: Made) -> bool {
        let Some(slot) = tracked.task.slot else { return false };
        let picks = |other: &&Rc<TrackedTask>| {
            let of_campaign = other.task.slot.is_some_and(|other| other.campaign == slot.campaign);
            of_campaign && other.made_in.values().any(|seq| *seq == made.seq)
        };
        touched.iter().filter_map(|task| self.tasks.get(task)).filter(picks).count() == 1
    }

    /// The first picks of a slot of a panel are the devices of the slot before.
    fn check_panel(&mut self, before: &Before, tracked: &TrackedTask) -> Checked {
        let Some(slot) = tracked.task.slot else { return Ok(()) };
        let is_its = |one: &&Rc<TrackedCampaign>| one.campaign.incarnation == slot.campaign;
        let (Some(was), Some(now)) = (before.values().find(is_its), self.campaigns.values().find(is_its))
        else {
            return Ok(());
        };
        let panel = was.state.as_ref().and_then(|state| state.panel);
        let Some(panel) = panel.and_then(|panel| self.tasks.get(&panel)) else { return Ok(()) };
        let is_as_before = was.campaign == now.campaign && panel.task.terms == tracked.task.terms;
        if !now.campaign.is_panel || !is_as_before || now.campaign.terms != tracked.task.terms {
            return Ok(());
        }
        let Some(count) = self.terms.get(&tracked.task.terms).map(|terms| terms.count) else { return Ok(()) };
        let members = panel.picks.values().take(count as usize).map(|pick| pick.place);
        let stay: Vec<_> = members.filter(|place| !self.gone.contains(place)).collect();
        let picked: BTreeSet<_> = tracked.picks.values().map(|pick| pick.place).collect();
        let holds = stay.iter().take(picked.len()).all(|place| picked.contains(place));
        self.counts.panels_kept += u64::from(!stay.is_empty());
        Invariant::PANELS_STAY.check(holds, || format!("{stay:?} are the panel, {picked:?} are picked"))
    }
}
