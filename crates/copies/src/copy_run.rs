//! A copy while nothing fails: it reads ahead, has two batches under way, and moves the position
//! behind what was answered.
//!
//! Batches are answered in their order, so what is answered is always a beginning of what was sent.
//! After any failure everything that was not answered is sent again: what is there already is a
//! duplicate. Nothing is skipped, ever: what the sink refuses stops the copy until that changes.

mod identity;

use std::pin::Pin;
use std::time::Duration;

use base::{Problem, Timestamp};
use engine::records::{CopyBegin, CopyDirection, StreamCopy};
use engine::streams::copying::{CopyPace, LIVE_WHEN_BEHIND, LaneBytes};
use engine::streams::{CopiedSpan, CopyLane, CopyMove, CopyProgress, CopyStatus, PeerIdentity};
use futures_util::future::{Either, pending, select};
use futures_util::stream::{FuturesOrdered, StreamExt};

use crate::batch_size::BatchSize;
use crate::ends::{
    CopyBatch, CopyFailure, CopyFailureKind, CopyHome, PageAsk, SinkAnswer, SourcePage, StreamEnd,
};

/// Batches that are sent and not answered.
const IN_FLIGHT_MAX: usize = 2;
/// The position is moved so often while messages go; whenever none do, at once.
const MOVED_EVERY: Duration = Duration::from_millis(200);

/// Why a run ended.
pub(crate) enum CopyRunEnd {
    /// The copy is another one than it was: its row is read again.
    Again,
    /// Its home did not answer.
    Home(Problem),
    /// One of its ends did not.
    Failed(CopyFailure),
}

impl From<CopyFailure> for CopyRunEnd {
    fn from(failure: CopyFailure) -> Self {
        Self::Failed(failure)
    }
}

type PageRead<'a> = Pin<Box<dyn Future<Output = (CopyLane, Result<SourcePage, CopyFailure>)> + Send + 'a>>;
type BatchSent<'a> = Pin<Box<dyn Future<Output = (SentBatch, Result<SinkAnswer, CopyFailure>)> + Send + 'a>>;

/// What was sent.
#[derive(Clone, Debug)]
struct SentBatch {
    lane: CopyLane,
    from: u64,
    to: u64,
    /// Who gave the messages.
    source: PeerIdentity,
    /// When; nothing where all was left out.
    sent_at: Option<Timestamp>,
    /// It is sent once more if it overtook the one before it; nothing where all was left out.
    again: Option<CopyBatch>,
}

/// A copy while nothing fails.
pub(crate) struct CopyRun<'a, H, S, T> {
    home: &'a H,
    source: &'a S,
    sink: &'a T,
    row: StreamCopy,
    pub(crate) status: CopyStatus,
    pub(crate) size: BatchSize,
    /// Up to here each lane was read.
    read_to: LanePlaces,
    /// The newest durable message of the source, as far as it is known.
    newest: u64,
    /// Each lane's messages are read to the end.
    is_at_end: bool,
    reading: Option<PageRead<'a>>,
    in_flight: FuturesOrdered<BatchSent<'a>>,
    /// What was answered and is not moved yet.
    answered: Vec<CopiedSpan>,
    moved_at: Timestamp,
    /// When the sink last said which stream it is.
    sink_seen_at: Timestamp,
    pace: CopyPace,
    sent: LaneBytes,
    run: u64,
    place: u64,
    /// Which stream the sink last said that it is: batches are for that one alone.
    sink_called: Option<Box<str>>,
}

#[derive(Clone, Copy, Debug)]
struct LanePlaces {
    backlog: u64,
    live: u64,
}

/// What happened.
enum CopyEvent {
    Read(CopyLane, Result<SourcePage, CopyFailure>),
    Answer(SentBatch, Result<SinkAnswer, CopyFailure>),
    Time,
    /// Nothing was sent for a while.
    Silence,
}

impl<'a, H: CopyHome, S: StreamEnd, T: StreamEnd> CopyRun<'a, H, S, T> {
    pub(crate) fn new(home: &'a H, source: &'a S, sink: &'a T, row: StreamCopy, size: BatchSize) -> Self {
        let now = home.now();
        let backlog = row.position;
        let live = row.live.map_or(backlog, |live| live.position);
        Self {
            home,
            source,
            sink,
            status: CopyStatus::default(),
            size,
            read_to: LanePlaces { backlog, live },
            newest: 0,
            is_at_end: false,
            reading: None,
            in_flight: FuturesOrdered::new(),
            answered: Vec::new(),
            moved_at: now,
            sink_seen_at: now,
            pace: CopyPace::new(row.rate, now),
            sent: LaneBytes::default(),
            run: home.draw_run(),
            place: 0,
            sink_called: row.peer.clone().filter(|_| row.direction == CopyDirection::To),
            row,
        }
    }

    /// Copies until something fails, or the copy is another one.
    pub(crate) async fn go(&mut self) -> CopyRunEnd {
        let ended = match self.begin().await {
            Ok(()) => loop {
                if let Err(ended) = self.turn().await {
                    break ended;
                }
            },
            Err(ended) => ended,
        };
        // What was answered is true, whatever came after it.
        self.reading = None;
        self.in_flight = FuturesOrdered::new();
        match self.flush().await {
            Ok(()) => ended,
            Err(other) => other,
        }
    }

    /// Finds where the copy begins, where the other end had to be asked for it.
    async fn begin(&mut self) -> Result<(), CopyRunEnd> {
        let Some(begins) = self.row.begins else { return Ok(()) };
        let (after, from) = match begins {
            CopyBegin::End => (u64::MAX >> 1, None),
            CopyBegin::Time(at) => (0, Some(at)),
        };
        let mut ask = self.ask(after, 1, false);
        ask.from = from;
        let page = loop {
            let page = self.source.page(ask.clone()).await?;
            if begins == CopyBegin::End || page.messages > 0 || page.next_after >= page.newest {
                break page;
            }
            ask.after = page.next_after;
        };
        let id = match begins {
            CopyBegin::End => page.newest,
            CopyBegin::Time(_) => page.next_after - page.messages.min(page.next_after),
        };
        let moved = self.home.moved(&self.row, CopyMove::BeginAt { id, peer: page.identity }).await;
        moved.map_err(CopyRunEnd::Home)?;
        Err(CopyRunEnd::Again)
    }

    /// Begins what can be, and takes the first thing that happens.
    async fn turn(&mut self) -> Result<(), CopyRunEnd> {
        let now = self.home.now();
        self.read_on(now);
        match self.event(now).await {
            CopyEvent::Read(lane, page) => {
                self.reading = None;
                self.take_page(lane, page?).await
            }
            CopyEvent::Answer(sent, Err(failure)) => self.refused(sent, failure).await,
            CopyEvent::Answer(sent, Ok(answer)) => self.take_answer(sent, answer).await,
            CopyEvent::Time => Ok(()),
            CopyEvent::Silence => self.check_sink().await,
        }
    }

    /// Reads the next page, if one may be read now.
    fn read_on(&mut self, now: Timestamp) {
        let is_resting = self.is_at_end && !(self.in_flight.is_empty() && self.answered.is_empty());
        // A batch behind one whose stream is not known might come to another stream.
        let is_alone = self.sink.is_stop_and_wait() || self.sink_called.is_none();
        let in_flight_max = if is_alone { 1 } else { IN_FLIGHT_MAX };
        let is_unmoved = self.sink.is_stop_and_wait() && !self.answered.is_empty();
        let may_read = self.reading.is_none()
            && self.in_flight.len() < in_flight_max
            && !is_resting
            && !is_unmoved
            && self.pace.next_at() <= now;
        if !may_read {
            return;
        }
        let lane = self.lane();
        let after = self.place_of(lane);
        let until = self.row.live.filter(|_| lane == CopyLane::Backlog).map(|live| live.from);
        if until.is_some_and(|until| after >= until) && !self.in_flight.is_empty() {
            // Both lanes are one once this is answered.
            return;
        }
        let few =
            until.map_or(usize::MAX, |until| usize::try_from(until - after.min(until)).unwrap_or(1).max(1));
        let ask = self.ask(after, self.size.messages.min(few), self.is_at_end);
        let source = self.source;
        self.reading = Some(Box::pin(async move { (lane, source.page(ask).await) }));
    }

    fn ask(&self, after: u64, limit: usize, waits: bool) -> PageAsk {
        let bytes_max = self.pace.bytes_together(self.size.bytes);
        PageAsk { after, from: None, segments: self.row.segments.clone(), limit, bytes_max, waits }
    }

    /// The lane that is read next.
    fn lane(&self) -> CopyLane {
        match self.row.live {
            Some(live) if self.read_to.backlog >= live.from => CopyLane::Live,
            Some(_) if self.newest > self.read_to.live => self.sent.next(self.row.live_permille),
            _ => CopyLane::Backlog,
        }
    }

    fn place_of(&self, lane: CopyLane) -> u64 {
        match lane {
            CopyLane::Backlog => self.read_to.backlog,
            CopyLane::Live => self.read_to.live,
        }
    }

    /// The first thing that happens. What may not be read at `now` is waited for.
    async fn event(&mut self, now: Timestamp) -> CopyEvent {
        let asks_sink_at = self.asks_sink_at();
        let (home, reading, in_flight) = (self.home, &mut self.reading, &mut self.in_flight);
        let paid_at = self.pace.next_at();
        let is_paced = reading.is_none() && paid_at > now;
        let read = async {
            match reading {
                Some(reading) => {
                    let (lane, page) = reading.await;
                    CopyEvent::Read(lane, page)
                }
                None if is_paced => {
                    home.until(paid_at).await;
                    CopyEvent::Time
                }
                None => pending().await,
            }
        };
        let answer = async {
            match in_flight.next().await {
                Some((sent, answer)) => CopyEvent::Answer(sent, answer),
                None => pending().await,
            }
        };
        let silence = async {
            match asks_sink_at {
                Some(at) => home.until(at).await,
                None => pending().await,
            }
            CopyEvent::Silence
        };
        // Answers first: they make room.
        let (answer, read) = (std::pin::pin!(answer), std::pin::pin!(read));
        match select(select(answer, read), std::pin::pin!(silence)).await {
            Either::Left((Either::Left((event, _)) | Either::Right((event, _)), _)) => event,
            Either::Right((event, _)) => event,
        }
    }

    async fn take_page(&mut self, lane: CopyLane, page: SourcePage) -> Result<(), CopyRunEnd> {
        self.check_source(&page.identity).await?;
        self.check_begin(&page)?;
        self.newest = page.newest;
        self.note_page(&page);
        let from = self.place_of(lane);
        let to = page.next_after.max(from);
        match lane {
            CopyLane::Backlog => self.read_to.backlog = to,
            CopyLane::Live => self.read_to.live = to,
        }
        let is_end = to >= page.newest;
        if page.messages == 0 {
            self.is_at_end = is_end;
            if to > from {
                // What lies between is of other segments, or gone.
                self.skipped(lane, from, to, &page.identity);
            }
            return if self.in_flight.is_empty() { self.settle().await } else { Ok(()) };
        }
        self.is_at_end = is_end && self.row.live.is_none();
        let batch = CopyBatch {
            body: page.body.clone(),
            messages: page.messages,
            run: self.run,
            place: self.place,
            expected: self.sink_called.clone(),
        };
        self.place += 1;
        self.pace.spend(batch.body.len() as u64, self.home.now());
        self.sent.add(lane, batch.body.len() as u64);
        let (source, sent_at) = (page.identity.clone(), Some(self.home.now()));
        let sent = SentBatch { lane, from, to, source, sent_at, again: Some(batch.clone()) };
        self.in_flight.push_back(self.sending(sent, batch));
        self.go_live(lane, &page).await
    }

    fn note_page(&mut self, page: &SourcePage) {
        let is_from = self.row.direction == CopyDirection::From;
        self.status.newest_there = is_from.then_some(page.newest);
        self.status.oldest_there = page.oldest_at.filter(|_| is_from);
        if self.status.failures == 0 || page.messages == 0 {
            self.status = CopyStatus { failures: 0, error: None, ..self.status.clone() };
        }
        self.status.at = self.home.now();
        self.home.note(self.status.clone());
    }

    /// Begins the live lane where the backlog is old enough.
    async fn go_live(&mut self, lane: CopyLane, page: &SourcePage) -> Result<(), CopyRunEnd> {
        let is_behind = |at: Timestamp| at.after(LIVE_WHEN_BEHIND) < self.home.now();
        let is_wanted = self.row.live_permille > 0
            && self.row.live.is_none()
            && lane == CopyLane::Backlog
            && page.oldest_at.is_some_and(is_behind)
            && page.newest > page.next_after;
        if !is_wanted {
            return Ok(());
        }
        let begun = CopyMove::BeginLive { newest: page.newest, source: page.identity.clone() };
        let moved = self.home.moved(&self.row, begun).await;
        if moved.map_err(CopyRunEnd::Home)? != CopyProgress::Moved {
            return Err(CopyRunEnd::Again);
        }
        if self.row.direction == CopyDirection::From {
            self.note_peer(&page.identity);
        }
        self.row.live = Some(engine::records::LiveLane { from: page.newest, position: page.newest });
        self.read_to.live = page.newest;
        self.sent = LaneBytes::default();
        Ok(())
    }

    /// Notes who is at the other end, once that is stored.
    fn note_peer(&mut self, peer: &PeerIdentity) {
        (self.row.peer, self.row.peer_node) = (Some(peer.stream.clone()), Some(peer.node.clone()));
    }

    fn sending(&self, sent: SentBatch, batch: CopyBatch) -> BatchSent<'a> {
        let sink = self.sink;
        Box::pin(async move { (sent, sink.append(batch).await) })
    }

    /// A batch that overtook the one before it, which is answered by now, is sent once more. Where
    /// the stream that it is for is gone, the copy begins anew.
    async fn refused(&mut self, mut sent: SentBatch, failure: CopyFailure) -> Result<(), CopyRunEnd> {
        match (failure.kind, sent.again.take()) {
            (CopyFailureKind::OutOfOrder, Some(batch)) => {
                self.in_flight.push_front(self.sending(sent, batch));
                Ok(())
            }
            (CopyFailureKind::OtherStream, _) if self.row.direction == CopyDirection::To => {
                self.sink_is_gone().await
            }
            (CopyFailureKind::Full, Some(batch)) => {
                self.size.had_no_room_for(batch.messages);
                Err(failure.into())
            }
            _ => Err(failure.into()),
        }
    }

    async fn take_answer(&mut self, sent: SentBatch, answer: SinkAnswer) -> Result<(), CopyRunEnd> {
        if sent.sent_at.is_some() && answer.identity.is_known() {
            self.sink_called = Some(answer.identity.stream.clone());
        }
        let peer = match self.row.direction {
            CopyDirection::To => answer.identity,
            CopyDirection::From => sent.source,
        };
        if self.status.failures > 0 {
            self.status = CopyStatus { failures: 0, error: None, ..self.status.clone() };
            self.status.at = self.home.now();
            self.home.note(self.status.clone());
        }
        self.answered_to(CopiedSpan {
            lane: sent.lane,
            from: sent.from,
            to: sent.to,
            copied: answer.appended,
            duplicates: answer.duplicates,
            refused: answer.refused,
            peer,
        });
        if let Some(at) = sent.sent_at {
            let took_ms = self.home.now().0.saturating_sub(at.0);
            self.size.answered(Duration::from_millis(u64::try_from(took_ms).unwrap_or(0)));
        }
        let is_due = self.sink.is_stop_and_wait() || self.home.now() >= self.moved_at.after(MOVED_EVERY);
        self.sink_seen_at = self.home.now();
        let is_paced = self.pace.next_at() > self.home.now();
        let is_idle = self.in_flight.is_empty() && (self.is_at_end || self.is_merging() || is_paced);
        match is_due || is_idle {
            true => self.settle().await,
            false => Ok(()),
        }
    }

    /// The backlog has come to where the live lane began.
    fn is_merging(&self) -> bool {
        self.row.live.is_some_and(|live| self.read_to.backlog >= live.from)
    }

    /// What lies between was not sent. It counts once what was sent before is answered.
    fn skipped(&mut self, lane: CopyLane, from: u64, to: u64, source: &PeerIdentity) {
        let peer = match self.row.direction {
            CopyDirection::From => source.clone(),
            CopyDirection::To => {
                let answered = self.answered.last().map(|answered| answered.peer.clone());
                let known = answered.or_else(|| self.known_peer()).or_else(|| self.sink.known_identity());
                // One that never answered is not known: that it has not got these is true of any.
                known.unwrap_or_default()
            }
        };
        if self.in_flight.is_empty() {
            return self.answered_to(CopiedSpan::of_nothing(lane, (from, to), peer));
        }
        let sent = SentBatch { lane, from, to, source: source.clone(), sent_at: None, again: None };
        let answer = SinkAnswer { appended: 0, duplicates: 0, refused: 0, identity: peer };
        self.in_flight.push_back(Box::pin(async move { (sent, Ok(answer)) }));
    }

    /// Who is at the other end, as far as that is stored.
    fn known_peer(&self) -> Option<PeerIdentity> {
        let stream = self.row.peer.clone()?;
        Some(PeerIdentity { stream, node: self.row.peer_node.clone().unwrap_or_default() })
    }

    /// Notes what is durable at the other end; it goes on behind what was before, or stands apart.
    fn answered_to(&mut self, step: CopiedSpan) {
        if let Some(last) = self.answered.iter_mut().rev().find(|last| last.lane == step.lane)
            && last.to == step.from
            && (last.peer == step.peer || !step.peer.is_known())
        {
            last.to = step.to;
            last.copied += step.copied;
            last.duplicates += step.duplicates;
            last.refused += step.refused;
            return;
        }
        self.answered.push(step);
    }

    /// Moves the copy; where both lanes meet its row is read again.
    async fn settle(&mut self) -> Result<(), CopyRunEnd> {
        self.flush().await?;
        if self.is_merging() && self.in_flight.is_empty() {
            return Err(CopyRunEnd::Again);
        }
        Ok(())
    }

    async fn flush(&mut self) -> Result<(), CopyRunEnd> {
        for mut span in std::mem::take(&mut self.answered) {
            if !span.peer.is_known() {
                // What was answered before it says who is there.
                span.peer = self.known_peer().unwrap_or_default();
            }
            let peer = span.peer.clone();
            let (lane, to) = (span.lane, span.to);
            let moved = self.home.moved(&self.row, CopyMove::Step(span)).await;
            match moved.map_err(CopyRunEnd::Home)? {
                CopyProgress::Moved => {}
                CopyProgress::Reset | CopyProgress::Elsewhere => return Err(CopyRunEnd::Again),
            }
            if peer.is_known() {
                self.note_peer(&peer);
            }
            if lane == CopyLane::Backlog {
                self.row.position = to;
            }
        }
        self.moved_at = self.home.now();
        Ok(())
    }
}
