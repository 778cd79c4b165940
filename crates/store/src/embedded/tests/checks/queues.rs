//! What a check says of queues.

use records::{
    AnswerKey, DeadJob, DeadReason, GroupKey, JobClock, KeptAnswer, Lock, ParkedJob, Parking, Queue,
    QueueCounts, QueueSettings, WorkState, WorkerControl,
};

use super::*;
use crate::codec::Stored;
use crate::codec::key::{ParkedPlace, TableKey};

/// The only one of queues.
pub(super) const PARTITION: PartitionId = PartitionId(1 << 15);

const QUEUE: QueueKey = QueueKey(1);
const EXPIRES_AT: Timestamp = Timestamp(900_000);

fn queue() -> Queue {
    Queue {
        key: QUEUE,
        namespace: "shop".into(),
        name: "mail".into(),
        deleted: false,
        paused: false,
        settings: QueueSettings::default(),
    }
}

fn job(number: u8) -> JobHead {
    JobHead {
        id: JobId([number; 16]),
        queue: QUEUE,
        number: u64::from(number),
        run_at: Timestamp(5),
        visible_at: Timestamp(6),
        attempt: 0,
        tries: 10,
        state: HeadState::Waiting,
        alias: Some(AliasKey(u128::from(number))),
        terms: JobTerms::default(),
        successor: None,
    }
}

fn parked(number: u8, parking: Parking) -> ParkedJob {
    let terms = JobTerms { expires_at: Some(EXPIRES_AT), group: Some(GroupKey(3)), ..JobTerms::default() };
    ParkedJob { head: JobHead { terms, ..job(number) }, parking, body: None }
}

fn dead() -> DeadJob {
    DeadJob {
        queue: QUEUE,
        number: 1,
        id: JobId([4; 16]),
        attempt: 3,
        tries: 3,
        reason: DeadReason::TimedOut,
        error: None,
        died_at: Timestamp(7),
        group: None,
    }
}

fn counts() -> QueueCounts {
    QueueCounts { parked_scheduled: 1, parked_ready: 1, dead: 1 }
}

/// Something of everything of queues, all of which agrees.
pub(super) fn everything() -> Vec<Op> {
    let body = |number| Op::PutJobBody(JobId([number; 16]), Arc::from(&b"{}"[..]));
    let answer = KeptAnswer { key: AnswerKey(8), at: Timestamp(9), body: 1, answer: Arc::from(&b"ids"[..]) };
    let lock = Lock {
        namespace: "shop".into(),
        name: "till".into(),
        owner: Some("a".into()),
        fence: 1,
        until: Timestamp(10),
    };
    let control = WorkerControl {
        namespace: "shop".into(),
        queue: "mail".into(),
        state: WorkState::Drain,
        max_in_flight: Some(2),
        data: Some("{}".into()),
    };
    vec![
        Op::PutQueue(Box::new(queue())),
        Op::PutQueueCounts(QUEUE, counts()),
        Op::PutJob(Box::new(job(1))),
        Op::ParkJob(Box::new(parked(2, Parking::Time))),
        Op::ParkJob(Box::new(parked(3, Parking::Worker))),
        body(1),
        body(2),
        body(3),
        Op::PutDead(Box::new(dead())),
        body(4),
        Op::PutAnswer(Box::new(answer)),
        Op::PutLock(Box::new(lock)),
        Op::PutQueueControl(Box::new(control)),
    ]
}

/// One row of queues changed; what is found.
fn found_without(table: Table, key: &TableKey) -> Vec<String> {
    let directory = directory();
    change(directory.path(), |writer| {
        let mut rows = writer.table(table)?;
        assert!(rows.get(PARTITION, key)?.is_some(), "{table:?} has it");
        rows.remove(PARTITION, key)
    });
    check(directory.path()).0
}

fn found_with(table: Table, key: &TableKey, value: &[u8]) -> Vec<String> {
    let directory = directory();
    change(directory.path(), |writer| writer.table(table)?.put(PARTITION, key, value));
    check(directory.path()).0
}

fn assert_told(found: &[String], expect: &str, context: &str) {
    assert!(found.iter().any(|text| text.contains(expect)), "{context}: {found:?}");
}

#[test]
fn a_row_of_queues_that_is_missing_is_told_by_what_names_it() {
    let (time, worker) = (parked(2, Parking::Time).key(), parked(3, Parking::Worker).key());
    let place = |at, id| ParkedPlace { clock: Some(JobClock::Engine), at, id }.to_key();
    let cases = [
        (Table::Queues, key::queue(QUEUE), "there is no queue 1"),
        (Table::QueueCounts, key::queue(QUEUE), "it says QueueCounts { parked_scheduled: 0"),
        (Table::JobHeads, key::job(JobId([1; 16])), "nothing carries it"),
        (Table::JobBodies, key::job(JobId([1; 16])), "what it carries is missing"),
        (Table::JobBodies, key::job(time.id), "what it carries is missing"),
        (Table::JobBodies, key::job(dead().id), "what it carries is missing"),
        (Table::Parked, place(Timestamp(6), time.id), "what it names is not in parked"),
        (Table::Parked, place(EXPIRES_AT, worker.id), "what it names is not in parked"),
        (Table::ParkedIds, key::job(time.id), "its row in parked_ids is missing"),
        (
            Table::ParkedByLine,
            key::place_in_line(worker.queue, worker.group, (worker.visible_at, worker.number)),
            "its row in parked_by_line is missing",
        ),
        (Table::ParkedAliases, key::alias(QUEUE, AliasKey(2)), "its row in parked_aliases is missing"),
        (Table::Dead, key::dead(QUEUE, 1), "what it names is not in dead"),
        (Table::DeadIds, key::job_of(QUEUE, dead().id), "its row in dead_ids is missing"),
        (Table::Answers, key::answer(AnswerKey(8)), "what it names is not in answers"),
        (
            Table::AnswersByTime,
            key::answer_at(Timestamp(9), AnswerKey(8)),
            "its row in answers_by_time is missing",
        ),
    ];
    for (table, key, expect) in cases {
        assert_told(&found_without(table, &key), expect, &format!("{table:?}"));
    }
}

#[test]
fn a_row_of_queues_that_does_not_agree_is_told() {
    let elsewhere = Queue { key: QueueKey(2), ..queue() };
    let late = DeadJob { number: 2, ..dead() };
    let more = QueueCounts { dead: 2, ..counts() };
    let twice = ParkedJob { body: Some(Arc::from(&b"{}"[..])), ..parked(2, Parking::Time) };
    let place =
        |number| ParkedPlace { clock: Some(JobClock::Engine), at: Timestamp(6), id: JobId([number; 16]) };
    let cases = [
        (Table::Queues, key::queue(QueueKey(2)), elsewhere.to_row(), "another queue has its name"),
        (Table::QueueCounts, key::queue(QUEUE), more.to_row(), "dead: 2"),
        (Table::JobHeads, key::job(JobId([2; 16])), job(2).to_row(), "it is parked too"),
        (Table::Parked, place(2).to_key(), twice.to_row(), "what it carries is there twice"),
        (Table::Parked, place(3).to_key(), twice.to_row(), "it stands under the key of another"),
        (
            Table::ParkedAliases,
            key::alias(QUEUE, AliasKey(9)),
            place(2).to_key().to_vec(),
            "what it names stands elsewhere",
        ),
        (
            Table::ParkedAliases,
            key::alias(QUEUE, AliasKey(9)),
            place(8).to_key().to_vec(),
            "what it names is not in parked",
        ),
        (Table::Dead, key::dead(QUEUE, 2), late.to_row(), "no dead letter ever had number 2"),
        (Table::AnswersByTime, key::answer_at(Timestamp(1), AnswerKey(8)), vec![], "stands elsewhere"),
        (Table::JobBodies, key::job(JobId([9; 16])), vec![], "nothing carries it"),
        (Table::Events, TableKey::from_slice(b"key"), vec![], "such rows are not kept in this partition"),
    ];
    for (table, key, row, expect) in cases {
        assert_told(&found_with(table, &key, &row), expect, &format!("{table:?}"));
    }
}
