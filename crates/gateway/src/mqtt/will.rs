//! A will: what is to be applied when its client is lost, as if the client published it.
//!
//! With MQTT 5 it may wait, so that a client that is soon back is not told of as lost.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use base::Problem;
use bytes::Bytes;
use engine::Report;
use engine::intake::{NotAccepting, Received, Slice};

use super::MqttShared;
use super::ending::MqttEnding;
use super::labels::Answer;
use super::rights::{Rights, Unknown};
use crate::decode::{DecodeRules, beginning};
use crate::metrics::ReportSender;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Will {
    pub(super) topic: String,
    pub(super) payload: Bytes,
    /// The MQTT 5 user property `id`: the report's id.
    pub(super) id: Option<String>,
    /// How long it waits for the client's return, in seconds.
    pub(super) delay_secs: u32,
}

/// Whose will it is.
#[derive(Clone, Copy)]
pub(super) struct WillOwner<'a> {
    pub(super) access: &'a Rights,
    pub(super) client: &'a str,
    pub(super) peer: Option<SocketAddr>,
}

/// What becomes of a will when its connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WillOutcome {
    Void,
    Now,
    /// Unless the client is back by then.
    After(Duration),
}

impl Will {
    /// What becomes of it after this ending, with a session that outlives the connection for this
    /// time.
    pub(super) fn outcome(&self, ending: MqttEnding, session_outlives: Duration) -> WillOutcome {
        let delay = Duration::from_secs(self.delay_secs.into()).min(session_outlives);
        match ending {
            _ if !ending.applies_will() => WillOutcome::Void,
            MqttEnding::TakenOver { clean_start: false } if !delay.is_zero() => WillOutcome::Void,
            // The session has ended, and with it the wait.
            MqttEnding::TakenOver { .. } => WillOutcome::Now,
            _ if delay.is_zero() => WillOutcome::Now,
            _ => WillOutcome::After(delay),
        }
    }

    /// Takes it for a publish of its client; returns when that is durable, or refused and kept.
    pub(super) async fn apply(&self, of: WillOwner<'_>, shared: &MqttShared) -> Result<(), NotAccepting> {
        let mut slice = Slice::new();
        let received = Received { payload: &self.payload, topic: Some(&self.topic) };
        match self.allowed(of.access, shared).await? {
            Ok(report) => slice.push(report, received),
            Err(problem) => slice.push_refused(problem, received),
        }
        let outcome = shared.intake.submit(slice).await?.durable().await?;
        let metrics = &shared.metrics;
        metrics.reports.accepted(outcome.accepted.into());
        for rejection in &outcome.rejected {
            let (device, topic) = (rejection.device.as_ref(), Some(beginning(&self.topic)));
            let WillOwner { access, client, peer } = of;
            let sender = ReportSender { device, topic, login: access.username(), client, peer };
            metrics.reports.refused_from(&rejection.problem, sender);
        }
        metrics.wills.count(if outcome.rejected.is_empty() { "accepted" } else { "refused" });
        Ok(())
    }

    /// The report that it is, if its client may make it.
    async fn allowed(
        &self,
        access: &Rights,
        shared: &MqttShared,
    ) -> Result<Result<Report, Problem>, NotAccepting> {
        let mut answers: Vec<Answer> = Vec::new();
        loop {
            let rules = DecodeRules::of(&shared.engine);
            let decoded = shared.kinds.publish(&self.topic, &self.payload, self.id.as_deref(), rules);
            match (access.publish(&self.topic, decoded, shared.known(&answers)), access.label()) {
                (Ok(allowed), _) => return Ok(allowed),
                (Err(Unknown(device)), Some(label)) if answers.is_empty() => {
                    let labels = Arc::clone(&shared.labels);
                    answers = labels.look_up(shared.engine.clone(), label, vec![device]).await?;
                }
                // What is asked for is answered, and nobody else is asked about.
                (Err(_), _) => return Err(NotAccepting),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_will_waits_as_long_as_its_session_and_no_longer() {
        let goodbye = |with_will| MqttEnding::Goodbye { with_will, session_expiry_secs: None };
        let taken_over = |clean_start| MqttEnding::TakenOver { clean_start };
        for (ending, delay_secs, session_secs, expect) in [
            (goodbye(false), 0, 0, WillOutcome::Void),
            (goodbye(false), 9, 9, WillOutcome::Void),
            (goodbye(true), 0, 9, WillOutcome::Now),
            (goodbye(true), 9, 0, WillOutcome::Now),
            (MqttEnding::Gone, 9, 5, WillOutcome::After(Duration::from_secs(5))),
            (MqttEnding::Silent, 5, 9, WillOutcome::After(Duration::from_secs(5))),
            (taken_over(false), 0, 9, WillOutcome::Now),
            (taken_over(false), 9, 0, WillOutcome::Now),
            (taken_over(false), 9, 9, WillOutcome::Void),
            (taken_over(true), 9, 9, WillOutcome::Now),
            (MqttEnding::Stopping, 9, 9, WillOutcome::Void),
            (MqttEnding::NotAccepting, 0, 0, WillOutcome::Void),
        ] {
            let will = Will { topic: "t".into(), payload: Bytes::new(), id: None, delay_secs };
            let outcome = will.outcome(ending, Duration::from_secs(session_secs));
            assert_eq!(outcome, expect, "{ending:?} {delay_secs} {session_secs}");
        }
    }
}
