//! Outcomes of commands on their way to those who gave the commands.
//!
//! An outcome is a job of its device's partition, made in the commit that ends the command: it
//! survives whatever the command survives. A partition only signals which of its lanes have
//! outcomes due. The sender, `notify`, leases some, sends them, and reports the result of each.

use std::sync::Arc;
use std::time::Duration;

use base::limits::STREAM_LABEL_CHARS_MAX;
use base::{PartitionId, hash};
pub use records::OutcomeLane;
use records::{AnswerKey, Command, CommandState, CommandStatus, OutcomeReceiver, PickOutcome, Reservation};

use crate::Engine;
use crate::commands::COMMAND_ID_PREFIX;
use crate::devices::input::CommandInput;
use crate::kernel::idempotency::IdempotencyKey;
use crate::kernel::partition_handle::NotAccepting;
use crate::streams::OwnedExternalId;

/// An outcome to be told now. The lease is durable.
#[derive(Clone, Debug)]
pub struct OutcomeDue {
    /// Where it is kept.
    pub partition: PartitionId,
    /// Shown again with what came of it.
    pub reservation: Reservation,
    /// The command; it says who is told.
    pub command: Arc<Command>,
    /// How it ended.
    pub state: CommandState,
    /// Whether this tells of an answer after the end.
    pub is_late: bool,
    /// Whether it ended because the picked device went away.
    pub went_away: bool,
}

impl OutcomeDue {
    /// What no other outcome of the command has, however often that is tried anew.
    #[must_use]
    pub fn number(&self) -> u64 {
        let late = self.state.late.as_ref().filter(|_| self.is_late);
        let at = late.map_or(self.state.finished_at, |late| Some(late.at)).unwrap_or_default();
        let of_command = hash::derived(u64::from(self.is_late), &self.command.id.to_bytes());
        hash::derived(of_command, &at.0.to_le_bytes())
    }

    /// What came of the pick that the command was given for.
    #[must_use]
    pub fn pick_outcome(&self) -> PickOutcome {
        match self.state.status {
            CommandStatus::Acknowledged => PickOutcome::Answered,
            _ if self.state.was_answered() => PickOutcome::Refused,
            _ if self.went_away => PickOutcome::WentAway,
            _ if self.state.published_at.is_some() => PickOutcome::NoAnswer,
            _ => PickOutcome::NotSent,
        }
    }

    /// The mark under which its job is published, so that telling it again publishes none.
    #[must_use]
    pub fn idempotency_key(&self) -> IdempotencyKey {
        let number = self.number();
        let half = |seed: u64| u128::from(hash::derived(seed, &number.to_le_bytes()));
        IdempotencyKey { key: AnswerKey(half(2) << 64 | half(4)), body: half(6) }
    }

    /// The source and the external id of its message in a stream, so that telling it again appends
    /// none. What came of a pick is told once, so its command names it.
    #[must_use]
    pub fn origin(&self) -> (Box<str>, OwnedExternalId) {
        let id = self.command.id.to_text(COMMAND_ID_PREFIX);
        let slot = self.command.cause.pick().and_then(|turn| turn.slot.as_ref());
        match slot {
            Some((campaign, _)) => (source_of(campaign), OwnedExternalId::Text(id.into())),
            None => {
                let id = format!("{id}.{:x}", self.number());
                ("commands".into(), OwnedExternalId::Text(id.into()))
            }
        }
    }
}

/// What the results of a campaign have for a source. Ids of commands are unique everywhere, so
/// campaigns whose ids begin alike may share one.
fn source_of(campaign: &str) -> Box<str> {
    let mut source = format!("campaign.{campaign}");
    // A campaign's id has only ASCII characters.
    source.truncate(STREAM_LABEL_CHARS_MAX);
    source.into()
}

/// A receiver as the log names it: what follows the host in a URL may be secret.
pub(crate) fn receiver_in_log(receiver: &OutcomeReceiver) -> String {
    match receiver {
        OutcomeReceiver::Queue { namespace, queue } => format!("queue {namespace}/{queue}"),
        OutcomeReceiver::Stream { namespace, stream } => format!("stream {namespace}/{stream}"),
        OutcomeReceiver::Url { url, .. } => {
            let (scheme, rest) = url.split_once("://").unwrap_or_default();
            let authority = rest.split(['/', '\\', '?', '#']).next().unwrap_or_default();
            let host = authority.rsplit('@').next().unwrap_or_default();
            format!("{scheme}://{host}")
        }
    }
}

/// What came of sending an outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendResult {
    /// It got through.
    Delivered,
    /// It did not; its receiver asks for so much patience.
    Failed(Option<Duration>),
}

impl Engine {
    /// Leases up to `max` outcomes of a lane. If there are fewer, the lane is empty until the
    /// partition signals it again.
    ///
    /// # Errors
    /// When the server is not accepting.
    pub async fn lease_outcomes(
        &self,
        (partition, lane): (PartitionId, OutcomeLane),
        max: usize,
    ) -> Result<Vec<OutcomeDue>, NotAccepting> {
        let handle = self.device_partition(partition)?;
        handle.ask(|reply| CommandInput::LeaseOutcomes { lane, max, reply }.into()).await
    }

    /// Records what came of telling an outcome; a stale reservation changes nothing.
    ///
    /// # Errors
    /// When the server is not accepting.
    pub async fn outcome_told(
        &self,
        partition: PartitionId,
        reservation: Reservation,
        result: SendResult,
    ) -> Result<(), NotAccepting> {
        let handle = self.device_partition(partition)?;
        handle.ask(|reply| CommandInput::OutcomeTold { reservation, result, reply }.into()).await
    }
}

#[cfg(test)]
mod tests {
    use crate::campaigns::check_campaign_id;
    use crate::streams::is_label;

    use super::*;

    #[test]
    fn every_campaign_has_a_source() {
        for id in ["c".to_owned(), "dns-cn_1".to_owned(), "x".repeat(64)] {
            check_campaign_id(&id).expect("an id");
            let source = source_of(&id);
            assert!(is_label(&source), "{source}");
            assert!(source.starts_with("campaign."), "{source}");
        }
        assert_eq!(&*source_of("dns-cn_1"), "campaign.dns-cn_1");
    }

    #[test]
    fn no_secret_of_a_receiver_is_in_the_log() {
        for (url, expect) in [
            ("https://example.com:8443/hooks/s3cret?key=s3cret", "https://example.com:8443"),
            ("https://u:s3cret@example.com#s3cret", "https://example.com"),
            ("http://[::1]\\s3cret", "http://[::1]"),
        ] {
            let receiver = OutcomeReceiver::Url { url: url.into(), secret: Box::from(*b"s3cret") };
            assert_eq!(receiver_in_log(&receiver), expect, "{url}");
        }
        let queue = OutcomeReceiver::Queue { namespace: "a".into(), queue: "b".into() };
        assert_eq!(receiver_in_log(&queue), "queue a/b");
    }
}
