//! What queues keep, each kind by itself, with what must be shown written out.

use std::sync::Arc;

use base::{PartitionId, Timestamp};
use records::{
    AliasKey, AnswerKey, Batch, DeadJob, DeadReason, GroupKey, HeadState, JobClock, JobHead, JobId, JobTerms,
    KeptAnswer, Op, ParkedJob, Parking, PartitionHead, Queue, QueueCounts, QueueKey, QueueSettings,
};

use super::{Make, Subject, loaded, put};
use crate::port::{ParkedScan, QueueResident, StoredJob, View, parked_span};

const QUEUE: QueueKey = QueueKey(3);
const START: i64 = 1_800_000_000_000;
const HOUR_MS: i64 = 3_600_000;

/// The index among the partitions of queues is another one than that of any device partition in
/// use.
fn partition() -> PartitionId {
    PartitionId::of_queues(1)
}

struct QueuesUnderTest {
    subject: Box<dyn Subject>,
    head: PartitionHead,
}

impl QueuesUnderTest {
    fn new(make: Make<'_>) -> Self {
        let head = PartitionHead { now: Timestamp(START), ..PartitionHead::default() };
        Self { subject: make(), head }
    }

    fn put(&mut self, ops: Vec<Op>) {
        self.head.seq += 1;
        self.head.now.0 += 1;
        let batch = Batch { partition: partition(), head: self.head.clone(), ops };
        put(&mut *self.subject, batch);
    }

    fn view(&self) -> Box<dyn View> {
        self.subject.store().view(partition()).expect("opens")
    }

    fn residents(&self) -> Vec<QueueResident> {
        loaded(self.subject.store(), partition()).2
    }

    /// Sees the same before and after the store moved it about, and after a restart.
    fn always(&mut self, mut sees: impl FnMut(&Self)) {
        for churn in 1..4 {
            sees(self);
            self.subject.churn(churn);
        }
        self.subject.restart();
        sees(self);
    }
}

fn id(number: u8) -> JobId {
    let mut id = [0; 16];
    id[..6].copy_from_slice(&START.to_be_bytes()[2..]);
    id[15] = number;
    JobId(id)
}

fn job(number: u8, visible_at: i64) -> JobHead {
    JobHead {
        id: id(number),
        queue: QUEUE,
        number: u64::from(number),
        run_at: Timestamp(START),
        visible_at: Timestamp(visible_at),
        attempt: 0,
        tries: 1,
        state: HeadState::Waiting,
        alias: None,
        terms: JobTerms::default(),
        successor: None,
    }
}

fn with(terms: JobTerms, mut head: JobHead) -> JobHead {
    head.terms = terms;
    head
}

fn of_group(group: u64) -> JobTerms {
    JobTerms { group: Some(GroupKey(group)), ..JobTerms::default() }
}

fn for_time(head: JobHead) -> ParkedJob {
    ParkedJob { head, parking: Parking::Time, body: None }
}

fn for_worker(head: JobHead) -> ParkedJob {
    ParkedJob { head, parking: Parking::Worker, body: None }
}

fn as_head(head: JobHead) -> ParkedJob {
    ParkedJob { head, parking: Parking::Head, body: None }
}

fn park(job: &ParkedJob) -> Op {
    Op::ParkJob(Box::new(job.clone()))
}

fn unpark(job: &ParkedJob) -> Op {
    Op::UnparkJob(Box::new(job.key()))
}

fn ids(jobs: &[ParkedJob]) -> Vec<u8> {
    jobs.iter().map(|job| job.head.id.0[15]).collect()
}

/// All parked jobs that a scan finds, looked at so many at a time.
pub(super) fn parked_times(
    view: &dyn View,
    mut scan: ParkedScan,
    scan_max: usize,
) -> Vec<(Timestamp, JobId)> {
    let mut all = Vec::new();
    loop {
        let times = view.parked_times(&scan, scan_max).expect("reads");
        assert!(times.found.len() <= scan_max, "no more are looked at");
        all.extend(times.found);
        let Some(next) = times.next else { break };
        assert!(parked_span(next.0) >= parked_span(scan.after.0) && next != scan.after, "it goes on");
        if parked_span(next.0) > parked_span(scan.until.0) {
            break;
        }
        scan.after = next;
    }
    assert!(all.is_sorted_by_key(|(at, _)| parked_span(*at)), "span after span");
    all
}

/// Whom a time of this clock leads to, soonest first.
fn soonest(view: &dyn View, clock: JobClock, scan_max: usize) -> Vec<u8> {
    let mut all = parked_times(view, ParkedScan::all(clock), scan_max);
    all.sort_unstable();
    all.iter().map(|(_, id)| id.0[15]).collect()
}

fn line(view: &dyn View, group: Option<u64>, from_back: bool, limit: usize) -> Vec<u8> {
    ids(&view.parked_line(QUEUE, group.map(GroupKey), None, from_back, limit).expect("reads"))
}

/// Near and far from each other; each clock by itself, the expiry of what waits for a worker too.
pub fn parked_jobs_are_found_by_their_times(make: Make<'_>) {
    let mut queues = QueuesUnderTest::new(make);
    let on_wall_clock = JobTerms { clock: JobClock::Wall, ..JobTerms::default() };
    let expiring = JobTerms { expires_at: Some(Timestamp(START + 500)), ..on_wall_clock };
    let jobs = [
        for_time(job(1, START + HOUR_MS)),
        for_time(job(2, START + 900)),
        for_time(job(3, START + 100)),
        for_time(with(on_wall_clock, job(4, START + 50))),
        for_worker(with(expiring, job(5, START))),
        for_worker(job(6, START)),
        for_time(job(7, START - HOUR_MS)),
        for_time(job(8, START + 900)),
    ];
    queues.put(jobs.iter().map(park).collect());
    queues.always(|queues| {
        let view = queues.view();
        for scan_max in [1, 2, 3, 100] {
            assert_eq!(soonest(&*view, JobClock::Engine, scan_max), [7, 3, 5, 2, 8, 1], "{scan_max}");
        }
        assert_eq!(soonest(&*view, JobClock::Wall, 100), [4]);
    });
    queues.put(vec![unpark(&jobs[1]), unpark(&jobs[4])]);
    queues.always(|queues| assert_eq!(soonest(&*queues.view(), JobClock::Engine, 2), [7, 3, 8, 1]));
}

/// Those that wait for a worker, by queue or group, from either end; and by alias.
pub fn parked_jobs_are_found_in_their_lines_and_by_alias(make: Make<'_>) {
    let mut queues = QueuesUnderTest::new(make);
    let alias = AliasKey(u128::MAX - 7);
    let jobs = [
        for_worker(job(1, START + 2)),
        for_worker(job(3, START + 1)),
        for_worker(job(2, START + 1)),
        for_worker(with(of_group(0), job(4, START))),
        for_worker(with(of_group(u64::MAX), job(5, START))),
        as_head(with(of_group(9), job(10, START + 3))),
        for_worker(JobHead { queue: QueueKey(4), ..job(6, START) }),
        for_time(JobHead { alias: Some(alias), ..job(7, START) }),
    ];
    queues.put(jobs.iter().map(park).collect());
    queues.always(|queues| {
        let view = queues.view();
        assert_eq!(line(&*view, None, false, 100), [2, 3, 1, 10]);
        assert_eq!(line(&*view, None, true, 3), [10, 1, 3]);
        assert_eq!(line(&*view, Some(9), false, 100), [10], "the head of a group is in both lines");
        assert_eq!(line(&*view, Some(0), false, 100), [4]);
        assert_eq!(line(&*view, Some(u64::MAX), true, 100), [5]);
        assert_eq!(line(&*view, Some(1), false, 100), Vec::<u8>::new());
        let found = |queue, alias| view.parked_alias(queue, alias).expect("reads");
        assert_eq!(found(QUEUE, alias), Some(jobs[7].clone()));
        assert_eq!((found(QueueKey(4), alias), found(QUEUE, AliasKey(7))), (None, None));
    });
    // the same alias goes to another job
    let next = for_worker(JobHead { alias: Some(alias), ..job(8, START + 9) });
    queues.put(vec![unpark(&jobs[7]), unpark(&jobs[2]), unpark(&jobs[5]), park(&next)]);
    queues.always(|queues| {
        let view = queues.view();
        assert_eq!(line(&*view, None, false, 100), [3, 1, 8]);
        assert_eq!(view.parked_alias(QUEUE, alias).expect("reads"), Some(next.clone()));
    });
}

/// Jobs with adjacent ids, jobs between those of other queues, and jobs whose order is not that of
/// ids.
pub fn long_lines_are_read_in_order(make: Make<'_>) {
    const JOBS: u16 = 600;
    let numbered = |number: u16| {
        let (queue, visible_at) = match number / 200 {
            0 => (0, START),
            1 => (number % 12, START + i64::from(number)),
            _ => (0, START + i64::from(number * 77 % 200) * HOUR_MS / 9),
        };
        let mut head = job(0, visible_at);
        head.id.0[14..].copy_from_slice(&number.to_be_bytes());
        for_worker(JobHead { number: number.into(), queue: QueueKey(QUEUE.0 + u64::from(queue)), ..head })
    };
    let jobs: Vec<ParkedJob> = (0..JOBS).map(numbered).collect();
    let mut queues = QueuesUnderTest::new(make);
    let line_is = |queues: &QueuesUnderTest, is_parked: &dyn Fn(usize) -> bool| {
        let view = queues.view();
        let there =
            jobs.iter().enumerate().filter(|(place, job)| is_parked(*place) && job.head.queue == QUEUE);
        let mut expected: Vec<ParkedJob> = there.map(|(_, job)| job.clone()).collect();
        expected.sort_by_key(|job| (job.head.visible_at, job.head.number));
        let line = |from_back| view.parked_line(QUEUE, None, None, from_back, jobs.len()).expect("reads");
        assert_eq!(line(false), expected);
        expected.reverse();
        assert_eq!(line(true), expected);
    };
    queues.put(jobs.iter().map(park).collect());
    queues.always(|queues| line_is(queues, &|_| true));
    queues.put(jobs.iter().step_by(3).map(unpark).collect());
    queues.always(|queues| line_is(queues, &|place| place % 3 != 0));
    queues.put(jobs.iter().step_by(6).map(park).collect());
    queues.always(|queues| line_is(queues, &|place| place % 3 != 0 || place % 6 == 0));
    queues.put(jobs.iter().skip(1).step_by(3).map(unpark).collect());
    queues.always(|queues| line_is(queues, &|place| place % 3 == 2 || place % 6 == 0));
}

/// Parked and read in again, at every stage of what the store does by itself.
pub fn a_job_is_resident_or_parked_and_its_body_stays(make: Make<'_>) {
    let body: Arc<[u8]> = Arc::from(&b"what it carries"[..]);
    let mut queues = QueuesUnderTest::new(make);
    let head = job(1, START + 5);
    queues.put(vec![Op::PutJob(Box::new(head.clone())), Op::PutJobBody(head.id, Arc::clone(&body))]);
    for turn in 0..12 {
        let parked = if turn % 3 == 0 { for_worker(head.clone()) } else { for_time(head.clone()) };
        queues.put(vec![park(&parked)]);
        queues.subject.churn(turn % 4);
        if turn % 5 == 0 {
            queues.subject.restart();
        }
        let view = queues.view();
        let stored = |view: &dyn View| view.job(head.id).expect("reads");
        assert_eq!(stored(&*view), Some(StoredJob::Parked(parked.clone())), "turn {turn}");
        assert_eq!(queues.residents(), [], "turn {turn}");
        queues.put(vec![unpark(&parked), Op::PutJob(Box::new(head.clone()))]);
        queues.subject.churn(turn % 3);
        assert_eq!(stored(&*view), Some(StoredJob::Parked(parked)), "an open view shows its moment");
        let view = queues.view();
        assert_eq!(stored(&*view), Some(StoredJob::Resident(head.clone())), "turn {turn}");
        assert_eq!(queues.residents(), [QueueResident::Job(Box::new(head.clone()))], "turn {turn}");
        assert_eq!(soonest(&*view, JobClock::Engine, 10), [0_u8; 0], "turn {turn}");
        assert_eq!(view.job_body(head.id).expect("reads"), Some(Arc::clone(&body)), "turn {turn}");
    }
    // what is parked with a job is read with it, and goes with it
    let with_body = ParkedJob { body: Some(Arc::clone(&body)), ..for_time(job(2, START + 5)) };
    queues.put(vec![park(&with_body)]);
    queues.always(|queues| {
        let view = queues.view();
        assert_eq!(view.parked_job(id(2)).expect("reads"), Some(with_body.clone()));
        assert_eq!(view.job_body(id(2)).expect("reads"), Some(Arc::clone(&body)));
    });
    queues.put(vec![unpark(&with_body)]);
    queues.always(|queues| assert_eq!(queues.view().job_body(id(2)).expect("reads"), None));
    queues.put(vec![Op::DeleteJob(head.id)]);
    queues.always(|queues| {
        let view = queues.view();
        assert_eq!((view.job(head.id).expect("reads"), view.job_body(head.id).expect("reads")), (None, None));
    });
}

/// In order of id over both places, some at a time.
pub fn jobs_of_a_queue_are_listed_wherever_they_are(make: Make<'_>) {
    let mut queues = QueuesUnderTest::new(make);
    let mut ops = Vec::new();
    for number in 0..40 {
        let queue = if number % 4 == 3 { QueueKey(9) } else { QUEUE };
        let head = JobHead { queue, ..job(number, START) };
        match number % 3 {
            0 => ops.push(Op::PutJob(Box::new(head))),
            1 => ops.push(park(&for_time(head))),
            _ => ops.push(park(&for_worker(head))),
        }
    }
    queues.put(ops);
    let expect: Vec<u8> = (0..40).filter(|number| number % 4 != 3 && number % 5 != 0).collect();
    queues.always(|queues| {
        let view = queues.view();
        for (scan_max, limit) in [(100, 100), (7, 100), (100, 3), (5, 2), (1, 1)] {
            let keep = |head: &JobHead| !head.id.0[15].is_multiple_of(5);
            let (mut found, mut after, mut calls) = (Vec::new(), None, 0);
            loop {
                let page = view.jobs_of(QUEUE, after, scan_max, limit, &keep).expect("reads");
                assert!(page.found.len() <= limit, "{scan_max} {limit}");
                assert!(page.scanned <= scan_max && page.scanned >= page.found.len(), "{page:?}");
                found.extend(page.found.iter().map(|head| head.id.0[15]));
                calls += 1;
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
            assert_eq!(found, expect, "{scan_max} {limit}");
            let resident = view.resident_jobs_of(QUEUE, None, 100, 100, &keep).expect("reads");
            let unparked = resident.found.iter().map(|head| head.id.0[15]);
            assert!(unparked.eq(expect.iter().copied().filter(|number| number % 3 == 0)), "{resident:?}");
            assert!(calls >= 40 / scan_max && calls >= expect.len() / limit, "{scan_max} {limit}: {calls}");
        }
    });
}

fn dead(number: u64, job: u8) -> DeadJob {
    DeadJob {
        queue: QUEUE,
        number,
        id: id(job),
        attempt: 3,
        tries: 3,
        reason: DeadReason::Released,
        error: Some("no such address".into()),
        died_at: Timestamp(START + 7),
        group: Some(GroupKey(8)),
    }
}

/// A job's body outlives its head, and goes by itself.
pub fn dead_letters_are_read_in_order_and_by_id(make: Make<'_>) {
    let body: Arc<[u8]> = Arc::from(&b"what it carries"[..]);
    let mut queues = QueuesUnderTest::new(make);
    // numbers rise, ids need not
    for (number, job_id) in [(0, 5), (1, 4), (2, 9), (300, 1)] {
        queues.put(vec![
            Op::PutJob(Box::new(job(job_id, START))),
            Op::PutJobBody(id(job_id), Arc::clone(&body)),
        ]);
        queues.subject.churn(number % 2);
        queues.head.next_dead = number + 1;
        queues.put(vec![Op::DeleteJobHead(id(job_id)), Op::PutDead(Box::new(dead(number, job_id)))]);
    }
    let other = DeadJob { queue: QueueKey(4), ..dead(301, 7) };
    queues.head.next_dead = 302;
    queues.put(vec![Op::PutDead(Box::new(other.clone()))]);
    let numbers = |view: &dyn View, after, ascending, limit| {
        let found = view.dead(QUEUE, after, ascending, limit).expect("reads");
        found.iter().map(|dead| dead.number).collect::<Vec<_>>()
    };
    queues.always(|queues| {
        let view = queues.view();
        assert_eq!(view.dead(QUEUE, None, true, 1).expect("reads"), [dead(0, 5)]);
        assert_eq!(numbers(&*view, None, true, 10), [0, 1, 2, 300]);
        assert_eq!(numbers(&*view, Some(1), true, 10), [2, 300]);
        assert_eq!(numbers(&*view, None, false, 2), [300, 2]);
        assert_eq!(numbers(&*view, Some(2), false, 10), [1, 0]);
        assert_eq!(view.dead_by_id(QUEUE, id(9)).expect("reads"), Some(dead(2, 9)));
        assert_eq!(view.dead_by_id(QueueKey(4), id(7)).expect("reads"), Some(other.clone()));
        assert_eq!(view.dead_by_id(QUEUE, id(7)).expect("reads"), None);
        assert_eq!(view.job_body(id(9)).expect("reads"), Some(Arc::clone(&body)));
        assert_eq!((view.job(id(9)).expect("reads"), queues.residents()), (None, vec![]));
    });
    queues.put(vec![Op::DeleteDead(QUEUE, 2, id(9)), Op::DeleteJobBody(id(9))]);
    queues.always(|queues| {
        let view = queues.view();
        assert_eq!(numbers(&*view, None, true, 10), [0, 1, 300]);
        assert_eq!(view.dead_by_id(QUEUE, id(9)).expect("reads"), None);
        assert_eq!(view.job_body(id(9)).expect("reads"), None);
        assert_eq!(view.job_body(id(4)).expect("reads"), Some(Arc::clone(&body)));
    });
}

/// By key, and oldest first.
pub fn answers_are_kept_until_they_are_deleted(make: Make<'_>) {
    let mut queues = QueuesUnderTest::new(make);
    let answer = |key: u128, at| KeptAnswer {
        key: AnswerKey(key),
        at: Timestamp(START + at),
        body: !key,
        answer: Arc::from(&b"ids"[..]),
    };
    let all = [answer(1 << 90, 30), answer(2, 20), answer(3, 10), answer(4, 20)];
    queues.put(all.iter().map(|answer| Op::PutAnswer(Box::new(answer.clone()))).collect());
    let given = |view: &dyn View, from: Option<i64>, until: i64, limit| {
        let from = from.map(|from| Timestamp(START + from));
        let found = view.answers_given(from, Timestamp(START + until), limit).expect("reads");
        found.into_iter().map(|(at, key)| (at.0 - START, key.0)).collect::<Vec<_>>()
    };
    let before = |view: &dyn View, until, limit| given(view, None, until, limit);
    queues.always(|queues| {
        let view = queues.view();
        assert_eq!(view.answer(AnswerKey(1 << 90)).expect("reads"), Some(all[0].clone()));
        assert_eq!(view.answer(AnswerKey(5)).expect("reads"), None);
        assert_eq!(before(&*view, 30, 10), [(10, 3), (20, 2), (20, 4)]);
        assert_eq!((before(&*view, 31, 1), before(&*view, 10, 9)), (vec![(10, 3)], vec![]));
        assert_eq!(given(&*view, Some(11), 30, 10), [(20, 2), (20, 4)]);
        assert_eq!(given(&*view, Some(20), 99, 1), [(20, 2)]);
        assert_eq!(given(&*view, Some(30), 30, 9), []);
    });
    queues.put(vec![Op::DeleteAnswer(AnswerKey(2), Timestamp(START + 20))]);
    queues.always(|queues| {
        let view = queues.view();
        assert_eq!(view.answer(AnswerKey(2)).expect("reads"), None);
        assert_eq!(before(&*view, 99, 10), [(10, 3), (20, 4), (30, 1 << 90)]);
    });
}

/// With their counts; a queue that is gone takes its counts along.
pub fn queues_are_loaded_before_their_jobs(make: Make<'_>) {
    let mut queues = QueuesUnderTest::new(make);
    let queue = |key, paused| Queue {
        key: QueueKey(key),
        namespace: "shop".into(),
        name: format!("queue-{key}").into(),
        deleted: key == 2,
        paused,
        settings: QueueSettings { rate: Some(0.1), jobs_max: Some(7), ..QueueSettings::default() },
    };
    let counts = |ready| QueueCounts { parked_ready: ready, ..QueueCounts::default() };
    let resident = |queue: Queue, counts| QueueResident::Queue(Box::new(queue), counts);
    let head = job(1, START);
    queues.put(vec![
        Op::PutJob(Box::new(head.clone())),
        Op::PutQueue(Box::new(queue(2, false))),
        Op::PutQueue(Box::new(queue(1, false))),
        Op::PutQueue(Box::new(queue(3, false))),
        Op::PutQueueCounts(QueueKey(2), counts(5)),
        Op::PutQueueCounts(QueueKey(3), counts(6)),
    ]);
    let job = QueueResident::Job(Box::new(head));
    queues.always(|queues| {
        let expect = [
            resident(queue(1, false), counts(0)),
            resident(queue(2, false), counts(5)),
            resident(queue(3, false), counts(6)),
            job.clone(),
        ];
        assert_eq!(queues.residents(), expect);
    });
    queues.put(vec![
        Op::DeleteQueue(QueueKey(2)),
        Op::DeleteQueue(QueueKey(3)),
        Op::PutQueue(Box::new(queue(1, true))),
        Op::PutQueueCounts(QueueKey(1), counts(9)),
        Op::PutQueue(Box::new(queue(3, true))),
    ]);
    queues.always(|queues| {
        let expect = [resident(queue(1, true), counts(9)), resident(queue(3, true), counts(0)), job.clone()];
        assert_eq!(queues.residents(), expect);
    });
}
