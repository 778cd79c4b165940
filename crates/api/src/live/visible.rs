//! Devices and queues that a page shows, as a stream sends them: those that changed since.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use base::{ClientId, DeviceId, Incarnation, Problem};
use engine::followers::live::DevicePlace;
use engine::queues::{QueueName, QueueRates, QueueStats};

use super::LiveLook;
use super::digest::digest;
use super::feed::MESSAGE_BYTES_MAX;
use super::memo::{KnownRow, RowKey, SharedRow};
use crate::ApiState;
use crate::shape::{DeviceShape, QueueShape};

/// A page is told again when its oldest job has become ready by so much earlier or later. It may be
/// less because the times of some jobs are of a clock that is set.
const OLDEST_READY_STEP: Duration = Duration::from_secs(1);

/// A page is told again of rates that differ by more than this share.
const RATE_SHARE_SEEN: f64 = 0.05;

/// What a stream sends of them.
#[derive(Debug, Default)]
pub(super) struct VisibleChanges {
    /// JSON texts with commas between.
    pub(super) items: Vec<u8>,
    /// Ids of devices that are gone, as JSON texts with commas between.
    pub(super) gone: Vec<u8>,
    /// There is more to send.
    pub(super) more: bool,
}

impl VisibleChanges {
    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty() && self.gone.is_empty()
    }
}

/// The devices that a page shows.
#[derive(Debug)]
pub(super) struct VisibleDevices {
    ids: BTreeMap<DevicePlace, DeviceId>,
    /// Those that may have changed and were not sent yet.
    waiting: BTreeSet<DevicePlace>,
    /// Of these the ones that another stream had read before: they may have changed since.
    again: BTreeSet<DevicePlace>,
    /// Digests of what was sent last.
    sent: HashMap<DevicePlace, u64>,
}

impl VisibleDevices {
    /// These of the devices that are registered.
    ///
    /// # Errors
    /// When the store cannot be read now.
    pub(super) async fn find(api: &ApiState, ids: &BTreeSet<DeviceId>) -> Result<Self, Problem> {
        let (queries, ids) = (api.queries(), ids.clone());
        let find = move || {
            let place = |id: DeviceId| Ok(queries.place(&id)?.map(|place| (place, id)));
            ids.into_iter().filter_map(|id| place(id).transpose()).collect::<Result<_, Problem>>()
        };
        let ids = api.shared.lookups.run(find).await?;
        Ok(Self { ids, waiting: BTreeSet::new(), again: BTreeSet::new(), sent: HashMap::new() })
    }

    pub(super) fn places(&self) -> impl Iterator<Item = DevicePlace> {
        self.ids.keys().copied()
    }

    /// What changed among the touched and waiting devices since it was sent, as much as a message
    /// takes; only devices of `clients`, if given.
    ///
    /// # Errors
    /// When the store cannot be read now.
    pub(super) async fn changed(
        &mut self,
        look: &LiveLook<'_>,
        touched: Vec<DevicePlace>,
        clients: Option<&[ClientId]>,
    ) -> Result<VisibleChanges, Problem> {
        for place in touched {
            self.waiting.insert(place);
            self.again.remove(&place);
        }
        let asked: Vec<_> =
            self.waiting.iter().filter_map(|place| Some((*place, self.ids.get(place)?.clone()))).collect();
        let queries = look.api.queries();
        let of: Option<Vec<_>> = clients.map(|clients| {
            clients.iter().filter_map(|client| Some(queries.client(client)?.incarnation)).collect()
        });
        let (api, tick) = (look.api.clone(), look.tick);
        let read = look.read(move || read_some(&api, tick, asked)).await?;
        let mut changed = VisibleChanges::default();
        for (place, id, (device, is_shared)) in read {
            if !(is_shared && self.again.insert(place)) {
                self.waiting.remove(&place);
                self.again.remove(&place);
            }
            let may_see = |device: &Arc<SharedRow>| {
                of.as_ref().is_none_or(|of| of.iter().any(|client| device.clients.contains(client)))
            };
            self.note(place, &id, device.filter(may_see).as_deref(), &mut changed);
        }
        changed.more = !self.waiting.is_empty();
        Ok(changed)
    }

    /// The device there is this now, or is not to be seen.
    fn note(
        &mut self,
        place: DevicePlace,
        id: &DeviceId,
        device: Option<&SharedRow>,
        changed: &mut VisibleChanges,
    ) {
        match device {
            Some(SharedRow { text, digest, .. }) if self.sent.insert(place, *digest) != Some(*digest) => {
                add(&mut changed.items, text);
            }
            Some(_) => {}
            // One that was never shown is not gone either.
            None if self.sent.remove(&place).is_some() => {
                let id = serde_json::to_vec(id.as_str()).expect("text is JSON");
                add(&mut changed.gone, &id);
            }
            None => {}
        }
    }
}

/// The first of these devices, as many as a message takes.
fn read_some(
    api: &ApiState,
    tick: u64,
    asked: Vec<(DevicePlace, DeviceId)>,
) -> Result<Vec<(DevicePlace, DeviceId, KnownRow)>, Problem> {
    let queries = api.queries();
    let (mut read, mut bytes) = (Vec::new(), 0);
    for (place, id) in asked {
        let present = || {
            let Some(device) = queries.device(&id)? else { return Ok(None) };
            let text = serde_json::to_vec(&DeviceShape::from(&device)).expect("a shape is JSON");
            let clients: Box<[Incarnation]> = device.profile.clients.as_slice().into();
            Ok(Some(SharedRow { digest: digest(&text), text, clients }))
        };
        let known = api.shared.live.memo.row_or_read(tick, RowKey::Device(id.clone()), present)?;
        bytes += known.0.as_ref().map_or(0, |row| row.text.len());
        read.push((place, id, known));
        if bytes > MESSAGE_BYTES_MAX {
            break;
        }
    }
    Ok(read)
}

/// The queues that a page shows.
#[derive(Debug)]
pub(super) struct VisibleQueues {
    names: Vec<QueueName>,
    /// As they were sent last.
    sent: BTreeMap<QueueName, QueueStats>,
}

impl VisibleQueues {
    pub(super) fn new(names: &BTreeSet<QueueName>) -> Self {
        Self { names: names.iter().cloned().collect(), sent: BTreeMap::new() }
    }

    /// Whether jobs go through any of them, as far as was sent.
    pub(super) fn has_rates(&self) -> bool {
        self.sent.values().any(|sent| !sent.rates.is_zero())
    }

    /// Queues whose counts changed since they were sent. A growing waiting time is no change.
    ///
    /// # Errors
    /// 503 when the server is not accepting.
    pub(super) async fn changed(&mut self, look: &LiveLook<'_>) -> Result<VisibleChanges, Problem> {
        let mut changed = VisibleChanges::default();
        for stats in look.api.shared.live.queues.stats_of(look, &self.names).await? {
            if self.sent.get(&stats.name).is_none_or(|sent| is_changed(sent, &stats)) {
                let text = serde_json::to_vec(&QueueShape::from(&stats)).expect("a shape is JSON");
                add(&mut changed.items, &text);
                self.sent.insert(stats.name.clone(), stats);
            }
        }
        Ok(changed)
    }
}

/// Whether a page has to be told: it counts on by itself how long the oldest job has waited.
fn is_changed(sent: &QueueStats, now: &QueueStats) -> bool {
    let timeless = |stats: &QueueStats| QueueStats {
        oldest_ready: None,
        oldest_ready_at: None,
        rates: QueueRates::default(),
        ..stats.clone()
    };
    let is_moved = match (sent.oldest_ready_at, now.oldest_ready_at) {
        (Some(sent), Some(now)) => sent.max(now).since(sent.min(now)) >= OLDEST_READY_STEP,
        (sent, now) => sent != now,
    };
    is_moved || rates_differ(&sent.rates, &now.rates) || timeless(sent) != timeless(now)
}

/// Whether rates differ so much that somebody sees it.
fn rates_differ(sent: &QueueRates, now: &QueueRates) -> bool {
    let differ = |sent: f64, now: f64| {
        (sent == 0.0) != (now == 0.0) || (sent - now).abs() > RATE_SHARE_SEEN * sent.max(now)
    };
    differ(sent.published, now.published)
        || differ(sent.consumed, now.consumed)
        || differ(sent.acked, now.acked)
}

pub(super) fn add(list: &mut Vec<u8>, text: &[u8]) {
    if !list.is_empty() {
        list.push(b',');
    }
    list.extend_from_slice(text);
}

#[cfg(test)]
mod tests {
    use base::Timestamp;

    use super::*;

    #[test]
    fn a_queue_is_told_again_when_another_job_is_its_oldest() {
        let waiting = |ready: u64, since: Option<i64>, waited: u64| QueueStats {
            name: QueueName::new("mail", "out").expect("a name"),
            key: None,
            scheduled: 0,
            ready,
            reserved: 0,
            dead: 0,
            oldest_ready: since.map(|_| Duration::from_millis(waited)),
            oldest_ready_at: since.map(Timestamp),
            rates: QueueRates::default(),
            paused: false,
            settings: engine::records::QueueSettings::default(),
        };
        let sent = waiting(1, Some(10_000), 5);
        for (now, expect) in [
            (waiting(1, Some(10_000), 90_000), false),
            // Clocks are set a little.
            (waiting(1, Some(10_900), 5), false),
            (waiting(1, Some(11_000), 5), true),
            (waiting(1, Some(9_000), 5), true),
            (waiting(1, None, 0), true),
            (waiting(2, Some(10_000), 5), true),
        ] {
            assert_eq!(is_changed(&sent, &now), expect, "{now:?}");
        }
        let rate = |published| QueueStats {
            rates: QueueRates { published, ..QueueRates::default() },
            ..sent.clone()
        };
        for (before, now, expect) in
            [(1.0, 1.01, false), (1.0, 1.2, true), (1.0, 0.0, true), (0.0, 0.01, true), (0.0, 0.0, false)]
        {
            assert_eq!(is_changed(&rate(before), &rate(now)), expect, "{before} {now}");
        }
    }
}
