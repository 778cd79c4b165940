//! Devices and queues that a page shows, as a stream sends them: those that changed since.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use base::{ClientId, DeviceId, Problem, hash};
use engine::followers::live::DevicePlace;
use engine::queries::{Device, Queries};
use engine::queues::{QueueName, QueueStats};

use super::feed::MESSAGE_BYTES_MAX;
use crate::ApiState;
use crate::shape::{DeviceShape, QueueShape};

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
    /// Hashes of what was sent last.
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
        Ok(Self { ids, waiting: BTreeSet::new(), sent: HashMap::new() })
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
        api: &ApiState,
        touched: Vec<DevicePlace>,
        clients: Option<&[ClientId]>,
    ) -> Result<VisibleChanges, Problem> {
        self.waiting.extend(touched);
        let asked: Vec<_> =
            self.waiting.iter().filter_map(|place| Some((*place, self.ids.get(place)?.clone()))).collect();
        let queries = api.queries();
        let of: Option<Vec<_>> =
            clients.map(|clients| clients.iter().filter_map(|client| queries.client(client)).collect());
        let may_see = move |device: &Device| {
            let linked = &device.profile.clients;
            of.as_ref().is_none_or(|of| of.iter().any(|client| linked.contains(&client.incarnation)))
        };
        let read = api.shared.follows.run(move || read_some(&queries, asked, may_see)).await?;
        let mut changed = VisibleChanges::default();
        for (place, id, text) in read {
            self.waiting.remove(&place);
            self.note(place, &id, text.as_deref(), &mut changed);
        }
        changed.more = !self.waiting.is_empty();
        Ok(changed)
    }

    /// The device there is this now, or is not to be seen.
    fn note(&mut self, place: DevicePlace, id: &DeviceId, text: Option<&[u8]>, changed: &mut VisibleChanges) {
        match text {
            Some(text) => {
                let hash = hash::derived(0, text);
                if self.sent.insert(place, hash) != Some(hash) {
                    add(&mut changed.items, text);
                }
            }
            // One that was never shown is not gone either.
            None if self.sent.remove(&place).is_some() => {
                let id = serde_json::to_vec(id.as_str()).expect("text is JSON");
                add(&mut changed.gone, &id);
            }
            None => {}
        }
    }
}

/// A device as it is shown; `None` for one that is gone, or not to be seen.
type Shown = (DevicePlace, DeviceId, Option<Vec<u8>>);

/// The first of these devices, as many as a message takes.
fn read_some(
    queries: &Queries,
    asked: Vec<(DevicePlace, DeviceId)>,
    may_see: impl Fn(&Device) -> bool,
) -> Result<Vec<Shown>, Problem> {
    let (mut read, mut bytes) = (Vec::new(), 0);
    for (place, id) in asked {
        let device = queries.device(&id)?.filter(&may_see);
        let text =
            device.map(|device| serde_json::to_vec(&DeviceShape::from(&device)).expect("a shape is JSON"));
        bytes += text.as_ref().map_or(0, Vec::len);
        read.push((place, id, text));
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

    /// Queues whose counts changed since they were sent. A growing waiting time is no change.
    ///
    /// # Errors
    /// 503 when the server is not accepting.
    pub(super) async fn changed(&mut self, api: &ApiState) -> Result<VisibleChanges, Problem> {
        let mut changed = VisibleChanges::default();
        for stats in api.queues().stats_of(&self.names).await? {
            let timeless = QueueStats { oldest_ready: None, ..stats.clone() };
            if self.sent.get(&stats.name) != Some(&timeless) {
                let text = serde_json::to_vec(&QueueShape::from(&stats)).expect("a shape is JSON");
                add(&mut changed.items, &text);
                self.sent.insert(stats.name, timeless);
            }
        }
        Ok(changed)
    }
}

fn add(list: &mut Vec<u8>, text: &[u8]) {
    if !list.is_empty() {
        list.push(b',');
    }
    list.extend_from_slice(text);
}
