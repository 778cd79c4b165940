//! Forwards the records of one destination, oldest first, one call at a time.
//!
//! A destination that fails waits and tries again, and holds up no other one. While it waits it
//! holds no record in memory.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base::LogLimit;
use fieldpost_client::Client;
use net::listen::stopped;
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::sleep;

use crate::calls::{self, CallTimes};
use crate::destination::{Destination, DestinationKind};
use crate::disk_threads::{RecordArrivals, SaveRequests, now};
use crate::log::{ReadLimits, ReadPlace, SpoolLog, StoredRecord};
use crate::refused::RefusedFile;
use crate::state::CallInFlight;
use crate::verdict::{self, ForwardVerdict, RefusalReason, RefusedLine};

/// Calls under way at a time, of all destinations: each holds what it forwards in memory.
pub(crate) const CALLS_MAX: usize = 4;
/// What one call forwards, at most; one record is forwarded whatever its size.
const CALL_LIMITS: ReadLimits = ReadLimits { records: 500, bytes: 256 * 1_024 };
/// How long an answer is waited for.
pub(crate) const ANSWER_MAX: Duration = Duration::from_secs(30);
/// Most bytes of an answer: a line for each report that is refused.
const ANSWER_BYTES_MAX: usize = 1_024 * 1_024;
/// Waits double from the first to the longest; the server may ask for a longer one, up to a limit.
const WAIT_FIRST: Duration = Duration::from_millis(250);
const WAIT_MAX: Duration = Duration::from_secs(5);
const WAIT_ASKED_MAX: Duration = Duration::from_secs(60);
/// After so long no copy of a call is on its way any more.
const STRAY_MAX: Duration = Duration::from_secs(120);
/// Without news it is looked again.
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// A report whose time the server takes for the future: the clock here is wrong.
const TS_AHEAD: &str = "ts_ahead";

/// What all forwarders share.
pub(crate) struct Forwarding {
    pub(crate) log: Arc<SpoolLog>,
    pub(crate) client: Client,
    pub(crate) refused: Arc<RefusedFile>,
    pub(crate) saves: SaveRequests,
    pub(crate) arrivals: Arc<RecordArrivals>,
    pub(crate) calls: Semaphore,
    /// Lines of the log about messages in whose place the server has others.
    pub(crate) conflicts_noted: LogLimit<Destination>,
    /// Older records are given up.
    pub(crate) max_age: Option<Duration>,
    pub(crate) stop: watch::Receiver<bool>,
}

/// The forwarder of one destination.
pub(crate) struct Forwarder {
    shared: Arc<Forwarding>,
    destination: Destination,
    arrival: Arc<Notify>,
    place: Option<ReadPlace>,
    /// Records up to this one go one by one.
    alone_until: u64,
    /// Most records of the next call: fewer while the destination has too little room.
    records_max: usize,
    wait: Duration,
    /// Why it does not move, as the log was told last.
    told: Option<String>,
}

/// What became of a try.
enum ForwardStep {
    /// Go on.
    Moved,
    /// Nothing is there.
    Empty,
    /// Try again after this time.
    Later(Duration),
}

impl Forwarder {
    pub(crate) fn new(shared: Arc<Forwarding>, destination: Destination, arrival: Arc<Notify>) -> Self {
        Self {
            shared,
            destination,
            arrival,
            place: None,
            alone_until: 0,
            records_max: CALL_LIMITS.records,
            wait: WAIT_FIRST,
            told: None,
        }
    }

    /// Forwards until nothing waits, or the spool stops.
    pub(crate) async fn run(mut self) {
        let mut stop = self.shared.stop.clone();
        loop {
            let step = tokio::select! {
                biased;
                () = stopped(&mut stop) => return,
                step = self.step() => step,
            };
            let wait = match step {
                ForwardStep::Moved => {
                    self.wait = WAIT_FIRST;
                    continue;
                }
                ForwardStep::Empty if self.shared.arrivals.leave(&self.destination, &self.shared.log) => {
                    return;
                }
                ForwardStep::Empty => LOOK_EVERY,
                ForwardStep::Later(wait) => wait,
            };
            let is_empty = matches!(step, ForwardStep::Empty);
            tokio::select! {
                () = stopped(&mut stop) => return,
                () = self.arrival.notified(), if is_empty => {}
                () = sleep(wait) => {}
            }
        }
    }

    async fn step(&mut self) -> ForwardStep {
        let shared = Arc::clone(&self.shared);
        let Ok(_call) = shared.calls.acquire().await else { return ForwardStep::Empty };
        let records = match self.read().await {
            Ok(records) => records,
            Err(error) => return self.later(format!("the spool's disk: {error}"), None),
        };
        if records.is_empty() {
            return ForwardStep::Empty;
        }
        let in_flight = shared.log.in_flight(&self.destination);
        if self.give_up_broken(&records, in_flight) || self.give_up_old(&records, in_flight) {
            return ForwardStep::Moved;
        }
        let end = in_flight.map(|call| call.end);
        let kind = self.destination.kind();
        let count = calls::count_of_next_call(kind, &records, end, self.alone_until);
        // A call whose outcome is not known is repeated whole.
        let most = self.records_max.max(calls::count_of_call(&records, in_flight));
        self.forward(kind, &records[..count.min(most)]).await
    }

    /// What waits, off the thread that serves everybody.
    async fn read(&self) -> io::Result<Vec<StoredRecord>> {
        let (log, destination, place) = (Arc::clone(&self.shared.log), self.destination.clone(), self.place);
        let read = move || log.read(&destination, place, CALL_LIMITS);
        tokio::task::spawn_blocking(read).await.map_err(io::Error::other)?
    }

    /// What is left of a call that has lost some of its records goes too. The call may have taken
    /// effect already, and under another key it would take effect again. Whether there was any.
    fn give_up_broken(&mut self, records: &[StoredRecord], in_flight: Option<CallInFlight>) -> bool {
        let count = calls::count_of_broken_call(records, in_flight);
        if count == 0 {
            return false;
        }
        let items = self.give_up(&records[..count]);
        tracing::warn!(
            destination = %self.destination, items,
            "jobs of a call whose answer was lost are dropped, because others of it are gone; if the spool is \
             full often, raise --max-bytes"
        );
        true
    }

    /// Records over their age are not forwarded any more. Whether there were any.
    fn give_up_old(&mut self, records: &[StoredRecord], in_flight: Option<CallInFlight>) -> bool {
        let Some(max_age) = self.shared.max_age else { return false };
        let now = now();
        let old = calls::count_of_old(records, in_flight, |record| now.since(record.received) > max_age);
        if old == 0 {
            return false;
        }
        let items = self.give_up(&records[..old]);
        tracing::warn!(destination = %self.destination, items, "items over --max-age are dropped");
        true
    }

    async fn forward(&mut self, kind: DestinationKind, records: &[StoredRecord]) -> ForwardStep {
        let shared = Arc::clone(&self.shared);
        let number = |stored: Option<&StoredRecord>| stored.map_or(0, |stored| stored.record.number);
        let (first, last) = (number(records.first()), number(records.last()));
        let before = shared.log.in_flight(&self.destination).filter(|call| call.end == last);
        let call = before.unwrap_or(CallInFlight { end: last, begun: now(), records: records.len() as u32 });
        if kind == DestinationKind::Queue && !shared.log.begin_call(&self.destination, first, call) {
            // Since they were read, some had to make room for newer ones.
            return ForwardStep::Moved;
        }
        // The server knows the last few ids of a device, and a call of jobs by its first and its
        // last. So what was done before must not come again with this call.
        if kind != DestinationKind::Stream && !shared.saves.save().await {
            if before.is_none() {
                shared.log.forget_call(&self.destination);
            }
            return self.later("the spool's state cannot be saved".to_owned(), None);
        }
        let verdict = self.call(kind, records, CallTimes { stamped: true, begun: call.begun }).await;
        match verdict {
            ForwardVerdict::Taken { refused, conflicts } => {
                self.records_max = (2 * self.records_max).min(CALL_LIMITS.records);
                self.count_conflicts(records, &conflicts);
                self.taken(kind, records, refused).await
            }
            ForwardVerdict::Wait { error, retry_after, is_undone, is_full } => {
                // A server that has taken a call answers its key before it looks for room.
                let is_unknown_there = is_full && now().since(call.begun) > STRAY_MAX;
                let is_forgotten = is_undone && (before.is_none() || is_unknown_there);
                if is_forgotten {
                    self.forget(kind);
                }
                // A smaller call of messages is safe: each has its own id. The jobs of a call share
                // a key, so a smaller call may follow only once this one is forgotten.
                if is_full && (is_forgotten || kind == DestinationKind::Stream) {
                    self.records_max = (records.len() / 2).max(1);
                }
                self.later(error, retry_after)
            }
            ForwardVerdict::Refused(reason) if before.is_some() && is_taken(records, &reason) => {
                // On their own, with keys of their own, they would take effect again.
                let items = self.give_up(records);
                tracing::warn!(
                    destination = %self.destination, items, detail = reason.detail,
                    "jobs of a call whose answer was lost are dropped: the server has taken a call with its key"
                );
                ForwardStep::Moved
            }
            ForwardVerdict::Refused(_) if records.len() > 1 => {
                self.alone_until = last;
                // Of a call that is refused nothing has taken effect: no rest of it has to go.
                shared.log.forget_call(&self.destination);
                ForwardStep::Moved
            }
            ForwardVerdict::Refused(reason) => self.refused(records, &reason),
        }
    }

    /// The server takes these in no call: they go to the file of what was refused.
    fn refused(&mut self, records: &[StoredRecord], reason: &RefusalReason) -> ForwardStep {
        let told = records.iter().map(|stored| (&stored.record, reason.of_body(&stored.record.entry.body)));
        let told: Vec<_> = told.collect();
        let lines: Vec<_> = told.iter().map(|(record, reason)| (*record, reason)).collect();
        if let Err(error) = self.shared.refused.add(&lines, now()) {
            return self.later(format!("refused.ndjson: {error}"), None);
        }
        for (_, reason) in lines {
            tracing::warn!(
                destination = %self.destination, code = reason.code, detail = reason.detail, "refused for good"
            );
        }
        self.done(records, items_of(records));
        ForwardStep::Moved
    }

    /// The next one is another call, and its jobs count their delays from then. That is saved:
    /// after a loss of power its rest would count as published.
    fn forget(&self, kind: DestinationKind) {
        self.shared.log.forget_call(&self.destination);
        if kind == DestinationKind::Queue {
            self.shared.saves.save_soon();
        }
    }

    async fn call(
        &self,
        kind: DestinationKind,
        records: &[StoredRecord],
        times: CallTimes,
    ) -> ForwardVerdict {
        let Some(request) = calls::call(kind, records, times) else {
            let detail = "its Idempotency-Key fits in no header".to_owned();
            return ForwardVerdict::Refused(RefusalReason {
                status: 422,
                code: "invalid_idempotency_key".into(),
                detail,
            });
        };
        let request = request.timeout(ANSWER_MAX).answer_bytes_max(ANSWER_BYTES_MAX);
        verdict::of(kind, records.len(), self.shared.client.send(&request).await)
    }

    /// All of it has taken effect but these lines.
    async fn taken(
        &mut self,
        kind: DestinationKind,
        records: &[StoredRecord],
        lines: Vec<RefusedLine>,
    ) -> ForwardStep {
        let (ahead, mut refused): (Vec<_>, Vec<_>) =
            lines.into_iter().partition(|line| line.code == TS_AHEAD);
        if !ahead.is_empty() {
            // Their ids are the same: what was taken meanwhile is not taken again.
            let again: Vec<StoredRecord> =
                ahead.iter().filter_map(|line| records.get(line.line.wrapping_sub(1))).cloned().collect();
            match self.call(kind, &again, CallTimes { stamped: false, begun: now() }).await {
                ForwardVerdict::Taken { refused: lines, .. } => {
                    refused.extend(lines.into_iter().filter_map(|line| {
                        let line_before = ahead.get(line.line.wrapping_sub(1))?.line;
                        Some(RefusedLine { line: line_before, ..line })
                    }));
                }
                ForwardVerdict::Wait { error, retry_after, .. } => return self.later(error, retry_after),
                ForwardVerdict::Refused(reason) => return self.later(reason.detail, None),
            }
        }
        let reasons: Vec<_> = refused
            .into_iter()
            .filter_map(|line| {
                let record = &records.get(line.line.wrapping_sub(1))?.record;
                let reason = RefusalReason { status: 422, code: line.code, detail: line.detail };
                Some((record, reason.of_body(&record.entry.body)))
            })
            .collect();
        let lines: Vec<_> = reasons.iter().map(|(record, reason)| (*record, reason)).collect();
        if !lines.is_empty() {
            if let Err(error) = self.shared.refused.add(&lines, now()) {
                return self.later(format!("refused.ndjson: {error}"), None);
            }
            let (first, count) = (&lines[0].1, lines.len());
            tracing::warn!(count, code = first.code, detail = first.detail, "reports are refused for good");
        }
        self.done(records, lines.len() as u64);
        ForwardStep::Moved
    }

    /// What the server keeps is under the same source and external id. So whoever gives these has
    /// given them twice: a sender, or this spool and a copy of it.
    fn count_conflicts(&self, records: &[StoredRecord], conflicts: &[usize]) {
        if conflicts.is_empty() {
            return;
        }
        self.shared.log.count_conflicts(conflicts.len() as u64);
        let is_numbered_here =
            |index: &&usize| records.get(**index).is_some_and(|stored| calls::gets_source(&stored.record));
        let conflicts = conflicts.iter().filter(is_numbered_here).count();
        if conflicts > 0
            && let Some(left_out) = self.shared.conflicts_noted.take(self.destination.clone(), Instant::now())
        {
            tracing::warn!(
                destination = %self.destination, conflicts, left_out,
                "the server has other messages under this spool's numbers; in a folder that was copied or put \
                 back, make a file new-identity and restart"
            );
        }
    }

    fn done(&mut self, records: &[StoredRecord], refused: u64) {
        self.pass(records);
        self.shared.log.done(&self.destination, records, refused);
        self.shared.saves.save_soon();
    }

    /// The items that are not forwarded any more.
    fn give_up(&mut self, records: &[StoredRecord]) -> u64 {
        self.pass(records);
        let items = self.shared.log.give_up(&self.destination, records);
        self.shared.saves.save_soon();
        items
    }

    /// It goes on behind these.
    fn pass(&mut self, records: &[StoredRecord]) {
        self.place = records.last().map(|stored| stored.next);
        self.told = None;
        self.shared.log.set_error(&self.destination, None);
    }

    /// Half of a wait is certain, half by chance, so that many spools do not come at once.
    fn later(&mut self, error: String, retry_after: Option<Duration>) -> ForwardStep {
        if self.told.as_ref() != Some(&error) {
            tracing::info!(destination = %self.destination, error, "not forwarded; it is tried again");
            self.told = Some(error.clone());
        }
        self.shared.log.set_error(&self.destination, Some(error));
        let chance = f64::from(getrandom::u32().unwrap_or(u32::MAX)) / f64::from(u32::MAX);
        let wait = self.wait / 2 + (self.wait / 2).mul_f64(chance);
        self.wait = (self.wait * 2).min(WAIT_MAX);
        ForwardStep::Later(wait.max(retry_after.unwrap_or_default().min(WAIT_ASKED_MAX)))
    }
}

/// Whether the server has taken a call with the key that the spool gave these jobs.
fn is_taken(records: &[StoredRecord], reason: &RefusalReason) -> bool {
    reason.is_key_reused() && records.iter().all(|stored| stored.record.entry.key.is_none())
}

fn items_of(records: &[StoredRecord]) -> u64 {
    records.iter().map(|stored| u64::from(stored.record.entry.items)).sum()
}

#[cfg(test)]
mod tests;
