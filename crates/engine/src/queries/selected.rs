//! Devices of a selection, in order of id: what the index knows is not looked for row by row.
//!
//! Few devices are put in order by their ids, which the index has, and only those of the page are
//! read. Where there are many, the rows in order of id are looked at until the page is full. Any
//! list that filters behind its index does so.

use base::{DeviceId, Problem};
use fleet::Selection;
use fleet::index::DeviceSet;
use fleet::selection::{Requirement, SelectionKey, Test, truth};
use records::{DevicePlace, DeviceProfile};
use store::View;

use super::refused::RefusedDevices;
use super::{BoundedPage, DeviceDetails, DeviceFilter, PartitionView, Queries, unreadable};

/// Devices that are put in order, at most, for each row that a page may look at: it costs less than
/// a fifth of that. Of a fleet in which more are meant, a page finds its share among its rows.
const SORTED_PER_ROW: usize = 5;

impl Queries {
    /// The devices that a filter's selection means, if they are few.
    pub(super) fn few_selected(&self, filter: &DeviceFilter) -> Option<DeviceSet> {
        let found = self.engine.fleet().evaluate(&filter.selected()?);
        (found.len() <= (self.cost_max * SORTED_PER_ROW) as u64).then_some(found)
    }

    /// A page of some devices, as far as they match a filter.
    pub(super) fn devices_among(
        &self,
        devices: &DeviceSet,
        (filter, refused): (&DeviceFilter, Option<&RefusedDevices>),
        after: Option<&DeviceId>,
        limit: usize,
    ) -> Result<BoundedPage<DeviceDetails, DeviceId>, Problem> {
        let mut ids = self.engine.fleet().device_ids(devices);
        let prefix = filter.id_prefix.as_deref().unwrap_or_default();
        ids.retain(|(id, _)| after.is_none_or(|after| after < id) && id.as_str().starts_with(prefix));
        let read_in_vain = filter.asks_more_than_the_index() || refused.is_some();
        let cost_max = if read_in_vain { self.cost_max.max(limit) } else { limit };
        let more = ids.len() > cost_max;
        if more {
            ids.select_nth_unstable(cost_max);
            ids.truncate(cost_max);
        }
        ids.sort_unstable();
        let views = self.views()?;
        let (mut found, mut looked_at, mut last) = (Vec::new(), 0, None);
        let mut left = ids.into_iter();
        while found.len() < limit
            && let Some((id, place)) = left.next()
        {
            looked_at += 1;
            if !refused.is_some_and(|refused| refused.contains(&id)) {
                found.extend(self.read_selected(&views, (&id, place), filter)?);
            }
            last = Some(id);
        }
        let goes_on = (more || left.len() > 0) && found.len() < limit;
        let (next, cost) = (last.filter(|_| goes_on), if read_in_vain { looked_at } else { 0 });
        Ok(BoundedPage { found, next, looked_at: read_in_vain.then_some(looked_at as u64), cost })
    }

    /// A device that the index has, unless it is another one by now, or matches no longer.
    fn read_selected(
        &self,
        views: &[PartitionView],
        (id, place): (&DeviceId, DevicePlace),
        filter: &DeviceFilter,
    ) -> Result<Option<DeviceDetails>, Problem> {
        let Some((partition, view)) = views.get(usize::from(place.partition.0)) else { return Ok(None) };
        let profile = view.device(id).map_err(unreadable)?;
        let Some(profile) = profile.filter(|profile| profile.slot == place.slot) else { return Ok(None) };
        if !filter.suits_state(&**view, &profile)? {
            return Ok(None);
        }
        self.with_state(*partition, &**view, profile).map(Some)
    }

    /// Whether a list with this filter shows a device.
    pub(super) fn suits(
        &self,
        filter: &DeviceFilter,
        (partition, view): (base::PartitionId, &dyn View),
        profile: &DeviceProfile,
    ) -> Result<bool, Problem> {
        let place = DevicePlace { partition, slot: profile.slot };
        let is_meant = |selection: &Selection| self.engine.fleet().matches(place, selection);
        Ok(filter.suits(profile)
            && filter.connected.is_none_or(|wanted| self.is_connected(partition, profile.slot) == wanted)
            && filter.selection.as_ref().is_none_or(is_meant)
            && filter.suits_state(view, profile)?)
    }
}

impl DeviceFilter {
    /// All that an index knows of what is asked, if there is a selection.
    fn selected(&self) -> Option<Selection> {
        let is = |key, value: &str| Requirement { key, test: Test::In([value.into()].into()) };
        let label = |(key, value): &(String, String)| is(SelectionKey::Label(key.as_str().into()), value);
        let kind = self.kind.as_ref().map(|kind| is(SelectionKey::Kind, kind.as_str()));
        let connection = self.connection.map(|wanted| is(SelectionKey::Connection, wanted.as_str()));
        let connected = self.connected.map(|wanted| is(SelectionKey::Connected, truth(wanted)));
        let short = self.labels.iter().map(label).chain(kind).chain(connection).chain(connected);
        Some(self.selection.clone()?.and(short.collect()))
    }

    /// Whether rows have to be read to know which devices match.
    fn asks_more_than_the_index(&self) -> bool {
        self.waiting.is_some() || self.last_seen_before.is_some()
    }
}
