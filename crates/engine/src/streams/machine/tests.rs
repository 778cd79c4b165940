//! The machine beside a store in memory. Every batch is durable at once, unless a test holds it
//! back. Files are written when a test says so.

mod blocks;
mod copies;
mod free_space;
mod idempotency;
mod lives;
mod modes;
mod moves;
mod subscriptions;

use std::sync::Arc;
use std::time::Duration;

use base::{Lineage, Problem};
use records::{SaveMode, StreamSettings};
use store::{BlockStorages, CommitOutcome, MemoryStore, Store};
use tokio::sync::oneshot;

use super::*;
use crate::kernel::fetch::FromStore;
use crate::kernel::machine::MachineContext;
use crate::kernel::reply::{Answered, Reply};
use crate::metrics::BatchMetrics;
use crate::streams::block_sweep::sweep_files;
use crate::streams::block_worker::{BlockWork, do_work};
use crate::streams::input::{AppendCall, AppendOutcome};
use crate::streams::reading::StreamReader;
use crate::streams::{MessagePayload, NewMessage, OwnedExternalId, StreamPage, StreamRead};

const NOW: Timestamp = Timestamp(1_800_000_000_000);
const MEMORY: usize = 1 << 20;
/// Steps that settle anything.
const STEPS_MAX: usize = 1_000;

struct Bench {
    machine: Option<StreamPartition>,
    store: MemoryStore,
    context: StreamsContext,
    now: Timestamp,
    /// Batches that are not durable yet, with their effects.
    held: Option<Vec<(records::Batch, Vec<StreamsEffect>)>>,
}

fn id() -> PartitionId {
    PartitionId::of_streams(0)
}

fn name(stream: &str) -> StreamName {
    StreamName::new("shop", stream).expect("a name")
}

fn message(text: &str) -> NewMessage {
    NewMessage::new(MessagePayload::Json(format!("\"{text}\"").into_bytes().into()))
}

fn from_source(text: &str, id: &str) -> NewMessage {
    let external_id = Some(OwnedExternalId::from_text(id));
    NewMessage { source: Some("till".into()), external_id, ..message(text) }
}

impl Bench {
    fn new() -> Self {
        Self::with(&BlockStorages::default())
    }

    fn with(storages: &BlockStorages) -> Self {
        let mut bench = Self {
            machine: None,
            store: MemoryStore::new(Lineage(1), 1),
            context: StreamsContext::new(
                MEMORY,
                storages.clone(),
                Arc::new(crate::gathering::Gatherings::new(1)),
                Arc::new(BatchMetrics::default()),
            ),
            now: NOW,
            held: None,
        };
        bench.load();
        bench
    }

    /// Another process: what was only in memory is lost, and so is work on files.
    fn load(&mut self) {
        while self.context.take_block_work().is_some() {}
        self.load_again();
        sweep_files(&self.store, &self.context);
    }

    /// The same process has lost the batches that are held, with their effects.
    fn load_again(&mut self) {
        self.held = None;
        let machine = StreamPartition::load(&self.store, id(), MEMORY).expect("readable");
        self.context.partition_loaded(id(), &machine);
        self.machine = Some(machine);
    }

    fn machine(&mut self) -> &mut StreamPartition {
        self.machine.as_mut().expect("it was loaded")
    }

    /// One step. Whether there is more to do.
    fn one_step(&mut self, inputs: Vec<StreamsInput>) -> bool {
        let moment = StepTime { now: self.now, stamp: self.now, wall: self.now };
        let fetch = FromStore::new(&self.store, id());
        let machine = self.machine.as_mut().expect("it was loaded");
        let step = machine.step(moment, &mut inputs.into_iter(), &fetch).expect("readable");
        drop(fetch);
        match (step.batch, &mut self.held) {
            (Some(batch), Some(held)) => held.push((batch, step.effects)),
            (Some(batch), None) => self.durable(batch, step.effects),
            (None, Some(held)) if !held.is_empty() => {
                held.last_mut().expect("there is one").1.extend(step.effects);
            }
            (None, _) => step.effects.into_iter().for_each(|effect| self.context.release(effect)),
        }
        step.more
    }

    fn durable(&mut self, batch: records::Batch, effects: Vec<StreamsEffect>) {
        let seq = batch.head.seq;
        self.store.commit(batch, Box::new(|outcome| assert!(matches!(outcome, CommitOutcome::Durable))));
        self.machine().settled(seq);
        effects.into_iter().for_each(|effect| self.context.release(effect));
    }

    /// From here on batches wait for [`Bench::write_held`].
    fn hold(&mut self) {
        self.held = Some(Vec::new());
    }

    fn write_held(&mut self) {
        for (batch, effects) in self.held.take().into_iter().flatten() {
            self.durable(batch, effects);
        }
    }

    /// Steps until nothing is to be done at this time.
    fn settle(&mut self, inputs: Vec<StreamsInput>) {
        let mut is_more = self.one_step(inputs);
        for _ in 0..STEPS_MAX {
            let now = self.now;
            let is_due = self.machine().next_wakeup(now).is_some_and(|at| at <= now);
            if !is_more && !is_due {
                return;
            }
            is_more = self.one_step(Vec::new());
        }
        panic!("it is never done");
    }

    fn begin(
        &mut self,
        stream: &str,
        messages: Vec<NewMessage>,
        expect_last_id: Option<u64>,
    ) -> oneshot::Receiver<Answered<Vec<AppendOutcome>>> {
        let (reply, answer) = Reply::new();
        let call = AppendCall { expect_last_id, ..AppendCall::new(name(stream), messages, reply) };
        self.settle(vec![StreamsInput::Append(Box::new(call))]);
        answer
    }

    fn append(&mut self, stream: &str, messages: Vec<NewMessage>) -> Vec<AppendOutcome> {
        self.begin(stream, messages, None).try_recv().expect("it is answered").expect("appended")
    }

    /// The ids of messages that were all new.
    fn append_new(&mut self, stream: &str, texts: &[&str]) -> Vec<u64> {
        let outcomes = self.append(stream, texts.iter().map(|text| message(text)).collect());
        let new = |outcome| match outcome {
            AppendOutcome::Appended(id) => id,
            AppendOutcome::Duplicate(_) => panic!("it is new"),
        };
        outcomes.into_iter().map(new).collect()
    }

    fn set(&mut self, stream: &str, change: impl FnOnce(&mut StreamSettings)) {
        let mut settings = StreamSettings::default();
        change(&mut settings);
        let (reply, mut answer) = Reply::new();
        let settings = Box::new(settings);
        self.settle(vec![StreamsInput::PutSettings { stream: name(stream), settings, reply }]);
        answer.try_recv().expect("it is answered").expect("done");
    }

    fn set_mode(&mut self, stream: &str, mode: SaveMode) {
        self.set(stream, |settings| settings.save = mode);
    }

    fn delete(&mut self, stream: &str) -> Answered<()> {
        let (reply, mut answer) = Reply::new();
        self.settle(vec![StreamsInput::Delete { stream: name(stream), reply }]);
        answer.try_recv().expect("it is answered")
    }

    /// Does all that is to be done with files. How many blocks were stored.
    fn work(&mut self) -> usize {
        let mut stored = 0;
        while let Some(work) = self.context.take_block_work() {
            stored += usize::from(matches!(work, BlockWork::Store(_)));
            if let Some(done) = do_work(&self.store, &self.context, work) {
                self.settle(vec![done.into_input()]);
            }
        }
        stored
    }

    /// Time passes, in steps of what is due.
    fn pass(&mut self, span: Duration) {
        let until = self.now.after(span);
        while self.now < until {
            let now = self.now;
            let next = self.machine().next_wakeup(now).unwrap_or(until);
            self.now = next.clamp(Timestamp(now.0 + 1), until);
            self.settle(Vec::new());
        }
    }

    fn close(&mut self) {
        self.machine().close();
        self.one_step(Vec::new());
    }

    fn read(&self, stream: &str, after: u64) -> Result<StreamPage, Problem> {
        let query =
            StreamRead { after, from: None, segments: Vec::new(), limit: 1_000, bytes_max: usize::MAX };
        StreamReader { store: &self.store, context: &self.context }.read(&name(stream), &query)
    }

    /// All messages: ids and payloads without their quotes.
    fn all(&self, stream: &str) -> Vec<(u64, String)> {
        let page = self.read(stream, 0).expect("is read");
        assert!(page.is_end, "all of it was read");
        let text = |payload: &[u8]| String::from_utf8_lossy(payload).trim_matches('"').to_owned();
        page.items.iter().map(|item| (item.id, text(&item.payload))).collect()
    }

    fn files(&self) -> usize {
        self.store.blocks().names("").expect("is listed").len()
    }
}

fn of(ids: std::ops::RangeInclusive<u64>, text: &str) -> Vec<(u64, String)> {
    ids.map(|id| (id, text.to_owned())).collect()
}

#[test]
fn ids_rise_by_one_and_are_answered_once_they_are_durable() {
    let mut bench = Bench::new();
    assert_eq!(bench.append_new("orders", &["a", "a", "a"]), [1, 2, 3]);
    bench.hold();
    let mut answer = bench.begin("orders", vec![message("b")], None);
    assert!(answer.try_recv().is_err(), "its batch is being written");
    assert_eq!(bench.all("orders"), of(1..=3, "a"), "nobody sees it either");
    bench.write_held();
    let outcomes = answer.try_recv().expect("it is answered").expect("appended");
    assert_eq!(outcomes, [AppendOutcome::Appended(4)]);
    assert_eq!(bench.all("orders").len(), 4);
    bench.load();
    assert_eq!(bench.append_new("orders", &["c"]), [5]);
}

#[test]
fn a_message_that_is_there_is_a_duplicate() {
    let mut bench = Bench::new();
    let three = || vec![from_source("a", "7"), from_source("b", "x"), from_source("c", "7")];
    let outcomes = bench.append("orders", three());
    let duplicate = |text, id| AppendOutcome::Duplicate(Box::new(from_source(text, id)));
    let expect = [AppendOutcome::Appended(1), AppendOutcome::Appended(2), duplicate("c", "7")];
    assert_eq!(outcomes, expect);
    for _ in 0..2 {
        let expect = [duplicate("a", "7"), duplicate("b", "x"), duplicate("c", "7")];
        assert_eq!(bench.append("orders", three()), expect);
        bench.load();
    }
    let other = NewMessage { source: Some("other".into()), ..from_source("a", "7") };
    assert_eq!(bench.append("orders", vec![other]), [AppendOutcome::Appended(3)]);
}

#[test]
fn what_a_crash_lost_was_never_there() {
    let mut bench = Bench::new();
    bench.set_mode("orders", SaveMode::Memory);
    bench.append("orders", vec![from_source("a", "7"), from_source("b", "x")]);
    bench.load();
    let outcomes = bench.append("orders", vec![from_source("a", "7"), from_source("b", "x")]);
    let is_new = |outcome: &AppendOutcome| matches!(outcome, AppendOutcome::Appended(id) if *id > 2);
    assert!(outcomes.iter().all(is_new), "{outcomes:?}");
}

#[test]
fn an_append_behind_another_tail_is_refused_whole() {
    let mut bench = Bench::new();
    let code = |bench: &mut Bench, expect| {
        let answer = bench.begin("orders", vec![message("a")], Some(expect)).try_recv().expect("answered");
        answer.map_err(|problem| problem.code)
    };
    assert_eq!(code(&mut bench, 3), Err("tail_moved"));
    assert_eq!(bench.read("orders", 0).expect_err("none was made").code, "unknown_stream");
    assert_eq!(code(&mut bench, 0), Ok(vec![AppendOutcome::Appended(1)]));
    assert_eq!(code(&mut bench, 0), Err("tail_moved"));
    assert_eq!(code(&mut bench, 1), Ok(vec![AppendOutcome::Appended(2)]));
}

#[test]
fn a_stream_that_is_deleted_leaves_nothing_and_its_name() {
    let mut bench = Bench::new();
    bench.set("orders", |settings| settings.block.messages = 2);
    let messages = (0..5).map(|n| from_source("a", &n.to_string())).chain([from_source("b", "x")]);
    bench.append("orders", messages.collect());
    assert_eq!(bench.work(), 3);
    assert_eq!(bench.files(), 3);
    bench.hold();
    let (reply, mut answer) = Reply::new();
    bench.one_step(vec![StreamsInput::Delete { stream: name("orders"), reply }]);
    assert!(answer.try_recv().is_err(), "it is not durable");
    bench.write_held();
    answer.try_recv().expect("it is answered").expect("done");
    assert_eq!(bench.append_new("orders", &["c"]), [1], "another one of that name");
    bench.settle(Vec::new());
    bench.work();
    assert_eq!(bench.files(), 0);
    let view = bench.store.view(id()).expect("opens");
    let old = Incarnation::in_partition(0, 0);
    assert_eq!(view.stream(old).expect("reads"), None);
    assert_eq!(view.stream_chunks(old, 0..u64::MAX, 1).expect("reads"), []);
    assert_eq!(view.intervals_of_stream(old, 9).expect("reads"), []);
    assert_eq!(view.texts_up_to(old, u64::MAX, 9).expect("reads"), []);
    assert_eq!(view.spans_up_to(old, u64::MAX, 9).expect("reads"), []);
    let own = Incarnation::in_partition(0, 1);
    let dues = view.streams_due(9).expect("reads");
    assert!(dues.iter().all(|due| due.stream == own), "{dues:?}");
    assert_eq!(bench.delete("others").expect_err("is not there").code, "unknown_stream");
}

#[test]
fn a_deletion_that_was_cut_off_goes_on_after_a_start() {
    let mut bench = Bench::new();
    bench.append_new("orders", &["a"]);
    let (reply, _answer) = Reply::new();
    bench.one_step(vec![StreamsInput::Delete { stream: name("orders"), reply }]);
    bench.load();
    assert_eq!(bench.read("orders", 0).expect_err("is deleted").code, "unknown_stream");
    bench.settle(Vec::new());
    let view = bench.store.view(id()).expect("opens");
    assert_eq!(view.stream(Incarnation::in_partition(0, 0)).expect("reads"), None);
    assert_eq!(view.streams_due(9).expect("reads"), []);
    drop(view);
    let now = bench.now;
    assert_eq!(bench.machine().next_wakeup(now), None);
}

#[test]
fn a_partition_without_streams_does_nothing_by_itself() {
    let mut bench = Bench::new();
    let now = bench.now;
    assert_eq!(bench.machine().next_wakeup(now), None);
}

#[test]
fn a_stream_that_nobody_uses_leaves_memory_and_comes_back() {
    let mut bench = Bench::new();
    bench.set("orders", |settings| settings.keep.age_ms = None);
    bench.append("orders", vec![from_source("a", "7")]);
    assert!(bench.context.tails.get(&name("orders")).is_some());
    bench.pass(Duration::from_secs(61));
    assert_eq!(bench.work(), 1, "its block is closed for its age");
    bench.pass(Duration::from_secs(61));
    assert!(bench.context.tails.get(&name("orders")).is_none());
    assert_eq!(bench.machine().loaded.len(), 0);
    let now = bench.now;
    assert_eq!(bench.machine().next_wakeup(now), None, "nothing is to be done with it");
    assert_eq!(bench.all("orders"), of(1..=1, "a"));
    let duplicate = AppendOutcome::Duplicate(Box::new(from_source("a", "7")));
    assert_eq!(bench.append("orders", vec![from_source("a", "7")]), [duplicate]);
    assert_eq!(bench.append_new("orders", &["b"]), [2]);
}
