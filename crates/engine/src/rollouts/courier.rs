//! The tasks between the registry and the partitions of devices: one carries orders, and what came
//! of them; the other looks for devices.

use std::collections::VecDeque;

use records::RolloutWork;
use store::StoreError;
use tokio::sync::{Notify, mpsc};
use tokio::task::spawn_blocking;

use super::links::{DeviceLook, Hints, OrderReport, RolloutLinks, RolloutOrder, Search};
use super::search::search;
use super::{RolloutInput, RolloutUpdate};
use crate::context::EngineContext;
use crate::device_orders::{self, OrderCourier, OrderMessages, partition_of};
use crate::devices::input::DeviceInput;
use crate::devices::sessions::PresenceChange;
use crate::kernel::partition_handle::NotAccepting;
use crate::kernel::reply::Reply;
use crate::registry::RegistryInput;

/// Moves and devices that the registry is told of in one input.
const UPDATES_PER_INPUT: usize = 1_000;

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
        device_orders::carry(&self).await
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
}

impl OrderCourier for Courier {
    type Order = RolloutOrder;
    type Report = OrderReport;
    type Update = RolloutUpdate;

    fn partitions(&self) -> &[mpsc::Sender<DeviceInput>] {
        &self.partitions
    }

    fn to_carry(&self) -> &Notify {
        self.links().to_carry()
    }

    fn take(&self) -> OrderMessages<RolloutUpdate, RolloutOrder> {
        self.context.take_rollout_messages()
    }

    fn input(orders: Vec<RolloutOrder>, reply: Reply<Vec<OrderReport>>) -> DeviceInput {
        DeviceInput::RolloutOrders { orders, reply }
    }

    fn reported(reports: Vec<OrderReport>) -> RolloutUpdate {
        RolloutUpdate::Reported(reports)
    }

    /// Each is given again by itself, behind those that came since. What waits goes on.
    fn give_again(&self, unknown: Vec<RolloutOrder>, _: &mut VecDeque<Vec<RolloutOrder>>) {
        unknown.into_iter().for_each(|order| self.context.give_rollout_order_again(order));
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

/// The steps of the courier's tasks, one by one.
impl EngineContext {
    /// What is to be carried since this was last asked.
    #[must_use]
    pub fn take_rollout_messages(&self) -> OrderMessages<RolloutUpdate, RolloutOrder> {
        let orders = self.rollouts.take_orders().into_iter();
        let orders = orders.map(|order| (partition_of(self, &order.place.device), order));
        OrderMessages::new(self.take_rollout_updates(), orders, payload_bytes)
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
        self.rollouts.order(RolloutOrder { what: order.what.again(), ..order });
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

/// What an order carries weighs so many bytes.
fn payload_bytes(order: &RolloutOrder) -> usize {
    match &order.rollout.work {
        RolloutWork::Command(command) => command.payload.len(),
        RolloutWork::Entries(entries) => {
            let entry = entries.get(order.place.entry as usize);
            entry.and_then(|entry| entry.value.as_ref()).map_or(0, |value| value.len())
        }
    }
}
