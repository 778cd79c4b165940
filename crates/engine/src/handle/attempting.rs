//! The webhook sender's calls to a partition: lease notifications, and record ended attempts.
//!
//! Each call costs a commit, which the partition shares among all inputs of its inbox. So the
//! sender gathers its inputs for a partition and sends them together.

use base::{Incarnation, PartitionId};
use records::{Client, Reservation};
use tokio::sync::oneshot;

use super::{Engine, ask, send};
use crate::effect::Reply;
use crate::input::Input;
use crate::intake::NotAccepting;
use crate::lanes::Answer;
use crate::registry::RegistryInput;
use crate::{AttemptDue, AttemptEnd};

impl Engine {
    /// Records how attempts ended, each under its reservation; a stale reservation changes nothing.
    /// Then leases, for each client, up to the wanted number of due notifications. Returns the
    /// leases in the order of `wanted`, once they are durable. A short lease has emptied its lane,
    /// until [`DueLanes`](crate::DueLanes) names that again. A server that no longer accepts inputs
    /// leases nothing, and its unrecorded attempts count as interrupted.
    pub async fn exchange(
        &self,
        partition: PartitionId,
        ended: Vec<(Reservation, AttemptEnd)>,
        wanted: Vec<(Incarnation, usize)>,
    ) -> Vec<Vec<AttemptDue>> {
        let mut leased = vec![Vec::new(); wanted.len()];
        let Ok(answers) = self.hand_in(partition, ended, wanted).await else {
            tracing::debug!(%partition, "not accepting; attempts that are not recorded count as interrupted");
            return leased;
        };
        for (leased, answer) in leased.iter_mut().zip(answers) {
            // Without an answer the partition is being loaded again, and will name the lane.
            *leased = answer.await.unwrap_or_default();
        }
        leased
    }

    async fn hand_in(
        &self,
        partition: PartitionId,
        ended: Vec<(Reservation, AttemptEnd)>,
        wanted: Vec<(Incarnation, usize)>,
    ) -> Result<Vec<oneshot::Receiver<Vec<AttemptDue>>>, NotAccepting> {
        let door = self.shared.partitions.get(usize::from(partition.0)).ok_or(NotAccepting)?;
        for (reservation, end) in ended {
            send(door, Input::AttemptEnded { reservation, end }).await?;
        }
        let mut answers = Vec::with_capacity(wanted.len());
        for (client, max) in wanted {
            let (reply, answer) = Reply::new();
            send(door, Input::Lease { client, max, reply }).await?;
            answers.push(answer);
        }
        Ok(answers)
    }

    /// Takes note of an answer before its attempt is recorded: a client whose receiver says that it is gone for good (410) is
    /// disabled, if that is its receiver still. `to` is the client as it was when the attempt began.
    ///
    /// # Errors
    /// When the server is not accepting.
    pub async fn note_answer(&self, to: &Client, answer: Answer) -> Result<(), NotAccepting> {
        if !matches!(answer, Answer::Status { code: 410, .. }) {
            return Ok(());
        }
        let (client, url) = (to.incarnation, to.url.clone());
        // Rare: in a box, so that a waiting attempt stays small.
        let disabled =
            Box::pin(ask(&self.shared.registry, |reply| RegistryInput::Disable { client, url, reply }));
        // Refused only for a client that is gone already.
        let _gone = disabled.await?;
        Ok(())
    }
}
