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

use super::links::{DeviceLook, Hints, OrderKind, RolloutLinks, TurnOrder, TurnReport};
use super::search::{partition_of, search};
use super::{RolloutInput, RolloutNews};
use crate::context::EngineContext;
use crate::devices::input::Input;
use crate::devices::sessions::PresenceChange;
use crate::kernel::partition_handle::NotAccepting;
use crate::kernel::reply::Reply;
use crate::registry::RegistryInput;

/// Orders that a partition takes in one input, and what their payloads may weigh together.
const ORDERS_PER_INPUT: usize = 128;
const PAYLOAD_BYTES_PER_INPUT: usize = 1 << 20;
/// Moves and devices that the registry is told of in one input.
const NEWS_PER_INPUT: usize = 1_000;
/// After so long an order is given again whose partition was loaded anew meanwhile.
const AGAIN_AFTER: Duration = Duration::from_millis(100);

/// Where the tasks hand things in.
#[derive(Clone)]
pub(crate) struct Courier {
    pub(crate) context: EngineContext,
    pub(crate) registry: mpsc::Sender<RegistryInput>,
    pub(crate) partitions: Vec<mpsc::Sender<Input>>,
}

impl Courier {
    /// Carries orders, moves and hints until the registry takes nothing more.
    pub(crate) async fn carry(self) -> Result<(), NotAccepting> {
        let links = self.links();
        loop {
            let woken = links.to_carry.notified();
            let (orders, news) = (links.take_orders(), self.context.take_rollout_news());
            if orders.is_empty() && news.is_empty() {
                woken.await;
                continue;
            }
            for news in news {
                self.tell(news).await?;
            }
            self.carry_out(orders).await?;
        }
    }

    /// Looks for devices until the registry takes nothing more.
    pub(crate) async fn search(self) -> Result<(), NotAccepting> {
        let links = self.links();
        loop {
            let woken = links.to_search.notified();
            let searches = links.take_searches();
            if searches.is_empty() {
                woken.await;
            }
            for wanted in searches {
                // A search may look at thousands of rows.
                let context = self.context.clone();
                let found = spawn_blocking(move || search(&context, wanted)).await;
                match found.map_err(|_| NotAccepting)? {
                    Ok(news) => self.tell(news).await?,
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

    async fn carry_out(&self, orders: Vec<TurnOrder>) -> Result<(), NotAccepting> {
        let mut by_partition: BTreeMap<PartitionId, Vec<TurnOrder>> = BTreeMap::new();
        for order in orders {
            by_partition.entry(partition_of(&self.context, &order.place.device)).or_default().push(order);
        }
        let carried = by_partition.into_iter().map(|(partition, orders)| self.carry_to(partition, orders));
        join_all(carried).await.into_iter().collect()
    }

    async fn carry_to(&self, partition: PartitionId, mut orders: Vec<TurnOrder>) -> Result<(), NotAccepting> {
        let Some(inbox) = self.partitions.get(usize::from(partition.0)) else { return Ok(()) };
        while !orders.is_empty() {
            let rest = orders.split_off(per_input(&orders).min(orders.len()));
            let taken = std::mem::replace(&mut orders, rest);
            let (reply, answer) = Reply::<Vec<TurnReport>>::new();
            inbox
                .send(Input::RolloutOrders { orders: taken.clone(), reply })
                .await
                .map_err(|_| NotAccepting)?;
            match answer.await {
                Ok(reports) => self.tell(RolloutNews::Reported(reports)).await?,
                Err(_) => {
                    // Whether it was done is not known.
                    sleep(AGAIN_AFTER).await;
                    taken.into_iter().for_each(|order| self.context.give_rollout_order_again(order));
                }
            }
        }
        Ok(())
    }

    async fn tell(&self, news: RolloutNews) -> Result<(), NotAccepting> {
        let (reply, told) = Reply::new();
        let input = RegistryInput::Rollouts(RolloutInput::News(news, reply));
        self.registry.send(input).await.map_err(|_| NotAccepting)?;
        // A registry that was loaded anew asks for what it has missed.
        let _loaded_anew = told.await;
        Ok(())
    }
}

/// What has to be carried between the registry and the partitions of devices. The courier does it;
/// so does whoever steps partitions by hand.
impl EngineContext {
    /// What partitions of devices had to say since this was last asked, for the registry.
    #[must_use]
    pub fn take_rollout_news(&self) -> Vec<RolloutNews> {
        let Some(hints) = self.rollouts.take_hints() else { return Vec::new() };
        let Hints { moves, looks, ask_again, look_again } = hints;
        let mut news = Vec::new();
        news.extend(ask_again.then_some(RolloutNews::AskAgain));
        news.extend(look_again.then_some(RolloutNews::LookAgain));
        // In the same order each time: what a run of the simulation does depends on it.
        let mut moves: Vec<_> = moves.into_values().collect();
        moves.sort_unstable_by(|one, other| one.place.cmp(&other.place));
        news.extend(moves.chunks(NEWS_PER_INPUT).map(|moves| RolloutNews::Moved(moves.to_vec())));
        let mut looks: Vec<_> = looks.into_iter().collect();
        looks.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        news.extend(looks.chunks(NEWS_PER_INPUT).map(|looks| RolloutNews::Looks(looks.to_vec())));
        news
    }

    /// Orders that were made since this was last asked, each with the partition it is for.
    #[must_use]
    pub fn take_rollout_orders(&self) -> Vec<(PartitionId, TurnOrder)> {
        let orders = self.rollouts.take_orders().into_iter();
        orders.map(|order| (partition_of(self, &order.place.device), order)).collect()
    }

    /// Whether an order was carried out is not known: it is to be carried once more.
    pub fn give_rollout_order_again(&self, order: TurnOrder) {
        let what = if order.what == OrderKind::Give { OrderKind::Ensure } else { order.what };
        self.rollouts.order(TurnOrder { what, ..order });
    }

    /// What is found of all that was to be looked for since this was last asked.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn look_for_rollouts(&self) -> Result<Vec<RolloutNews>, StoreError> {
        self.rollouts.take_searches().into_iter().map(|wanted| search(self, wanted)).collect()
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

/// How many orders go into one input.
fn per_input(orders: &[TurnOrder]) -> usize {
    let payload = |order: &TurnOrder| match &order.rollout.work {
        RolloutWork::Command(command) => command.payload.len(),
        RolloutWork::Wishes(wishes) => {
            let wish = wishes.get(order.place.entry as usize);
            wish.and_then(|wish| wish.value.as_ref()).map_or(0, |value| value.len())
        }
    };
    let largest = orders.iter().map(payload).max().unwrap_or(0).max(1);
    (PAYLOAD_BYTES_PER_INPUT / largest).clamp(1, ORDERS_PER_INPUT)
}
