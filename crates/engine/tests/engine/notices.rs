//! Notices: from what happens to the feed, and to the clients that want them.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use base::{Clock, DeviceId, Lineage, WayIn};
use engine::notices::{
    Condition, Detail, NoticeDue, NoticeLease, NoticeSettings, PostOutcome, Signal, SignalTopic,
};
use engine::queries::DeviceFilter;
use engine::queues::JobRelease;
use engine::{
    ClientPatch, Engine, EngineSettings, NewClient, NewDevice, OnlyIf, Page, Patch, Report, ReportContent,
};
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

    fn signal(&self, topic: SignalTopic, subject: &str, condition: Condition) {
        let detail = Detail::default().number("at", self.clock.now().0 as u64);
        self.engine.signal(Signal { topic, subject: subject.into(), condition, detail });
    }

    /// A sign that the registry took all signals before it, which is told by itself.
    fn mark(&self) {
        self.signal(SignalTopic::Certificate, "mark", Condition::Firing(MARK.0));
    }

    /// Two dead letters of a queue.
    async fn two_dead_letters(&self) {
        let queues = self.engine.queues();
        for n in 0..2 {
            queues.publish(&orders(), vec![job(&n.to_string())], None).await.expect("published");
            let (jobs, hand_over) = queues.consume(&[orders()], want(1)).await.expect("asked");
            hand_over.done();
            for job in jobs {
                queues.release(&orders(), job.reservation, JobRelease::default()).await.expect("it holds");
            }
        }
    }

    async fn lease(&self) -> Vec<NoticeDue> {
        let mut all = Vec::new();
        loop {
            let wanted = NoticeLease { max: 10, ..NoticeLease::default() };
            let due = self.engine.lease_notices(wanted).await.expect("accepting");
            if due.is_empty() {
                return all;
            }
            all.extend(due);
        }
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
    let settings = EngineSettings { notices, ..EngineSettings::for_tests() };
    let engine = Engine::start(settings, store, Arc::clone(clock) as Arc<dyn Clock>).await.expect("loads");
    engine.intake(WayIn::Http).attend(true).await;
    engine
}

const DISABLED: (NoticeKind, &str) = (NoticeKind::ClientDisabled, "client broken");
const FAILING: (NoticeKind, &str) = (NoticeKind::ClientFailing, "client broken");
const RECOVERED: (NoticeKind, &str) = (NoticeKind::ClientRecovered, "client broken");
const LOST: (NoticeKind, &str) = (NoticeKind::DevicesLostTogether, "label site=1");
const MARK: (NoticeKind, &str) = (NoticeKind::CertificateEnding, "mark");

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
async fn a_client_that_is_disabled_soon_after_it_failed_is_told_as_disabled() {
    let rig = Rig::start().await;
    rig.client("broken", false).await;
    rig.signal(SignalTopic::Client, "client broken", Condition::Firing(NoticeKind::ClientFailing));
    rig.until_told(&[FAILING]).await;
    rig.enable("broken", false).await;
    // Its breaker closes, as nothing is sent to it any more.
    rig.signal(SignalTopic::Client, "client broken", Condition::Cleared);
    rig.mark();
    rig.until_told(&[FAILING, MARK]).await;
    rig.pass(600 * SECOND);
    rig.until_told(&[FAILING, MARK, DISABLED]).await;
}

#[tokio::test]
async fn what_occurs_in_the_quiet_time_is_told_at_its_end_with_its_detail() {
    let rig = Rig::start().await;
    let lost = Condition::Occurred(NoticeKind::DevicesLostTogether);
    rig.signal(SignalTopic::Devices, "label site=1", lost);
    rig.until_told(&[LOST]).await;
    for n in 0..2 {
        rig.pass(100 * SECOND);
        rig.signal(SignalTopic::Devices, "label site=1", lost);
        rig.signal(SignalTopic::Devices, &format!("label n={n}"), lost);
        let is_taken = async {
            while rig.told().len() < 2 + n {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(20 * SECOND, is_taken).await.expect("signals are taken");
    }
    let latest = rig.clock.now().0;
    assert_eq!(rig.told().iter().filter(|(_, subject)| subject == LOST.1).count(), 1);
    rig.pass(400 * SECOND);
    let others = ["label n=0", "label n=1"].map(|subject| (LOST.0, subject));
    rig.until_told(&[LOST, others[0], others[1], LOST]).await;
    let page =
        Page { from: base::Timestamp(0), to: base::Timestamp::MAX, ascending: false, after: None, limit: 1 };
    let newest = rig.engine.queries().notices(None, page).expect("readable");
    assert_eq!(*newest[0].1.detail, *format!("{{\"at\":{latest}}}"), "the latest that was not told");
}

#[tokio::test]
async fn what_was_told_before_a_start_is_not_told_again_and_its_end_is() {
    let mut rig = Rig::start().await;
    rig.client("broken", false).await;
    rig.client("off", false).await;
    rig.signal(SignalTopic::Client, "client broken", Condition::Firing(NoticeKind::ClientFailing));
    rig.enable("off", false).await;
    rig.two_dead_letters().await;
    let off = (NoticeKind::ClientDisabled, "client off");
    let dead = (NoticeKind::QueueDeadLetters, "queue shop/orders");
    let told = async {
        while rig.told().len() < 3 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(20 * SECOND, told).await.expect("three are told");
    let mut before = rig.told();
    before.sort();
    let expected = [FAILING, off, dead].map(|(kind, subject)| (kind, subject.to_owned()));
    assert_eq!(before, expected);

    rig.pass(3_600 * SECOND);
    rig.restart().await;
    let failing = rig.engine.clients_told_failing();
    assert_eq!(failing, [base::ClientId::new("broken").expect("an id")], "its next success is its recovery");
    rig.signal(SignalTopic::Client, "client broken", Condition::Firing(NoticeKind::ClientFailing));
    rig.mark();
    let more = async {
        while rig.told().len() < 4 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(20 * SECOND, more).await.expect("the mark is told");
    assert_eq!(rig.told()[3], (MARK.0, MARK.1.to_owned()), "nothing of before is told again");

    rig.signal(SignalTopic::Client, "client broken", Condition::Resolved);
    rig.engine.queues().delete(&orders()).await.expect("deleted");
    rig.two_dead_letters().await;
    let all = async {
        while rig.told().len() < 6 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(20 * SECOND, all).await.expect("what ended, and what is new");
    let mut after = rig.told().split_off(4);
    after.sort();
    assert_eq!(after, [RECOVERED, dead].map(|(kind, subject)| (kind, subject.to_owned())));
}

#[tokio::test]
async fn a_condition_that_ended_while_it_was_not_told_does_not_hide_the_next() {
    let mut rig = Rig::start().await;
    rig.two_dead_letters().await;
    let dead = (NoticeKind::QueueDeadLetters, "queue shop/orders");
    rig.until_told(&[dead]).await;
    rig.engine.queues().delete(&orders()).await.expect("deleted");
    rig.restart().await;
    rig.pass(3_600 * SECOND);
    rig.two_dead_letters().await;
    rig.until_told(&[dead, dead]).await;
}

#[tokio::test]
async fn a_disabling_that_waited_for_the_quiet_time_is_told_after_a_start() {
    let mut rig = Rig::start().await;
    rig.client("broken", false).await;
    rig.signal(SignalTopic::Client, "client broken", Condition::Firing(NoticeKind::ClientFailing));
    rig.until_told(&[FAILING]).await;
    rig.enable("broken", false).await;
    rig.restart().await;
    assert_eq!(rig.told().len(), 1, "not before the quiet time is over");
    rig.pass(600 * SECOND);
    rig.until_told(&[FAILING, DISABLED]).await;
    rig.restart().await;
    rig.pass(3_600 * SECOND);
    rig.mark();
    rig.until_told(&[FAILING, DISABLED, MARK]).await;
}

#[tokio::test]
async fn a_queue_is_told_of_for_its_dead_letters_and_its_backlog() {
    let rig = Rig::start().await;
    rig.two_dead_letters().await;
    let dead = (NoticeKind::QueueDeadLetters, "queue shop/orders");
    rig.until_told(&[dead]).await;
    let queues = rig.engine.queues();
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
        let labels = Some(vec![("site".to_owned(), site)]);
        let device =
            NewDevice { id: id.clone(), labels, report_interval: Some(SECOND), ..NewDevice::default() };
        rig.engine.create_device(device).await.expect("registered");
        let content = ReportContent::Value { value: base::Value::number(1.0).expect("finite"), ts: None };
        let report = Report { device: DeviceId::new(&id).expect("an id"), kind: None, content, id: None };
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
