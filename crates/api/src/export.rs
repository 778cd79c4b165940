//! Exports: a whole list as NDJSON or CSV, from its first item to its last, in bounded memory.
//!
//! A list is read a piece at a time, and the next piece only when the receiver took the one before.
//! Once the answer has begun its status cannot change. An export that fails then breaks the
//! connection off, so that it is never taken for a complete one. A receiver that takes nothing for
//! a while is given up, since it holds one of few places.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::response::Response;
use base::Problem;
use engine::queries::{BoundedPage, LOOKED_AT_MAX};
use futures_util::stream;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tracing::warn;

use crate::ApiState;
use crate::authorization::StandingRights;
use crate::compression;
use crate::list::List;
use crate::page::{PageOf, RowFormat};
use crate::reads::ReadPermit;
use crate::row::CsvTable;

/// Items that are read at a time.
const PIECE_ITEMS: usize = 1_000;
/// A receiver that takes no piece for this long is given up.
pub(crate) const STALL_MAX: Duration = Duration::from_secs(60);

/// The answer that shows all of the list behind `page.after`, at most `page.limit` items if that is
/// given.
///
/// # Errors
/// What reading the first piece says, or `busy`.
pub(crate) async fn all<L: List>(
    api: &ApiState,
    rows: RowFormat,
    page: PageOf<L::Key>,
    list: L,
) -> Result<Response, Problem> {
    let place = api.shared.exports.enter_as(&page.whose)?;
    let rights = page.rights;
    let gzip = page.gzip.then(compression::CompressedRows::new);
    let is_compressed = gzip.is_some();
    let walk = Walk { list: Arc::new(list), rows, after: None, left: page.limit, begun: false, gzip };
    let (first, walk) = Walk { after: page.after, ..walk }.next(&place).await?;
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(send_all((api.clone(), rights), first, walk, place, sender));
    let mut response = Response::new(body(receiver));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(rows.content_type()));
    compression::set_headers(response.headers_mut(), is_compressed);
    Ok(response)
}

/// What goes to the receiver. Only [`ExportPiece::End`] ends the body well.
#[derive(Debug)]
pub(crate) enum ExportPiece {
    Rows(Bytes),
    End,
}

/// Why an export broke off, for the log of the connection.
#[derive(Debug)]
struct BrokenOff;

impl fmt::Display for BrokenOff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an export broke off")
    }
}

impl std::error::Error for BrokenOff {}

pub(crate) fn body(pieces: mpsc::Receiver<ExportPiece>) -> Body {
    Body::from_stream(stream::unfold(Some(pieces), async |pieces| {
        let mut pieces = pieces?;
        match pieces.recv().await {
            Some(ExportPiece::Rows(rows)) => Some((Ok(rows), Some(pieces))),
            Some(ExportPiece::End) => None,
            None => Some((Err(BrokenOff), None)),
        }
    }))
}

/// Sends piece after piece, as long as the caller may see them.
async fn send_all<L: List>(
    (api, rights): (ApiState, Option<StandingRights>),
    first: Bytes,
    walk: Option<Walk<L>>,
    place: ReadPermit,
    receiver: mpsc::Sender<ExportPiece>,
) {
    let (mut rows, mut walk) = (first, walk);
    loop {
        if !sent(&receiver, ExportPiece::Rows(rows), STALL_MAX).await {
            return;
        }
        let Some(rest) = walk else { break };
        let still = match &rights {
            Some(rights) => rights.check(&api).await,
            None => Ok(()),
        };
        let next = match still {
            Ok(()) => rest.next(&place).await,
            Err(problem) => Err(problem),
        };
        match next {
            Ok((next, rest)) => (rows, walk) = (next, rest),
            Err(problem) => {
                warn!(code = problem.code, detail = problem.detail, "an export broke off");
                return;
            }
        }
    }
    sent(&receiver, ExportPiece::End, STALL_MAX).await;
}

/// Whether the receiver took it.
pub(crate) async fn sent(
    receiver: &mpsc::Sender<ExportPiece>,
    piece: ExportPiece,
    stall_max: Duration,
) -> bool {
    match timeout(stall_max, receiver.send(piece)).await {
        Ok(sent) => sent.is_ok(),
        Err(_) => {
            warn!(stalled_for = ?stall_max, "an export is given up: its receiver takes nothing");
            false
        }
    }
}

/// An export under way.
struct Walk<L: List> {
    list: Arc<L>,
    rows: RowFormat,
    after: Option<L::Key>,
    /// Items that may still be shown.
    left: Option<usize>,
    begun: bool,
    gzip: Option<compression::CompressedRows>,
}

impl<L: List> Walk<L> {
    /// The next rows, and the rest of the walk unless that was its end.
    async fn next(self, place: &ReadPermit) -> Result<(Bytes, Option<Self>), Problem> {
        place.run(move || self.read()).await
    }

    fn read(mut self) -> Result<(Bytes, Option<Self>), Problem> {
        let most = PIECE_ITEMS.min(L::READ_MAX);
        let asked = self.left.map_or(most, |left| left.min(most));
        let BoundedPage { found, next, .. } = self.list.look(self.after.as_ref(), asked, LOOKED_AT_MAX)?;
        let bytes = self.written(&found);
        self.begun = true;
        self.left = self.left.map(|left| left - found.len());
        let has_more = next.is_some() || found.len() == asked;
        self.after = next.or_else(|| found.last().map(L::key));
        let ended = !has_more || self.left == Some(0);
        let bytes = self.compressed(bytes, ended);
        Ok((bytes, if ended { None } else { Some(self) }))
    }

    fn compressed(&mut self, bytes: Bytes, ended: bool) -> Bytes {
        let Some(mut gzip) = self.gzip.take() else { return bytes };
        gzip.add(&bytes);
        if ended {
            return gzip.finish();
        }
        let piece = gzip.piece();
        self.gzip = Some(gzip);
        piece
    }

    fn written(&self, found: &[L::Found]) -> Bytes {
        match self.rows {
            RowFormat::Ndjson => {
                let mut lines = Vec::new();
                for item in found {
                    serde_json::to_writer(&mut lines, &L::show(item)).expect("a shape is JSON");
                    lines.push(b'\n');
                }
                lines.into()
            }
            RowFormat::Csv => {
                let mut table = CsvTable::new();
                if !self.begun {
                    table.names::<L::Shown<'_>>();
                }
                found.iter().for_each(|item| table.add(&L::show(item)));
                table.into_bytes().into()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    async fn received(pieces: Vec<ExportPiece>) -> Result<Bytes, String> {
        let (sender, receiver) = mpsc::channel(pieces.len().max(1));
        for piece in pieces {
            sender.send(piece).await.expect("there is room");
        }
        drop(sender);
        body(receiver).collect().await.map(|all| all.to_bytes()).map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn only_an_export_that_says_so_has_ended() {
        let rows = || ExportPiece::Rows(Bytes::from_static(b"x\n"));
        assert_eq!(received(vec![rows(), rows(), ExportPiece::End]).await, Ok(Bytes::from_static(b"x\nx\n")));
        assert_eq!(received(vec![rows()]).await, Err("an export broke off".to_owned()));
        assert_eq!(received(vec![]).await, Err("an export broke off".to_owned()));
    }

    #[tokio::test]
    async fn a_receiver_that_takes_nothing_is_given_up() {
        let (sender, receiver) = mpsc::channel(1);
        assert!(sent(&sender, ExportPiece::End, STALL_MAX).await);
        assert!(
            !sent(&sender, ExportPiece::End, Duration::from_millis(1)).await,
            "the first one was not taken"
        );
        drop(receiver);
    }
}
