//! A will: what is to be applied when its client is lost, as if the client published it.
//!
//! With MQTT 5 it may wait, so that a client that is soon back is not told of as lost.

use std::time::Duration;

use bytes::Bytes;
use engine::intake::{NotAccepting, Received, Slice};

use super::Shared;
use super::access::Access;
use super::ending::Ending;
use crate::decode::{self, Rules};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Will {
    pub(super) topic: String,
    pub(super) payload: Bytes,
    /// The MQTT 5 user property `id`: the report's id.
    pub(super) id: Option<String>,
    /// How long it waits for the client's return, in seconds.
    pub(super) delay_secs: u32,
}

/// What becomes of a will when its connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Void,
    Now,
    /// Unless the client is back by then.
    After(Duration),
}

impl Will {
    /// What becomes of it after this ending, with a session that outlives the connection for this time.
    pub(super) fn fate(&self, ending: Ending, session_outlives: Duration) -> Fate {
        let delay = Duration::from_secs(self.delay_secs.into()).min(session_outlives);
        match ending {
            _ if !ending.applies_will() => Fate::Void,
            Ending::TakenOver { clean_start: false } if !delay.is_zero() => Fate::Void,
            // The session has ended, and with it the wait.
            Ending::TakenOver { .. } => Fate::Now,
            _ if delay.is_zero() => Fate::Now,
            _ => Fate::After(delay),
        }
    }

    /// Takes it for a publish of its client; returns when that is durable, or refused and kept.
    pub(super) async fn apply(
        &self,
        access: &Access,
        client_id: &str,
        shared: &Shared,
    ) -> Result<(), NotAccepting> {
        let mut slice = Slice::new();
        let received = Received { payload: &self.payload, topic: Some(&self.topic) };
        let decoded =
            decode::publish(&self.topic, &self.payload, self.id.as_deref(), Rules::of(&shared.engine));
        match access.publish(&self.topic, decoded, shared.registered())? {
            Ok(report) => slice.push(report, received),
            Err(problem) => slice.push_refused(problem, received),
        }
        let outcome = shared.intake.submit(slice).await?.durable().await?;
        let figures = &shared.figures;
        figures.reports.accepted(outcome.accepted.into());
        for rejection in &outcome.rejected {
            figures.reports.refused(&rejection.problem, format_args!("the will of {client_id}"));
        }
        figures.wills.count(if outcome.rejected.is_empty() { "accepted" } else { "refused" });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_will_waits_as_long_as_its_session_and_no_longer() {
        let goodbye = |with_will| Ending::Goodbye { with_will, session_expiry_secs: None };
        let taken_over = |clean_start| Ending::TakenOver { clean_start };
        for (ending, delay_secs, session_secs, expect) in [
            (goodbye(false), 0, 0, Fate::Void),
            (goodbye(false), 9, 9, Fate::Void),
            (goodbye(true), 0, 9, Fate::Now),
            (goodbye(true), 9, 0, Fate::Now),
            (Ending::Gone, 9, 5, Fate::After(Duration::from_secs(5))),
            (Ending::Silent, 5, 9, Fate::After(Duration::from_secs(5))),
            (taken_over(false), 0, 9, Fate::Now),
            (taken_over(false), 9, 0, Fate::Now),
            (taken_over(false), 9, 9, Fate::Void),
            (taken_over(true), 9, 9, Fate::Now),
            (Ending::Stopping, 9, 9, Fate::Void),
            (Ending::NotAccepting, 0, 0, Fate::Void),
        ] {
            let will = Will { topic: "t".into(), payload: Bytes::new(), id: None, delay_secs };
            let fate = will.fate(ending, Duration::from_secs(session_secs));
            assert_eq!(fate, expect, "{ending:?} {delay_secs} {session_secs}");
        }
    }
}
