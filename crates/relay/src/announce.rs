//! What a relay says of itself: to whoever asks this process, and to the server. This shows it at
//! `GET /v1/relays` for as long as it goes on saying it, or until it announces that it has stopped.

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use base::Timestamp;
use base::locks::locked;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::mover::RelayConfig;
use crate::outbox::OutboxStats;
use crate::plan::OnRefused;
use crate::publish::OutgoingCall;

/// The server forgets a relay that it has not heard of for ten seconds.
const SAID_EVERY: Duration = Duration::from_secs(2);
/// How long an answer to that is waited for: what is said next is newer.
const ANSWER_MAX: Duration = Duration::from_secs(4);
/// How long a relay that stops tries to tell the server.
const STOPPED_ANSWER_MAX: Duration = Duration::from_secs(2);

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
    /// It has ended.
    Stopped,
}

impl RelayPhase {
    fn as_str(self) -> &'static str {
        match self {
            Self::Connecting => "connecting",
            Self::Waiting => "waiting",
            Self::Working => "working",
            Self::Stopped => "stopped",
        }
    }
}

/// What a relay knows of itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct RelayProgress {
    pub(crate) phase: RelayPhase,
    pub(crate) stats: Option<OutboxStats>,
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
        locked(&self.0)
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
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            () = say(config, progress, ANSWER_MAX) => {}
        }
    }
}

/// Tells the server that the relay has ended.
pub(crate) async fn announce_stopped(config: &RelayConfig, progress: &SharedProgress) {
    progress.get().phase = RelayPhase::Stopped;
    say(config, progress, STOPPED_ANSWER_MAX).await;
}

async fn say(config: &RelayConfig, progress: &SharedProgress, answer_max: Duration) {
    let call = OutgoingCall {
        is_put: true,
        path: vec!["relays".to_owned(), config.name.clone()],
        parameter: None,
        body: said(config, &progress.get()).into_bytes(),
    };
    match timeout(answer_max, (config.make_call)(call)).await {
        Ok(Ok(answer)) if answer.status < 300 => {}
        Ok(Ok(answer)) => {
            tracing::debug!(status = answer.status, "the server does not take the relay's word");
        }
        Ok(Err(error)) => tracing::debug!(error, "the server cannot be told of the relay"),
        Err(_) => tracing::debug!("the server takes too long to be told of the relay"),
    }
}

fn said(config: &RelayConfig, progress: &RelayProgress) -> String {
    let stats = progress.stats;
    let of = |part: fn(&OutboxStats) -> i64| stats.as_ref().map(part);
    json!({
        "database": config.database.address(),
        "table": config.table.display_name(),
        "state": progress.phase.as_str(),
        "on_refused": match config.on_refused { OnRefused::Skip => "skip", OnRefused::Hold => "hold" },
        "waiting": of(|stats| stats.waiting),
        "bytes": of(|stats| stats.bytes),
        "held": of(|stats| stats.held),
        "refused": of(|stats| stats.refused),
        "oldest_at": stats.and_then(|stats| stats.oldest_at_ms).map(|ms| Timestamp(ms).to_string()),
        "moved": progress.moved,
        "error": progress.error,
    })
    .to_string()
}
