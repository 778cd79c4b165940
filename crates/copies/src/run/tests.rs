//! A copy between two lists, whose requests are lost, late and repeated, run by hand.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};

use base::locks::locked;
use base::random::Random;
use base::{Incarnation, Timestamp};
use bytes::Bytes;
use engine::records::{CopyDirection, StreamCopy};
use engine::streams::copying::{advance, begin_live, forget_peer};
use engine::streams::{
    CopyMove, CopyProgress, PeerIdentity, TransferHeaders, TransferMessage, TransferPayload, TransferReader,
    TransferWriter,
};
use futures_util::FutureExt;
use futures_util::future::pending;

use super::*;
use crate::ends::{CopyBatch, PageAsk, SinkAnswer, SourcePage};

/// Both ends, the row and the clock.
#[derive(Clone)]
struct TwoLists(Arc<Mutex<TwoListsState>>);

struct TwoListsState {
    random: Random,
    row: StreamCopy,
    /// The numbers of the source's messages; ids are their places, from 1.
    source: Vec<u64>,
    /// What the sink has, in its order.
    sink: Vec<u64>,
    sink_name: u64,
    sink_is_gone: bool,
    now: Timestamp,
    /// One request in so many fails, before or behind what it asks for.
    faults: u64,
    /// Every other append is overtaken.
    overtakes: bool,
    /// The sink takes a batch only behind a durable position.
    is_stop_and_wait: bool,
    is_late: bool,
    runs: u64,
    taken: std::collections::BTreeMap<u64, u64>,
    refuses: bool,
    /// The sink takes no more at once.
    room: usize,
    /// Messages up to this one are of others.
    left_out: u64,
    /// The sink takes what comes for another stream too, as it did before it was told.
    takes_for_others: bool,
    status: CopyStatus,
}

impl TwoLists {
    fn new(seed: u64, faults: u64) -> Self {
        let (copy, end) = ((Incarnation(1), "c"), ("dc1", "shop", "all"));
        let row = StreamCopy::begin(copy, CopyDirection::To, end, Timestamp(0));
        Self(Arc::new(Mutex::new(TwoListsState {
            random: Random::new(seed),
            row,
            source: Vec::new(),
            sink: Vec::new(),
            sink_name: 0,
            sink_is_gone: false,
            now: Timestamp(1),
            faults,
            overtakes: false,
            is_stop_and_wait: false,
            is_late: false,
            runs: 0,
            taken: std::collections::BTreeMap::new(),
            refuses: false,
            room: usize::MAX,
            left_out: 0,
            takes_for_others: false,
            status: CopyStatus::default(),
        })))
    }

    fn inside(&self) -> MutexGuard<'_, TwoListsState> {
        locked(&self.0)
    }

    /// Runs a copy from where it is, as a new process would, until it waits for messages.
    fn run(&self) {
        self.run_until(|inside| inside.row.position == inside.source.len() as u64 || inside.refuses);
    }

    fn run_until(&self, is_at_rest: impl Fn(&TwoListsState) -> bool) {
        let (source, sink) = (self.clone(), Sink(self.clone()));
        let mut run = Box::pin(run_copy(self, &source, &sink, 7));
        for _ in 0..5_000 {
            if (&mut run).now_or_never().is_some() {
                return;
            }
            let mut inside = self.inside();
            inside.now = inside.now.after(Duration::from_millis(100));
            if is_at_rest(&inside) {
                return;
            }
        }
        panic!("it never came to rest: {:?}", self.inside().row);
    }
}

impl TwoListsState {
    fn identity(&self) -> PeerIdentity {
        PeerIdentity { node: "dc1".into(), stream: format!("dc1.{}", self.sink_name).into() }
    }

    fn is_next_late(&mut self) -> bool {
        self.is_late = self.overtakes && !self.is_late;
        self.is_late
    }

    fn fails(&mut self) -> bool {
        self.faults > 0 && self.random.below(self.faults) == 0
    }
}

impl StreamEnd for TwoLists {
    async fn page(&self, ask: PageAsk) -> Result<SourcePage, CopyFailure> {
        let page = {
            let inside = self.inside();
            let mut writer = TransferWriter::default();
            let after = usize::try_from(ask.after.max(inside.left_out)).unwrap_or(usize::MAX);
            let from = after.min(inside.source.len());
            let to = (from + ask.limit.min(7)).min(inside.source.len());
            for (place, number) in inside.source[from..to].iter().enumerate() {
                let payload = number.to_string();
                writer.push(&engine_message(from as u64 + place as u64 + 1, payload.as_bytes()));
            }
            SourcePage {
                messages: (to - from) as u64,
                body: writer.finish().into(),
                oldest_at: Some(Timestamp(0)),
                next_after: ask.after.max(to as u64),
                newest: inside.source.len() as u64,
                identity: PeerIdentity { node: "here".into(), stream: "here.1".into() },
            }
        };
        if page.messages == 0 && page.next_after == ask.after && ask.waits {
            return pending().await;
        }
        Ok(page)
    }

    async fn append(&self, _: CopyBatch) -> Result<SinkAnswer, CopyFailure> {
        panic!("nothing is appended to the source")
    }
}

/// The other end of the two lists.
struct Sink(TwoLists);

impl StreamEnd for Sink {
    async fn page(&self, ask: PageAsk) -> Result<SourcePage, CopyFailure> {
        let inside = self.0.inside();
        if inside.sink_is_gone {
            return Err(CopyFailure::new(CopyFailureKind::NotThere, "404 unknown_stream"));
        }
        let newest = inside.sink.len() as u64;
        let (body, identity) = (Bytes::new(), inside.identity());
        Ok(SourcePage { messages: 0, body, oldest_at: None, next_after: ask.after, newest, identity })
    }

    async fn append(&self, batch: CopyBatch) -> Result<SinkAnswer, CopyFailure> {
        if self.0.inside().is_next_late() {
            pending_once().await;
        }
        let mut inside = self.0.inside();
        let lost = || CopyFailure::new(CopyFailureKind::Unanswered, "lost");
        if inside.refuses {
            return Err(CopyFailure::new(CopyFailureKind::Refused, "422 payload_too_large"));
        }
        if batch.messages > inside.room as u64 {
            return Err(CopyFailure::of_problem(503, "stream_full", "raise keep.bytes"));
        }
        if inside.fails() {
            return Err(lost());
        }
        let is_other = inside.sink_is_gone || batch.expected.as_deref() != Some(&*inside.identity().stream);
        if batch.expected.is_some() && is_other && !inside.takes_for_others {
            return Err(CopyFailure::new(CopyFailureKind::OtherStream, "409 other_stream"));
        }
        let next = inside.taken.get(&batch.run).copied();
        if batch.place > 0 && next != Some(batch.place) {
            return Err(CopyFailure::new(CopyFailureKind::OutOfOrder, "503 busy"));
        }
        if std::mem::take(&mut inside.sink_is_gone) {
            (inside.sink_name, inside.sink) = (inside.sink_name + 1, Vec::new());
        }
        inside.taken.insert(batch.run, batch.place + 1);
        let (mut appended, mut duplicates) = (0, 0);
        for message in TransferReader::new(&batch.body).expect("a form") {
            let text = message.expect("a message").payload.bytes();
            let number: u64 = std::str::from_utf8(text).expect("text").parse().expect("a number");
            let is_first = appended + duplicates == 0;
            assert!(!(is_first && inside.is_stop_and_wait) || number == inside.row.position, "{number}");
            if inside.sink.contains(&number) {
                duplicates += 1;
            } else {
                inside.sink.push(number);
                appended += 1;
            }
        }
        if inside.fails() {
            return Err(lost());
        }
        Ok(SinkAnswer { appended, duplicates, refused: 0, identity: inside.identity() })
    }

    fn is_stop_and_wait(&self) -> bool {
        self.0.inside().is_stop_and_wait
    }
}

async fn pending_once() {
    let mut is_ready = false;
    let once = |context: &mut std::task::Context<'_>| {
        context.waker().wake_by_ref();
        match std::mem::replace(&mut is_ready, true) {
            true => std::task::Poll::Ready(()),
            false => std::task::Poll::Pending,
        }
    };
    std::future::poll_fn(once).await;
}

fn engine_message(id: u64, payload: &[u8]) -> TransferMessage<'_> {
    TransferMessage {
        id,
        received_at: Timestamp(0),
        ts: Timestamp(0),
        origin: None,
        segment: None,
        headers: TransferHeaders::NONE,
        payload: TransferPayload::Bytes(payload),
    }
}

impl CopyHome for TwoLists {
    async fn row(&self) -> Result<StreamCopy, Problem> {
        Ok(self.inside().row.clone())
    }

    async fn moved(&self, _: &StreamCopy, change: CopyMove) -> Result<CopyProgress, Problem> {
        let mut inside = self.inside();
        let now = inside.now;
        Ok(match &change {
            CopyMove::Step(span) => advance(&mut inside.row, span, now),
            CopyMove::BeginLive { newest, source } => begin_live(&mut inside.row, *newest, source),
            CopyMove::PeerGone { known } => forget_peer(&mut inside.row, known, now),
            CopyMove::BeginAt { .. } => CopyProgress::Elsewhere,
        })
    }

    fn note(&self, status: CopyStatus) {
        self.inside().status = status;
    }

    fn now(&self) -> Timestamp {
        self.inside().now
    }

    async fn until(&self, at: Timestamp) {
        let is_time = |_: &mut std::task::Context<'_>| match self.inside().now >= at {
            true => std::task::Poll::Ready(()),
            false => std::task::Poll::Pending,
        };
        std::future::poll_fn(is_time).await;
    }

    fn draw_run(&self) -> u64 {
        let mut inside = self.inside();
        inside.runs += 1;
        inside.runs
    }
}

#[test]
fn everything_is_there_once_and_in_order() {
    for seed in 0..200 {
        let world = TwoLists::new(seed, 4);
        for _ in 0..8 {
            let more = world.inside().random.below(60);
            let mut inside = world.inside();
            let next = inside.source.len() as u64;
            inside.source.extend(next..next + more);
            drop(inside);
            // Each time another process: what was under way is lost.
            world.run();
        }
        let inside = world.inside();
        assert_eq!(inside.sink, inside.source, "seed {seed}");
        assert_eq!(inside.row.position, inside.source.len() as u64, "seed {seed}");
        assert!(inside.row.copied <= inside.source.len() as u64, "seed {seed}");
    }
}

#[test]
fn a_batch_that_overtakes_another_is_not_sent_from_there_on_again() {
    let world = TwoLists::new(1, 0);
    world.inside().overtakes = true;
    world.inside().source.extend(0..500);
    world.run();
    let inside = world.inside();
    assert_eq!(inside.sink, inside.source);
    assert_eq!((inside.row.copied, inside.row.duplicates, inside.runs), (500, 0, 1));
}

#[test]
fn a_sink_that_knows_the_latest_batch_alone_gets_the_next_behind_a_durable_position() {
    for seed in 0..50 {
        let world = TwoLists::new(seed, 5);
        world.inside().is_stop_and_wait = true;
        world.inside().source.extend(0..120);
        world.run();
        assert_eq!(world.inside().sink, (0..120).collect::<Vec<u64>>(), "seed {seed}");
    }
}

#[test]
fn a_sink_that_is_sent_nothing_is_asked_whether_it_is_the_same() {
    for is_gone in [false, true] {
        let world = TwoLists::new(1, 0);
        world.inside().source.extend(0..50);
        world.run();
        {
            let mut inside = world.inside();
            (inside.sink_is_gone, inside.sink) = (is_gone, Vec::new());
            inside.sink_name += u64::from(!is_gone);
        }
        world.run_until(|inside| inside.sink.len() == 50);
        assert_eq!(world.inside().sink, (0..50).collect::<Vec<_>>(), "{is_gone}");
    }
}

#[test]
fn a_sink_that_was_made_anew_gets_everything_again_in_order() {
    for (is_gone, takes_for_others) in [(false, false), (true, false), (false, true)] {
        let world = TwoLists::new(1, 0);
        world.inside().source.extend(0..50);
        world.run();
        {
            let mut inside = world.inside();
            (inside.sink_is_gone, inside.sink) = (is_gone, Vec::new());
            inside.sink_name += u64::from(!is_gone);
            inside.takes_for_others = takes_for_others;
            inside.source.extend(50..55);
        }
        world.run();
        let inside = world.inside();
        let sink: BTreeSet<u64> = inside.sink.iter().copied().collect();
        assert_eq!(sink, (0..55).collect(), "{is_gone} {takes_for_others}");
        assert!(inside.row.reset_at.is_some());
        if !takes_for_others {
            assert_eq!(inside.sink, (0..55).collect::<Vec<_>>(), "{is_gone}");
        }
    }
}

#[test]
fn what_a_sink_that_is_gone_had_does_not_count_any_more() {
    let world = TwoLists::new(1, 0);
    world.inside().source.extend(0..50);
    world.run();
    {
        let mut inside = world.inside();
        (inside.sink_is_gone, inside.sink, inside.refuses) = (true, Vec::new(), true);
    }
    world.run_until(|inside| inside.row.peer.is_none());
    let row = world.inside().row.clone();
    assert_eq!((row.position, row.peer_node), (0, None));
    world.inside().refuses = false;
    world.run();
    assert_eq!(world.inside().sink, (0..50).collect::<Vec<_>>());
}

#[test]
fn messages_of_others_alone_move_a_copy_whose_sink_never_answered() {
    let world = TwoLists::new(1, 0);
    world.inside().source.extend(0..50);
    world.inside().left_out = 50;
    world.run();
    let row = world.inside().row.clone();
    assert_eq!((row.position, row.peer), (50, None));
    world.inside().source.extend(50..60);
    world.run();
    let inside = world.inside();
    assert_eq!(inside.sink, (50..60).collect::<Vec<_>>());
    assert_eq!((inside.row.position, inside.row.reset_at), (60, None));
}

#[test]
fn what_is_refused_stops_the_copy_and_is_never_skipped() {
    let world = TwoLists::new(1, 0);
    world.inside().source.extend(0..30);
    world.inside().refuses = true;
    world.run();
    let status = world.inside().status.clone();
    assert_eq!((world.inside().row.position, status.failures > 0), (0, true));
    assert!(status.error.as_deref().is_some_and(|error| error.contains("payload_too_large")));
    world.inside().refuses = false;
    world.run();
    assert_eq!(world.inside().sink, (0..30).collect::<Vec<u64>>());
}

#[test]
fn a_sink_without_room_for_a_batch_gets_smaller_ones() {
    for room in [1, 2, 6] {
        let world = TwoLists::new(1, 0);
        world.inside().source.extend(0..60);
        world.inside().room = room;
        world.run();
        let inside = world.inside();
        assert_eq!(inside.sink, (0..60).collect::<Vec<u64>>(), "{room}");
        assert_eq!((inside.row.position, inside.row.duplicates), (60, 0), "{room}");
    }
}

#[test]
fn a_live_lane_brings_new_messages_beside_the_backlog() {
    for seed in 0..50 {
        let world = TwoLists::new(seed, 6);
        world.inside().now = Timestamp(60_000);
        world.inside().row.live_permille = 500;
        world.inside().source.extend(0..200);
        world.run();
        let inside = world.inside();
        let sink: BTreeSet<u64> = inside.sink.iter().copied().collect();
        assert_eq!((sink.len(), inside.sink.len()), (200, 200), "seed {seed}: all, and each once");
        assert_eq!((inside.row.position, inside.row.live), (200, None), "seed {seed}");
    }
}
