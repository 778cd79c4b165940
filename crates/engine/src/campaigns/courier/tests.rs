//! The courier between a machine and partitions that the test plays: some of them are away.

use std::sync::Arc;

use base::{DeviceId, EntityId, Incarnation, Lineage, PartitionId, SystemClock, Timestamp};
use records::{DeviceSlot, PickOutcome, PickTerms};
use store::MemoryStore;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::*;
use crate::campaigns::NewPickTerms;
use crate::campaigns::links::{OrderKind, PickOrderOutcome};
use crate::device_orders::ORDERS_PER_INPUT;
use crate::settings::EngineSettings;

/// Nothing here takes longer.
const PATIENCE: Duration = Duration::from_secs(30);
const AWAY: PartitionId = PartitionId(0);
const HERE: PartitionId = PartitionId(1);

/// A machine, and partitions, between which the courier goes.
struct Bench {
    context: EngineContext,
    terms: Arc<PickTerms>,
    machine: mpsc::Receiver<CampaignsInput>,
    partitions: Vec<mpsc::Receiver<DeviceInput>>,
    courier: PickCourier,
}

/// An order as its partition was given it: what is to be done, for which pick.
type Given = (OrderKind, u32);

impl Bench {
    fn new() -> Self {
        let store = Arc::new(MemoryStore::new(Lineage(1), 2));
        let clock = Arc::new(SystemClock::start(Timestamp(0)));
        let context = EngineContext::new(store, clock, &EngineSettings::for_tests());
        let (campaigns, machine) = mpsc::channel(4);
        let (inboxes, partitions) = (0..2).map(|_| mpsc::channel(4)).unzip();
        let courier = PickCourier { context: context.clone(), campaigns, partitions: inboxes };
        let terms = NewPickTerms::new(Arc::from(&b"{}"[..]), 1).kept(Incarnation(1), 0);
        Self { context, terms: Arc::new(terms), machine, partitions, courier }
    }

    fn order(&self, partition: PartitionId, number: u32, what: OrderKind) {
        self.context.campaigns.links.order(PickOrder {
            task: Incarnation(1),
            number,
            id: EntityId::from_bytes(&[1; EntityId::BYTES]),
            device: DeviceId::new("d").expect("an id"),
            place: DevicePlace { partition, slot: DeviceSlot(number) },
            terms: Arc::clone(&self.terms),
            slot: None,
            picked_at: Timestamp(0),
            command: None,
            what,
            why: PickOutcome::NotSent,
        });
    }

    fn carry(&self) -> JoinHandle<Result<(), NotAccepting>> {
        tokio::spawn(self.courier.clone().carry())
    }

    /// The next input of a partition.
    async fn given(&mut self, partition: PartitionId) -> (Vec<Given>, Reply<Vec<PickReport>>) {
        let inbox = &mut self.partitions[usize::from(partition.0)];
        let input = timeout(PATIENCE, inbox.recv()).await.expect("in time").expect("the courier goes on");
        let DeviceInput::PickOrders { orders, reply } = input else { panic!("no orders: {input:?}") };
        (orders.iter().map(|order| (order.what, order.number)).collect(), reply)
    }

    /// The picks of which the machine is told next.
    async fn told(&mut self) -> Vec<u32> {
        let input = timeout(PATIENCE, self.machine.recv()).await.expect("in time");
        let Some(CampaignsInput::Update(PickUpdate::Reported(reports), reply)) = input else {
            panic!("no reports: {input:?}")
        };
        reply.send(());
        reports.iter().map(|report| report.number).collect()
    }
}

fn reports(given: &[Given]) -> Vec<PickReport> {
    let report =
        |&(_, number)| PickReport { task: Incarnation(1), number, outcome: PickOrderOutcome::Nobody };
    given.iter().map(report).collect()
}

#[tokio::test]
async fn orders_to_a_partition_that_is_away_are_ensured_in_their_order_once_it_is_back() {
    let mut bench = Bench::new();
    let last = ORDERS_PER_INPUT as u32;
    (0..last - 1).for_each(|number| bench.order(AWAY, number, OrderKind::Give));
    bench.order(AWAY, 0, OrderKind::TakeBack);
    bench.order(AWAY, last, OrderKind::Give);
    bench.order(HERE, 900, OrderKind::Give);
    let _carrying = bench.carry();

    let (first, lost) = bench.given(AWAY).await;
    assert_eq!((first.len(), first[0]), (ORDERS_PER_INPUT, (OrderKind::Give, 0)));
    // The partition goes away: whether it did any of it, nobody knows.
    drop(lost);
    bench.order(AWAY, last + 1, OrderKind::Give);
    let (here, reply) = bench.given(HERE).await;
    reply.send(reports(&here));
    assert_eq!(bench.told().await, [900], "the other partition is not held up");

    let (again, reply) = bench.given(AWAY).await;
    let ensured = (0..last - 1).map(|number| (OrderKind::Ensure, number));
    let expect: Vec<_> = ensured.chain([(OrderKind::TakeBack, 0)]).collect();
    assert_eq!(again, expect, "what may have been given is ensured, what is taken back stays so");
    reply.send(reports(&again));
    assert_eq!(bench.told().await.len(), ORDERS_PER_INPUT);
    let (behind, reply) = bench.given(AWAY).await;
    assert_eq!(behind, [(OrderKind::Give, last), (OrderKind::Give, last + 1)], "none overtook the others");
    reply.send(reports(&behind));
    assert_eq!(bench.told().await, [last, last + 1]);
}

#[tokio::test]
async fn a_partition_that_is_away_again_and_again_gets_its_orders_in_the_end() {
    let mut bench = Bench::new();
    bench.order(AWAY, 7, OrderKind::Give);
    let _carrying = bench.carry();
    for what in [OrderKind::Give, OrderKind::Ensure, OrderKind::Ensure] {
        let (given, lost) = bench.given(AWAY).await;
        assert_eq!(given, [(what, 7)]);
        drop(lost);
    }
    let (given, reply) = bench.given(AWAY).await;
    reply.send(reports(&given));
    assert_eq!(bench.told().await, [7]);
}

#[tokio::test]
async fn a_machine_that_is_loaded_anew_holds_up_no_orders() {
    let mut bench = Bench::new();
    bench.order(HERE, 1, OrderKind::Give);
    let _carrying = bench.carry();
    let (given, reply) = bench.given(HERE).await;
    reply.send(reports(&given));
    // The machine takes the news, and dies before it has kept them.
    drop(timeout(PATIENCE, bench.machine.recv()).await.expect("in time"));
    bench.order(HERE, 2, OrderKind::Give);
    assert_eq!(bench.given(HERE).await.0, [(OrderKind::Give, 2)]);
}

#[tokio::test]
async fn the_courier_ends_when_a_partition_takes_nothing_more() {
    let mut bench = Bench::new();
    bench.partitions.clear();
    bench.order(HERE, 1, OrderKind::Give);
    let ended = timeout(PATIENCE, bench.carry()).await.expect("in time").expect("no panic");
    assert!(ended.is_err(), "{ended:?}");
}
