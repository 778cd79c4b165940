//! The tasks between the machine of campaigns and the partitions of devices: one carries orders,
//! and what came of them; the other looks for devices.

use std::collections::BTreeMap;
use std::pin::pin;
use std::time::{Duration, Instant};

use base::PartitionId;
use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream;
use records::DevicePlace;
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::input::{CampaignsInput, PickUpdate};
use super::links::{OrderKind, PickHints, PickLinks, PickMove, PickOrder, PickReport};
use super::search::{FoundDevices, PickSearch};
use crate::context::EngineContext;
use crate::devices::input::DeviceInput;
use crate::kernel::partition_handle::NotAccepting;
use crate::kernel::reply::Reply;

/// Orders that a partition takes in one input, and what their payloads may weigh together.
const ORDERS_PER_INPUT: usize = 128;
const PAYLOAD_BYTES_PER_INPUT: usize = 1 << 20;
/// Moves and devices that the machine is told of in one input, and what the moves may weigh.
const UPDATES_PER_INPUT: usize = 1_000;
const RESULT_BYTES_PER_INPUT: usize = 1 << 20;
/// After so long an order is given again whose partition was loaded anew meanwhile.
const AGAIN_AFTER: Duration = Duration::from_millis(100);
/// Searches of the machine that go on at the same time.
const SEARCHES_OF_TASKS_AT_ONCE: usize = 4;
/// A search that fails is made so often, after so long each time.
const SEARCH_TRIES: u32 = 3;
const SEARCH_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Where the tasks hand things in.
#[derive(Clone)]
pub(crate) struct PickCourier {
    pub(crate) context: EngineContext,
    pub(crate) campaigns: mpsc::Sender<CampaignsInput>,
    pub(crate) partitions: Vec<mpsc::Sender<DeviceInput>>,
}

impl PickCourier {
    /// Carries orders, moves and hints until the machine takes nothing more.
    pub(crate) async fn carry(self) -> Result<(), NotAccepting> {
        let links = self.links();
        loop {
            let woken = links.to_carry.notified();
            let messages = self.context.take_pick_messages();
            if messages.is_empty() {
                woken.await;
                continue;
            }
            for update in messages.to_machine {
                self.tell(update).await?;
            }
            let carried = messages.to_partitions.into_iter();
            let carried = carried.map(|(partition, inputs)| self.carry_to(partition, inputs));
            join_all(carried).await.into_iter().collect::<Result<(), _>>()?;
        }
    }

    /// Looks for devices until the machine takes nothing more.
    pub(crate) async fn search(self) -> Result<(), NotAccepting> {
        let wanted = stream::unfold(self.clone(), |courier| async move {
            let searches = courier.wanted().await;
            Some((stream::iter(searches), courier))
        });
        let told = wanted.flatten().map(move |search| self.clone().look_for(search));
        let mut told = pin!(told.buffer_unordered(SEARCHES_OF_TASKS_AT_ONCE));
        while let Some(told) = told.next().await {
            told?;
        }
        Ok(())
    }

    /// What is to be looked for, once there is something.
    async fn wanted(&self) -> Vec<PickSearch> {
        loop {
            let woken = self.links().to_search.notified();
            let searches = self.context.take_pick_searches();
            if !searches.is_empty() {
                return searches;
            }
            woken.await;
        }
    }

    /// Hands in what was found. Of a search that fails again and again, that is nobody.
    async fn look_for(self, search: PickSearch) -> Result<(), NotAccepting> {
        let task = search.task;
        let mut update = None;
        for tried in 0..SEARCH_TRIES {
            if tried > 0 {
                sleep(SEARCH_AGAIN_AFTER).await;
            }
            // An evaluation may take milliseconds, and named devices are read from the store.
            let (context, search) = (self.context.clone(), search.clone());
            let found = spawn_blocking(move || context.search_for_picks(&search)).await;
            match found.map_err(|panicked| panicked.to_string()) {
                Ok(Ok(found)) => {
                    update = Some(found);
                    break;
                }
                Ok(Err(error)) => self.search_failed(&error),
                Err(error) => self.search_failed(&error),
            }
        }
        let update = update.unwrap_or_else(|| PickUpdate::Found(task, FoundDevices::default()));
        // Nobody waits for the batch: a machine that was loaded anew looks again.
        let (reply, _) = Reply::new();
        self.campaigns.send(CampaignsInput::Update(update, reply)).await.map_err(|_| NotAccepting)
    }

    fn search_failed(&self, error: &dyn std::fmt::Display) {
        let campaigns = &self.context.campaigns;
        campaigns.counts.search_failed();
        if let Some(left_out) = campaigns.searches_failed.take((), Instant::now()) {
            tracing::error!(%error, left_out, "devices of a task cannot be looked for");
        }
    }

    fn links(&self) -> &PickLinks {
        &self.context.campaigns.links
    }

    /// Each input once the one before is answered. Behind one that may be lost, none goes on.
    async fn carry_to(
        &self,
        partition: PartitionId,
        inputs: Vec<Vec<PickOrder>>,
    ) -> Result<(), NotAccepting> {
        let Some(inbox) = self.partitions.get(usize::from(partition.0)) else { return Ok(()) };
        let mut inputs = inputs.into_iter();
        while let Some(orders) = inputs.next() {
            let (reply, answer) = Reply::<Vec<PickReport>>::new();
            let input = DeviceInput::PickOrders { orders: orders.clone(), reply };
            inbox.send(input).await.map_err(|_| NotAccepting)?;
            match answer.await {
                Ok(reports) => self.tell(PickUpdate::Reported(reports)).await?,
                Err(_) => {
                    // Whether it was done is not known. What is behind it must not overtake it.
                    sleep(AGAIN_AFTER).await;
                    self.context.give_pick_orders_again(orders, inputs.flatten());
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    async fn tell(&self, update: PickUpdate) -> Result<(), NotAccepting> {
        let (reply, told) = Reply::new();
        self.campaigns.send(CampaignsInput::Update(update, reply)).await.map_err(|_| NotAccepting)?;
        // A machine that was loaded anew has everything ensured.
        let _loaded_anew = told.await;
        Ok(())
    }
}

/// What is to be carried between the machine and the partitions of devices.
#[derive(Debug, Default)]
pub struct PickMessages {
    /// Inputs to the machine.
    pub to_machine: Vec<PickUpdate>,
    /// The orders of each input to a partition of devices, in order.
    pub to_partitions: BTreeMap<PartitionId, Vec<Vec<PickOrder>>>,
}

impl PickMessages {
    /// Whether there is nothing to carry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.to_machine.is_empty() && self.to_partitions.is_empty()
    }
}

/// The steps of the courier's tasks, one by one.
impl EngineContext {
    /// What is to be carried since this was last asked.
    #[must_use]
    pub fn take_pick_messages(&self) -> PickMessages {
        let mut by_partition: BTreeMap<PartitionId, Vec<PickOrder>> = BTreeMap::new();
        for order in self.campaigns.links.take_orders() {
            by_partition.entry(order.place.partition).or_default().push(order);
        }
        let inputs = by_partition.into_iter().map(|(partition, orders)| (partition, into_inputs(&orders)));
        let to_machine = self.campaigns.links.take_hints().map_or_else(Vec::new, updates_of);
        PickMessages { to_machine, to_partitions: inputs.collect() }
    }

    /// Whether these orders were carried out is not known, and those behind them were not. All are
    /// to be carried in their order, in front of any that came since.
    pub fn give_pick_orders_again(
        &self,
        unknown: Vec<PickOrder>,
        behind: impl IntoIterator<Item = PickOrder>,
    ) {
        let ensured = unknown.into_iter().map(|order| {
            let what = if order.what == OrderKind::Give { OrderKind::Ensure } else { order.what };
            PickOrder { what, ..order }
        });
        self.campaigns.links.order_again(ensured.chain(behind).collect());
    }

    /// What is to be looked for since this was last asked.
    #[must_use]
    pub fn take_pick_searches(&self) -> Vec<PickSearch> {
        self.campaigns.links.take_searches()
    }
}

/// Hints as inputs of the machine.
fn updates_of(hints: PickHints) -> Vec<PickUpdate> {
    let PickHints { moves, went_away, came, gone, ask_again, .. } = hints;
    let mut updates = Vec::new();
    updates.extend(ask_again.then_some(PickUpdate::AskAgain));
    // In the same order each time: what a run of the simulation does depends on it.
    let mut moves: Vec<_> = moves.into_values().collect();
    moves.sort_unstable_by_key(|moved| (moved.task, moved.number));
    updates.extend(moves_by_input(moves).into_iter().map(PickUpdate::Moved));
    let places = |places: std::collections::BTreeSet<DevicePlace>| places.into_iter().collect::<Vec<_>>();
    let chunked = |places: Vec<DevicePlace>, update: fn(Vec<DevicePlace>) -> PickUpdate| {
        places.chunks(UPDATES_PER_INPUT).map(|some| update(some.to_vec())).collect::<Vec<_>>()
    };
    updates.extend(chunked(places(went_away), PickUpdate::WentAway));
    updates.extend(chunked(places(came), PickUpdate::Came));
    updates.extend(chunked(places(gone), PickUpdate::Gone));
    updates
}

fn moves_by_input(moves: Vec<PickMove>) -> Vec<Vec<PickMove>> {
    let mut inputs: Vec<Vec<PickMove>> = Vec::new();
    let mut bytes = RESULT_BYTES_PER_INPUT;
    for moved in moves {
        bytes += moved.standing.result.as_ref().map_or(0, |result| result.len());
        let is_full = inputs.last().is_none_or(|input| input.len() >= UPDATES_PER_INPUT);
        if is_full || bytes >= RESULT_BYTES_PER_INPUT {
            inputs.push(Vec::new());
            bytes = 0;
        }
        if let Some(input) = inputs.last_mut() {
            input.push(moved);
        }
    }
    inputs
}

/// Orders by the input that they go into.
fn into_inputs(orders: &[PickOrder]) -> Vec<Vec<PickOrder>> {
    let largest = orders.iter().map(|order| order.terms.payload.len()).max().unwrap_or(0).max(1);
    let per_input = (PAYLOAD_BYTES_PER_INPUT / largest).clamp(1, ORDERS_PER_INPUT);
    orders.chunks(per_input).map(<[PickOrder]>::to_vec).collect()
}

#[cfg(test)]
mod tests;
