//! The tasks between the registry and the partitions of devices: one carries orders, and what came
//! of them; the other looks for devices.

use std::collections::BTreeMap;
use std::time::Duration;

use base::PartitionId;
use futures_util::future::join_all;
use records::RolloutWork;
use store::StoreError;
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::links::{DeviceLook, Hints, OrderReport, RolloutLinks, RolloutOrder, Search};
use super::search::search;
use super::{RolloutInput, RolloutUpdate};
use crate::context::EngineContext;
use crate::device_orders::{OrderKind, partition_of};
use crate::devices::input::DeviceInput;
use crate::devices::sessions::PresenceChange;
use crate::kernel::partition_handle::NotAccepting;
use crate::kernel::reply::Reply;
use crate::registry::RegistryInput;

/// Orders that a partition takes in one input, and what their payloads may weigh together.
const ORDERS_PER_INPUT: usize = 128;
const PAYLOAD_BYTES_PER_INPUT: usize = 1 << 20;
/// Moves and devices that the registry is told of in one input.
const UPDATES_PER_INPUT: usize = 1_000;
/// After so long an order is given again whose partition was loaded anew meanwhile.
const AGAIN_AFTER: Duration = Duration::from_millis(100);

/// Where the tasks hand things in.
#[derive(Clone)]
pub(crate) struct Courier {
    pub(crate) context: EngineContext,
    pub(crate) registry: mpsc::Sender<RegistryInput>,
    pub(crate) partitions: Vec<mpsc::Sender<DeviceInput>>,
}

impl Courier {
    /// Carries orders, moves and hints until the registry takes nothing more.
    pub(crate) async fn carry(self) -> Result<(), NotAccepting> {
        let links = self.links();
        loop {
            let woken = links.to_carry.notified();
            let messages = self.context.take_rollout_messages();
            if messages.is_empty() {
                woken.await;
                continue;
            }
            for update in messages.to_registry {
                self.tell(update).await?;
            }
            let carried = messages.to_partitions.into_iter();
            let carried = carried.map(|(partition, inputs)| self.carry_to(partition, inputs));
            join_all(carried).await.into_iter().collect::<Result<(), _>>()?;
        }
    }

    /// Looks for devices until the registry takes nothing more.
    pub(crate) async fn search(self) -> Result<(), NotAccepting> {
        let links = self.links();
        loop {
            let woken = links.to_search.notified();
            let searches = self.context.take_rollout_searches();
            if searches.is_empty() {
                woken.await;
            }
            for wanted in searches {
                // A search may look at thousands of rows.
                let context = self.context.clone();
                let found = spawn_blocking(move || context.search_for_rollout(wanted)).await;
                match found.map_err(|_| NotAccepting)? {
                    Ok(update) => self.tell(update).await?,
                    Err(error) => {
                        tracing::error!(%error, "devices of a rollout cannot be looked for");
                        return Err(NotAccepting);
                    }
                }
            }
        }
    }

    fn links(&self) -> &RolloutLinks {
        &self.context.rollouts
    }

    /// Each input once the one before is answered.
    async fn carry_to(
        &self,
        partition: PartitionId,
        inputs: Vec<Vec<RolloutOrder>>,
    ) -> Result<(), NotAccepting> {
        let Some(inbox) = self.partitions.get(usize::from(partition.0)) else { return Ok(()) };
        for orders in inputs {
            let (reply, answer) = Reply::<Vec<OrderReport>>::new();
            inbox
                .send(DeviceInput::RolloutOrders { orders: orders.clone(), reply })
                .await
                .map_err(|_| NotAccepting)?;
            match answer.await {
                Ok(reports) => self.tell(RolloutUpdate::Reported(reports)).await?,
                Err(_) => {
                    // Whether it was done is not known.
                    sleep(AGAIN_AFTER).await;
                    orders.into_iter().for_each(|order| self.context.give_rollout_order_again(order));
                }
            }
        }
        Ok(())
    }

    async fn tell(&self, update: RolloutUpdate) -> Result<(), NotAccepting> {
        let (reply, told) = Reply::new();
        let input = RegistryInput::Rollouts(RolloutInput::Update(update, reply));
        self.registry.send(input).await.map_err(|_| NotAccepting)?;
        // A registry that was loaded anew asks for what it has missed.
        let _loaded_anew = told.await;
        Ok(())
    }
}

/// What is to be carried between the registry and the partitions of devices.
#[derive(Debug, Default)]
pub struct RolloutMessages {
    /// Inputs to the registry.
    pub to_registry: Vec<RolloutUpdate>,
    /// The orders of each input to a partition of devices, in order.
    pub to_partitions: BTreeMap<PartitionId, Vec<Vec<RolloutOrder>>>,
}

impl RolloutMessages {
    /// Whether there is nothing to carry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.to_registry.is_empty() && self.to_partitions.is_empty()
    }
}

/// The steps of the courier's tasks, one by one.
impl EngineContext {
    /// What is to be carried since this was last asked.
    #[must_use]
    pub fn take_rollout_messages(&self) -> RolloutMessages {
        let mut by_partition: BTreeMap<PartitionId, Vec<RolloutOrder>> = BTreeMap::new();
        for order in self.rollouts.take_orders() {
            by_partition.entry(partition_of(self, &order.place.device)).or_default().push(order);
        }
        let inputs = by_partition.into_iter().map(|(partition, orders)| (partition, into_inputs(orders)));
        RolloutMessages { to_registry: self.take_rollout_updates(), to_partitions: inputs.collect() }
    }

    /// What partitions of devices had to say since this was last asked, for the registry.
    #[must_use]
    pub(crate) fn take_rollout_updates(&self) -> Vec<RolloutUpdate> {
        let Some(hints) = self.rollouts.take_hints() else { return Vec::new() };
        let Hints { moves, looks, ask_again, look_again } = hints;
        let mut updates = Vec::new();
        updates.extend(ask_again.then_some(RolloutUpdate::AskAgain));
        updates.extend(look_again.then_some(RolloutUpdate::LookAgain));
        // In the same order each time: what a run of the simulation does depends on it.
        let mut moves: Vec<_> = moves.into_values().collect();
        moves.sort_unstable_by(|one, other| one.place.cmp(&other.place));
        updates.extend(moves.chunks(UPDATES_PER_INPUT).map(|moves| RolloutUpdate::Moved(moves.to_vec())));
        let mut looks: Vec<_> = looks.into_iter().collect();
        looks.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        updates.extend(looks.chunks(UPDATES_PER_INPUT).map(|looks| RolloutUpdate::Looks(looks.to_vec())));
        updates
    }

    /// Whether an order was carried out is not known: it is to be carried once more.
    pub fn give_rollout_order_again(&self, order: RolloutOrder) {
        let what = if order.what == OrderKind::Give { OrderKind::Ensure } else { order.what };
        self.rollouts.order(RolloutOrder { what, ..order });
    }

    /// What is to be looked for since this was last asked.
    #[must_use]
    pub fn take_rollout_searches(&self) -> Vec<Search> {
        self.rollouts.take_searches()
    }

    /// Reads a bounded chunk of rows for a search. What it finds is for the registry.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn search_for_rollout(&self, wanted: Search) -> Result<RolloutUpdate, StoreError> {
        search(self, wanted)
    }

    /// Tells rollouts which devices can be reached from now on.
    pub fn tell_rollouts_who_came(&self, change: &PresenceChange) {
        match change {
            PresenceChange::Reaches(device, _, Some(_)) => self.rollouts.look_at(device, DeviceLook::Came),
            PresenceChange::ReachesWidely(_, reach) if !reach.is_empty() => self.rollouts.look_again(),
            PresenceChange::Connected(..)
            | PresenceChange::Disconnected(..)
            | PresenceChange::Reaches(..)
            | PresenceChange::ReachesWidely(..) => {}
        }
    }
}

/// Orders by the input that they go into.
fn into_inputs(mut orders: Vec<RolloutOrder>) -> Vec<Vec<RolloutOrder>> {
    let mut inputs = Vec::new();
    while !orders.is_empty() {
        let rest = orders.split_off(per_input(&orders).min(orders.len()));
        inputs.push(std::mem::replace(&mut orders, rest));
    }
    inputs
}

/// How many orders go into one input.
fn per_input(orders: &[RolloutOrder]) -> usize {
    let payload = |order: &RolloutOrder| match &order.rollout.work {
        RolloutWork::Command(command) => command.payload.len(),
        RolloutWork::Entries(wishes) => {
            let wish = wishes.get(order.place.entry as usize);
            wish.and_then(|wish| wish.value.as_ref()).map_or(0, |value| value.len())
        }
    };
    let largest = orders.iter().map(payload).max().unwrap_or(0).max(1);
    (PAYLOAD_BYTES_PER_INPUT / largest).clamp(1, ORDERS_PER_INPUT)
}
