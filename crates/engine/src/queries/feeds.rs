//! Feeds: events, deliveries and refused reports in order of time, of one device or over all
//! partitions.
//!
//! A feed never shows anything younger than what every partition has finished writing, so that
//! following a cursor misses nothing. A feed of labels, or of a client's events, is merged from
//! those of the devices where these are few. It is picked out of the whole where they are many.
//! What no index answers is looked for in a bounded number of items a page.

use std::cell::{Cell, RefCell};
use std::cmp::Ordering;
use std::collections::HashMap;

use base::{ClientId, DeviceId, Incarnation, PartitionId, Problem, Timestamp};
use records::{
    CommandKey, Delivery, DeliveryKey, DeliveryStatus, DeviceProfile, DeviceSlot, Event, EventKey, EventKind,
    NoticeKey, QuarantineKey, Quarantined,
};
use store::{FeedFilter, Page, StoreError, View};

use super::bounded::{BoundedPage, ScannedSource, bounded};
use super::merge::merge;
use super::{Queries, has_all, unreadable};

/// Devices of one partition whose feeds are merged; of more, the partition's feed is filtered. A
/// merged page reads from each of them.
const MERGED_DEVICES_MAX: usize = 64;

/// Which events a feed shows.
#[derive(Clone, Debug, Default)]
pub struct EventFilter {
    /// Of this device.
    pub device: Option<DeviceId>,
    /// Of devices that are linked to this client now.
    pub client: Option<ClientId>,
    /// Of devices that have each of these labels now.
    pub labels: Vec<(String, String)>,
    /// Of this kind.
    pub kind: Option<EventKind>,
}

/// Which deliveries a feed shows.
#[derive(Clone, Debug, Default)]
pub struct DeliveryFilter {
    /// To this client.
    pub client: Option<ClientId>,
    /// Of this device.
    pub device: Option<DeviceId>,
    /// Of devices that have each of these labels now.
    pub labels: Vec<(String, String)>,
    /// Of these, only devices that are linked to `client` now: whoever may see that client's own
    /// alone does not learn the labels of others.
    pub is_label_of_linked: bool,
    /// Standing here.
    pub status: Option<DeliveryStatus>,
    /// Made then or later.
    pub made_from: Option<Timestamp>,
}

/// A place in a feed that spans partitions: behind this item of this partition. Opaque to everyone
/// but this module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FeedKey<K> {
    /// The item's key.
    pub key: K,
    /// The partition it came from.
    pub partition: PartitionId,
}

/// The order of a feed's items within a partition.
pub trait FeedOrder: Copy + Ord {
    /// The place just before this one.
    #[must_use]
    fn previous(self) -> Self;
    /// The place just behind this one.
    #[must_use]
    fn next(self) -> Self;
}

macro_rules! feed_order {
    ($($key:ident),*) => {$(
        impl FeedOrder for $key {
            fn previous(self) -> Self {
                match self.number.checked_sub(1) {
                    Some(number) => Self { number, ..self },
                    None => Self { at: Timestamp(self.at.0.saturating_sub(1)), number: u32::MAX },
                }
            }

            fn next(self) -> Self {
                match self.number.checked_add(1) {
                    Some(number) => Self { number, ..self },
                    None => Self { at: Timestamp(self.at.0.saturating_add(1)), number: 0 },
                }
            }
        }
    )*};
}
feed_order!(EventKey, DeliveryKey, QuarantineKey, CommandKey, NoticeKey);

/// A part of a feed, with the places of its items.
pub type BoundedFeedPage<K, T> = BoundedPage<(FeedKey<K>, T), FeedKey<K>>;

impl Queries {
    /// Events by time; as far as a bounded number that are looked at leads, where not all are asked
    /// for. The same for every feed here.
    ///
    /// # Errors
    /// 404 for an unknown device or client; see [`Queries::device`].
    pub fn events(
        &self,
        filter: &EventFilter,
        page: Page<FeedKey<EventKey>>,
    ) -> Result<BoundedFeedPage<EventKey, Event>, Problem> {
        let linked = filter.client.as_ref().map(|client| self.known_client(client)).transpose()?;
        let of = FeedScope { device: filter.device.as_ref(), client: None, linked, labels: &filter.labels };
        let keep = |event: &Event| filter.kind.is_none_or(|kind| event.kind == kind);
        let kept = ItemFilter {
            keep: filter.kind.is_some().then_some(&keep),
            device: |event: &Event| &event.device,
            read_max: usize::MAX,
            cost: |_| 1,
        };
        self.feed(&of, page, &kept, |view, whose, page| {
            let events = view.events(whose, page, &|_| true)?;
            Ok(events.into_iter().map(|event| (EventKey::from(event.id), event)).collect())
        })
    }

    /// Deliveries by time of making.
    ///
    /// # Errors
    /// 404 for an unknown device or client; see [`Queries::device`].
    pub fn deliveries(
        &self,
        filter: &DeliveryFilter,
        page: Page<FeedKey<DeliveryKey>>,
    ) -> Result<BoundedFeedPage<DeliveryKey, Delivery>, Problem> {
        let client = filter.client.as_ref().map(|client| self.known_client(client)).transpose()?;
        let linked = client.filter(|_| filter.is_label_of_linked && !filter.labels.is_empty());
        let of = FeedScope { device: filter.device.as_ref(), client, linked, labels: &filter.labels };
        let page = Page { from: filter.made_from.map_or(page.from, |from| from.max(page.from)), ..page };
        let keep =
            |delivery: &Delivery| filter.status.is_none_or(|status| delivery.progress.status == status);
        let kept = ItemFilter {
            keep: filter.status.is_some().then_some(&keep),
            device: |delivery: &Delivery| &delivery.device,
            read_max: usize::MAX,
            cost: |_| 1,
        };
        self.feed(&of, page, &kept, |view, whose, page| {
            let deliveries = view.deliveries(whose, page, &|_| true)?;
            Ok(deliveries.into_iter().map(|delivery| (DeliveryKey::from(delivery.id), delivery)).collect())
        })
    }

    /// Refused reports by time.
    ///
    /// # Errors
    /// See [`Queries::device`].
    pub fn quarantine(
        &self,
        page: Page<FeedKey<QuarantineKey>>,
    ) -> Result<Vec<(FeedKey<QuarantineKey>, Quarantined)>, Problem> {
        let parts = self.parts(&FeedScope::default())?;
        let page = Page { to: page.to.min(self.engine.feed_end()), ..page };
        let sources: Vec<_> = parts.iter().map(|part| (part, None)).collect();
        merged(&page, &sources, None, |view, _, page| {
            let reports = view.quarantined(page)?;
            Ok(reports.into_iter().map(|report| (QuarantineKey::from(report.id), report)).collect())
        })
    }

    /// A feed's page: of one device's partition, or merged over all.
    pub(super) fn feed<K: FeedOrder, T>(
        &self,
        of: &FeedScope<'_>,
        page: Page<FeedKey<K>>,
        kept: &ItemFilter<'_, T>,
        read: impl Fn(&dyn View, FeedFilter, Page<K>) -> Result<Vec<(K, T)>, StoreError>,
    ) -> Result<BoundedFeedPage<K, T>, Problem> {
        let page = Page { to: page.to.min(self.engine.feed_end()), ..page };
        let parts = self.parts(of)?;
        let slots =
            |part: &FeedPart| part.slots.as_ref().map(|slots| slots.iter().copied().map(Some).collect());
        let sources: Vec<Source<'_>> = parts
            .iter()
            .flat_map(|part| {
                slots(part).unwrap_or_else(|| vec![None]).into_iter().map(move |slot| (part, slot))
            })
            .collect();
        let is_narrowed = of.is_narrowed() && parts.iter().any(|part| part.slots.is_none());
        if kept.keep.is_none() && !is_narrowed {
            return merged(&page, &sources, of.client, read).map(BoundedPage::indexed);
        }
        let suits: Vec<_> = sources.iter().map(|(part, _)| Suits::new(of, part)).collect();
        let before = |a: &FeedKey<K>, b: &FeedKey<K>| if page.ascending { a < b } else { a > b };
        let chunk = bounded(sources.len(), (page.limit, self.cost_max), before, |at, behind, rows| {
            let (part, device) = sources[at];
            let here = Page { after: behind.copied().or(page.after), ..page };
            let here = part_of(&here, part.partition);
            let suits = &suits[at];
            let is_kept =
                |item: &T| kept.keep.is_none_or(|keep| keep(item)) && suits.suits((kept.device)(item));
            let whose = FeedFilter { device, client: of.client };
            let looked = look(here, rows, kept, is_kept, |page| read(&*part.view, whose, page));
            let looked = looked.map_err(unreadable)?;
            suits.failed.take().map_or(Ok(()), Err).map_err(unreadable)?;
            let place = |key| FeedKey { key, partition: part.partition };
            Ok(ScannedSource {
                found: looked.found.into_iter().map(|(key, item)| (place(key), item)).collect(),
                rows: looked.rows,
                cost: looked.cost,
                until: looked.until.map(place),
            })
        })?;
        let found = chunk.found.into_iter().map(|(_, key, item)| (key, item)).collect();
        Ok(BoundedPage { found, next: chunk.next, looked_at: chunk.looked_at, cost: chunk.cost })
    }

    /// The partitions that a feed reads.
    fn parts(&self, of: &FeedScope<'_>) -> Result<Vec<FeedPart>, Problem> {
        if let Some(id) = of.device {
            let (view, profile) = self.known_device(id)?;
            let slots = of.is_of(&profile).then_some(profile.slot).into_iter().collect();
            return Ok(vec![FeedPart { partition: self.partition_of(id), view, slots: Some(slots) }]);
        }
        let part = |partition| {
            let view = self.view(partition)?;
            Ok(FeedPart { partition, slots: of.few(&*view).map_err(unreadable)?, view })
        };
        self.partitions().map(part).collect()
    }
}

/// Whose items a feed shows.
#[derive(Default)]
pub(super) struct FeedScope<'a> {
    pub(super) device: Option<&'a DeviceId>,
    /// To whom they are; there is an index.
    pub(super) client: Option<Incarnation>,
    /// To whom their devices are linked.
    pub(super) linked: Option<Incarnation>,
    pub(super) labels: &'a [(String, String)],
}

impl FeedScope<'_> {
    /// Whether only some devices are meant.
    fn is_narrowed(&self) -> bool {
        self.linked.is_some() || !self.labels.is_empty()
    }

    fn is_of(&self, profile: &DeviceProfile) -> bool {
        self.linked.is_none_or(|client| profile.clients.contains(&client)) && has_all(profile, self.labels)
    }

    /// The devices that are meant, if only some are and these are few.
    fn few(&self, view: &dyn View) -> Result<Option<Vec<DeviceSlot>>, StoreError> {
        let most = MERGED_DEVICES_MAX + 1;
        let devices = match (self.labels.first(), self.linked) {
            (Some((key, value)), _) => view.devices_with((key, value), None, most)?,
            (None, Some(client)) => view.devices_of(client, None, most)?,
            (None, None) => return Ok(None),
        };
        let slots = devices.iter().filter(|profile| self.is_of(profile)).map(|profile| profile.slot);
        Ok((devices.len() < most).then(|| slots.collect()))
    }
}

/// Which items of a feed are kept, besides those of devices that are not meant.
pub(super) struct ItemFilter<'a, T> {
    /// All of them without.
    pub(super) keep: Option<&'a dyn Fn(&T) -> bool>,
    /// Whose an item is.
    pub(super) device: fn(&T) -> &DeviceId,
    /// Items that are in memory at a time, as far as they may be dropped again.
    pub(super) read_max: usize,
    /// What it costs to look at an item: 1, or as many rows as it takes the place of.
    pub(super) cost: fn(&T) -> usize,
}

/// One partition's share of a feed.
struct FeedPart {
    partition: PartitionId,
    view: Box<dyn View>,
    /// The devices whose feeds are merged; without, the partition's own is filtered.
    slots: Option<Vec<DeviceSlot>>,
}

/// A feed of a partition, or of one of its devices.
type Source<'a> = (&'a FeedPart, Option<DeviceSlot>);

/// A page of several feeds of which everything is shown.
fn merged<K: FeedOrder, T>(
    page: &Page<FeedKey<K>>,
    sources: &[Source<'_>],
    client: Option<Incarnation>,
    read: impl Fn(&dyn View, FeedFilter, Page<K>) -> Result<Vec<(K, T)>, StoreError>,
) -> Result<Vec<(FeedKey<K>, T)>, Problem> {
    let before = |a: &FeedKey<K>, b: &FeedKey<K>| if page.ascending { a < b } else { a > b };
    let merged = merge(sources.len(), page.limit, before, |at, last: Option<&FeedKey<K>>, limit| {
        let (part, device) = sources[at];
        let here = part_of(page, part.partition);
        let here = Page { after: last.map(|last| last.key).or(here.after), limit, ..here };
        let found = read(&*part.view, FeedFilter { device, client }, here).map_err(unreadable)?;
        let place = |key| FeedKey { key, partition: part.partition };
        Ok(found.into_iter().map(|(key, item)| (place(key), item)).collect())
    })?;
    Ok(merged.into_iter().map(|(_, key, item)| (key, item)).collect())
}

/// Looks at rows of one feed for items that are kept, at the cost of so many.
fn look<K: FeedOrder, T>(
    page: Page<K>,
    rows: usize,
    kept: &ItemFilter<'_, T>,
    is_kept: impl Fn(&T) -> bool,
    read: impl Fn(Page<K>) -> Result<Vec<(K, T)>, StoreError>,
) -> Result<ScannedSource<K, T>, StoreError> {
    let mut looked = ScannedSource { found: Vec::new(), rows: 0, cost: 0, until: None };
    let mut after = page.after;
    loop {
        let limit = (rows - looked.cost).min(kept.read_max);
        let some = read(Page { after, limit, ..page })?;
        let has_ended = some.len() < limit;
        looked.rows += some.len();
        looked.cost += some.iter().map(|(_, item)| (kept.cost)(item)).sum::<usize>();
        after = some.last().map(|(key, _)| *key).or(after);
        looked.found.extend(some.into_iter().filter(|(_, item)| is_kept(item)));
        if has_ended || looked.cost >= rows {
            looked.until = after.filter(|_| !has_ended);
            return Ok(looked);
        }
    }
}

/// Whether a device is among those that are meant, asked once for each.
struct Suits<'a> {
    of: &'a FeedScope<'a>,
    view: &'a dyn View,
    is_wanted: bool,
    known: RefCell<HashMap<DeviceId, bool>>,
    failed: Cell<Option<StoreError>>,
}

impl<'a> Suits<'a> {
    fn new(of: &'a FeedScope<'a>, part: &'a FeedPart) -> Self {
        let is_wanted = of.is_narrowed() && part.slots.is_none();
        Self { of, view: &*part.view, is_wanted, known: RefCell::default(), failed: Cell::new(None) }
    }

    fn suits(&self, id: &DeviceId) -> bool {
        if !self.is_wanted {
            return true;
        }
        if let Some(known) = self.known.borrow().get(id) {
            return *known;
        }
        let suits = match self.view.device(id) {
            Ok(profile) => profile.is_some_and(|profile| self.of.is_of(&profile)),
            Err(error) => {
                // A later one is the same failure again.
                self.failed.set(Some(error));
                false
            }
        };
        self.known.borrow_mut().insert(id.clone(), suits);
        suits
    }
}

/// The part of a feed's page that one partition has: items of equal key are ordered by partition.
pub(super) fn part_of<K: FeedOrder>(page: &Page<FeedKey<K>>, partition: PartitionId) -> Page<K> {
    let after =
        page.after.map(|FeedKey { key, partition: last }| match (page.ascending, partition.cmp(&last)) {
            (_, Ordering::Equal) | (true, Ordering::Less) | (false, Ordering::Greater) => key,
            (true, Ordering::Greater) => key.previous(),
            (false, Ordering::Less) => key.next(),
        });
    Page { from: page.from, to: page.to, ascending: page.ascending, after, limit: page.limit }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_in_a_merged_feed_is_the_same_in_every_partition() {
        let key = |at, number| EventKey { at: Timestamp(at), number };
        let after = |ascending, partition| {
            let page = Page {
                from: Timestamp(0),
                to: Timestamp::MAX,
                ascending,
                after: Some(FeedKey { key: key(5, 0), partition: PartitionId(3) }),
                limit: 10,
            };
            part_of(&page, PartitionId(partition)).after
        };
        for (ascending, partition, expect) in [
            (true, 2, key(5, 0)),
            (true, 3, key(5, 0)),
            (true, 4, key(4, u32::MAX)),
            (false, 2, key(5, 1)),
            (false, 3, key(5, 0)),
            (false, 4, key(5, 0)),
        ] {
            assert_eq!(
                after(ascending, partition),
                Some(expect),
                "ascending {ascending}, partition {partition}"
            );
        }
    }
}
