//! The slow look, on a session of its own: at rows that were left behind, whatever the reason, and
//! at how much waits. It takes at most a twentieth of the time.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, watch};
use tokio::time::sleep;

use crate::announce::SharedProgress;
use crate::database::DatabaseError;
use crate::mover::RelayConfig;
use crate::outbox::OutboxTable;

/// Between two looks, at least; longer where a look takes long.
const LOOK_EVERY: Duration = Duration::from_secs(5);
const COUNT_EVERY: Duration = Duration::from_secs(1);
/// A pause is so many times as long as what was done.
const SHARE: u32 = 20;
/// After an error.
const AGAIN_AFTER: Duration = Duration::from_secs(2);

/// First rows that were found behind the bound, by destination.
pub(crate) type LeftBehind = Vec<(String, i64)>;

/// Looks until the relay stops, or works no more. Below `settled` every row has been dealt with.
pub(crate) async fn keep_looking(
    config: &RelayConfig,
    progress: &SharedProgress,
    settled: &AtomicI64,
    found: mpsc::Sender<LeftBehind>,
    mut stop: watch::Receiver<bool>,
) {
    let mut last_logged = LastLoggedError::default();
    let looking = async {
        loop {
            if let Err(error) = look(config, progress, settled, &found, &mut last_logged).await {
                last_logged.log_if_new(
                    "rows that were left behind are not found: the look at the outbox fails",
                    &error,
                );
            }
            sleep(AGAIN_AFTER).await;
        }
    };
    tokio::select! {
        _ = stop.wait_for(|stop| *stop) => {}
        () = looking => {}
    }
}

/// The line that was logged last; the same one is not logged again.
#[derive(Default)]
struct LastLoggedError(String);

impl LastLoggedError {
    fn log_if_new(&mut self, what: &str, error: &DatabaseError) {
        let line = format!("{what}: {error}");
        if line != self.0 {
            tracing::warn!(%error, "{what}");
            self.0 = line;
        }
    }
}

async fn look(
    config: &RelayConfig,
    progress: &SharedProgress,
    settled: &AtomicI64,
    found: &mpsc::Sender<LeftBehind>,
    last_logged: &mut LastLoggedError,
) -> Result<(), DatabaseError> {
    let session = config.database.connect("fieldpost relay: look").await?;
    let outbox = OutboxTable::open(session, &config.table).await?;
    let (mut look_at, mut count_at) = (Instant::now() + LOOK_EVERY, Instant::now());
    loop {
        sleep(look_at.min(count_at).saturating_duration_since(Instant::now())).await;
        let began = Instant::now();
        if began >= count_at {
            match outbox.stats().await {
                Ok(stats) => progress.get().stats = Some(stats),
                Err(error) if outbox.session.client.is_closed() => return Err(error),
                // Rows that were left behind are looked for all the same.
                Err(error) => {
                    progress.get().stats = None;
                    last_logged.log_if_new("what waits in the outbox cannot be counted", &error);
                }
            }
            count_at = Instant::now() + COUNT_EVERY.max(began.elapsed() * SHARE);
        }
        let began = Instant::now();
        if began >= look_at {
            let left_behind = outbox.left_behind(settled.load(Ordering::Acquire)).await?;
            // Also when there is none: then the held rows are looked at again.
            if found.send(left_behind).await.is_err() {
                return Ok(());
            }
            look_at = Instant::now() + LOOK_EVERY.max(began.elapsed() * SHARE);
        }
    }
}
