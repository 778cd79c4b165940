//! A backup over HTTP: pieces of whoever makes them, one at a time, for a receiver that may be
//! slow.
//!
//! One backup is under way at a time, since each holds on to what changes meanwhile. A receiver
//! that takes nothing for a while is given up for the same reason. What a piece holds is not known
//! here. A backup that cannot go on breaks the connection off, and has no last piece either.

use std::sync::{Arc, OnceLock};

use axum::body::Bytes;
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::response::Response;
use base::Problem;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::spawn_blocking;
use tracing::{info, warn};

use crate::ApiState;
use crate::export::{ExportPiece, STALL_MAX, body, sent};

/// The media type of a backup.
pub(crate) const BACKUP_TYPE: &str = "application/vnd.fieldpost.backup";

/// Pieces of a backup, in their order; an error is the last that comes.
pub type BackupPieces = Box<dyn Iterator<Item = Result<Vec<u8>, String>> + Send>;

/// Begins a backup; blocks until what is in it is fixed.
type Begin = dyn Fn() -> Result<BackupPieces, String> + Send + Sync;

/// Who makes backups, and whether one is under way.
pub(crate) struct Backups {
    begin: OnceLock<Arc<Begin>>,
    turn: Arc<Semaphore>,
}

impl Default for Backups {
    fn default() -> Self {
        Self { begin: OnceLock::new(), turn: Arc::new(Semaphore::new(1)) }
    }
}

impl ApiState {
    /// Backups are begun by `begin`, which may block. The first one that is given stays; before
    /// that there are none.
    #[must_use]
    pub fn backing_up_with(
        self,
        begin: impl Fn() -> Result<BackupPieces, String> + Send + Sync + 'static,
    ) -> Self {
        let _first = self.shared.backups.begin.get_or_init(|| Arc::new(begin));
        self
    }
}

impl Backups {
    /// The answer that is a backup of what is durable now.
    ///
    /// # Errors
    /// `busy` while another is under way, `unavailable` when none can be made.
    pub(crate) async fn answer(&self) -> Result<Response, Problem> {
        let none = || Problem::unavailable("this server makes no backups");
        let begin = Arc::clone(self.begin.get().ok_or_else(none)?);
        let turn = Arc::clone(&self.turn).try_acquire_owned().map_err(|_| under_way())?;
        let (first, pieces) = run(move || begin().and_then(next)).await?;
        info!("a backup begins");
        let (sender, receiver) = mpsc::channel(1);
        tokio::spawn(send_all(first, pieces, turn, sender));
        let mut response = Response::new(body(receiver));
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(BACKUP_TYPE));
        Ok(response)
    }
}

fn under_way() -> Problem {
    Problem::new(503, "busy", "another backup is under way; try again when it has ended")
}

/// The next piece if there is one, and the rest.
type Next = (Option<Bytes>, BackupPieces);

fn next(mut pieces: BackupPieces) -> Result<Next, String> {
    let piece = pieces.next().transpose()?;
    Ok((piece.map(Bytes::from), pieces))
}

/// Runs what blocks.
async fn run(read: impl FnOnce() -> Result<Next, String> + Send + 'static) -> Result<Next, Problem> {
    match spawn_blocking(read).await {
        Ok(read) => read.map_err(|what| Problem::unavailable(format!("no backup can be made: {what}"))),
        Err(ended) if ended.is_panic() => std::panic::resume_unwind(ended.into_panic()),
        Err(_) => Err(Problem::unavailable("the server is stopping")),
    }
}

async fn send_all(
    first: Option<Bytes>,
    pieces: BackupPieces,
    _turn: OwnedSemaphorePermit,
    receiver: mpsc::Sender<ExportPiece>,
) {
    let (mut piece, mut pieces, mut bytes) = (first, pieces, 0);
    while let Some(next_piece) = piece {
        bytes += next_piece.len();
        if !sent(&receiver, ExportPiece::Rows(next_piece), STALL_MAX).await {
            warn!(bytes, "a backup ends early: its receiver takes no more");
            return;
        }
        match run(move || next(pieces)).await {
            Ok((following, rest)) => (piece, pieces) = (following, rest),
            Err(problem) => {
                warn!(bytes, detail = problem.detail, "a backup broke off");
                return;
            }
        }
    }
    if sent(&receiver, ExportPiece::End, STALL_MAX).await {
        info!(bytes, "a backup was taken");
    }
}

base::debug_as_name!(Backups);

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use http_body_util::BodyExt;

    use super::*;

    fn backups(begin: impl Fn() -> Result<BackupPieces, String> + Send + Sync + 'static) -> Backups {
        let backups = Backups::default();
        assert!(backups.begin.set(Arc::new(begin)).is_ok());
        backups
    }

    fn pieces(pieces: Vec<Result<&'static str, &'static str>>) -> BackupPieces {
        let owned = |piece: Result<&str, &str>| piece.map(Vec::from).map_err(str::to_owned);
        Box::new(pieces.into_iter().map(owned))
    }

    async fn text(body: Body) -> Result<Bytes, String> {
        body.collect().await.map(|all| all.to_bytes()).map_err(|error| error.to_string())
    }

    async fn refusal(backups: &Backups) -> (u16, String, String) {
        let problem = backups.answer().await.map(drop).expect_err("is refused");
        (problem.status, problem.code.to_string(), problem.detail)
    }

    #[tokio::test]
    async fn a_backup_is_its_pieces_in_their_order() {
        let backups = backups(|| Ok(pieces(vec![Ok("a"), Ok("b"), Ok("c")])));
        for _ in 0..2 {
            let answer = backups.answer().await.expect("begins");
            assert_eq!(answer.headers()[CONTENT_TYPE], BACKUP_TYPE);
            assert_eq!(text(answer.into_body()).await, Ok(Bytes::from_static(b"abc")));
            // its turn ends with it
            drop(backups.turn.acquire().await.expect("is never closed"));
        }
    }

    #[tokio::test]
    async fn one_is_under_way_at_a_time_until_its_receiver_goes() {
        let backups = backups(|| Ok(Box::new(std::iter::repeat_with(|| Ok(vec![0])))));
        let endless = backups.answer().await.expect("begins");
        let (status, code, _) = refusal(&backups).await;
        assert_eq!((status, code.as_str()), (503, "busy"));
        drop(endless);
        drop(backups.turn.acquire().await.expect("is never closed"));
        assert!(backups.answer().await.is_ok());
    }

    #[tokio::test]
    async fn what_fails_is_told_before_it_begins_and_breaks_off_later() {
        let (status, _, detail) = refusal(&backups(|| Err("the disk is full".to_owned()))).await;
        assert_eq!((status, detail.contains("the disk is full")), (503, true), "{detail}");
        let (status, ..) = refusal(&backups(|| Ok(pieces(vec![Err("a bad page")])))).await;
        assert_eq!(status, 503);
        assert_eq!(refusal(&Backups::default()).await.0, 503);
        let broken = backups(|| Ok(pieces(vec![Ok("a"), Err("a bad page")])));
        let answer = broken.answer().await.expect("begins");
        assert!(text(answer.into_body()).await.is_err());
    }
}
