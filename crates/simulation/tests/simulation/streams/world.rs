//! A partition of streams on a machine, the worker of its blocks, and those who append and read.

mod appending;
pub(crate) mod as_node;
mod blocks;
mod posting;
mod reading;
mod reading_on;
mod showing;
mod subscribing;
mod workload;

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use base::{Incarnation, PartitionId, Problem, Timestamp};
use engine::context::EngineContext;
use engine::kernel::reply::Reply;
use engine::streams::block_worker::DoneWork;
use engine::streams::input::AppendOutcome;
use engine::streams::{FreeSpace, PutSubscriptionOutcome, StreamName, StreamPartition, StreamsInput};
use records::{Batch, KeepBounds, SaveMode, StreamMove, StreamSettings, WhenFull};

use super::asked::AskedSubscription;
use super::changes::{SeenSubscription, SubscriptionChanges};
use super::cold_storage::{COLD, ColdStorage};
use super::counts::Counts;
use super::fault_injection::{ANSWERED_AT_ONCE, UNTIL_TAKEN_FORGOTTEN};
use super::ledger::Ledger;
use super::message::GivenMessage;
use super::model::Model;
use super::plan::StreamsPlan;
use super::positions::{FoundPositions, Positions};
use super::readers::ReaderCalls;
use crate::harness::calls::{self, Call, CallId, Calls, Expectations};
use crate::harness::machine::{Chance, Machine};
use crate::harness::one_partition::Phase;
use crate::harness::port::{AnyPort, Port};
use crate::harness::track::{AnyTrack, Track};
use crate::harness::violation::{Checked, Invariant};
use posting::OpenPost;
use reading_on::OpenRead;

/// The namespace of all streams.
const NAMESPACE: &str = "sim";

/// An input, as the model knows it.
enum MeantInput {
    Append {
        call: CallId,
        name: Box<str>,
        taken_by: Arc<OnceLock<Incarnation>>,
    },
    Set {
        call: CallId,
        name: Box<str>,
        mode: SaveMode,
    },
    Delete {
        call: CallId,
        name: Box<str>,
    },
    Subscription {
        call: CallId,
        asked: Rc<AskedSubscription>,
    },
    /// Nobody waits.
    Told,
}

/// What came of a call.
enum Answer {
    Appended(Result<Vec<AppendOutcome>, Problem>),
    Done(Result<(), Problem>),
    Subscribed(Result<PutSubscriptionOutcome, Problem>),
}

/// What was asked for.
enum Then {
    Append { name: Box<str>, given: Vec<GivenMessage>, expect_last_id: Option<u64> },
    Set,
    Delete { name: Box<str> },
    Subscription(Rc<AskedSubscription>),
}

impl Then {
    /// It is not answered: it may have moved subscriptions, or not.
    fn unanswered(&self, positions: &mut Positions) {
        match self {
            Self::Delete { name } => positions.stream_unanswered(name),
            Self::Subscription(asked) => positions.unanswered(asked),
            Self::Append { .. } | Self::Set => {}
        }
    }
}

/// What a step made of a call.
enum SteppedCall {
    Append(TakenAppend),
    Subscription(Box<SeenSubscription>),
    /// Its answer says all of it.
    Other,
}

/// Which stream took an append, and how.
#[derive(Clone, Copy)]
struct TakenAppend {
    stream: Option<Incarnation>,
    mode: SaveMode,
}

/// One life of the process.
struct Server {
    context: EngineContext,
    streams: Port<StreamPartition, MeantInput>,
    /// The worker of blocks has begun.
    has_swept: bool,
    /// What it has done and not told.
    done: Option<DoneWork>,
    /// Something that it did failed: files may be left until the next start.
    has_failed: bool,
    /// How often the partition was loaded, up to which time the ledger was looked through, and up
    /// to which positions were.
    loads: Arc<AtomicU64>,
    loads_noticed: u64,
    loads_seen: u64,
}

/// The workload.
pub(crate) struct World {
    plan: StreamsPlan,
    machine: Rc<Machine>,
    cold: Arc<ColdStorage>,
    server: Option<Server>,
    model: Track<Model>,
    ledger: Ledger,
    positions: Positions,
    readers: ReaderCalls,
    /// Calls of readers that are under way.
    reads: Vec<OpenRead>,
    /// Posts that were taken, and are not committed.
    posts: Vec<OpenPost>,
    expectations: Expectations<SteppedCall>,
    calls: Calls<Answer, Then>,
    /// Messages with a source that were sent, newest last.
    sent: Vec<GivenMessage>,
    /// The next number of each source that counts.
    next_numbers: BTreeMap<Box<str>, u64>,
    last_payload: u64,
    is_nearly_full: bool,
    /// The disk was nearly full once.
    was_nearly_full: bool,
    phase: Phase,
    counts: Counts,
}

fn free_space(is_nearly_full: bool) -> FreeSpace {
    if is_nearly_full { FreeSpace::Low } else { FreeSpace::Enough }
}

/// Any save mode, and blocks that a run fills many of.
pub(crate) fn small_blocks(random: &Chance) -> StreamSettings {
    let mut settings = StreamSettings { save: random.one_of(&SaveMode::ALL), ..StreamSettings::default() };
    settings.save_interval_ms = 10 + random.below(4_000);
    settings.block.bytes = 1_000 + random.below(3_000);
    settings.block.age_ms = 100 + random.below(20_000);
    settings.block.messages = 1 + random.below(20) as u32;
    settings
}

fn partition() -> PartitionId {
    PartitionId::of_streams(0)
}

pub(crate) fn stream_name(name: &str) -> StreamName {
    StreamName::new(NAMESPACE, name).expect("a name")
}

impl World {
    fn now(&self) -> Timestamp {
        self.machine.now()
    }

    fn any_name(&self) -> Box<str> {
        format!("s{}", self.machine.random.below(self.plan.streams)).into()
    }

    fn partition_port(&self) -> Option<&dyn AnyPort> {
        self.server.as_ref().map(|server| &server.streams as &dyn AnyPort)
    }

    fn has_room(&self) -> bool {
        !self.phase.is_closing && self.server.as_ref().is_some_and(|server| server.streams.has_room())
    }

    fn hand_in(&mut self, input: StreamsInput, meant: MeantInput) -> bool {
        let server = self.server.as_mut().filter(|_| !self.phase.is_closing);
        server.is_some_and(|server| server.streams.hand_in(input, meant))
    }

    /// Hands in a call, and waits for its answer.
    fn ask(
        &mut self,
        (input, meant): (StreamsInput, impl FnOnce(CallId) -> MeantInput),
        waiting: calls::Waiting<Answer>,
        then: Then,
    ) {
        let id = self.calls.next_id();
        if self.hand_in(input, meant(id)) {
            let life = self.partition_port().and_then(AnyPort::life);
            self.calls.waiting.push(Call { id, waiting, asked: vec![(partition(), life)], then });
        }
    }

    fn set(&mut self) {
        let name = self.any_name();
        let settings = self.any_settings();
        self.machine.trace.note(format_args!("set {name}: {settings:?}"));
        let mode = settings.save;
        let mut given = settings;
        if self.machine.injects(ANSWERED_AT_ONCE) && mode == SaveMode::Sync {
            given.save = SaveMode::Periodic;
        }
        given.keep.until_copied &= !self.machine.injects(UNTIL_TAKEN_FORGOTTEN);
        let (reply, receiver) = Reply::new();
        let input =
            StreamsInput::PutSettings { stream: stream_name(&name), settings: Box::new(given), reply };
        let waiting = calls::Waiting::on(receiver, Answer::Done);
        self.ask((input, move |call| MeantInput::Set { call, name, mode }), waiting, Then::Set);
    }

    fn any_settings(&self) -> StreamSettings {
        let random = &self.machine.random;
        let mut settings = small_blocks(random);
        let age_ms = random.chance(1, 2).then(|| 1_000 + random.below(300_000));
        let bytes = random.chance(1, 3).then(|| 1_000 + random.below(8_000));
        settings.keep = KeepBounds { age_ms, bytes, until_copied: true };
        settings.when_full = random.one_of(&WhenFull::ALL);
        settings.unload_after_ms = 100 + random.below(30_000);
        if random.below(100) < self.plan.moving_percent {
            settings.moves.push(StreamMove { after_ms: random.below(60_000), to: COLD.into() });
        }
        settings
    }

    fn delete(&mut self) {
        let name = self.any_name();
        self.machine.trace.note(format_args!("delete {name}"));
        let (reply, receiver) = Reply::new();
        let input = StreamsInput::Delete { stream: stream_name(&name), reply };
        let waiting = calls::Waiting::on(receiver, Answer::Done);
        let then = Then::Delete { name: name.clone() };
        self.ask((input, move |call| MeantInput::Delete { call, name }), waiting, then);
    }

    /// The disk becomes nearly full, or has room again.
    fn change_disk(&mut self, is_nearly_full: bool) {
        self.is_nearly_full = is_nearly_full;
        self.was_nearly_full |= is_nearly_full;
        self.machine.trace.note(format_args!("the disk is nearly full: {is_nearly_full}"));
        let _takes = self.hand_in(StreamsInput::Disk { room: free_space(is_nearly_full) }, MeantInput::Told);
    }

    /// One step of the partition over some of its inbox.
    fn step(&mut self, count: usize) -> Checked {
        let Some(server) = &mut self.server else { return Ok(()) };
        let Some(stepped) = server.streams.step(count, &self.machine) else {
            return self.take_answers();
        };
        self.notice_load()?;
        let taken = self.stepped(stepped.inputs, stepped.batch.as_ref())?;
        if let Some(batch) = &stepped.batch {
            self.model.present.made(batch, &self.ledger, self.was_nearly_full)?;
            for (_, call) in &taken {
                if let SteppedCall::Subscription(seen) = call {
                    seen.check_begun(&self.model.present)?;
                }
            }
            self.model.made(batch.head.seq)?;
        }
        let seq = self.model.latest();
        for (call, stepped) in taken {
            self.expectations.expect(call, partition(), seq, stepped);
        }
        self.take_answers()
    }

    /// What a step made of each of its inputs. The model is as before.
    fn stepped(
        &mut self,
        inputs: Vec<MeantInput>,
        batch: Option<&Batch>,
    ) -> Checked<Vec<(CallId, SteppedCall)>> {
        let mut modes = self.model.present.modes.clone();
        let mut changes = SubscriptionChanges::of(&self.model.present, &self.ledger, batch)?;
        let mut taken = Vec::new();
        for meant in inputs {
            taken.push(match meant {
                MeantInput::Append { call, name, taken_by } => {
                    let stream = taken_by.get().copied();
                    let mode = modes.get(&name).copied().unwrap_or_default();
                    (call, SteppedCall::Append(TakenAppend { stream, mode }))
                }
                MeantInput::Set { call, name, mode } => {
                    modes.insert(name, mode);
                    (call, SteppedCall::Other)
                }
                MeantInput::Delete { call, name } => {
                    modes.remove(&name);
                    changes.stream_deleted(&name)?;
                    (call, SteppedCall::Other)
                }
                MeantInput::Subscription { call, asked } => {
                    (call, SteppedCall::Subscription(Box::new(changes.take(asked)?)))
                }
                MeantInput::Told => continue,
            });
        }
        changes.check_no_more()?;
        self.model.present.modes = modes;
        Ok(taken)
    }

    fn take_answers(&mut self) -> Checked {
        self.notice_load()?;
        let ended = self.calls.take_ended();
        ended.deliver(self, Self::answered, |world, call| {
            call.check_dropped(|_| world.partition_port().and_then(AnyPort::life))?;
            world.expectations.forget(call.id);
            call.then.unanswered(&mut world.positions);
            Ok(())
        })?;
        self.look_at_positions()
    }

    fn answered(&mut self, call: Call<Answer, Then>, answer: Answer) -> Checked {
        let taken = self.expectations.take(&call)?;
        let Some(((_, seq), taken)) = taken.into_iter().next() else { return Ok(()) };
        self.model.shown(seq);
        self.machine.trace.note(format_args!("call {} is answered", call.id));
        match (call.then, answer, taken) {
            (
                Then::Append { name, given, expect_last_id },
                Answer::Appended(Ok(outcomes)),
                SteppedCall::Append(taken),
            ) => self.appended(&name, taken, (given, expect_last_id), outcomes),
            (Then::Append { .. }, Answer::Appended(Err(problem)), _) => self.refused(&problem),
            (Then::Set, Answer::Done(done), _) => {
                self.counts.set += 1;
                Invariant::AS_THE_MODEL.check(done.is_ok(), || format!("settings are refused: {done:?}"))
            }
            (Then::Delete { name }, Answer::Done(done), _) => {
                if done.is_ok() {
                    self.positions.stream_deleted(&name, seq);
                }
                let is_right = done.as_ref().err().is_none_or(|problem| problem.code == "unknown_stream");
                Invariant::AS_THE_MODEL.check(is_right, || format!("a deletion is refused: {done:?}"))
            }
            (Then::Subscription(_), answer, SteppedCall::Subscription(seen)) => {
                self.subscription_answered(&seen, seq, answer)
            }
            _ => Ok(()),
        }
    }

    /// The partition lost its memory, or began: what was answered and is not there is lost.
    fn notice_load(&mut self) -> Checked {
        let Some(server) = self.server.as_mut() else { return Ok(()) };
        let loads = server.loads.load(Ordering::Relaxed);
        if std::mem::replace(&mut server.loads_noticed, loads) != loads {
            self.counts.lost += self.ledger.loaded(&self.model.present)?;
        }
        Ok(())
    }

    /// The partition was loaded: subscriptions are where callers were told, or where a call may
    /// have brought them that was not answered.
    fn look_at_positions(&mut self) -> Checked {
        let Some(server) = self.server.as_mut() else { return Ok(()) };
        let loads = server.loads.load(Ordering::Relaxed);
        if std::mem::replace(&mut server.loads_seen, loads) == loads {
            return Ok(());
        }
        for call in &self.calls.waiting {
            call.then.unanswered(&mut self.positions);
        }
        let seq = self.model.latest();
        let FoundPositions { kept, moved } = self.positions.loaded(&self.model.present, seq)?;
        self.counts.positions_kept += kept;
        self.counts.positions_moved += moved;
        Ok(())
    }
}
