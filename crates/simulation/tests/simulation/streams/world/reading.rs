//! Those who read, and what they must see.

use std::collections::BTreeMap;

use base::Incarnation;
use engine::streams::{OwnedMessage, StreamPage, StreamRead};

use super::{World, partition, stream_name};
use crate::harness::track::{AnyTrack, Past};
use crate::harness::violation::{Checked, Invariant};
use crate::streams::message::GivenMessage;

/// What a page must be held against.
struct Visible {
    /// What may be shown.
    allowed: BTreeMap<u64, GivenMessage>,
    /// What has to be shown: it was answered.
    required: Vec<u64>,
}

impl World {
    /// Somebody reads a page of a stream.
    pub(super) fn read(&mut self) -> Checked {
        let name = self.any_name();
        let newest = self.model.present.named(&name).map_or(0, |(_, found)| found.last);
        let random = &self.machine.random;
        let segments =
            if random.chance(1, 3) { vec![format!("g{}", random.below(3)).into()] } else { Vec::new() };
        let query = StreamRead {
            after: if random.chance(1, 2) { 0 } else { random.below(newest + 2) },
            from: None,
            segments,
            limit: 1 + random.below(30) as usize,
            bytes_max: 1 + random.below(8_000) as usize,
        };
        self.page(&name, &query).map(drop)
    }

    /// Reads a page, and looks at it. `None` where there is no stream, or the disk does not read.
    pub(super) fn page(&mut self, name: &str, query: &StreamRead) -> Checked<Option<StreamPage>> {
        let Some(server) = self.server.as_ref() else { return Ok(None) };
        let store = &*server.context.kernel.store;
        // What is read may fail where the disk does, and be shown by a batch that nobody knows yet.
        let page = server.context.streams.read(store, &stream_name(name), query);
        match (page, self.seen_batch()) {
            (Ok(page), Some(seq)) => self.check_page(name, query, (page, seq)),
            (Err(problem), _) if problem.code == "unknown_stream" => Ok(None),
            _ => {
                self.counts.unreadable += 1;
                Ok(None)
            }
        }
    }

    /// The latest batch that whoever reads now sees; `None` where the disk does not read.
    pub(super) fn seen_batch(&self) -> Option<u64> {
        let server = self.server.as_ref()?;
        server.context.kernel.store.view(partition()).ok().map(|view| view.head().seq)
    }

    /// Looks at a page that was read when this batch was the latest.
    pub(super) fn check_page(
        &mut self,
        name: &str,
        query: &StreamRead,
        (page, seq): (StreamPage, u64),
    ) -> Checked<Option<StreamPage>> {
        let state = self.model.at(seq, Past::Life)?;
        let Some((stream, found)) = state.named(name) else { return Ok(None) };
        let first = found.gone_to + 1;
        let mut allowed = found.messages.clone();
        let told = self.ledger.of(stream).map(|(id, given)| (id, given.clone()));
        allowed.extend(told.filter(|(id, _)| *id > found.last));
        let required = self.ledger.of(stream).map(|(id, _)| id).filter(|id| *id >= first).collect();
        self.model.shown(seq);
        let visible = Visible { allowed, required };
        visible.check(stream, query, &page)?;
        self.counts.pages += 1;
        self.counts.messages_read += page.items.len() as u64;
        Ok(Some(page))
    }

    /// Reads every stream from front to end: nothing that was answered is missing.
    pub(super) fn read_all(&mut self) -> Checked {
        for number in 0..self.plan.streams {
            let name = format!("s{number}");
            let read = self.read_to_end(&name, 0, Vec::new())?;
            let expected = self.model.present.named(&name);
            let expected: Vec<u64> =
                expected.map(|(_, found)| found.messages.keys().copied().collect()).unwrap_or_default();
            Invariant::READ_AS_ANSWERED.same(format_args!("all of {name}"), &read, &expected)?;
        }
        Ok(())
    }

    /// The ids of all messages of some segments that are behind one.
    pub(super) fn read_to_end(
        &mut self,
        name: &str,
        after: u64,
        segments: Vec<Box<str>>,
    ) -> Checked<Vec<u64>> {
        let mut query = StreamRead { after, from: None, segments, limit: 100, bytes_max: 1 << 20 };
        let mut read = Vec::new();
        while let Some(page) = self.page(name, &query)? {
            read.extend(page.items.iter().map(|item| item.id));
            if page.is_end {
                break;
            }
            query.after = page.next_after;
        }
        Ok(read)
    }
}

impl Visible {
    fn check(&self, stream: Incarnation, query: &StreamRead, page: &StreamPage) -> Checked {
        let broken = |detail: String| {
            Invariant::READ_AS_ANSWERED.broken(format!("{detail}, stream {}, {query:?}", stream.0))
        };
        let mut last = query.after;
        for item in &page.items {
            self.check_item(query, item).map_err(&broken)?;
            if item.id <= last {
                return Err(broken(format!("{} comes behind {last}", item.id)));
            }
            last = item.id;
        }
        if page.next_after < last {
            return Err(broken(format!("{last} is read, and reading goes on behind {}", page.next_after)));
        }
        let until = if page.is_end { u64::MAX } else { page.next_after };
        let within = self.required.iter().filter(|id| **id > query.after && **id <= until);
        let is_asked = |id: &&u64| self.allowed.get(id).is_none_or(|given| is_asked(query, given));
        let is_missing = |id: &&u64| !page.items.iter().any(|item| item.id == **id);
        match within.filter(is_asked).find(is_missing) {
            Some(missing) => Err(broken(format!("{missing} is not shown, up to {until}"))),
            None => Ok(()),
        }
    }

    fn check_item(&self, query: &StreamRead, item: &OwnedMessage) -> Result<(), String> {
        let given = GivenMessage::of_read(item);
        match self.allowed.get(&item.id) {
            Some(known) if *known == given && is_asked(query, &given) => Ok(()),
            known => Err(format!("{} is shown as {given:?}, and is {known:?}", item.id)),
        }
    }
}

fn is_asked(query: &StreamRead, given: &GivenMessage) -> bool {
    query.segments.is_empty() || given.segment.as_ref().is_some_and(|of| query.segments.contains(of))
}
