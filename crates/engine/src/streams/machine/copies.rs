//! Copies are made, rest, move on and go. A position is durable before it counts.

use std::collections::BTreeMap;

use ::streams::copying::{CopyProgress, advance, begin_live, dropped, forget_peer};
use ::streams::subscriptions::{begin, untaken_from};
use base::limits::COPIES_PER_STREAM_MAX;
use base::{Incarnation, Problem};
use records::{CopyDirection, KeepBounds, Op, ReportsCopy, StreamBlock, StreamCopy};
use store::{StoreError, View};

use super::deleting::unknown_stream;
use super::loaded::LoadedStream;
use super::subscriptions::NO_IDS;
use super::{StreamPartition, StreamsStep};
use crate::kernel::reply::{Answered, Reply};
use crate::streams::copy::{CopyFrom, CopyMove, NewCopy, unknown_copy};
use crate::streams::effect::{CopyChange, CopyChangeKind, StreamsEffect};
use crate::streams::input::{MoveCopyCall, PutCopyCall};
use crate::streams::{StreamName, SubscriptionStart};

/// The copies of a stream in memory.
#[derive(Default)]
pub(super) struct CopySet {
    all: BTreeMap<Box<str>, StreamCopy>,
}

impl CopySet {
    pub(super) fn read(view: &dyn View, stream: Incarnation) -> Result<Self, StoreError> {
        let all = view.copies_of(stream, None, usize::MAX)?;
        Ok(Self { all: all.into_iter().map(|copy| (copy.name.clone(), copy)).collect() })
    }

    /// Bytes of memory that it takes, about.
    pub(super) fn bytes(&self) -> usize {
        self.all.values().map(|one| size_of::<StreamCopy>() + 2 * one.text_bytes()).sum()
    }
}

impl LoadedStream {
    /// What a push or a copy has not taken is from this message on; `None` if there is none.
    pub(super) fn untaken_from(&self) -> Option<u64> {
        let copies = self.copies.all.values().filter(|copy| copy.holds_messages());
        let of_copies = untaken_from(copies.map(|copy| copy.position));
        [of_copies, self.subscriptions.untaken_from()].into_iter().flatten().min()
    }

    /// Whether a block outlives its age because a push or a copy has not taken it.
    pub(super) fn keeps(&self, keep: &KeepBounds, block: &StreamBlock) -> bool {
        keep.until_copied && self.untaken_from().is_some_and(|from| block.last >= from)
    }

    /// Blocks go: counts what copies have not taken of them.
    pub(super) fn count_dropped(&mut self, gone: &[StreamBlock], step: &mut StreamsStep<'_>) {
        for copy in self.copies.all.values_mut() {
            let lost: u64 = gone.iter().map(|block| dropped(copy, block)).sum();
            if lost > 0 {
                copy.dropped += lost;
                step.push(Op::PutStreamCopy(Box::new(copy.clone())));
                self.written = step.seq;
            }
        }
    }

    fn put_copy(&mut self, copy: StreamCopy, step: &mut StreamsStep<'_>) {
        step.push(Op::PutStreamCopy(Box::new(copy.clone())));
        self.copies.all.insert(copy.name.clone(), copy);
        self.written = step.seq;
        self.look_at_what_was_held_up(step);
    }
}

impl StreamPartition {
    /// Makes a copy, and its stream where that is not there; or gives it other terms.
    pub(super) fn put_copy(
        &mut self,
        call: PutCopyCall,
        step: &mut StreamsStep<'_>,
    ) -> Result<(), StoreError> {
        let PutCopyCall { stream: name, copy: new, reply } = call;
        if let Some(CopyFrom::Here(from)) = new.from
            && self.load_stream(&name, step)?.is_none()
            && let Err(refused) = begin(from, NO_IDS)
        {
            // A call that is refused makes no stream.
            step.emit(StreamsEffect::CopyPut(reply, Err(refused)));
            return Ok(());
        }
        let stream = self.load_or_make(&name, step)?;
        step.own.touched.insert(stream);
        let index = self.id.streams_index().unwrap_or_default();
        let gather = Incarnation::in_partition(index, self.head.next_incarnation);
        self.head.next_incarnation += u64::from(new.reports.is_some());
        let Some(loaded) = self.loaded.get_mut(&stream) else { return Ok(()) };
        loaded.used_at = step.now;
        let before = loaded.copies.all.get(&new.name);
        if before.is_none() && loaded.copies.all.len() >= COPIES_PER_STREAM_MAX {
            let detail = format!("stream {name} has {COPIES_PER_STREAM_MAX} copies already");
            let refused = Problem::new(429, "too_many_copies", detail);
            step.emit(StreamsEffect::CopyPut(reply, Err(refused)));
            return Ok(());
        }
        let is_new = before.is_none();
        let copy = match copy_with_terms((new, gather), before, loaded, step) {
            Ok(copy) => copy,
            Err(refused) => {
                step.emit(StreamsEffect::CopyPut(reply, Err(refused)));
                return Ok(());
            }
        };
        // What is put again as it is goes on with what it has under way.
        if before != Some(&copy) {
            let kind = CopyChangeKind::Put { runs: !copy.paused, reports: copy.reports.clone() };
            let change = CopyChange { stream: name, copy: copy.name.clone(), kind };
            step.emit(StreamsEffect::Copy(self.id, change));
            loaded.put_copy(copy, step);
        }
        step.emit(StreamsEffect::CopyPut(reply, Ok(is_new)));
        Ok(())
    }

    /// Has a copy rest, or go on.
    pub(super) fn pause_copy(
        &mut self,
        (name, copy, paused): (&StreamName, &str, bool),
        reply: Reply<Answered<()>>,
        step: &mut StreamsStep<'_>,
    ) -> Result<(), StoreError> {
        let answer = match self.loaded_copy(name, copy, step)? {
            Ok(loaded) => {
                let found = loaded.copies.all.get(copy).filter(|found| found.paused != paused).cloned();
                if let Some(found) = found {
                    let kind = CopyChangeKind::Put { runs: !paused, reports: found.reports.clone() };
                    loaded.put_copy(StreamCopy { paused, ..found }, step);
                    let change = CopyChange { stream: name.clone(), copy: copy.into(), kind };
                    step.emit(StreamsEffect::Copy(self.id, change));
                }
                Ok(())
            }
            Err(refused) => Err(refused),
        };
        step.emit(StreamsEffect::Done(reply, answer));
        Ok(())
    }

    pub(super) fn delete_copy(
        &mut self,
        name: &StreamName,
        copy: &str,
        reply: Reply<Answered<()>>,
        step: &mut StreamsStep<'_>,
    ) -> Result<(), StoreError> {
        let answer = match self.loaded_copy(name, copy, step)? {
            Ok(loaded) => {
                loaded.copies.all.remove(copy);
                step.push(Op::DeleteStreamCopy(loaded.incarnation(), copy.into()));
                loaded.written = step.seq;
                loaded.look_at_what_was_held_up(step);
                let change =
                    CopyChange { stream: name.clone(), copy: copy.into(), kind: CopyChangeKind::Gone };
                step.emit(StreamsEffect::Copy(self.id, change));
                Ok(())
            }
            Err(refused) => Err(refused),
        };
        step.emit(StreamsEffect::Done(reply, answer));
        Ok(())
    }

    /// Whoever runs a copy has come so far.
    pub(super) fn move_copy(
        &mut self,
        call: MoveCopyCall,
        step: &mut StreamsStep<'_>,
    ) -> Result<(), StoreError> {
        let MoveCopyCall { stream: name, copy, row, change, reply } = call;
        let loaded = match self.loaded_copy(&name, &copy, step)? {
            Ok(loaded) => loaded,
            Err(refused) => {
                step.emit(StreamsEffect::CopyMoved(reply, Err(refused)));
                return Ok(());
            }
        };
        let mut moved = loaded.copies.all[&copy].clone();
        // A stream made again may have a copy of that name, which begins where that one did.
        let progress = match moved.is_between_those_of(&row) {
            true => apply_move(&mut moved, &change, step.now),
            false => CopyProgress::Elsewhere,
        };
        if moved != loaded.copies.all[&copy] {
            loaded.put_copy(moved, step);
            let change = CopyChange { stream: name, copy, kind: CopyChangeKind::Moved };
            step.emit(StreamsEffect::Copy(self.id, change));
        }
        step.emit(StreamsEffect::CopyMoved(reply, Ok(progress)));
        Ok(())
    }

    /// The stream of a copy that is there, in memory.
    fn loaded_copy(
        &mut self,
        name: &StreamName,
        copy: &str,
        step: &mut StreamsStep<'_>,
    ) -> Result<Answered<&mut LoadedStream>, StoreError> {
        let found = self.load_stream(name, step)?;
        let Some(loaded) = found.and_then(|stream| self.loaded.get_mut(&stream)) else {
            return Ok(Err(unknown_stream(name)));
        };
        loaded.used_at = step.now;
        step.own.touched.insert(loaded.incarnation());
        match loaded.copies.all.contains_key(copy) {
            true => Ok(Ok(loaded)),
            false => Ok(Err(unknown_copy(name, copy))),
        }
    }

    /// The copies of a stream go with it.
    pub(super) fn delete_copies_of(&self, gone: &mut LoadedStream, step: &mut StreamsStep<'_>) {
        for (copy, row) in std::mem::take(&mut gone.copies.all) {
            step.push(Op::DeleteStreamCopy(row.stream, copy.clone()));
            let change = CopyChange { stream: gone.name.clone(), copy, kind: CopyChangeKind::Gone };
            step.emit(StreamsEffect::Copy(self.id, change));
        }
    }
}

fn apply_move(copy: &mut StreamCopy, change: &CopyMove, now: base::Timestamp) -> CopyProgress {
    match change {
        CopyMove::Step(span) => advance(copy, span, now),
        CopyMove::BeginLive { newest, source } => begin_live(copy, *newest, source),
        CopyMove::PeerGone { known } => forget_peer(copy, known, now),
        CopyMove::BeginAt { id, peer } => {
            if copy.begins.take().is_none() {
                return CopyProgress::Elsewhere;
            }
            copy.position = *id;
            (copy.peer, copy.peer_node) = (Some(peer.stream.clone()), Some(peer.node.clone()));
            CopyProgress::Moved
        }
    }
}

/// A copy with new terms. With another end, or with segments that it left out, it begins anew. One
/// that becomes of kind `reports` gathers under the name `gather`.
fn copy_with_terms(
    (new, gather): (NewCopy, Incarnation),
    before: Option<&StreamCopy>,
    loaded: &LoadedStream,
    step: &StreamsStep<'_>,
) -> Result<StreamCopy, Problem> {
    let is_same_end = |before: &&StreamCopy| {
        before.direction == new.direction
            && before.node == new.node
            && before.reports.is_some() == new.reports.is_some()
            && *before.other_namespace == *new.other.namespace()
            && *before.other_name == *new.other.stream()
    };
    let followed = before.filter(is_same_end);
    let mut copy = match followed {
        Some(followed) => followed.clone(),
        None => fresh_copy(&new, before, loaded, step),
    };
    let from = match (new.from, followed) {
        (None, Some(_)) => None,
        (None, None) if new.reports.is_some() => Some(CopyFrom::reports(before)),
        (None, None) => Some(CopyFrom::start(new.direction)),
        (Some(from), _) => Some(from),
    };
    if let Some(from) = from {
        (copy.position, copy.begins) = match from {
            CopyFrom::Here(start) => (begin(start, loaded.ids())?, None),
            CopyFrom::BehindThere(id) => (id, None),
            CopyFrom::AskedThere(begins) => (0, Some(begins)),
        };
        (copy.start, copy.live) = (copy.position, None);
    } else if !takes_all_of(&copy.segments, &new.segments) {
        // What the position passed by was not copied: what was is a duplicate.
        (copy.position, copy.live) = (copy.start, None);
    }
    copy.segments = new.segments;
    copy.reports = new.reports.map(|terms| {
        let followed = copy.reports.as_deref();
        // What waits for its stream is for the new end too.
        let before = before.and_then(|before| before.reports.as_deref());
        Box::new(ReportsCopy {
            gather: before.map_or(gather, |before| before.gather),
            selector: terms.selector,
            refused: followed.map_or(0, |followed| followed.refused),
        })
    });
    (copy.live_permille, copy.rate) = (new.live_permille, new.rate);
    Ok(copy)
}

/// Whether a copy of the segments `of` takes every message that one of `new` does.
fn takes_all_of(of: &[Box<str>], new: &[Box<str>]) -> bool {
    of.is_empty() || (!new.is_empty() && new.iter().all(|segment| of.contains(segment)))
}

fn fresh_copy(
    new: &NewCopy,
    before: Option<&StreamCopy>,
    loaded: &LoadedStream,
    step: &StreamsStep<'_>,
) -> StreamCopy {
    let end = (&*new.node, new.other.namespace(), new.other.stream());
    let created_at = before.map_or(step.now, |before| before.created_at);
    let copy = StreamCopy::begin((loaded.incarnation(), &new.name), new.direction, end, created_at);
    StreamCopy { paused: before.is_some_and(|before| before.paused), ..copy }
}

impl CopyFrom {
    /// What is in the stream already was brought by another copy, or written by anybody: only what
    /// is gathered from now on goes. Another node goes on where the one before was.
    fn reports(before: Option<&StreamCopy>) -> Self {
        let followed = before.filter(|before| before.reports.is_some());
        Self::Here(
            followed.map_or(SubscriptionStart::End, |before| SubscriptionStart::Behind(before.position)),
        )
    }

    /// The start of the stream that is read.
    fn start(direction: CopyDirection) -> Self {
        match direction {
            CopyDirection::To => Self::Here(SubscriptionStart::Start),
            CopyDirection::From => Self::BehindThere(0),
        }
    }
}
