//! What rollouts and campaigns share of the orders that they give to partitions of devices. Orders
//! wait here, and one courier carries them there, and back what came of them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;
use std::time::Duration;

use base::locks::locked;
use base::{DeviceId, PartitionId, hash};
use futures_util::future::join_all;
use tokio::sync::{Notify, mpsc};
use tokio::time::sleep;

use crate::context::EngineContext;
use crate::devices::input::DeviceInput;
use crate::kernel::partition_handle::NotAccepting;
use crate::kernel::reply::Reply;

/// Orders that a partition takes in one input, and what their payloads may weigh together.
pub(crate) const ORDERS_PER_INPUT: usize = 128;
const PAYLOAD_BYTES_PER_INPUT: usize = 1 << 20;
/// After so long an order is given again whose partition was loaded anew meanwhile.
const AGAIN_AFTER: Duration = Duration::from_millis(100);

/// What is to be done for a device's turn or pick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderKind {
    /// Give the device its command.
    Give,
    /// The same, unless it was done before.
    Ensure,
    /// Call the command off, unless it went out.
    TakeBack,
}

impl OrderKind {
    /// What is to be done where nobody knows whether it was.
    pub(crate) fn again(self) -> Self {
        match self {
            Self::Give | Self::Ensure => Self::Ensure,
            Self::TakeBack => Self::TakeBack,
        }
    }
}

/// The partition that carries out orders for a device.
pub(crate) fn partition_of(context: &EngineContext, id: &DeviceId) -> PartitionId {
    hash::device_partition(id, context.kernel.store.partitions())
}

/// Orders `O` that wait for partitions of devices, and hints `H` that wait for the machine which
/// gives the orders.
#[derive(Debug)]
pub(crate) struct OrderLinks<O, H> {
    orders: Mutex<Vec<O>>,
    hints: Mutex<H>,
    to_carry: Notify,
}

impl<O, H: Default> Default for OrderLinks<O, H> {
    fn default() -> Self {
        Self { orders: Mutex::default(), hints: Mutex::default(), to_carry: Notify::new() }
    }
}

impl<O, H: Default> OrderLinks<O, H> {
    pub(crate) fn order(&self, order: O) {
        locked(&self.orders).push(order);
        self.to_carry.notify_one();
    }

    /// Orders that were taken are to be carried again, in front of those that came since.
    pub(crate) fn order_again(&self, again: Vec<O>) {
        locked(&self.orders).splice(..0, again);
        self.to_carry.notify_one();
    }

    /// Notes something for the machine.
    pub(crate) fn hint(&self, note: impl FnOnce(&mut H)) {
        note(&mut locked(&self.hints));
        self.to_carry.notify_one();
    }

    pub(crate) fn take_orders(&self) -> Vec<O> {
        std::mem::take(&mut *locked(&self.orders))
    }

    pub(crate) fn take_hints(&self) -> H {
        std::mem::take(&mut *locked(&self.hints))
    }

    /// Wakes whoever carries.
    pub(crate) fn to_carry(&self) -> &Notify {
        &self.to_carry
    }
}

/// What is to be carried between a machine and the partitions of devices.
#[derive(Debug)]
pub struct OrderMessages<U, O> {
    /// Inputs to the machine.
    pub to_machine: Vec<U>,
    /// The orders of each input to a partition of devices, in order.
    pub to_partitions: BTreeMap<PartitionId, Vec<Vec<O>>>,
}

impl<U, O> OrderMessages<U, O> {
    /// Updates for the machine, and orders with their partitions.
    pub(crate) fn new(
        to_machine: Vec<U>,
        orders: impl Iterator<Item = (PartitionId, O)>,
        payload_bytes: impl Fn(&O) -> usize,
    ) -> Self {
        let mut by_partition: BTreeMap<PartitionId, Vec<O>> = BTreeMap::new();
        for (partition, order) in orders {
            by_partition.entry(partition).or_default().push(order);
        }
        let inputs = by_partition.into_iter();
        let inputs = inputs.map(|(partition, orders)| (partition, into_inputs(orders, &payload_bytes)));
        Self { to_machine, to_partitions: inputs.collect() }
    }

    /// Whether there is nothing to carry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.to_machine.is_empty() && self.to_partitions.is_empty()
    }
}

/// Orders by the input that they go into.
fn into_inputs<O>(orders: Vec<O>, payload_bytes: impl Fn(&O) -> usize) -> Vec<Vec<O>> {
    let largest = orders.iter().map(payload_bytes).max().unwrap_or(0).max(1);
    let per_input = (PAYLOAD_BYTES_PER_INPUT / largest).clamp(1, ORDERS_PER_INPUT);
    let mut inputs = Vec::with_capacity(orders.len().div_ceil(per_input));
    let mut orders = orders.into_iter();
    while orders.len() > 0 {
        inputs.push(orders.by_ref().take(per_input).collect());
    }
    inputs
}

/// Goes between a machine that gives orders and the partitions of devices.
pub(crate) trait OrderCourier: Send + Sync {
    /// What a partition is to do.
    type Order: Clone + Send;
    /// What became of that.
    type Report: Send;
    /// What the machine is told.
    type Update: Send;

    /// The inboxes of the partitions of devices.
    fn partitions(&self) -> &[mpsc::Sender<DeviceInput>];

    /// Wakes when there is something to carry.
    fn to_carry(&self) -> &Notify;

    /// What is to be carried since this was last asked.
    fn take(&self) -> OrderMessages<Self::Update, Self::Order>;

    fn input(orders: Vec<Self::Order>, reply: Reply<Vec<Self::Report>>) -> DeviceInput;

    fn reported(reports: Vec<Self::Report>) -> Self::Update;

    /// Whether orders were carried out is not known, so they are to be carried again. Inputs that
    /// wait behind them for the same partition are taken out if they must not overtake.
    fn give_again(&self, unknown: Vec<Self::Order>, behind: &mut VecDeque<Vec<Self::Order>>);

    /// Tells the machine, and waits until it has taken that.
    fn tell(&self, update: Self::Update) -> impl Future<Output = Result<(), NotAccepting>> + Send;
}

/// Carries orders and hints until the machine, or a partition, takes nothing more.
pub(crate) async fn carry<C: OrderCourier>(courier: &C) -> Result<(), NotAccepting> {
    loop {
        let woken = courier.to_carry().notified();
        let messages = courier.take();
        if messages.is_empty() {
            woken.await;
            continue;
        }
        for update in messages.to_machine {
            courier.tell(update).await?;
        }
        let carried = messages.to_partitions.into_iter();
        let carried = carried.map(|(partition, inputs)| carry_to(courier, partition, inputs));
        join_all(carried).await.into_iter().collect::<Result<(), _>>()?;
    }
}

/// Each input once the one before is answered.
async fn carry_to<C: OrderCourier>(
    courier: &C,
    partition: PartitionId,
    inputs: Vec<Vec<C::Order>>,
) -> Result<(), NotAccepting> {
    let Some(inbox) = courier.partitions().get(usize::from(partition.0)) else { return Ok(()) };
    let mut inputs = VecDeque::from(inputs);
    while let Some(orders) = inputs.pop_front() {
        let (reply, answer) = Reply::<Vec<C::Report>>::new();
        inbox.send(C::input(orders.clone(), reply)).await.map_err(|_| NotAccepting)?;
        match answer.await {
            Ok(reports) => courier.tell(C::reported(reports)).await?,
            Err(_) => {
                // Whether it was done is not known.
                sleep(AGAIN_AFTER).await;
                courier.give_again(orders, &mut inputs);
            }
        }
    }
    Ok(())
}
