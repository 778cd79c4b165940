//! Random batches that keep to the port's contract: slots are not used again, readings are counted,
//! what is deleted was there. The same seed gives the same batches.

mod commands;
mod coordination;
mod gathered;
mod picks;
mod queues;
mod registry;
mod retention;
mod rollouts;
mod streams;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base::hash::{device_hash, routing_hash};
use base::random::Random;
use base::{Attended, ClientId, DeviceId, EntityId, Incarnation, Kind, Lineage, PartitionId, Timestamp};
use base::{Value, WayIn};
use records::{
    AliasKey, Attempt, AttemptDetail, AttemptError, Batch, Connection, Delivery, DeliveryKey,
    DeliveryProgress, DeliveryStatus, DeviceProfile, DeviceSlot, DeviceState, Event, EventKind, Flight,
    HeadState, JobHead, JobId, JobTerms, LeaseHolder, NotificationState, Op, PaceOverride, PartitionHead,
    PendingDelivery, Process, QuarantineKey, QueueKey, Sign, SignReading, Starts, Successor,
};

/// What a partition's batches could be.
#[derive(Clone, Debug)]
pub struct Traffic {
    random: Random,
    partition: PartitionId,
    head: PartitionHead,
    devices: Vec<KnownDevice>,
    /// Every slot that a device has or had.
    given_slots: Vec<DeviceSlot>,
    deliveries: Vec<EntityId>,
    attempts: BTreeMap<DeliveryKey, u32>,
    jobs: Vec<JobId>,
    pairs: Vec<(DeviceSlot, Incarnation)>,
    quarantined: Vec<QuarantineKey>,
    in_queues: queues::InQueues,
    in_coordination: coordination::InCoordination,
    of_commands: commands::OfCommands,
    in_registry: registry::InRegistry,
    rollouts: Vec<rollouts::KnownRollout>,
    in_campaigns: picks::InCampaigns,
    in_streams: streams::InStreams,
    gathered: gathered::Gathered,
}

/// A registered device.
#[derive(Clone, Debug)]
struct KnownDevice {
    id: DeviceId,
    slot: DeviceSlot,
    readings: u32,
}

/// When the traffic begins.
const START: i64 = 1_800_000_000_000;
const DAY_MS: i64 = 86_400_000;
/// Ids are few, so that deleted ones come back.
const DEVICE_IDS: u64 = 60;
/// Clients that devices are linked to.
pub const CLIENTS: u64 = 4;

impl Traffic {
    /// The batches of `seed`. The first has the number 1.
    #[must_use]
    pub fn new(seed: u64, partition: PartitionId) -> Self {
        let head = PartitionHead { now: Timestamp(START), ..PartitionHead::default() };
        Self {
            random: Random::new(seed),
            partition,
            head,
            devices: Vec::new(),
            given_slots: Vec::new(),
            deliveries: Vec::new(),
            attempts: BTreeMap::new(),
            jobs: Vec::new(),
            pairs: Vec::new(),
            quarantined: Vec::new(),
            in_queues: queues::InQueues::default(),
            in_coordination: coordination::InCoordination::default(),
            of_commands: commands::OfCommands::default(),
            in_registry: registry::InRegistry::default(),
            rollouts: Vec::new(),
            in_campaigns: picks::InCampaigns::default(),
            in_streams: streams::InStreams::default(),
            gathered: gathered::Gathered::default(),
        }
    }

    /// Ids of devices that may be registered.
    pub fn device_ids() -> impl Iterator<Item = DeviceId> {
        (0..DEVICE_IDS).filter_map(device_id)
    }

    /// Whose batches they are.
    #[must_use]
    pub fn partition(&self) -> PartitionId {
        self.partition
    }

    /// From before the earliest to after the latest time that any record has.
    #[must_use]
    pub fn times(&self) -> (Timestamp, Timestamp) {
        (Timestamp(START - 2 * DAY_MS), Timestamp(self.head.now.0 + DAY_MS))
    }

    /// Slots given out so far.
    #[must_use]
    pub fn slots(&self) -> u32 {
        self.head.next_slot
    }

    /// Slots that devices have or had, and those on either side of them. Between these are
    /// hundreds that no device ever had.
    #[must_use]
    pub fn slots_about_devices(&self) -> BTreeSet<DeviceSlot> {
        let about = |slot: &DeviceSlot| slot.0.saturating_sub(1)..=slot.0 + 1;
        self.given_slots.iter().flat_map(about).map(DeviceSlot).collect()
    }

    /// Jobs that are there.
    #[must_use]
    pub fn jobs(&self) -> &[JobId] {
        &self.jobs
    }

    /// Deliveries that were made.
    pub fn deliveries(&self) -> impl Iterator<Item = DeliveryKey> + '_ {
        self.deliveries.iter().map(|id| DeliveryKey::from(*id))
    }

    /// The next batch, of about `changes` changes.
    pub fn next_batch(&mut self, changes: u64) -> Batch {
        self.head.seq += 1;
        self.head.now.0 += i64::try_from(self.below(50_000)).unwrap_or(0);
        for way in &mut self.head.attended.ways {
            way.0 += i64::try_from(self.random.below(1_000)).unwrap_or(0);
        }
        self.move_kept_from();
        let mut ops = Vec::new();
        let partition = self.partition;
        for _ in 0..self.below(changes) + 1 {
            match partition {
                _ if partition.queues_index().is_none() && self.below(16) == 0 => self.answer(&mut ops),
                PartitionId::REGISTRY => self.registry(&mut ops),
                PartitionId::CAMPAIGNS => self.change_of_campaigns(&mut ops),
                _ if partition.queues_index().is_some() => self.change_of_queues(&mut ops),
                _ if partition.streams_index().is_some() => self.change_of_streams(&mut ops),
                _ => self.change(&mut ops),
            }
        }
        Batch { partition: self.partition, head: self.head.clone(), ops }
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random.below(bound)
    }

    fn pick<T: Clone>(&mut self, of: &[T]) -> Option<T> {
        if of.is_empty() { None } else { of.get(self.random.below(of.len() as u64) as usize).cloned() }
    }

    /// Takes one out of those that are there. The others stay in their order.
    fn forget<T>(&mut self, of: impl Fn(&mut Self) -> &mut Vec<T>) -> Option<T> {
        let count = of(self).len() as u64;
        let at = (count > 0).then(|| self.below(count) as usize)?;
        Some(of(self).remove(at))
    }

    fn change(&mut self, ops: &mut Vec<Op>) {
        match self.below(40) {
            0..=10 => self.sign(ops),
            11..=12 => self.put_device(ops),
            13 => self.put_state(ops),
            14 => self.delete_device(ops),
            15..=16 => self.put_event(ops),
            17 => self.put_pair(ops),
            18 => self.delete_pair(ops),
            19 => self.put_delivery(ops),
            20 => self.put_attempt(ops),
            21..=22 => self.put_job(ops),
            23 => self.put_report_ids(ops),
            24 => self.put_counts(ops),
            25 => self.put_quarantined(ops),
            26 => self.delete_quarantined(ops),
            27 => self.delete_job(ops),
            28..=29 => self.change_of_gathered(ops),
            _ => self.change_of_commands(ops),
        }
    }

    /// Any value, mostly 0 or 1.
    pub fn value(&mut self) -> Value {
        let number = match self.below(10) {
            0 => self.below(1_000_000) as f64 - 500_000.0,
            1 => self.below(1_000_000) as f64 / 1_000.0,
            2 => 1e300,
            3 => return Value::from_canonical(&format!("{{\"lines\":[{}]}}", self.below(5))),
            4 => return Value::from_canonical("true"),
            _ => self.below(2) as f64,
        };
        Value::Number(number)
    }

    fn maybe<T>(&mut self, make: impl FnOnce(&mut Self) -> T) -> Option<T> {
        if self.below(2) == 0 { None } else { Some(make(self)) }
    }

    fn way(&mut self) -> WayIn {
        WayIn::ALL[self.below(3) as usize]
    }

    fn some_ts(&mut self) -> Timestamp {
        let day = 86_400_000;
        Timestamp(self.head.now.0 + self.below(2 * day) as i64 - (day + day / 2) as i64)
    }

    fn sign(&mut self, ops: &mut Vec<Op>) {
        if self.devices.is_empty() {
            return;
        }
        let at = self.below(self.devices.len() as u64) as usize;
        let heartbeat = self.below(8) == 0;
        let reading = (!heartbeat).then(|| SignReading {
            ts: if self.below(4) == 0 { Some(self.some_ts()) } else { None },
            value: self.value(),
            changed: self.below(3) == 0,
        });
        let way = self.way();
        let newest_ts = self.maybe(Self::some_ts);
        let device = &mut self.devices[at];
        device.readings += u32::from(!heartbeat);
        ops.push(Op::Sign(Sign { slot: device.slot, way, readings: device.readings, newest_ts, reading }));
    }

    fn put_device(&mut self, ops: &mut Vec<Op>) {
        let Some(id) = device_id(self.below(DEVICE_IDS)) else { return };
        let known = self.devices.iter().find(|device| device.id == id).cloned();
        let slot = known.map_or_else(
            || {
                // now and then far away, so that there is more than one slice
                self.head.next_slot += if self.random.below(4) == 0 { 200 } else { 1 };
                let slot = DeviceSlot(self.head.next_slot - 1);
                self.devices.push(KnownDevice { id: id.clone(), slot, readings: 0 });
                self.given_slots.push(slot);
                slot
            },
            |device| device.slot,
        );
        let clients = (1..=CLIENTS).filter(|_| self.random.below(2) == 0).map(Incarnation).collect();
        ops.push(Op::PutDevice(Box::new(DeviceProfile {
            id,
            incarnation: Incarnation(u64::from(slot.0) + 1),
            slot,
            kind: if self.below(2) == 0 {
                Kind::lock()
            } else {
                Kind::new("face").unwrap_or_else(Kind::lock)
            },
            address: self.maybe(|_| "Москва, Тверская 1".to_owned()),
            labels: self.labels(),
            report_interval_ms: self.maybe(|traffic| traffic.below(1 << 40)),
            pace: PaceOverride {
                in_flight: self.maybe(|traffic| traffic.below(1_000) as u32),
                gap_ms: self.maybe(|traffic| traffic.below(1 << 20)),
            },
            registered_at: self.head.now,
            expected_from: Attended(self.below(1 << 40) as i64 - 1_000),
            clients,
        })));
    }

    fn put_state(&mut self, ops: &mut Vec<Op>) {
        let Some(device) = self.pick(&self.devices.clone()) else { return };
        let connection = [Connection::NeverSeen, Connection::Online, Connection::Lost];
        let state = DeviceState {
            value: self.maybe(Self::value),
            changed_at: self.maybe(Self::some_ts),
            connection: connection[self.below(3) as usize],
            sequence: self.below(1_000),
        };
        ops.push(Op::PutState(device.slot, state));
    }

    fn delete_device(&mut self, ops: &mut Vec<Op>) {
        if self.devices.len() < 8 || self.below(3) > 0 {
            return;
        }
        let at = self.below(self.devices.len() as u64) as usize;
        let device = self.devices.swap_remove(at);
        self.pairs.retain(|(slot, _)| *slot != device.slot);
        self.forget_commands_of(device.slot);
        ops.push(Op::DeleteDevice(device.id, device.slot));
    }

    fn entity(&mut self, device: &KnownDevice, number: u32) -> EntityId {
        let routing = routing_hash(device_hash(device.id.as_str()));
        let incarnation = Incarnation(u64::from(device.slot.0) + 1);
        EntityId::derive(Lineage(1), routing, incarnation, self.head.now, number, &[1])
    }

    fn event_kind(&mut self) -> EventKind {
        [EventKind::Changed, EventKind::Lost, EventKind::Restored][self.below(3) as usize]
    }

    fn put_event(&mut self, ops: &mut Vec<Op>) {
        let Some(device) = self.pick(&self.devices.clone()) else { return };
        let number = self.head.next_event;
        self.head.next_event = number.wrapping_add(1);
        ops.push(Op::PutEvent(Box::new(Event {
            id: self.entity(&device, number),
            slot: device.slot,
            device: device.id.clone(),
            kind: self.event_kind(),
            sequence: self.below(1 << 40),
            value: self.maybe(Self::value),
            previous: self.maybe(Self::value),
        })));
    }

    fn put_pair(&mut self, ops: &mut Vec<Op>) {
        let Some(device) = self.pick(&self.devices.clone()) else { return };
        let client = Incarnation(1 + self.below(CLIENTS));
        let delivery = self.entity(&device, 7);
        let flight = |traffic: &mut Self| Flight {
            delivery,
            attempts: 2,
            since: traffic.head.now,
            tells: 1,
            skipped: 3,
            value: traffic.maybe(Self::value),
        };
        if !self.pairs.contains(&(device.slot, client)) {
            self.pairs.push((device.slot, client));
        }
        ops.push(Op::PutNotificationState(Box::new(NotificationState {
            slot: device.slot,
            client,
            untold: (0..self.below(4)).map(|_| self.event_kind()).collect(),
            previous: self.maybe(Self::value),
            skipped: self.below(300) as u32,
            pending: self.maybe(|_| PendingDelivery { delivery, attempts: 1 }),
            in_flight: self.maybe(flight),
            failed: self.maybe(|_| PendingDelivery { delivery, attempts: 10 }),
        })));
    }

    fn delete_pair(&mut self, ops: &mut Vec<Op>) {
        let gone = self.forget(|traffic| &mut traffic.pairs);
        ops.extend(gone.map(|(slot, client)| Op::DeleteNotificationState(slot, client)));
    }

    fn progress(&mut self) -> DeliveryProgress {
        DeliveryProgress {
            status: DeliveryStatus::ALL[self.below(5) as usize],
            attempts: self.below(12) as u32,
            next_attempt_at: self.maybe(|traffic| traffic.head.now),
        }
    }

    fn put_delivery(&mut self, ops: &mut Vec<Op>) {
        let Some(device) = self.pick(&self.devices.clone()) else { return };
        let number = self.head.next_delivery;
        self.head.next_delivery = number.wrapping_add(1);
        let id = self.entity(&device, number);
        let client = 1 + self.below(CLIENTS);
        let Some(client_id) = ClientId::new(&format!("client-{client}")) else { return };
        let delivery = Delivery {
            id,
            slot: device.slot,
            device: device.id,
            client: Incarnation(client),
            client_id,
            kind: self.event_kind(),
            sequence: self.below(100),
            progress: self.progress(),
            resend_of: self.pick(&self.deliveries.clone()),
        };
        self.deliveries.push(id);
        ops.push(Op::PutDelivery(Box::new(delivery)));
    }

    fn put_attempt(&mut self, ops: &mut Vec<Op>) {
        let Some(id) = self.pick(&self.deliveries.clone()) else { return };
        let key = DeliveryKey::from(id);
        let number = self.attempts.entry(key).and_modify(|number| *number += 1).or_insert(1);
        let number = *number;
        let attempt = Attempt {
            delivery: key,
            number,
            at: self.head.now,
            duration_ms: self.below(10_000) as u32,
            status_code: self.maybe(|_| 503),
            error: self.maybe(|_| AttemptError::ConnectionBroken),
            detail: AttemptDetail {
                answer: self.maybe(|this| vec![b'x'; this.below(100) as usize].into()),
                ..AttemptDetail::default()
            },
        };
        ops.push(Op::PutAttempt(Box::new(attempt)));
        ops.push(Op::PutProgress(key, self.progress()));
    }

    fn put_job(&mut self, ops: &mut Vec<Op>) {
        let again = self.pick(&self.jobs.clone()).filter(|_| self.random.below(2) == 0);
        let id = again.unwrap_or_else(|| {
            let mut id = [0; 16];
            id[..8].copy_from_slice(&self.random.next_u64().to_le_bytes());
            self.jobs.push(JobId(id));
            JobId(id)
        });
        self.head.next_job += 1;
        let reserved = |traffic: &mut Self| HeadState::Reserved {
            lease: traffic.below(1 << 50),
            holder: if traffic.below(2) == 0 { LeaseHolder::Outside } else { LeaseHolder::Own(Process(9)) },
        };
        let job = JobHead {
            id,
            queue: QueueKey(self.below(3)),
            number: self.head.next_job,
            run_at: self.head.now,
            visible_at: self.some_ts(),
            attempt: self.below(5) as u32,
            tries: self.below(10) as u32,
            state: self.maybe(reserved).unwrap_or(HeadState::Waiting),
            alias: self.maybe(|traffic| AliasKey(u128::from(traffic.random.next_u64()) << 40)),
            terms: JobTerms::default(),
            successor: self.maybe(|traffic| {
                Box::new(Successor {
                    id: JobId([7; 16]),
                    number: traffic.below(1_000),
                    run_at: traffic.head.now,
                    tries: 3,
                    terms: JobTerms::default(),
                    starts: if traffic.below(2) == 0 { Starts::AfterJob } else { Starts::AfterRun },
                })
            }),
        };
        ops.push(Op::PutJob(Box::new(job)));
        if self.below(2) == 0 {
            let body: Arc<[u8]> = (0..self.below(300)).map(|byte| byte as u8).collect();
            ops.push(Op::PutJobBody(id, body));
        }
    }

    fn delete_job(&mut self, ops: &mut Vec<Op>) {
        if let Some(id) = self.pick(&self.jobs.clone()) {
            self.jobs.retain(|other| *other != id);
            ops.push(Op::DeleteJob(id));
        }
    }
}

fn device_id(number: u64) -> Option<DeviceId> {
    DeviceId::new(&format!("dev{number}"))
}
