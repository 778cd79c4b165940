//! The tasks between the registry and the partitions of devices: one carries orders, and what came
//! of them; the other looks for devices.

use std::collections::BTreeMap;
use std::time::Duration;

use base::PartitionId;
use futures_util::future::join_all;
use records::RolloutWork;
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::links::{OrderKind, RolloutLinks, TurnOrder, TurnReport};
use super::search::{partition_of, search};
use super::{RolloutInput, RolloutNews};
use crate::context::EngineContext;
use crate::devices::input::Input;
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
            let orders = links.take_orders();
            let hints = links.take_hints();
            if orders.is_empty() && hints.is_none() {
                woken.await;
                continue;
            }
            if let Some(hints) = hints {
                if hints.ask_again {
                    self.tell(RolloutNews::AskAgain).await?;
                }
                if hints.look_again {
                    self.tell(RolloutNews::LookAgain).await?;
                }
                let moves: Vec<_> = hints.moves.into_values().collect();
                for moves in moves.chunks(NEWS_PER_INPUT) {
                    self.tell(RolloutNews::Moved(moves.to_vec())).await?;
                }
                let looks: Vec<_> = hints.looks.into_iter().collect();
                for looks in looks.chunks(NEWS_PER_INPUT) {
                    self.tell(RolloutNews::Looks(looks.to_vec())).await?;
                }
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
                    taken.into_iter().for_each(|order| self.links().order(again(order)));
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

fn again(order: TurnOrder) -> TurnOrder {
    let what = if order.what == OrderKind::Give { OrderKind::Ensure } else { order.what };
    TurnOrder { what, ..order }
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
