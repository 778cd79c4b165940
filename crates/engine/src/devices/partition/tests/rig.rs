//! A partition on a bench: a store in memory, a clock that only the test moves, and answers read
//! from the effects.

mod attempts;

use std::sync::Arc;
use std::time::Duration;

use base::{
    ClientId, DeviceId, EntityId, Incarnation, Kind, Lineage, PartitionId, Problem, SystemClock, Timestamp,
    Value, WayIn, hash,
};
use fleet::{DevicePatch, ImportDevice, NewDevice, Patch};
use records::{
    AttemptError, Batch, Client, Connection, CountedOf, CountsKey, EventKind, HourlyCounts, JobHead,
    JobTerms, Metric, Op, Process, Quarantined, QueueKey,
};
use store::{FeedFilter, MemoryStore, Page, Store};

use super::super::DevicePartition;
use crate::context::EngineContext;
use crate::devices::input::{Addressed, DeviceInput, ImportOutcome, LinkedClient, RefusedMessage, ToImport};
use crate::devices::intake::{Report, ReportContent, ReportId, SlicePart};
use crate::devices::lanes::{AttemptDue, AttemptOutcome};
use crate::kernel::fetch::FromStore;
use crate::kernel::machine::{Machine, MachineContext, StepTime};
use crate::kernel::reply::Reply;
use crate::settings::{EngineSettings, NotificationView, RetentionLimits, RetrySettings};
use crate::{DeviceStats, OnlyIf, PendingSlice};

pub(super) const PARTITION: PartitionId = PartitionId(0);
pub(super) const CLIENT: Incarnation = Incarnation(7);

pub(super) struct Rig {
    pub(super) partition: DevicePartition,
    pub(super) store: Arc<MemoryStore>,
    pub(super) settings: Arc<EngineSettings>,
    pub(super) context: EngineContext,
    now: Timestamp,
    processes: u64,
}

pub(super) fn number(number: u32) -> Value {
    Value::number(f64::from(number)).expect("finite")
}

pub(super) fn status(code: u16) -> AttemptOutcome {
    AttemptOutcome::Status { code, retry_after: None }
}

pub(super) fn error(error: AttemptError) -> AttemptOutcome {
    AttemptOutcome::Error(error)
}

impl Rig {
    /// Device 0xA, a lock, linked to client acme; HTTP is attended.
    pub(super) fn linked() -> Self {
        let store = Arc::new(MemoryStore::new(Lineage(1), 1));
        let settings = Arc::new(settings());
        let clock = Arc::new(SystemClock::start(Timestamp(0)));
        let context = EngineContext::new(Arc::clone(&store) as Arc<dyn Store>, clock, &settings);
        context.directory().put(client());
        let now = Timestamp(1_795_000_000_000);
        let partition = load(&store, &settings, &context, now, 1);
        let mut rig = Self { partition, store, settings, context, now, processes: 1 };
        rig.attend();
        rig.create_linked("0xA");
        rig
    }

    /// As [`Self::linked`], and 0xA has reported its first value, 1.
    pub(super) fn with_change() -> Self {
        let mut rig = Self::linked();
        rig.report("0xA", number(1));
        rig
    }

    /// As [`Self::with_change`], and the notification of that is leased.
    pub(super) fn with_attempt() -> (Self, AttemptDue) {
        let mut rig = Self::with_change();
        let due = rig.lease_one();
        (rig, due)
    }

    /// Steps with these inputs until there is nothing more to do; everything is durable at once.
    pub(super) fn step(&mut self, inputs: Vec<DeviceInput>) -> Vec<Op> {
        let (mut ops, more) = self.one_step(inputs);
        if more {
            ops.extend(self.step(Vec::new()));
        }
        ops
    }

    pub(super) fn one_step(&mut self, inputs: Vec<DeviceInput>) -> (Vec<Op>, bool) {
        let fetch = FromStore::new(&*self.store, PARTITION);
        let moment = StepTime { now: self.now, stamp: self.now, wall: self.now };
        let step = self.partition.step(moment, &mut inputs.into_iter(), &fetch).expect("readable");
        let mut ops = Vec::new();
        if let Some(batch) = step.batch {
            ops.clone_from(&batch.ops);
            let seq = batch.head.seq;
            self.store
                .commit(batch, Box::new(|outcome| assert!(matches!(outcome, store::CommitOutcome::Durable))));
            self.partition.settled(seq);
        }
        for effect in step.effects {
            self.context.devices.release(effect);
        }
        (ops, step.more)
    }

    pub(super) fn ask<T>(&mut self, make: impl FnOnce(Reply<T>) -> DeviceInput) -> T {
        let (reply, mut answer) = Reply::new();
        self.step(vec![make(reply)]);
        answer.try_recv().expect("answered once durable")
    }

    pub(super) fn attend(&mut self) {
        self.step(vec![DeviceInput::Attend { way: WayIn::Http, attended: true }]);
    }

    /// Time passes in one leap, as it does for a server that is down.
    pub(super) fn pass(&mut self, span: Duration) {
        self.now = self.now.after(span);
        self.step(Vec::new());
    }

    /// Time passes, and no step is made.
    pub(super) fn stand_still(&mut self, span: Duration) {
        self.now = self.now.after(span);
    }

    /// Time passes second by second, as it does for a server that runs.
    pub(super) fn pass_slowly(&mut self, span: Duration) {
        for _ in 0..span.as_secs() {
            self.pass(Duration::from_secs(1));
        }
    }

    /// The process dies and another one loads the store.
    pub(super) fn restart(&mut self) {
        self.processes += 1;
        self.partition = load(&self.store, &self.settings, &self.context, self.now, self.processes);
    }

    /// From now on no device can be shown any payload.
    pub(super) fn refuse_payloads(&mut self) {
        let refuse = |_: &_, _: &_| Err(Problem::new(422, "invalid_payload", "not for this kind"));
        Arc::make_mut(&mut self.settings).check_payload = Arc::new(refuse);
        self.reload();
    }

    /// The same process loads the store again.
    pub(super) fn reload(&mut self) {
        self.partition = load(&self.store, &self.settings, &self.context, self.now, self.processes);
    }

    pub(super) fn create(&mut self, id: &str) -> Result<(), Problem> {
        self.register(NewDevice { id: id.to_owned(), ..NewDevice::default() })
    }

    /// Registers a device of a kind.
    pub(super) fn create_kind(&mut self, id: &str, kind: &str) {
        let kind = Some(kind.to_owned());
        self.register(NewDevice { id: id.to_owned(), kind, ..NewDevice::default() }).expect("registered");
    }

    fn register(&mut self, device: NewDevice) -> Result<(), Problem> {
        let device = Box::new(device.check(&self.settings.registry_rules())?);
        self.ask(|reply| DeviceInput::CreateDevice { device, reply }).map(|_| ())
    }

    pub(super) fn create_linked(&mut self, id: &str) {
        self.create(id).expect("registered");
        self.link(id, true).expect("linked");
    }

    pub(super) fn import(&mut self, line: ImportDevice) -> Result<ImportOutcome, Problem> {
        let known = LinkedClient { incarnation: CLIENT, id: client().id };
        let import = line.check(&self.settings.registry_rules())?;
        let clients = import.clients().map(|clients| clients.iter().map(|_| known.clone()).collect());
        let lines = vec![ToImport { index: 0, import, clients }];
        self.ask(|reply| DeviceInput::Import { lines, reply }).remove(0).1
    }

    pub(super) fn now(&self) -> Timestamp {
        self.now
    }

    pub(super) fn delete(&mut self, id: &str) -> Result<(), Problem> {
        self.ask(|reply| DeviceInput::DeleteDevice { id: device(id), only_if: OnlyIf::default(), reply })
    }

    pub(super) fn link(&mut self, id: &str, linked: bool) -> Result<(), Problem> {
        let client = LinkedClient { incarnation: CLIENT, id: client().id };
        self.ask(|reply| DeviceInput::Link { id: device(id), client, linked, reply })
    }

    pub(super) fn sweep(&mut self) -> bool {
        self.ask(|reply| DeviceInput::SweepClient { client: CLIENT, reply })
    }

    pub(super) fn retry(&mut self, id: EntityId) -> Result<(), Problem> {
        self.ask(|reply| DeviceInput::RetryDelivery { id, reply })
    }

    /// Hands in the order to tell the client again.
    pub(super) fn tell_stale(&mut self, probe: bool) {
        self.step(vec![DeviceInput::TellStale { client: CLIENT, probe }]);
    }

    pub(super) fn resend(&mut self) {
        let mut after = None;
        loop {
            after = self.ask(|reply| DeviceInput::Resend { client: CLIENT, after, reply });
            if after.is_none() {
                return;
            }
        }
    }

    pub(super) fn report(&mut self, id: &str, value: Value) -> Vec<Op> {
        self.say(id, ReportContent::Value { value, ts: None })
    }

    pub(super) fn say(&mut self, id: &str, content: ReportContent) -> Vec<Op> {
        self.say_with_id(id, content, None)
    }

    pub(super) fn say_with_id(
        &mut self,
        id: &str,
        content: ReportContent,
        report: Option<ReportId>,
    ) -> Vec<Op> {
        let (_pending, input) = slice(id, None, vec![content], report);
        self.step(vec![input])
    }

    pub(super) fn quarantine(&mut self, payloads: &[&[u8]]) {
        let message = |payload: &&[u8]| RefusedMessage {
            routing: 0,
            device: None,
            topic: None,
            problem: Problem::unreadable("not JSON"),
            payload: payload.to_vec(),
            cut: false,
        };
        let messages = payloads.iter().map(message).collect();
        self.ask(|reply| DeviceInput::Quarantine { way: WayIn::Mqtt, messages, reply });
    }

    pub(super) fn discard(&mut self, id: EntityId) -> Result<(), Problem> {
        self.ask(|reply| DeviceInput::Discard { id, reply })
    }

    pub(super) fn quarantined(&self) -> Vec<Quarantined> {
        self.view().quarantined(everything()).expect("readable")
    }

    pub(super) fn counts(&self, key: CountsKey) -> Option<HourlyCounts> {
        self.view().counts(key).expect("readable")
    }

    /// What was counted today.
    pub(super) fn counted(&self, of: CountedOf, metric: Metric) -> u32 {
        let (day, _) = CountsKey::day_and_hour(self.now);
        self.counts(CountsKey { day, of, metric }).map_or(0, |counts| counts.0.iter().sum())
    }

    pub(super) fn client(&self) -> Incarnation {
        CLIENT
    }

    pub(super) fn label(&mut self, id: &str, key: &str, value: &str) {
        let labels = Patch::Set(vec![(key.to_owned(), Some(value.to_owned()))]);
        self.patch(id, DevicePatch { labels, ..DevicePatch::default() });
    }

    pub(super) fn address(&mut self, id: &str, address: Patch<String>) {
        self.patch(id, DevicePatch { address, ..DevicePatch::default() });
    }

    pub(super) fn patch(&mut self, id: &str, patch: DevicePatch) {
        let (patch, only_if) = (Box::new(patch), OnlyIf::default());
        self.ask(|reply| DeviceInput::PatchDevice { id: device(id), patch, only_if, reply })
            .expect("changed");
    }

    /// Hands in one slice; the weights of the batches that it took.
    pub(super) fn say_many(&mut self, id: &str, contents: Vec<ReportContent>) -> Vec<usize> {
        let (pending, input) = slice(id, None, contents, None);
        let mut input = Some(input);
        let mut weights = Vec::new();
        while input.is_some() || self.partition.has_unfinished() {
            assert!(!pending.is_ready(), "acknowledged before its end");
            let ops = self.one_step(input.take().into_iter().collect()).0;
            weights.push(ops.iter().map(Op::weight).sum());
        }
        assert!(pending.is_ready());
        weights
    }

    /// The code with which a report is refused, if it is.
    pub(super) fn rejected(
        &mut self,
        id: &str,
        kind: Option<&str>,
        content: ReportContent,
    ) -> Option<&'static str> {
        let kind = kind.and_then(Kind::new);
        let (pending, input) = slice(id, kind.as_ref(), vec![content], None);
        self.step(vec![input]);
        let outcome = tokio::runtime::Builder::new_current_thread()
            .build()
            .expect("a runtime")
            .block_on(pending.durable());
        outcome.expect("durable").rejected.first().map(|rejection| rejection.problem.code)
    }

    /// Another process loads the waiting notifications, which may wait for this long only.
    pub(super) fn restart_with_time_to_live(&mut self, ttl: Duration) {
        let view = self.view();
        let jobs = view.jobs_of(QueueKey(CLIENT.0), None, 100, 100, &|_| true).expect("readable").found;
        let expires_at = Some(self.now.after(ttl));
        let shortened = |head: JobHead| JobHead { terms: JobTerms { expires_at, ..head.terms }, ..head };
        let mut batch = Batch::new(PARTITION);
        batch.head = view.head().clone();
        batch.head.seq += 1;
        batch.ops = jobs.into_iter().map(|head| Op::PutJob(Box::new(shortened(head)))).collect();
        self.store.commit(batch, Box::new(|_| {}));
        self.restart();
    }

    pub(super) fn events(&self) -> Vec<EventKind> {
        let events = self.view().events(FeedFilter::default(), everything(), &|_| true).expect("readable");
        events.iter().map(|event| event.kind).collect()
    }

    pub(super) fn connection(&self, id: &str) -> Connection {
        let profile = self.view().device(&device(id)).expect("readable").expect("registered");
        self.view().state(profile.slot).expect("readable").connection
    }

    /// Devices never seen, online and lost, and pending deliveries, as metrics show them.
    pub(super) fn shown(&self) -> [u64; 4] {
        let DeviceStats { never_seen, online, lost, pending, .. } = self.context.devices.stats.sum();
        [never_seen, online, lost, pending]
    }

    pub(super) fn view(&self) -> Box<dyn store::View> {
        self.store.view(PARTITION).expect("readable")
    }
}

impl DevicePartition {
    /// When a job comes due next.
    pub(super) fn next_wakeup_of_jobs(&self) -> Option<Timestamp> {
        self.jobs.next_wakeup()
    }
}

fn load(
    store: &MemoryStore,
    settings: &Arc<EngineSettings>,
    context: &EngineContext,
    now: Timestamp,
    process: u64,
) -> DevicePartition {
    let moment = StepTime { now, stamp: now, wall: now };
    DevicePartition::load(store, PARTITION, settings, Process(process), moment, &context.devices)
        .expect("readable")
        .partition
}

/// A slice with what a device says.
pub(super) fn slice(
    id: &str,
    kind: Option<&Kind>,
    contents: Vec<ReportContent>,
    report: Option<ReportId>,
) -> (PendingSlice, DeviceInput) {
    let (pending, mut parts) = SlicePart::split(contents.len() as u32, 1);
    let part = parts.next().expect("one part");
    let reports = (0..).zip(contents).map(|(index, content)| Addressed {
        index,
        hash: hash::device_hash(id),
        report: Report { device: device(id), kind: kind.cloned(), content, id: report },
    });
    (pending, DeviceInput::Reports { way: WayIn::Http, reports: reports.collect(), part })
}

fn device(id: &str) -> DeviceId {
    DeviceId::new(id).expect("a device id")
}

fn client() -> Client {
    Client {
        id: ClientId::new("acme").expect("an id"),
        incarnation: CLIENT,
        name: "Acme".to_owned(),
        url: "https://example.com/".to_owned(),
        secret: vec![0; 32],
        previous_secret: None,
        enabled: true,
        notices: false,
        created_at: Timestamp(0),
    }
}

fn everything<K>() -> Page<K> {
    Page { from: Timestamp(0), to: Timestamp::MAX, ascending: true, after: None, limit: 1_000 }
}

fn settings() -> EngineSettings {
    let usual = EngineSettings::for_tests();
    EngineSettings {
        retry: RetrySettings { attempts_max: 3, ..usual.retry },
        keep: RetentionLimits { quarantine_bytes_max: 1_000_000, ..usual.keep },
        render: Arc::new(render),
        ..usual
    }
}

fn render(view: &NotificationView<'_>) -> Vec<u8> {
    let value = |value: Option<&Value>| value.map_or("null".to_owned(), Value::to_json);
    let kind = view.kind.as_str().trim_start_matches("device.");
    format!(
        "{kind} {} {} value={} previous={} seq={} types={:?} skipped={} {}{}",
        view.device,
        view.device_kind,
        value(view.value),
        value(view.previous),
        view.sequence,
        view.types,
        view.skipped,
        view.connection.as_str(),
        view.address.map_or_else(String::new, |address| format!(" at {address}"))
    )
    .into_bytes()
}
