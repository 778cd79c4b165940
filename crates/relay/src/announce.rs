//! What a relay says of itself: to whoever asks this process, and to the server, which shows it at
//! `GET /v1/relays` for as long as it goes on saying it.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base::Timestamp;
use serde_json::json;
use tokio::sync::watch;

use crate::mover::RelayConfig;
use crate::outbox::OutboxFigures;
use crate::plan::OnRefused;
use crate::publish::OutgoingCall;

/// The server forgets a relay that it has not heard of for half a minute.
const SAID_EVERY: Duration = Duration::from_secs(2);

/// What a relay is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum RelayPhase {
    /// It tries to reach the database.
    #[default]
    Connecting,
    /// Another relay works on the table.
    Waiting,
    /// It works.
    Working,
}

impl RelayPhase {
    fn as_str(self) -> &'static str {
        match self {
            Self::Connecting => "connecting",
            Self::Waiting => "waiting",
            Self::Working => "working",
        }
    }
}

/// What a relay knows of itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct RelayProgress {
    pub(crate) phase: RelayPhase,
    pub(crate) figures: Option<OutboxFigures>,
    /// Rows that are durable at their destination, since this process began.
    pub(crate) moved: u64,
    /// Rows that were refused, since this process began.
    pub(crate) refused: u64,
    /// Why it does not move.
    pub(crate) error: Option<String>,
}

/// The same, shared.
#[derive(Debug, Default)]
pub(crate) struct SharedProgress(Mutex<RelayProgress>);

impl SharedProgress {
    pub(crate) fn get(&self) -> MutexGuard<'_, RelayProgress> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says why it does not move; a line in the log for each new reason.
    pub(crate) fn stuck(&self, error: String) {
        let mut progress = self.get();
        if progress.error.as_ref() != Some(&error) {
            tracing::warn!(error, "the relay does not move; it tries again");
            progress.error = Some(error);
        }
    }

    pub(crate) fn moves(&self) {
        let mut progress = self.get();
        if progress.error.take().is_some() {
            tracing::info!("the relay moves again");
        }
    }
}

/// Tells the server for as long as the relay runs. That it cannot be told stops nothing.
pub(crate) async fn announce(
    config: &RelayConfig,
    progress: &SharedProgress,
    mut stop: watch::Receiver<bool>,
) {
    let mut every = tokio::time::interval(SAID_EVERY);
    every.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            _ = every.tick() => {}
        }
        let call = OutgoingCall {
            is_put: true,
            path: vec!["relays".to_owned(), config.name.clone()],
            parameter: None,
            idempotency_key: None,
            body: said(config, &progress.get()).into_bytes(),
        };
        let answer = tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            answer = (config.make_call)(call) => answer,
        };
        match answer {
            Ok(answer) if answer.status < 300 => {}
            Ok(answer) => {
                tracing::debug!(status = answer.status, "the server does not take the relay's word");
            }
            Err(error) => tracing::debug!(error, "the server cannot be told of the relay"),
        }
    }
}

fn said(config: &RelayConfig, progress: &RelayProgress) -> String {
    let figures = progress.figures;
    let of = |part: fn(&OutboxFigures) -> i64| figures.as_ref().map(part);
    json!({
        "database": config.database.told(),
        "table": config.table.told(),
        "state": progress.phase.as_str(),
        "on_refused": match config.on_refused { OnRefused::Skip => "skip", OnRefused::Hold => "hold" },
        "waiting": of(|figures| figures.waiting),
        "bytes": of(|figures| figures.bytes),
        "held": of(|figures| figures.held),
        "refused": of(|figures| figures.refused),
        "oldest_at": figures.and_then(|figures| figures.oldest_at_ms).map(|ms| Timestamp(ms).to_string()),
        "moved": progress.moved,
        "error": progress.error,
    })
    .to_string()
}
