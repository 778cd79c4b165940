//! Notices: from what happens to the feed, and to the clients that want them.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use base::{Clock, DeviceId, Lineage, WayIn};
use engine::notices::{NoticeDue, NoticeSettings, PostOutcome};
use engine::queries::DeviceFilter;
use engine::queues::Retry;
use engine::{ClientPatch, Engine, NewClient, NewDevice, OnlyIf, Page, Patch, Report, Said, Settings};
use records::{Connection, NoticeKey, NoticeKind};
use store::MemoryStore;

use crate::queues::rig::{NOON, SECOND, TestClock, job, orders, want};

struct Rig {
    store: Arc<MemoryStore>,
    clock: Arc<TestClock>,
    engine: Engine,
}

impl Rig {
    async fn start() -> Self {
        let clock = Arc::new(TestClock { now: AtomicI64::new(NOON), wall: AtomicI64::new(NOON) });
        let store = Arc::new(MemoryStore::new(Lineage(7), 2));
        let engine = open(&store, &clock).await;
        Self { store, clock, engine }
    }

    async fn restart(&mut self) {
        self.engine.stop().await;
        self.engine = open(&self.store, &self.clock).await;
    }

    fn pass(&self, span: Duration) {
        let ms = span.as_millis() as i64;
        self.clock.now.fetch_add(ms, Ordering::SeqCst);
        self.clock.wall.fetch_add(ms, Ordering::SeqCst);
        self.engine.clocks_stepped();
    }

    async fn client(&self, id: &str, notices: bool) {
        let (name, url) = ("n".to_owned(), format!("https://{id}.example/"));
        let client = NewClient { id: Some(id.to_owned()), name, url, secret: None, notices };
        self.engine.create_client(client).await.expect("registered");
    }

    async fn enable(&self, id: &str, enabled: bool) {
        let patch = ClientPatch { enabled: Patch::Set(enabled), ..ClientPatch::default() };
        let id = base::ClientId::new(id).expect("an id");
        self.engine.patch_client(id, patch, OnlyIf::default()).await.expect("changed");
    }

    /// Every notice, the oldest first: its kind and its subject.
    fn told(&self) -> Vec<(NoticeKind, String)> {
        let (from, to) = (base::Timestamp(0), base::Timestamp::MAX);
        let page = Page { from, to, ascending: true, after: None, limit: 100 };
        let notices = self.engine.queries().notices(None, page).expect("readable");
        notices.into_iter().map(|(_, notice)| (notice.kind, notice.subject.to_string())).collect()
    }

    /// Waits until these are all that were told.
    async fn until_told(&self, expect: &[(NoticeKind, &str)]) {
        let is_told = async {
            while self
                .told()
                .iter()
                .map(|(kind, subject)| (*kind, subject.as_str()))
                .ne(expect.iter().copied())
            {
                tokio::task::yield_now().await;
            }
        };
        let told = tokio::time::timeout(20 * SECOND, is_told).await;
        assert!(told.is_ok(), "{:?}, not {expect:?}", self.told());
    }

    async fn lease(&self) -> Vec<NoticeDue> {
        self.engine.lease_notices(10).await.expect("accepting")
    }

    async fn tried(&self, due: &NoticeDue, outcome: PostOutcome) {
        let notice = NoticeKey::from(due.notice.id);
        self.engine.notice_tried(due.client.incarnation, notice, outcome).await.expect("accepting");
    }
}

async fn open(store: &Arc<MemoryStore>, clock: &Arc<TestClock>) -> Engine {
    let store = Arc::clone(store) as Arc<dyn engine::Store>;
    let notices = NoticeSettings {
        quiet: 600 * SECOND,
        backlog_age: Some(900 * SECOND),
        dead_letters: Some(2),
        lost_together: Some(2),
        lost_window: 60 * SECOND,
        ..NoticeSettings::default()
    };
    let settings = Settings { notices, ..Settings::for_tests() };
    let engine = Engine::start(settings, store, Arc::clone(clock) as Arc<dyn Clock>).await.expect("loads");
    engine.intake(WayIn::Http).attend(true).await;
    engine
}

const DISABLED: (NoticeKind, &str) = (NoticeKind::ClientDisabled, "client broken");

#[tokio::test]
async fn a_notice_is_posted_until_its_client_takes_it_also_after_a_start() {
    let mut rig = Rig::start().await;
    rig.client("watch", true).await;
    rig.client("broken", false).await;
    rig.enable("broken", false).await;
    rig.until_told(&[DISABLED]).await;
    let due = rig.lease().await;
    assert_eq!((due.len(), due[0].client.id.as_str()), (1, "watch"));
    assert!(rig.lease().await.is_empty(), "it is leased");
    rig.tried(&due[0], PostOutcome::Failed(None)).await;
    rig.pass(29 * SECOND);
    assert!(rig.lease().await.is_empty(), "it waits as a notification would");
    rig.pass(10 * SECOND);
    assert_eq!(rig.lease().await.len(), 1);
    rig.restart().await;
    rig.until_told(&[DISABLED]).await;
    let again = rig.lease().await;
    assert_eq!(again.len(), 1, "a lease does not outlive its process");
    rig.tried(&again[0], PostOutcome::Took).await;
    rig.pass(3_600 * SECOND);
    assert!(rig.lease().await.is_empty());
}

#[tokio::test]
async fn notices_wait_for_a_client_that_is_disabled_and_go_with_one_that_is_gone() {
    let rig = Rig::start().await;
    rig.client("watch", true).await;
    rig.client("gone", true).await;
    rig.client("broken", false).await;
    rig.enable("watch", false).await;
    rig.enable("broken", false).await;
    let only_of_gone = rig.lease().await;
    assert!(only_of_gone.iter().all(|due| due.client.id.as_str() == "gone"), "{only_of_gone:?}");
    assert_eq!(only_of_gone.len(), 2);
    rig.tried(&only_of_gone[0], PostOutcome::Failed(None)).await;
    let gone = base::ClientId::new("gone").expect("an id");
    rig.engine.delete_client(gone, OnlyIf::default()).await.expect("deleted");
    rig.pass(60 * SECOND);
    assert!(rig.lease().await.is_empty());
    rig.enable("watch", true).await;
    assert_eq!(rig.lease().await.len(), 2, "what came meanwhile, its own disabling too");
}

#[tokio::test]
async fn a_client_that_flaps_is_told_of_once_in_the_quiet_time() {
    let rig = Rig::start().await;
    rig.client("broken", false).await;
    for _ in 0..5 {
        rig.enable("broken", false).await;
        rig.enable("broken", true).await;
        rig.pass(SECOND);
    }
    rig.until_told(&[DISABLED]).await;
    rig.enable("broken", false).await;
    rig.pass(600 * SECOND);
    rig.client("another", false).await;
    assert_eq!(rig.told().len(), 1, "it stands as it was told");
    rig.enable("broken", true).await;
    rig.pass(600 * SECOND);
    rig.enable("broken", false).await;
    rig.until_told(&[DISABLED, DISABLED]).await;
}

#[tokio::test]
async fn a_queue_is_told_of_for_its_dead_letters_and_its_backlog() {
    let rig = Rig::start().await;
    let queues = rig.engine.queues();
    for n in 0..2 {
        queues.publish(&orders(), vec![job(&n.to_string())], None).await.expect("published");
        let (jobs, hand_over) = queues.consume(&[orders()], want(1)).await.expect("asked");
        hand_over.done();
        for job in jobs {
            queues.release(&orders(), job.held, Retry::default()).await.expect("it holds");
        }
    }
    let dead = (NoticeKind::QueueDeadLetters, "queue shop/orders");
    rig.until_told(&[dead]).await;
    queues.publish(&orders(), vec![job("3")], None).await.expect("published");
    rig.pass(901 * SECOND);
    rig.until_told(&[dead, (NoticeKind::QueueBacklog, "queue shop/orders")]).await;
}

fn lost(rig: &Rig) -> usize {
    let filter = DeviceFilter { connection: Some(Connection::Lost), ..DeviceFilter::default() };
    rig.engine.queries().devices(&filter, None, 100).expect("readable").found.len()
}

#[tokio::test]
async fn devices_of_one_label_that_are_lost_at_once_are_one_notice() {
    let rig = Rig::start().await;
    for n in 0..6 {
        let (id, site) = (format!("d{n}"), format!("{}", n / 4));
        let labels = vec![("site".to_owned(), site)];
        let device =
            NewDevice { id: id.clone(), labels, report_interval: Some(SECOND), ..NewDevice::default() };
        rig.engine.create_device(device).await.expect("registered");
        let said = Said::Value { value: base::Value::number(1.0).expect("finite"), ts: None };
        let report = Report { device: DeviceId::new(&id).expect("an id"), kind: None, said, id: None };
        let taken = rig.engine.intake(WayIn::Http).submit(vec![report]).await.expect("taken");
        taken.durable().await.expect("durable");
    }
    for _ in 0..4 {
        rig.pass(Duration::from_millis(500));
        let device = NewDevice { id: format!("x{}", rig.clock.now().0), ..NewDevice::default() };
        rig.engine.create_device(device).await.expect("registered");
    }
    let all_are_lost = async {
        while lost(&rig) < 6 {
            rig.pass(Duration::from_millis(100));
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(20 * SECOND, all_are_lost).await.expect("they fall silent");
    rig.pass(61 * SECOND);
    rig.until_told(&[
        (NoticeKind::DevicesLostTogether, "label site=0"),
        (NoticeKind::DevicesLostTogether, "label site=1"),
    ])
    .await;
}
