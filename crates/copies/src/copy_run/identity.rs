//! Whether both ends are the streams that they were.

use std::time::Duration;

use base::Timestamp;
use engine::records::CopyDirection;
use engine::streams::{CopiedSpan, CopyLane, CopyMove, CopyProgress, PeerIdentity};
use futures_util::stream::FuturesOrdered;

use super::{CopyRun, CopyRunEnd};
use crate::ends::{CopyFailure, CopyFailureKind, CopyHome, SourcePage, StreamEnd};

/// A sink that is sent nothing is asked so often which stream it is.
const SINK_ASKED_EVERY: Duration = Duration::from_secs(5);

impl<H: CopyHome, S: StreamEnd, T: StreamEnd> CopyRun<'_, H, S, T> {
    /// A source that was made anew is copied from its start.
    pub(super) async fn check_source(&mut self, identity: &PeerIdentity) -> Result<(), CopyRunEnd> {
        let is_other = self.row.direction == CopyDirection::From
            && self.row.peer.as_deref().is_some_and(|peer| *peer != *identity.stream);
        if !is_other {
            return Ok(());
        }
        self.in_flight = FuturesOrdered::new();
        self.flush().await?;
        let at = self.row.position;
        self.answered.push(CopiedSpan::of_nothing(CopyLane::Backlog, (at, at), identity.clone()));
        self.flush().await?;
        Err(CopyRunEnd::Again)
    }

    /// A copy that is to begin behind a message that the source has not come to yet says so. It
    /// begins once there is such a message.
    pub(super) fn check_begin(&self, page: &SourcePage) -> Result<(), CopyRunEnd> {
        let row = &self.row;
        let has_begun = row.copied + row.duplicates > 0 || row.position != row.start;
        if row.direction != CopyDirection::From || has_begun || row.start <= page.newest {
            return Ok(());
        }
        let error =
            format!("invalid_from: from is {}; the newest message there is {}", row.start, page.newest);
        Err(CopyFailure::new(CopyFailureKind::Refused, error).into())
    }

    /// When a sink that is sent nothing is asked which stream it is. It may be made anew, or
    /// restored, and what it had is not kept for it for ever.
    pub(super) fn asks_sink_at(&self) -> Option<Timestamp> {
        let is_quiet = self.is_at_end && self.in_flight.is_empty() && self.answered.is_empty();
        let is_known = self.row.direction == CopyDirection::To && self.row.peer.is_some();
        (is_quiet && is_known).then(|| self.sink_seen_at.after(SINK_ASKED_EVERY))
    }

    /// Begins anew where the sink is another stream. One that does not say is asked again later.
    pub(super) async fn check_sink(&mut self) -> Result<(), CopyRunEnd> {
        let answer = self.sink.page(self.ask(u64::MAX >> 1, 1, false)).await;
        self.sink_seen_at = self.home.now();
        let at = self.row.position;
        match answer {
            Ok(page) if self.row.peer.as_deref() != Some(&*page.identity.stream) => {
                self.answered.push(CopiedSpan::of_nothing(CopyLane::Backlog, (at, at), page.identity));
                self.flush().await
            }
            Err(failure) if failure.kind == CopyFailureKind::NotThere => self.sink_is_gone().await,
            _ => Ok(()),
        }
    }

    /// Begins anew with whoever is there, or will be: the first messages make the stream again, and
    /// its answer says who it is. What was answered before is true no more.
    pub(super) async fn sink_is_gone(&mut self) -> Result<(), CopyRunEnd> {
        self.in_flight = FuturesOrdered::new();
        self.flush().await?;
        let Some(known) = self.row.peer.clone() else { return Err(CopyRunEnd::Again) };
        let moved = self.home.moved(&self.row, CopyMove::PeerGone { known }).await;
        match moved.map_err(CopyRunEnd::Home)? {
            CopyProgress::Moved => Ok(()),
            CopyProgress::Reset | CopyProgress::Elsewhere => Err(CopyRunEnd::Again),
        }
    }
}
