//! Floods: many jobs that are due at one moment, many groups with many jobs, many leases that a
//! start cuts off. What a step does is counted, not timed.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use records::JobId;

use super::*;
use crate::kernel::step_context::StepContext;
use crate::queues::partition::step_part::QueueStepPart;
use crate::queues::partition::{JOBS_AT_A_TIME, RECORDS_MAX, Spent, StepLimits};

const RESIDENT_MAX: usize = 1_024;
/// Jobs that a step reads in at most, and besides those that lead to groups: one for each job that
/// ended.
const READ_MAX: usize = RESIDENT_MAX / 4;
const HOUR: Duration = Duration::from_secs(3_600);
/// What a step's batch may weigh where nothing in it is large.
const WEIGHT_MAX: usize = 3 * MEGABYTE / 2;

fn plain() -> NewJob {
    NewJob::new(JobPayload::Bytes(vec![7].into()))
}

fn calls_of(jobs: &[NewJob]) -> impl Iterator<Item = Vec<driving::ToPublish>> {
    jobs.chunks(1_000).map(|jobs| driving::to_publish(jobs, NOW).expect("they may be"))
}

impl Rig {
    /// Steps until there is nothing left to do at this moment.
    fn rest(&mut self) {
        for _ in 0..10_000 {
            if !self.step(&mut Vec::new()).1 {
                return;
            }
        }
        panic!("no end of steps at one moment");
    }

    /// One with other limits than usual.
    fn limited(limit: impl FnOnce(&mut StepLimits)) -> Self {
        let mut limits = StepLimits::of(RESIDENT_MAX);
        limit(&mut limits);
        let mut rig = Self::with_resident(RESIDENT_MAX);
        rig.partition = rig.partition.with_limits(limits);
        rig
    }

    fn restart(&mut self, process: u64) {
        self.partition = load(&self.store, RESIDENT_MAX, Process(process), self.now);
    }

    fn ack(&mut self, held: Vec<ReservationToken>) {
        let told = self.ask(|reply| QueueInput::Ack { queue: orders(), held, reply });
        assert!(matches!(&told, QueueEffect::Acked(_, stale) if stale.is_empty()), "{told:?}");
    }

    /// Leases and acknowledges some of what there is; their ids.
    fn take(&mut self, max: usize) -> Vec<JobId> {
        let held = self.leased(max);
        let ids = held.iter().map(ReservationToken::job).collect();
        if !held.is_empty() {
            self.ack(held);
        }
        ids
    }

    /// No step has done too much.
    fn check_steps(&self, ended: usize) {
        assert!(self.most_unparked <= READ_MAX + ended, "{} read in in one step", self.most_unparked);
        assert!(self.heaviest <= WEIGHT_MAX, "a batch of {} bytes", self.heaviest);
        let (resident, reserved) = self.partition.resident();
        let most = RESIDENT_MAX + READ_MAX + ended;
        assert!(resident - reserved <= most, "{resident} resident, {reserved} of them reserved");
    }
}

#[test]
fn one_poll_of_an_empty_queue_does_not_read_a_flood() {
    const JOBS: usize = 20_000;
    let mut rig = Rig::with_resident(RESIDENT_MAX);
    let empty = |number: usize| QueueName::unchecked("shop", &format!("empty-{number}"));
    // A queue is there while it has settings.
    let settings = QueueSettings { concurrency: Some(1), ..QueueSettings::default() };
    let set = |number| QueueInput::Queue(QueueCall::Set(empty(number), settings, Reply::new().0));
    rig.step(&mut (0..64).map(set).collect());
    let job = NewJob { due: Some(DueTime::After(HOUR)), ..plain() };
    for jobs in calls_of(&vec![job; JOBS]) {
        rig.publish_these(jobs);
        rig.rest();
    }
    assert!(rig.partition.resident().0 <= RESIDENT_MAX, "{:?}", rig.partition.resident());
    rig.now = NOW.after(HOUR);
    (rig.most_unparked, rig.heaviest, rig.most_recounted) = (0, 0, 0);
    let (mut leased, mut steps) = (0, 0);
    while leased < JOBS {
        let ask_empty = |number: usize| {
            let want = ConsumeTerms { max: 10, ttr: HOUR, wait: Duration::ZERO, process: None };
            driving::consume(empty(number), &want, rig.now, &rig.inbox).0
        };
        let mut polls: Vec<_> = (0..64).map(ask_empty).collect();
        let (told, _, taken) = rig.step(&mut polls);
        assert_eq!((taken, counts(&told)), (64, vec![0; 64]));
        leased += rig.take(100).len();
        steps += 1;
        rig.check_steps(0);
        assert!(steps < 1_000, "{leased} leased in so many rounds");
    }
    assert_eq!((leased, rig.partition.resident()), (JOBS, (0, 0)));
    assert_eq!(rig.partition.names.len(), 65, "the empty queues are there, and the one of the flood");
    assert_eq!(rig.most_recounted, 1, "counts are written of no queue whose jobs stay where they are");
}

#[test]
fn who_waits_gets_jobs_of_a_flood_without_asking_again() {
    let mut rig = Rig::with_resident(RESIDENT_MAX);
    let job = NewJob { due: Some(DueTime::After(HOUR)), ..plain() };
    for jobs in calls_of(&vec![job; 5_000]) {
        rig.publish_these(jobs);
        rig.rest();
    }
    let (mut inputs, _receivers): (Vec<_>, Vec<_>) = (0..600).map(|_| rig.asking(10, 2 * HOUR)).unzip();
    rig.step(&mut inputs);
    rig.now = NOW.after(HOUR);
    let mut served = Vec::new();
    for _ in 0..1_000 {
        let (told, more, _) = rig.step(&mut inputs);
        served.extend(counts(&told));
        if !more {
            break;
        }
    }
    assert_eq!(served.iter().sum::<usize>(), 5_000, "{served:?}");
}

#[test]
fn many_groups_with_many_ready_jobs_fit_into_memory_in_their_order_also_after_a_start() {
    const GROUPS: usize = 400;
    const OF_EACH: usize = 40;
    let mut rig = Rig::with_resident(RESIDENT_MAX);
    let group = |number: usize| NewJob { group: Some(format!("g{}", number % GROUPS).into()), ..plain() };
    let (mut groups, mut number) = (BTreeMap::new(), 0);
    for jobs in calls_of(&(0..GROUPS * OF_EACH).map(group).collect::<Vec<_>>()) {
        let told = rig.ask(|reply| QueueInput::Publish {
            queue: orders(),
            jobs,
            idempotency: None,
            source: None,
            reply,
        });
        let QueueEffect::Published(_, Ok(published)) = told else { panic!("{told:?}") };
        for job in published {
            groups.insert(job.id, number % GROUPS);
            number += 1;
        }
        rig.rest();
        assert!(rig.partition.resident().0 <= RESIDENT_MAX, "{:?}", rig.partition.resident());
    }
    let (mut order, mut rounds) = (Vec::new(), 0);
    while order.len() < GROUPS * OF_EACH {
        if rounds % 50 == 0 {
            rig.rest();
            rig.restart(2 + rounds);
            (rig.most_unparked, rig.heaviest) = (0, 0);
        }
        order.extend(rig.take(100));
        rig.check_steps(100);
        rounds += 1;
        assert!(rounds < 2_000, "{} leased in so many rounds", order.len());
    }
    let mut of_group = vec![Vec::new(); GROUPS];
    order.iter().for_each(|id| of_group[groups[id]].push(*id));
    assert!(of_group.iter().all(|ids| ids.len() == OF_EACH && ids.is_sorted()), "in the order of each group");
}

#[test]
fn a_million_groups_would_not_be_a_million_resident_jobs() {
    const GROUPS: usize = 10_000;
    let mut rig = Rig::with_resident(RESIDENT_MAX);
    let group = |number: usize| NewJob { group: Some(format!("g{number}").into()), ..plain() };
    for jobs in calls_of(&(0..GROUPS).map(group).collect::<Vec<_>>()) {
        rig.publish_these(jobs);
        rig.rest();
        assert!(rig.partition.resident().0 <= RESIDENT_MAX, "{:?}", rig.partition.resident());
    }
    let mut order = Vec::new();
    while order.len() < GROUPS {
        order.extend(rig.take(500));
        rig.check_steps(500);
    }
    assert!(order.is_sorted(), "in the order in which they were published");
}

#[test]
fn leases_that_a_start_cuts_off_are_written_in_several_steps_before_anything_else() {
    let mut rig = Rig::with_resident(RESIDENT_MAX);
    for jobs in calls_of(&vec![NewJob { tries: 3, ..plain() }; 6_000]) {
        rig.publish_these(jobs);
    }
    for _ in 0..100 {
        let want = ConsumeTerms { max: 1_000, ttr: HOUR, wait: Duration::ZERO, process: Some(Process(1)) };
        let (input, _receiver) = driving::consume(orders(), &want, rig.now, &rig.inbox);
        rig.step(&mut vec![input]);
        rig.rest();
    }
    assert_eq!(rig.partition.resident().1, 6_000);
    rig.restart(2);
    (rig.most_unparked, rig.heaviest) = (0, 0);
    assert!(rig.partition.has_unfinished());
    let (input, _receiver) = rig.asking(10, Duration::ZERO);
    let mut inputs = vec![input];
    let (told, more, taken) = rig.step(&mut inputs);
    assert_eq!((counts(&told), more, taken), (vec![], true, 0));
    while rig.step(&mut inputs).2 == 0 {}
    assert!(rig.heaviest <= WEIGHT_MAX, "a batch of {} bytes", rig.heaviest);
    rig.rest();
    assert_eq!(rig.partition.resident().1, 10);
}

#[test]
fn a_queue_is_not_held_back_by_the_flood_of_another() {
    let mut rig = Rig::with_resident(1 << 20);
    let job = NewJob { due: Some(DueTime::After(HOUR)), ..plain() };
    for jobs in calls_of(&vec![job; 30_000]) {
        rig.publish_these(jobs);
    }
    rig.rest();
    rig.now = NOW.after(HOUR);
    let quiet = QueueName::unchecked("shop", "quiet");
    let tomorrow = NewJob { due: Some(DueTime::After(24 * HOUR)), ..plain() };
    let jobs = driving::to_publish(&[tomorrow, plain()], NOW).expect("they may be");
    let (queue, reply) = (quiet.clone(), Reply::new().0);
    let want = ConsumeTerms { max: 10, ttr: HOUR, wait: Duration::ZERO, process: None };
    let (asking, _receiver) = driving::consume(quiet, &want, rig.now, &rig.inbox);
    let mut inputs =
        vec![QueueInput::Publish { queue, jobs, idempotency: None, source: None, reply }, asking];
    let (told, more, taken) = rig.step(&mut inputs);
    assert!(more && rig.partition.spent().advanced >= 10_000, "the flood is not over: {told:?}");
    assert_eq!((taken, counts(&told)), (2, vec![1]));
}

#[test]
fn dead_letters_of_many_queues_are_looked_at_in_several_steps_and_what_is_young_is_not_written() {
    const QUEUES: usize = 600;
    let mut rig = Rig::with_resident(RESIDENT_MAX);
    let age = QueueSettings { dead_max_age_ms: Some(3_600_000), ..QueueSettings::default() };
    for number in 0..QUEUES {
        let name = QueueName::unchecked("shop", &format!("queue-{number}"));
        let jobs = driving::to_publish(&[NewJob { tries: 1, ..plain() }], NOW).expect("it may be");
        let want = ConsumeTerms { max: 1, ttr: HOUR, wait: Duration::ZERO, process: None };
        let (asking, _receiver) = driving::consume(name.clone(), &want, rig.now, &rig.inbox);
        let set = QueueInput::Queue(QueueCall::Set(name.clone(), age, Reply::new().0));
        let publish = QueueInput::Publish {
            queue: name.clone(),
            jobs,
            idempotency: None,
            source: None,
            reply: Reply::new().0,
        };
        let (told, ..) = rig.step(&mut vec![set, publish, asking]);
        let leases = told.into_iter().find_map(|told| match told {
            QueueEffect::Leased(_, leases) => Some(leases),
            _ => None,
        });
        let leases = leases.expect("it is answered");
        let (held, delay, reply) = (leases.token(&leases.jobs[0]), Duration::ZERO, Reply::new().0);
        rig.step(&mut vec![QueueInput::Release { queue: name, held, delay, error: None, reply }]);
    }
    rig.restart(2);
    let seq = rig.partition.head.seq;
    let (mut steps, mut looked_at) = (0, 0);
    loop {
        let (_, more, _) = rig.step(&mut Vec::new());
        let looked = rig.partition.spent().dead_read;
        assert!(looked <= 5_100, "{looked} in one step");
        (steps, looked_at) = (steps + 1, looked_at + looked);
        if !more {
            break;
        }
    }
    assert!(steps > 1 && looked_at >= QUEUES, "{looked_at} in {steps} steps");
    assert_eq!(rig.partition.head.seq, seq, "nothing has changed");
    rig.now = NOW.after(2 * HOUR);
    rig.rest();
    assert_eq!(rig.partition.dead_total, 0);
}

#[test]
fn a_list_passes_over_many_empty_queues_in_several_steps() {
    let mut rig = Rig::with_resident(RESIDENT_MAX);
    let set = |name: &str, paused| {
        let name = QueueName::unchecked("shop", name);
        QueueInput::Queue(QueueCall::Pause(name, paused, Reply::new().0))
    };
    let empty = (0..12_000).map(|number| set(&format!("empty-{number:05}"), false));
    let mut inputs: Vec<_> = empty.chain([set("first", true), set("a", true)]).collect();
    while !inputs.is_empty() {
        rig.step(&mut inputs);
    }
    let (mut after, mut steps, mut found) = (None, 0, Vec::new());
    loop {
        let list = |reply| QueueCall::List { namespace: Some("shop".into()), after, limit: 10, reply };
        let told = rig.ask(|reply| QueueInput::Queue(list(reply)));
        let QueueEffect::Listed(_, listed) = told else { panic!("{told:?}") };
        found.extend(listed.queues.into_iter().map(|queue| queue.name.queue().to_owned()));
        steps += 1;
        after = listed.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!((steps, found), (2, vec!["a".to_owned(), "first".to_owned()]));
}

#[test]
fn who_looks_for_the_first_job_is_shown_it_though_the_step_has_read_all_it_may() {
    let mut rig = Rig::with_resident(RESIDENT_MAX);
    for jobs in calls_of(&vec![plain(); 6_000]) {
        rig.publish_these(jobs);
        rig.rest();
    }
    for _ in 0..4 {
        // Takes all that is resident, and all that may be read in a step.
        let (first, _receiver) = rig.asking(1_000, Duration::ZERO);
        let (second, _receiver) = rig.asking(1_000, Duration::ZERO);
        let look = QueueInput::Look { queue: orders(), job: None, reply: Reply::new().0 };
        let (told, _, taken) = rig.step(&mut vec![first, second, look]);
        assert_eq!((taken, rig.partition.spent().read), (3, READ_MAX));
        let seen = told.iter().find_map(|told| match told {
            QueueEffect::Seen(_, seen) => Some(seen.is_ok()),
            _ => None,
        });
        assert_eq!(seen, Some(true));
    }
}

#[test]
fn leases_of_many_groups_that_lapse_together_are_followed_in_several_steps() {
    const GROUPS: usize = 1_000;
    let mut rig = Rig::with_resident(RESIDENT_MAX);
    let group = |number: usize| NewJob { group: Some(format!("g{}", number % GROUPS).into()), ..plain() };
    for jobs in calls_of(&(0..4 * GROUPS).map(group).collect::<Vec<_>>()) {
        rig.publish_these(jobs);
        rig.rest();
    }
    let mut leased = 0;
    while leased < GROUPS {
        let held = rig.leased(100).len();
        assert!(held > 0, "{leased} leased");
        leased += held;
    }
    rig.now = NOW.after(Duration::from_secs(120));
    let (mut steps, mut followed) = (0, 0);
    loop {
        let (_, more, _) = rig.step(&mut Vec::new());
        let spent = rig.partition.spent();
        assert!(spent.read_at_once <= 512 + 8, "{spent:?}");
        assert!(spent.advanced >= spent.read_at_once, "each follows one that has ended: {spent:?}");
        (steps, followed) = (steps + 1, followed + spent.read_at_once);
        if !more {
            break;
        }
    }
    assert!(steps > 1 && followed > 512, "{followed} in {steps} steps");
}

#[test]
fn jobs_that_expire_together_go_in_several_steps_before_anybody_gets_what_is_behind_them() {
    const JOBS: usize = 500;
    let mut rig = Rig::limited(|limits| limits.advanced = 64);
    let mut jobs = vec![NewJob { ttl: Some(HOUR), ..plain() }; JOBS];
    jobs.push(plain());
    rig.publish_these(driving::to_publish(&jobs, NOW).expect("they may be"));
    let key = rig.partition.key_of(&orders()).expect("it is there");
    rig.now = NOW.after(HOUR);
    let (asking, _receiver) = rig.asking(10, 2 * HOUR);
    let (mut inputs, mut steps, mut served) = (vec![asking], 0, Vec::new());
    while served.is_empty() {
        let (told, ..) = rig.step(&mut inputs);
        let left = rig.partition.jobs.counts_of(key);
        assert_eq!(left.scheduled, 0, "a lease moves none that has expired out of its way");
        (steps, served) = (steps + 1, counts(&told));
        assert!(steps < 100, "{left:?} after so many steps");
    }
    assert_eq!((steps, served), (JOBS.div_ceil(64), vec![1]));
}

#[test]
fn groups_that_waited_for_a_flood_go_on_in_several_steps_before_anybody_gets_what_is_behind_them() {
    const FLOOD: usize = 3_000;
    const GROUPS: usize = 100;
    const BEHIND: usize = 50;
    let mut rig = Rig::limited(|limits| limits.unblocked = 10);
    let flood = NewJob { due: Some(DueTime::After(HOUR)), ..plain() };
    for jobs in calls_of(&vec![flood; FLOOD]) {
        rig.publish_these(jobs);
        rig.rest();
    }
    rig.now = NOW.after(HOUR);
    let group = |number: usize| NewJob { group: Some(format!("g{number}").into()), ..plain() };
    let jobs: Vec<_> = (0..GROUPS).map(group).chain(vec![plain(); BEHIND]).collect();
    rig.publish_these(driving::to_publish(&jobs, NOW).expect("they may be"));
    let (mut order, mut unblocked) = (Vec::new(), Vec::new());
    while order.len() < FLOOD + GROUPS + BEHIND {
        order.extend(rig.leased(1_000).iter().map(ReservationToken::job));
        unblocked.push(rig.partition.spent().unblocked);
        assert!(unblocked.len() < 200, "{} leased in so many steps", order.len());
    }
    assert!(order.is_sorted(), "in the order in which they were published");
    assert!(unblocked.iter().all(|lines| *lines <= 10), "{unblocked:?}");
    assert!(unblocked.iter().sum::<usize>() >= GROUPS, "{unblocked:?}");
}

#[test]
fn consumers_who_have_waited_enough_go_home_in_several_steps() {
    let mut rig = Rig::limited(|limits| limits.retired = 10);
    let (mut inputs, _receivers): (Vec<_>, Vec<_>) = (0..25).map(|_| rig.asking(1, HOUR)).unzip();
    rig.step(&mut inputs);
    rig.now = NOW.after(HOUR);
    let mut homes = Vec::new();
    for _ in 0..3 {
        let (told, ..) = rig.step(&mut Vec::new());
        assert_eq!(rig.partition.spent().retired, counts(&told).len());
        homes.push(counts(&told).len());
        let next = rig.partition.next_wakeup(rig.now);
        assert!(homes.len() == 3 || next == Some(rig.now), "the others are due: {next:?}");
    }
    assert_eq!(homes, [10, 10, 5]);
}

#[test]
fn what_a_deleted_queue_had_is_swept_in_as_many_steps_as_it_takes() {
    let mut rig = Rig::limited(|limits| limits.swept = 30);
    rig.publish(100, 1);
    let told = rig.ask(|reply| QueueInput::Queue(QueueCall::Delete(orders(), reply)));
    assert!(matches!(told, QueueEffect::Done(_, Ok(()))), "{told:?}");
    let mut swept = Vec::new();
    while !rig.partition.sweeps.is_empty() {
        rig.step(&mut Vec::new());
        swept.push(rig.partition.spent().swept);
        assert!(swept.len() < 50, "{swept:?}");
    }
    assert!(swept.iter().all(|rows| *rows <= 30) && swept.iter().sum::<usize>() >= 100, "{swept:?}");
    assert_eq!(rig.partition.resident(), (0, 0));
}

#[test]
fn ready_jobs_are_dropped_in_as_many_steps_as_it_takes() {
    let mut rig = Rig::limited(|limits| limits.dropped = 20);
    rig.publish(50, 1);
    let (steps, _) = drop_ready(&mut rig, orders());
    assert_eq!((steps, rig.partition.resident()), (3, (0, 0)));
}

/// One of the things that are counted.
type SpentPart = fn(&mut Spent) -> &mut usize;

/// Ends a step that has done so much of something. What stops the process, if it is too much.
fn stopped_by(part: SpentPart, done: usize) -> Option<String> {
    let mut rig = Rig::with_resident(RESIDENT_MAX);
    let fetch = FromStore::new(&rig.store, partition());
    let moment = StepTime { now: NOW, stamp: NOW, wall: NOW };
    let own = QueueStepPart::new(StepLimits::of(RESIDENT_MAX));
    let mut step = StepContext::new(partition(), &rig.partition.head, moment, &fetch, own);
    *part(&mut step.own.budget.spent) = done;
    let thrown = catch_unwind(AssertUnwindSafe(|| rig.partition.seal(step, false))).err()?;
    Some(*thrown.downcast::<String>().expect("a text"))
}

#[test]
fn a_step_that_has_done_more_than_it_may_of_anything_stops_the_process() {
    let limits = StepLimits::of(RESIDENT_MAX);
    // (what is counted, the most of it: the limit, and what is done between two looks at it)
    let parts: [(SpentPart, usize); 9] = [
        (|spent| &mut spent.advanced, limits.advanced + JOBS_AT_A_TIME - 1),
        (|spent| &mut spent.read, limits.read),
        (|spent| &mut spent.scanned, limits.scanned),
        (|spent| &mut spent.read_at_once, limits.read_at_once + 4 * RECORDS_MAX),
        (|spent| &mut spent.unblocked, limits.unblocked),
        (|spent| &mut spent.dead_read, limits.dead_read + 2 * RECORDS_MAX - 1),
        (|spent| &mut spent.swept, limits.swept),
        (|spent| &mut spent.dropped, limits.dropped),
        (|spent| &mut spent.retired, limits.retired),
    ];
    for (place, (part, most)) in parts.into_iter().enumerate() {
        assert_eq!(stopped_by(part, most), None, "part {place}");
        let told = stopped_by(part, most + 1).unwrap_or_default();
        assert!(told.starts_with("a step keeps within its budget"), "part {place}: {told}");
    }
}
