//! Readers of subscriptions: they read on, say how far they have come, vanish, and come back.

use std::rc::Rc;
use std::time::Duration;

use base::Problem;
use engine::streams::{ReaderCommit, StreamRead, SubscriptionHold, SubscriptionRead};
use records::StreamSubscription;

use super::{World, stream_name};
use crate::harness::track::{AnyTrack, Past};
use crate::harness::violation::{Checked, Invariant};
use crate::streams::asked::{AskedCommit, SubscriptionKey};
use crate::streams::fault_injection::READER_MISTAKEN;
use crate::streams::subscriptions::SubscriptionId;

/// A call of a reader that is under way.
pub(super) struct OpenRead {
    key: SubscriptionKey,
    reader: Box<str>,
    /// As the model counts calls.
    call: u64,
    hold: SubscriptionHold,
    /// Behind its page, if that could be read.
    read_to: Option<u64>,
}

/// Who wants to read, and who has the subscription.
struct Readers {
    reader: Box<str>,
    holder: Option<Box<str>>,
}

impl Readers {
    /// Whether somebody else has it.
    fn are_two(&self) -> bool {
        self.holder.as_ref().is_some_and(|holder| *holder != self.reader)
    }
}

fn id_of(row: &StreamSubscription) -> SubscriptionId {
    (row.stream, row.name.clone())
}

impl World {
    fn any_reader(&self) -> Box<str> {
        format!("host-{}", self.machine.random.below(2)).into()
    }

    /// Who has a subscription, as the model knows it.
    pub(super) fn holder(&self, row: &StreamSubscription) -> Option<Box<str>> {
        self.readers.holder(&id_of(row), self.now()).map(Box::from)
    }

    /// A reader begins a call.
    pub(super) fn read_on(&mut self) -> Checked {
        let (key, reader) = (self.any_subscription(), self.any_reader());
        let ttl = Duration::from_millis(1_000 + self.machine.random.below(40_000));
        let (Some(server), Some(seq)) = (self.server.as_ref(), self.seen_batch()) else { return Ok(()) };
        let row = self.model.at(seq, Past::Life)?.subscription_of(&key).cloned();
        let holder = row.as_ref().and_then(|row| self.holder(row));
        let readers = Readers { reader, holder };
        let mistaken = readers.holder.clone().filter(|_| self.machine.injects(READER_MISTAKEN));
        let asks_as = mistaken.unwrap_or_else(|| readers.reader.clone());
        let asked = SubscriptionRead { subscription: key.name.clone(), reader: asks_as, ttl };
        let answer = server.context.read_on(&stream_name(&key.stream), &asked);
        self.model.shown(seq);
        self.machine.trace.note(format_args!("{} reads {key:?}: {}", readers.reader, answer.is_ok()));
        match (answer, row) {
            (Ok(begun), Some(row)) => self.begin_read(key, (&row, readers), ttl, begun),
            (Err(problem), row) => self.read_refused(&key, (row.as_ref(), &readers), &problem),
            (Ok(_), None) => {
                Err(Invariant::AS_THE_MODEL.broken(format!("{key:?} is read, and is not there")))
            }
        }
    }

    fn begin_read(
        &mut self,
        key: SubscriptionKey,
        (row, readers): (&StreamSubscription, Readers),
        ttl: Duration,
        (hold, query): (SubscriptionHold, StreamRead),
    ) -> Checked {
        Invariant::ONE_READER.check(!readers.are_two(), || {
            format!("{:?} reads {key:?} beside {:?}", readers.reader, readers.holder)
        })?;
        let found = (query.after, &query.segments, false);
        let expected = (row.position, &row.segments, row.push.is_some());
        Invariant::AS_THE_MODEL.same("what is read on", &found, &expected)?;
        self.check_place(&key, query.after)?;
        let of = id_of(row);
        let is_other = self.readers.last(&of).is_some_and(|last| *last != *readers.reader);
        self.counts.readers_replaced += u64::from(is_other);
        self.counts.reads_on += 1;
        let now = self.now();
        let call = self.readers.begin(of, &readers.reader, (ttl, now));
        let random = &self.machine.random;
        let (limit, bytes_max) = (1 + random.below(30) as usize, 1 + random.below(8_000) as usize);
        let page = self.page(&key.stream, &StreamRead { limit, bytes_max, ..query })?;
        let read_to = page.as_ref().map(|page| page.next_after);
        self.reads.push(OpenRead { key, reader: readers.reader, call, hold, read_to });
        match page {
            Some(page) => self.check_gone(row, page.skipped),
            None => Ok(()),
        }
    }

    /// What a reader did not get is gone, and it is told so.
    fn check_gone(&mut self, row: &StreamSubscription, skipped: u64) -> Checked {
        self.counts.gone_unread += u64::from(skipped > 0);
        // What is read is what the latest batch has that somebody knows.
        let Some(found) = self.model.durable().streams.get(&row.stream) else { return Ok(()) };
        let is_told = skipped > 0 || found.is_deleted || found.gone_to <= row.position;
        Invariant::READ_AS_ANSWERED.check(is_told, || {
            format!("messages up to {} are gone, and nobody is told: {row:?}", found.gone_to)
        })
    }

    fn read_refused(
        &mut self,
        key: &SubscriptionKey,
        (row, readers): (Option<&StreamSubscription>, &Readers),
        problem: &Problem,
    ) -> Checked {
        match problem.code {
            "unknown_stream" | "unknown_subscription" => {
                Invariant::AS_THE_MODEL.check(row.is_none(), || format!("{problem:?}, and there is {row:?}"))
            }
            "subscription_busy" => {
                self.counts.readers_refused += u64::from(readers.are_two());
                let is_pushed = row.is_some_and(|row| row.push.is_some());
                Invariant::ONE_READER
                    .check(is_pushed || readers.are_two(), || format!("nobody has {key:?}: {problem:?}"))
            }
            _ if problem.status == 503 => {
                self.counts.unreadable += 1;
                self.forget_reader(row);
                Ok(())
            }
            _ => Err(Invariant::AS_THE_MODEL.broken(format!("{key:?} is refused: {problem:?}"))),
        }
    }

    /// Whether a call that failed has left a hold is not known: both sides forget it.
    fn forget_reader(&mut self, row: Option<&StreamSubscription>) {
        if let (Some(server), Some(row)) = (self.server.as_ref(), row) {
            server.context.forget_reader(row.stream, &row.name);
            self.readers.forget(&id_of(row));
        }
    }

    /// A reader ends a call. It says how far it has come, now or later, or vanishes.
    pub(super) fn end_read(&mut self) -> Checked {
        let machine = Rc::clone(&self.machine);
        let place = machine.random.below(self.reads.len() as u64) as usize;
        let read = self.reads.swap_remove(place);
        let (key, reader, read_to) = self.end(read);
        let Some(id) = read_to.filter(|_| machine.random.chance(2, 3)) else { return Ok(()) };
        self.commit_as(&key, &ReaderCommit { subscription: key.name.clone(), reader, id, rewinds: false })
    }

    /// Every reader vanishes.
    pub(super) fn end_all_reads(&mut self) {
        while let Some(read) = self.reads.pop() {
            self.end(read);
        }
    }

    fn end(&mut self, read: OpenRead) -> (SubscriptionKey, Box<str>, Option<u64>) {
        let OpenRead { key, reader, call, hold, read_to } = read;
        drop(hold);
        let now = self.now();
        self.readers.end(call, now);
        (key, reader, read_to)
    }

    /// Somebody commits what it has not read, or goes back.
    pub(super) fn commit_unread(&mut self) -> Checked {
        let (key, reader) = (self.any_subscription(), self.any_reader());
        let (id, rewinds) = (self.any_id(&key.stream), self.machine.random.chance(1, 2));
        self.commit_as(&key, &ReaderCommit { subscription: key.name.clone(), reader, id, rewinds })
    }

    fn commit_as(&mut self, key: &SubscriptionKey, commit: &ReaderCommit) -> Checked {
        let (server, stream) = (self.server.as_ref(), self.seen_stream(&key.stream));
        if let Some((server, stream)) = server.zip(stream) {
            let goes_on = server.context.reader_goes_on(stream, commit);
            let (of, now) = ((stream, key.name.clone()), self.now());
            let holder = self.readers.holder(&of, now).map(Box::from);
            let readers = Readers { reader: commit.reader.clone(), holder };
            Invariant::ONE_READER.check(goes_on.is_err() == readers.are_two(), || {
                format!("{:?} commits {key:?}, which {:?} has: {goes_on:?}", readers.reader, readers.holder)
            })?;
            if goes_on.is_err() {
                self.counts.readers_refused += 1;
                return Ok(());
            }
            self.readers.go_on(&of, &commit.reader, now);
        }
        let ReaderCommit { id, rewinds, .. } = *commit;
        self.ask_commit(key.clone(), AskedCommit { id, rewinds, pushed_from: None });
        Ok(())
    }
}
