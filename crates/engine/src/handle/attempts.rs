//! The webhook sender's calls to a partition: lease notifications, and record ended attempts.
//!
//! Each call costs a commit, which the partition shares among all inputs of its inbox. So the
//! sender gathers its inputs for a partition and sends them together.

use std::sync::Arc;

use base::{Incarnation, PartitionId};
use records::{Client, Delivery, DeliveryStatus, Reservation};
use tokio::sync::oneshot;

use super::Engine;
use crate::devices::input::DeviceInput;
use crate::devices::lanes::AttemptOutcome;
use crate::kernel::partition_handle::{NotAccepting, PartitionHandle};
use crate::kernel::reply::Reply;
use crate::registry::RegistryInput;
use crate::{AttemptDue, AttemptEnd};

/// Ends of attempts that one input carries at most. They share a batch, and are lost or kept
/// together.
const ENDS_PER_INPUT_MAX: usize = 64;
/// Clients whose notifications one input leases at most. They are answered together.
const LEASES_PER_INPUT_MAX: usize = 64;
/// How often the same ends are handed in at most. Each time a batch was lost, and the partition was
/// loaded again.
const HAND_INS_MAX: u32 = 8;

/// Ends of attempts that were handed in together, and where it is told that they are durable.
struct HandedIn {
    ended: Arc<[(Reservation, AttemptEnd)]>,
    durable: oneshot::Receiver<()>,
}

/// Leases that were asked for together, and where they arrive.
struct LeasesAsked {
    clients: usize,
    answer: oneshot::Receiver<Vec<Vec<AttemptDue>>>,
}

impl Engine {
    /// Records how attempts ended, each under its reservation; a stale reservation changes nothing.
    /// So ends whose batch was lost, or may be, are handed in again. Then leases, for each client,
    /// up to the wanted number of due notifications. Returns the leases in the order of `wanted`,
    /// once they and the ends are durable. A short lease has emptied its lane, until
    /// [`DueLanes`](crate::DueLanes) names that again. A server that no longer accepts inputs
    /// leases nothing, and its unrecorded attempts count as interrupted.
    pub async fn exchange(
        &self,
        partition: PartitionId,
        ended: Vec<(Reservation, AttemptEnd)>,
        wanted: Vec<(Incarnation, usize)>,
    ) -> Vec<Vec<AttemptDue>> {
        let clients = wanted.len();
        let Ok((ends, leases)) = self.hand_in(partition, ended, wanted).await else {
            tracing::debug!(%partition, "not accepting; attempts that are not recorded count as interrupted");
            return vec![Vec::new(); clients];
        };
        for ends in ends {
            self.see_recorded(partition, ends).await;
        }
        let mut leased = Vec::with_capacity(clients);
        for LeasesAsked { clients, answer } in leases {
            // Without an answer the partition is being loaded again, and will name the lanes.
            leased.extend(answer.await.unwrap_or_else(|_| vec![Vec::new(); clients]));
        }
        leased
    }

    async fn hand_in(
        &self,
        partition: PartitionId,
        ended: Vec<(Reservation, AttemptEnd)>,
        wanted: Vec<(Incarnation, usize)>,
    ) -> Result<(Vec<HandedIn>, Vec<LeasesAsked>), NotAccepting> {
        let handle = self.device_partition(partition)?;
        let mut ends = Vec::with_capacity(ended.len().div_ceil(ENDS_PER_INPUT_MAX));
        for together in split(ended, ENDS_PER_INPUT_MAX) {
            let ended = Arc::from(together);
            let durable = hand_in_ends(handle, &ended).await?;
            ends.push(HandedIn { ended, durable });
        }
        let mut leases = Vec::with_capacity(wanted.len().div_ceil(LEASES_PER_INPUT_MAX));
        for wanted in split(wanted, LEASES_PER_INPUT_MAX) {
            let (clients, (reply, answer)) = (wanted.len(), Reply::new());
            handle.send(DeviceInput::Lease { wanted, reply }).await?;
            leases.push(LeasesAsked { clients, answer });
        }
        Ok((ends, leases))
    }

    /// Waits until the ends are durable, and hands them in again while their batch is lost.
    async fn see_recorded(&self, partition: PartitionId, HandedIn { ended, mut durable }: HandedIn) {
        for _ in 1..HAND_INS_MAX {
            if durable.await.is_ok() {
                return;
            }
            let again = async { hand_in_ends(self.device_partition(partition)?, &ended).await };
            let Ok(handed_in) = again.await else {
                tracing::debug!(%partition, "not accepting; attempts that are not recorded count as interrupted");
                return;
            };
            durable = handed_in;
        }
        if durable.await.is_err() {
            let (attempts, times) = (ended.len(), HAND_INS_MAX);
            tracing::warn!(%partition, attempts, times, "attempts could not be recorded; they will count as timed out");
        }
    }

    /// The body of a notification that waits for another attempt, or has one under way: what each
    /// of its attempts sends.
    ///
    /// # Errors
    /// When the server is not accepting.
    pub async fn body_of_waiting(&self, of: &Delivery) -> Result<Option<Arc<[u8]>>, NotAccepting> {
        let progress = of.progress;
        if progress.status != DeliveryStatus::Pending || progress.attempts == 0 {
            return Ok(None);
        }
        let (slot, client, delivery) = (of.slot, of.client, of.id);
        let partition = self.device_partition(self.partition_of(delivery.routing))?;
        partition.ask(|reply| DeviceInput::ShowBody { slot, client, delivery, reply }).await
    }

    pub(crate) fn device_partition(
        &self,
        partition: PartitionId,
    ) -> Result<&PartitionHandle<DeviceInput>, NotAccepting> {
        self.shared.partitions.get(usize::from(partition.0)).ok_or(NotAccepting)
    }

    /// Takes note of an answer before its attempt is recorded. A receiver that says it is gone for
    /// good (410) disables its client, if it is the client's receiver still. `to` is the client as
    /// it was when the attempt began.
    ///
    /// # Errors
    /// When the server is not accepting.
    pub async fn note_answer(&self, to: &Client, answer: AttemptOutcome) -> Result<(), NotAccepting> {
        if !matches!(answer, AttemptOutcome::Status { code: 410, .. }) {
            return Ok(());
        }
        let (client, url) = (to.incarnation, to.url.clone());
        // Rare: in a box, so that a waiting attempt stays small.
        let disabled =
            Box::pin(self.shared.registry.ask(|reply| RegistryInput::Disable { client, url, reply }));
        // Refused only for a client that is gone already.
        let _gone = disabled.await?;
        Ok(())
    }
}

async fn hand_in_ends(
    handle: &PartitionHandle<DeviceInput>,
    ended: &Arc<[(Reservation, AttemptEnd)]>,
) -> Result<oneshot::Receiver<()>, NotAccepting> {
    let (reply, durable) = Reply::new();
    handle.send(DeviceInput::AttemptsEnded { ended: Arc::clone(ended), reply }).await?;
    Ok(durable)
}

/// All of it in its order, at most so many together.
fn split<T>(all: Vec<T>, max: usize) -> impl Iterator<Item = Vec<T>> {
    let mut rest = all.into_iter();
    std::iter::from_fn(move || {
        let together: Vec<T> = rest.by_ref().take(max).collect();
        (!together.is_empty()).then_some(together)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_split_keeps_its_order_and_its_bound() {
        let sizes = |all: usize| split((0..all).collect(), 64).map(|some| some.len()).collect::<Vec<_>>();
        assert_eq!((sizes(0), sizes(1), sizes(64)), (vec![], vec![1], vec![64]));
        assert_eq!(sizes(150), [64, 64, 22]);
        assert!(split((0..150_u32).collect(), 64).flatten().eq(0..150_u32));
    }
}
