//! The tasks between the machine of campaigns and the partitions of devices: one carries orders,
//! and what came of them; the other looks for devices.

use std::collections::{BTreeSet, VecDeque};
use std::pin::pin;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream;
use records::DevicePlace;
use tokio::sync::{Notify, mpsc};
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::input::{CampaignsInput, PickUpdate};
use super::links::{PickHints, PickLinks, PickMove, PickOrder, PickReport};
use super::search::{FoundDevices, PickSearch};
use crate::context::EngineContext;
use crate::device_orders::{self, OrderCourier, OrderMessages};
use crate::devices::input::DeviceInput;
use crate::kernel::partition_handle::NotAccepting;
use crate::kernel::reply::Reply;

/// Moves and devices that the machine is told of in one input, and what the moves may weigh.
const UPDATES_PER_INPUT: usize = 1_000;
const RESULT_BYTES_PER_INPUT: usize = 1 << 20;
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
        device_orders::carry(&self).await
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
}

impl OrderCourier for PickCourier {
    type Order = PickOrder;
    type Report = PickReport;
    type Update = PickUpdate;

    fn partitions(&self) -> &[mpsc::Sender<DeviceInput>] {
        &self.partitions
    }

    fn to_carry(&self) -> &Notify {
        self.links().to_carry()
    }

    fn take(&self) -> OrderMessages<PickUpdate, PickOrder> {
        self.context.take_pick_messages()
    }

    fn input(orders: Vec<PickOrder>, reply: Reply<Vec<PickReport>>) -> DeviceInput {
        DeviceInput::PickOrders { orders, reply }
    }

    fn reported(reports: Vec<PickReport>) -> PickUpdate {
        PickUpdate::Reported(reports)
    }

    /// What is behind an order must not overtake it: it may take that order's command back.
    fn give_again(&self, unknown: Vec<PickOrder>, behind: &mut VecDeque<Vec<PickOrder>>) {
        self.context.give_pick_orders_again(unknown, behind.drain(..).flatten());
    }

    async fn tell(&self, update: PickUpdate) -> Result<(), NotAccepting> {
        let (reply, told) = Reply::new();
        self.campaigns.send(CampaignsInput::Update(update, reply)).await.map_err(|_| NotAccepting)?;
        // A machine that was loaded anew has everything ensured.
        let _loaded_anew = told.await;
        Ok(())
    }
}

/// The steps of the courier's tasks, one by one.
impl EngineContext {
    /// What is to be carried since this was last asked.
    #[must_use]
    pub fn take_pick_messages(&self) -> OrderMessages<PickUpdate, PickOrder> {
        let links = &self.campaigns.links;
        let orders = links.take_orders().into_iter().map(|order| (order.place.partition, order));
        let to_machine = links.take_hints().map_or_else(Vec::new, updates_of);
        OrderMessages::new(to_machine, orders, |order| order.terms.payload.len())
    }

    /// Whether these orders were carried out is not known, and those behind them were not. All are
    /// to be carried in their order, in front of any that came since.
    pub fn give_pick_orders_again(
        &self,
        unknown: Vec<PickOrder>,
        behind: impl IntoIterator<Item = PickOrder>,
    ) {
        let ensured = unknown.into_iter().map(|order| PickOrder { what: order.what.again(), ..order });
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
    let PickHints { moves, went_away, came, answered, gone, ask_again, .. } = hints;
    let mut updates = Vec::new();
    updates.extend(ask_again.then_some(PickUpdate::AskAgain));
    // In the same order each time: what a run of the simulation does depends on it.
    let mut moves: Vec<_> = moves.into_values().collect();
    moves.sort_unstable_by_key(|moved| (moved.task, moved.number));
    updates.extend(moves_by_input(moves).into_iter().map(PickUpdate::Moved));
    let places = |places: BTreeSet<DevicePlace>| places.into_iter().collect::<Vec<_>>();
    let chunked = |places: Vec<DevicePlace>, update: fn(Vec<DevicePlace>) -> PickUpdate| {
        places.chunks(UPDATES_PER_INPUT).map(|some| update(some.to_vec())).collect::<Vec<_>>()
    };
    updates.extend(chunked(places(went_away), PickUpdate::WentAway));
    updates.extend(chunked(places(came), PickUpdate::Came));
    updates.extend(chunked(places(answered), PickUpdate::Answered));
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

#[cfg(test)]
mod tests;
