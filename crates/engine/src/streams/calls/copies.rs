//! The calls about copies: they are put, rest, go, and are moved on by whoever runs them.

use std::collections::BTreeMap;

use ::streams::copying::RESET_SHOWN;
use ::streams::{CopyProgress, SubscriptionStart};
use base::limits::{COPIES_MAX, EXACT_NUMBER_MAX, REPORTS_COPIES_MAX, SEGMENTS_PER_READ_MAX};
use base::{Incarnation, Problem, Timestamp};
use fleet::Selection;
use records::{CopyDirection, StreamCopy};

use super::super::PeerAsk;
use super::super::copy::{
    CopyFrom, CopyKey, CopyMove, CopyReport, CopyState, CopyStatus, CopyTarget, NewCopy, unknown_copy,
};
use super::super::copy_lag::{ahead_of, lag_in_stream};
use super::super::input::{MoveCopyCall, PutCopyCall, StreamsInput};
use super::super::reading::FoundStream;
use super::super::{HandlerKind, HandlerState, HandlerStatus, StreamName, SubscriptionFrom, is_label};
use super::StreamCalls;
use super::subscriptions::blocking;
use crate::gathering::CopyBacklog;
use crate::name::QueueName;
use crate::nodes::{SELF_NODE, unknown_node};
use crate::queries::unreadable;

impl StreamCalls {
    /// Makes a copy, and its stream where that is not there; or gives one that is there these
    /// terms. It stays where it is, unless `from` is given or its other end is another one. Whether
    /// it is new.
    ///
    /// # Errors
    /// 404 `unknown_node`; 422 `invalid_name`, `invalid_number`, `invalid_from`, `bad_selector` or
    /// `too_many_segments`; 429 `too_many_streams` or `too_many_copies`.
    pub async fn put_copy(
        &self,
        stream: &StreamName,
        mut copy: NewCopy,
        from: Option<SubscriptionFrom>,
    ) -> Result<bool, Problem> {
        if copy.reports.is_some() {
            check_reports(&copy)?;
            // What is gathered for it is told apart from all else in its stream: so its name has to
            // be one of a segment.
            copy.segments = vec![copy.name.clone()];
        }
        check(stream, &copy)?;
        if copy.node.as_ref() != SELF_NODE && self.engine.nodes().get(&copy.node).is_none() {
            return Err(unknown_node(&copy.node));
        }
        self.check_copies(stream, &copy)?;
        copy.from = match (copy.direction, from) {
            (_, None) => None,
            (CopyDirection::To, Some(SubscriptionFrom::Place(place))) => Some(CopyFrom::Here(place)),
            (CopyDirection::To, Some(SubscriptionFrom::Time(time))) => {
                Some(CopyFrom::Here(self.before(stream, time).await?))
            }
            (CopyDirection::From, Some(SubscriptionFrom::Place(place))) => Some(match place {
                SubscriptionStart::Start => CopyFrom::BehindThere(0),
                SubscriptionStart::Behind(id) => {
                    self.check_from(&copy, id).await?;
                    CopyFrom::BehindThere(id)
                }
                SubscriptionStart::End => CopyFrom::AskedThere(records::CopyBegin::End),
            }),
            (CopyDirection::From, Some(SubscriptionFrom::Time(time))) => {
                Some(CopyFrom::AskedThere(records::CopyBegin::Time(time)))
            }
        };
        self.check_count(stream).await?;
        let call =
            |reply| StreamsInput::PutCopy(Box::new(PutCopyCall { stream: stream.clone(), copy, reply }));
        self.partition(stream).ask(call).await?
    }

    /// Has a copy rest, or go on; it holds when this returns.
    ///
    /// # Errors
    /// 404 `unknown_stream` or `unknown_copy`.
    pub async fn pause_copy(&self, stream: &StreamName, name: &str, paused: bool) -> Result<(), Problem> {
        let input =
            |reply| StreamsInput::PauseCopy { stream: stream.clone(), copy: name.into(), paused, reply };
        self.partition(stream).ask(input).await?
    }

    /// Deletes a copy.
    ///
    /// # Errors
    /// 404 `unknown_stream` or `unknown_copy`.
    pub async fn delete_copy(&self, stream: &StreamName, name: &str) -> Result<(), Problem> {
        let input = |reply| StreamsInput::DeleteCopy { stream: stream.clone(), copy: name.into(), reply };
        self.partition(stream).ask(input).await?
    }

    /// A copy. Reads from disk.
    ///
    /// # Errors
    /// 404 `unknown_stream` or `unknown_copy`, 503 `storage_unavailable`.
    pub fn copy(&self, stream: &StreamName, name: &str) -> Result<CopyReport, Problem> {
        self.copy_beside(&self.gathered(), stream, name)
    }

    /// The copies of a stream behind the one of that name, in order of name. Reads from disk.
    ///
    /// # Errors
    /// 404 `unknown_stream`, 503 `storage_unavailable`.
    pub fn copies(
        &self,
        stream: &StreamName,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<CopyReport>, Problem> {
        let gathered = self.gathered();
        let found = self.reader().find_counted(stream)?;
        let rows = found.0.view.copies_of(found.0.stream, after, limit).map_err(unreadable)?;
        rows.into_iter().map(|row| self.copy_shown(stream, (&found, &gathered), row)).collect()
    }

    /// Of these copies, all that can be read.
    pub(in crate::streams) fn copies_by_key(&self, keys: Vec<CopyKey>) -> Vec<(CopyKey, CopyReport)> {
        let gathered = self.gathered();
        let shown = |key: CopyKey| {
            let copy = self.copy_beside(&gathered, &key.stream, &key.copy).ok()?;
            Some((key, copy))
        };
        keys.into_iter().filter_map(shown).collect()
    }

    /// The reports that wait for the streams of copies. To be looked at in front of the streams:
    /// what a stream takes in between counts twice, and nothing is left out.
    fn gathered(&self) -> BTreeMap<Incarnation, CopyBacklog> {
        self.engine.context().devices.gatherings.waiting()
    }

    fn copy_beside(
        &self,
        gathered: &BTreeMap<Incarnation, CopyBacklog>,
        stream: &StreamName,
        name: &str,
    ) -> Result<CopyReport, Problem> {
        let found = self.reader().find_counted(stream)?;
        let row = found.0.view.stream_copy(found.0.stream, name).map_err(unreadable)?;
        self.copy_shown(stream, (&found, gathered), row.ok_or_else(|| unknown_copy(stream, name))?)
    }

    /// The copies that run.
    #[must_use]
    pub fn running_copies(&self) -> Vec<CopyTarget> {
        self.engine.context().streams.copies.all()
    }

    /// Returns when [`Self::running_copies`] may be others than before. For one caller.
    pub async fn running_copies_changed(&self) {
        self.engine.context().streams.copies.changed().await;
    }

    /// A copy as it is stored.
    ///
    /// # Errors
    /// 404 when it is not there.
    pub async fn copy_row(&self, key: &CopyKey) -> Result<StreamCopy, Problem> {
        let (streams, key) = (self.clone(), key.clone());
        blocking(move || streams.reader().copy_row(&key)).await
    }

    /// Moves a copy on, if it is still between the streams of this row; durable when this returns.
    ///
    /// # Errors
    /// 404 when it is not there.
    pub async fn move_copy(
        &self,
        key: &CopyKey,
        row: &StreamCopy,
        change: CopyMove,
    ) -> Result<CopyProgress, Problem> {
        let call = |reply| {
            let (CopyKey { stream, copy }, row) = (key.clone(), Box::new(row.clone()));
            StreamsInput::MoveCopy(Box::new(MoveCopyCall { stream, copy, row, change, reply }))
        };
        self.partition(&key.stream).ask(call).await?
    }

    /// Notes how a copy goes, for whoever looks at it.
    pub fn note_copy(&self, target: &CopyTarget, status: CopyStatus) {
        self.engine.context().streams.copies.note(target, status);
    }

    fn copy_shown(
        &self,
        stream: &StreamName,
        (found, gathered): (&(FoundStream, u64), &BTreeMap<Incarnation, CopyBacklog>),
        row: StreamCopy,
    ) -> Result<CopyReport, Problem> {
        let context = &self.engine.context().streams;
        let key = CopyKey { stream: stream.clone(), copy: row.name.clone() };
        let status = context.copies.status(&key).unwrap_or_default();
        let (lag, oldest_uncopied_at) = match row.direction {
            CopyDirection::To => {
                let lag = lag_in_stream(&row, found);
                let oldest = if lag > 0 { self.received_behind(stream, row.position)? } else { None };
                match row.gather().and_then(|gather| gathered.get(&gather)) {
                    None => (lag, oldest),
                    Some(CopyBacklog { reports, oldest_at, .. }) => {
                        (lag.saturating_add(*reports), oldest.into_iter().chain([*oldest_at]).min())
                    }
                }
            }
            CopyDirection::From => {
                let newest = status.newest_there.unwrap_or(row.position);
                let lag = newest.saturating_sub(row.position).saturating_sub(ahead_of(&row));
                (lag, status.oldest_there.filter(|_| lag > 0))
            }
        };
        let state = state_of(&row, &status, lag, self.engine.clock().now());
        Ok(CopyReport {
            state,
            lag,
            oldest_uncopied_at,
            error: status.error.filter(|_| !row.paused),
            last_run_at: Some(status.at).filter(|at| at.0 > 0),
            row,
        })
    }

    /// Whether the stream that is read has come to an id. What a node does not say now is seen when
    /// the copy runs.
    async fn check_from(&self, copy: &NewCopy, from: u64) -> Result<(), Problem> {
        let newest = match &*copy.node {
            SELF_NODE => Some(self.end(&copy.other).await.map_or(0, |(_, next)| next.max(1) - 1)),
            node => self.engine.context().streams.peer_asks.newest(node, &copy.other).await,
        };
        match newest {
            Some(newest) if from > newest => Err(Problem::not_allowed(
                "invalid_from",
                format!("from is {from}; the newest message there is {newest}"),
            )),
            _ => Ok(()),
        }
    }

    /// The next question to another node that a call waits for. For one caller.
    pub async fn next_peer_ask(&self) -> PeerAsk {
        self.engine.context().streams.peer_asks.next().await
    }

    /// Whether there may be one copy more.
    fn check_copies(&self, stream: &StreamName, copy: &NewCopy) -> Result<(), Problem> {
        let copies = &self.engine.context().streams.copies;
        let key = CopyKey { stream: stream.clone(), copy: copy.name.clone() };
        let too_many = |detail: String| Err(Problem::new(429, "too_many_copies", detail));
        if copies.len() >= COPIES_MAX && !copies.has(&key) {
            return too_many(format!("there are {COPIES_MAX} copies already"));
        }
        let gatherings = self.engine.gatherings();
        let gatherings = gatherings.borrow();
        let is_one_more = copy.reports.is_some() && gatherings.iter().all(|gathering| gathering.key != key);
        if is_one_more && gatherings.len() >= REPORTS_COPIES_MAX {
            return too_many(format!("there are {REPORTS_COPIES_MAX} copies of kind reports already"));
        }
        Ok(())
    }
}

impl From<CopyReport> for HandlerStatus {
    fn from(copy: CopyReport) -> Self {
        Self {
            handler: HandlerKind::Copy,
            name: Some(copy.row.name),
            state: match copy.state {
                CopyState::Idle => HandlerState::Idle,
                CopyState::Running | CopyState::SourceReset => HandlerState::Running,
                CopyState::Waiting => HandlerState::Waiting,
                CopyState::Paused => HandlerState::Paused,
            },
            last_run_at: copy.last_run_at,
            blocks: 0,
            bytes: 0,
            error: copy.error,
        }
    }
}

fn state_of(row: &StreamCopy, status: &CopyStatus, lag: u64, now: Timestamp) -> CopyState {
    let was_reset = row.reset_at.is_some_and(|at| now < at.after(RESET_SHOWN));
    match row {
        row if row.paused => CopyState::Paused,
        // What is wrong now counts more than what was.
        _ if status.error.is_some() => CopyState::Waiting,
        _ if was_reset => CopyState::SourceReset,
        _ if lag > 0 => CopyState::Running,
        _ => CopyState::Idle,
    }
}

fn check(stream: &StreamName, copy: &NewCopy) -> Result<(), Problem> {
    QueueName::check("copy", &copy.name)?;
    if copy.segments.len() > SEGMENTS_PER_READ_MAX || copy.segments.iter().any(|segment| !is_label(segment)) {
        let detail =
            format!("segments must be up to {SEGMENTS_PER_READ_MAX}, each of A-Z a-z 0-9 _ . : and -");
        return Err(Problem::not_allowed("invalid_name", detail));
    }
    if *copy.node == *SELF_NODE && copy.other == *stream && copy.reports.is_none() {
        let detail = "a copy with node self must have another stream: give stream as \"namespace/name\"";
        return Err(Problem::not_allowed("invalid_name", detail));
    }
    if let Some(rate) = copy.rate.filter(|rate| !(1..=EXACT_NUMBER_MAX).contains(rate)) {
        let detail = format!("rate is {rate}; it must be 1 to {EXACT_NUMBER_MAX} bytes in a second");
        return Err(Problem::not_allowed("invalid_number", detail));
    }
    if copy.live_permille > 1_000 {
        return Err(Problem::not_allowed("invalid_number", "live_share must be from 0 to 1"));
    }
    Ok(())
}

/// What a copy of kind `reports` may not have.
fn check_reports(copy: &NewCopy) -> Result<(), Problem> {
    if copy.direction != CopyDirection::To {
        let detail = "direction must be \"to\": the node that has the devices makes the copy of kind reports";
        return Err(Problem::not_allowed("unknown_word", detail));
    }
    if *copy.node == *SELF_NODE {
        let detail = "a copy of kind reports must have another node than self, which has the reports already";
        return Err(Problem::not_allowed("invalid_name", detail));
    }
    if copy.live_permille > 0 {
        let detail = "a copy of kind reports keeps the order of each device, and has no live_share";
        return Err(Problem::not_allowed("invalid_number", detail));
    }
    let selector = copy.reports.as_ref().and_then(|reports| reports.selector.as_ref());
    selector.map_or(Ok(()), |selector| Selection::parse(selector)?.check_kept())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_reset_is_shown_for_a_while_and_never_hides_what_is_wrong() {
        let end = ("centre", "shop", "orders");
        let row = StreamCopy::begin((Incarnation(1), "c"), CopyDirection::To, end, Timestamp(0));
        let row = StreamCopy { reset_at: Some(Timestamp(1_000)), ..row };
        let failed = CopyStatus { failures: 1, error: Some("503 busy".into()), ..CopyStatus::default() };
        let (at, later) = (Timestamp(1_001), Timestamp(1_000).after(RESET_SHOWN));
        for (status, lag, now, expect) in [
            (CopyStatus::default(), 3, at, CopyState::SourceReset),
            (failed.clone(), 3, at, CopyState::Waiting),
            (failed, 0, later, CopyState::Waiting),
            (CopyStatus::default(), 3, later, CopyState::Running),
            (CopyStatus::default(), 0, later, CopyState::Idle),
        ] {
            assert_eq!(state_of(&row, &status, lag, now), expect, "{status:?} {lag} {now:?}");
        }
    }
}
