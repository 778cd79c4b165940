//! What queues leave in a data directory: nothing of what comes and goes between two checkpoints,
//! and nothing of what is gone.

use records::{
    AliasKey, DeadJob, DeadReason, HeadState, JobClock, JobHead, JobId, JobTerms, Op, ParkedJob, Parking,
    PartitionHead, Queue, QueueCounts, QueueKey, QueueSettings,
};

use super::*;
use crate::codec::{Stored, key};
use crate::embedded::check::check_disk;
use crate::embedded::directory::DataDirectory;
use crate::embedded::tables::{Table, Tables};
use crate::port::ParkedScan;

const START: Timestamp = Timestamp(1_800_000_000_000);

fn partition() -> PartitionId {
    PartitionId::of_queues(0)
}

/// A partition of queues of an open store.
struct Queues {
    disk: SimulatedDisk,
    store: Option<EmbeddedStore>,
    head: PartitionHead,
    next_queue: u64,
}

impl Queues {
    fn new() -> Self {
        let disk = SimulatedDisk::new(1);
        let store = Some(open(&disk).expect("opens"));
        Self { disk, store, head: PartitionHead { now: START, ..PartitionHead::default() }, next_queue: 1 }
    }

    fn store(&self) -> &EmbeddedStore {
        self.store.as_ref().expect("open")
    }

    fn restart(&mut self) {
        self.store = None;
        self.store = Some(open(&self.disk).expect("opens again"));
    }

    fn commit(&mut self, ops: Vec<Op>) {
        self.head.seq += 1;
        self.head.now.0 += 1;
        let outcome = give(self.store(), Batch { partition: partition(), head: self.head.clone(), ops });
        settle(self.store());
        assert!(matches!(outcome.try_recv(), Ok(CommitOutcome::Durable)));
    }

    /// Rows in memory that no checkpoint has written.
    fn changed_rows(&self) -> usize {
        self.store().partition(partition()).overlay_size().0
    }

    fn rows(&self, table: Table) -> u64 {
        self.store().tables.snapshot().and_then(|snapshot| snapshot.rows(table)).expect("reads")
    }

    fn new_id(&mut self) -> JobId {
        self.head.next_job += 1;
        let mut id = [0; 16];
        id[..6].copy_from_slice(&self.head.now.0.to_be_bytes()[2..]);
        id[6..14].copy_from_slice(&self.head.next_job.to_be_bytes());
        JobId(id)
    }

    fn job(&mut self, queue: QueueKey) -> JobHead {
        let id = self.new_id();
        JobHead {
            id,
            queue,
            number: self.head.next_job,
            run_at: START,
            visible_at: START,
            attempt: 0,
            tries: 1,
            state: HeadState::Waiting,
            alias: Some(AliasKey(7)),
            terms: JobTerms { expires_at: Some(Timestamp(START.0 + 9)), ..JobTerms::default() },
            successor: None,
        }
    }

    /// A queue that comes into being, in so many words.
    fn new_queue(&mut self) -> (QueueKey, Vec<Op>) {
        let key = QueueKey(self.next_queue);
        self.next_queue += 1;
        let (namespace, name, settings) = ("shop".into(), "mail".into(), QueueSettings::default());
        let queue = Queue { key, namespace, name, deleted: false, paused: false, settings };
        (key, vec![Op::PutQueue(Box::new(queue)), Op::PutQueueCounts(key, QueueCounts::default())])
    }

    /// Everything that can become of a job, one after the other, until nothing is left of it nor of
    /// its queue.
    fn live(&mut self) {
        let (queue, ops) = self.new_queue();
        self.commit(ops);
        let head = self.job(queue);
        let id = head.id;
        for parking in [Parking::Time, Parking::Worker] {
            let parked = ParkedJob { head: head.clone(), parking, body: None };
            let body = Op::PutJobBody(id, Arc::from(&b"{}"[..]));
            self.commit(vec![Op::ParkJob(Box::new(parked.clone())), body]);
            self.commit(vec![Op::UnparkJob(Box::new(parked.key())), Op::PutJob(Box::new(head.clone()))]);
        }
        let number = self.head.next_dead;
        self.head.next_dead += 1;
        let dead = DeadJob {
            queue,
            number,
            id,
            attempt: 1,
            tries: 1,
            reason: DeadReason::TimedOut,
            error: None,
            died_at: START,
            group: None,
        };
        self.commit(vec![Op::DeleteJobHead(id), Op::PutDead(Box::new(dead))]);
        self.commit(vec![Op::DeleteDead(queue, number, id), Op::DeleteJobBody(id)]);
        self.commit(vec![Op::DeleteQueue(queue)]);
    }
}

#[test]
fn what_comes_and_goes_between_checkpoints_leaves_nothing() {
    let mut queues = Queues::new();
    for turn in 0..6 {
        queues.live();
        assert_eq!(queues.changed_rows(), 0, "turn {turn}");
        // something stays, so that the ends of the tables move on
        let (queue, mut ops) = queues.new_queue();
        let head = JobHead { alias: None, ..queues.job(queue) };
        ops.push(Op::ParkJob(Box::new(ParkedJob { head, parking: Parking::Time, body: None })));
        queues.commit(ops);
        queues.store().checkpoint_all().expect("writes");
        assert_eq!((queues.changed_rows(), queues.rows(Table::Parked)), (0, turn + 1));
        if turn % 2 == 1 {
            queues.restart();
        }
    }
    for table in [Table::ParkedByLine, Table::ParkedAliases, Table::Dead, Table::DeadIds, Table::JobBodies] {
        assert_eq!(queues.rows(table), 0, "{table:?}");
    }
}

#[test]
fn a_batch_that_no_frame_holds_is_dropped_and_the_store_goes_on() {
    let mut queues = Queues::new();
    let (_, ops) = queues.new_queue();
    queues.commit(ops);
    let id = queues.new_id();
    let body: Arc<[u8]> = vec![7; blocklog::PAYLOAD_BYTES_MAX].into();
    let head = PartitionHead { seq: queues.head.seq + 1, ..queues.head.clone() };
    let next = PartitionHead { seq: queues.head.seq + 2, ..queues.head.clone() };
    let give_these = |head, ops| give(queues.store(), Batch { partition: partition(), head, ops });
    let outcomes = [give_these(head, vec![Op::PutJobBody(id, body)]), give_these(next, Vec::new())];
    settle(queues.store());
    for outcome in outcomes {
        assert!(matches!(outcome.try_recv(), Ok(CommitOutcome::Fenced)), "neither is written");
    }
    assert!(queues.store().failure().is_none());
    queues.live();
}

#[test]
fn queues_that_are_gone_leave_no_row() {
    let mut queues = Queues::new();
    let mut keys = Vec::new();
    for _ in 0..500 {
        let (key, ops) = queues.new_queue();
        keys.push(key);
        queues.commit(ops);
    }
    queues.store().checkpoint_all().expect("writes");
    assert_eq!((queues.rows(Table::Queues), queues.rows(Table::QueueCounts)), (500, 500));
    queues.commit(keys.into_iter().map(Op::DeleteQueue).collect());
    queues.store().checkpoint_all().expect("writes");
    assert_eq!((queues.rows(Table::Queues), queues.rows(Table::QueueCounts)), (0, 0));
}

#[test]
fn a_directory_of_the_first_format_opens_and_is_of_the_newest_afterwards() {
    let mut queues = Queues::new();
    let (tables, row) = {
        queues.store = None;
        let tables = Tables::open(&queues.disk, "tables", 1 << 20).expect("opens");
        let mut row =
            tables.snapshot().and_then(|snapshot| snapshot.directory()).expect("reads").expect("is there");
        row[0] = 1;
        tables.write(|writer| writer.put_directory(&row)).expect("writes");
        (tables, row)
    };
    let directory = DataDirectory::from_row(&row).expect("is read");
    drop(tables);
    queues.restart();
    queues.live();
    let newest = queues.store().tables.snapshot().and_then(|snapshot| snapshot.directory()).expect("reads");
    assert_eq!(newest, Some(directory.to_row()));
    assert_eq!(queues.store().directory, directory);
}

/// The tables of a directory of format 7 with parked jobs. Each was found by its time, in its line,
/// or by its alias.
fn of_format_7(disk: &SimulatedDisk, jobs: &[ParkedJob]) {
    let tables = Tables::open(disk, "tables", 1 << 20).expect("opens");
    let mut row =
        tables.snapshot().and_then(|snapshot| snapshot.directory()).expect("reads").expect("is there");
    row[0] = 7;
    let written = tables.write(|writer| {
        writer.put_directory(&row)?;
        for job in jobs {
            let (id, head) = (key::job(job.head.id), &job.head);
            writer.table(Table::ParkedJobs)?.put(partition(), &id, &job.to_row())?;
            writer.table(Table::ParkedByTime)?.put(partition(), &[&b"bucket"[..], &id].concat(), &[])?;
            if job.parking == Parking::Worker {
                let line = key::place_in_line(head.queue, head.terms.group, (head.visible_at, head.number));
                writer.table(Table::ParkedByLine)?.put(partition(), &line, &id)?;
            }
            if let Some(alias) = head.alias {
                writer.table(Table::ParkedAliases)?.put(partition(), &key::alias(head.queue, alias), &id)?;
            }
        }
        Ok(())
    });
    written.expect("writes");
}

#[test]
fn parked_jobs_of_an_earlier_format_are_moved_however_often_that_is_cut_off() {
    let mut was_cut_off = true;
    for cut_off_at in 0..1_000 {
        if !was_cut_off {
            break;
        }
        let mut queues = Queues::new();
        let (queue, ops) = queues.new_queue();
        queues.commit(ops);
        let body: Arc<[u8]> = Arc::from(&b"{}"[..]);
        let jobs =
            [(Parking::Time, None), (Parking::Time, Some(AliasKey(1))), (Parking::Worker, Some(AliasKey(2)))];
        let jobs = jobs.map(|(parking, alias)| {
            let head = JobHead { alias, ..queues.job(queue) };
            ParkedJob { head, parking, body: Some(Arc::clone(&body)) }
        });
        let counts = QueueCounts { parked_scheduled: 2, parked_ready: 1, dead: 0 };
        queues.commit(vec![Op::PutQueueCounts(queue, counts)]);
        queues.store().checkpoint_all().expect("writes");
        queues.store = None;
        of_format_7(&queues.disk, &jobs);
        queues.disk.fail_write(1 + cut_off_at);
        was_cut_off = open(&queues.disk).is_err();
        queues.disk.crash();
        queues.restart();
        let store = queues.store();
        let view = store.view(partition()).expect("opens");
        for job in &jobs {
            assert_eq!(view.parked_job(job.head.id).expect("reads"), Some(job.clone()), "{cut_off_at}");
        }
        let times = view.parked_times(&ParkedScan::all(JobClock::Engine), 10).expect("reads").found;
        let ids: Vec<_> = times.into_iter().map(|(_, id)| id).collect();
        assert_eq!(ids, [jobs[0].head.id, jobs[1].head.id, jobs[2].head.id], "{cut_off_at}");
        let line = view.parked_line(queue, None, None, false, 10).expect("reads");
        assert_eq!(line, [jobs[2].clone()], "{cut_off_at}");
        assert_eq!(view.parked_alias(queue, AliasKey(1)).expect("reads"), Some(jobs[1].clone()));
        drop(view);
        let mut found = Vec::new();
        store.check_rows(&mut |checked| {
            if let Checked::Found(error) = checked {
                found.push(error.to_string());
            }
        });
        assert_eq!(found, [""; 0], "{cut_off_at}");
        let rows = [Table::ParkedJobs, Table::ParkedByTime].map(|table| queues.rows(table));
        assert_eq!(rows, [0, 0], "{cut_off_at}");
    }
    assert!(!was_cut_off, "one is not cut off");
}

#[test]
fn a_check_says_so_where_more_parked_jobs_are_to_be_moved_than_it_moves_in_memory() {
    let mut queues = Queues::new();
    let (queue, ops) = queues.new_queue();
    queues.commit(ops);
    let body: Arc<[u8]> = Arc::from(&b"{}"[..]);
    let head = JobHead { alias: None, ..queues.job(queue) };
    let parked = ParkedJob { head, parking: Parking::Time, body: Some(body) };
    let counts = QueueCounts { parked_scheduled: 1, ..QueueCounts::default() };
    queues.commit(vec![Op::PutQueueCounts(queue, counts)]);
    queues.store().checkpoint_all().expect("writes");
    queues.store = None;
    of_format_7(&queues.disk, &[parked]);
    let check = |moved_max| {
        let disk: Arc<dyn Disk> = Arc::new(queues.disk.copy_of_durable(1));
        check_disk(&disk, &crate::BlockStorages::default(), moved_max, &mut |_| {})
    };
    let refused = check(0).expect_err("its rows are not looked at").to_string();
    assert!(
        refused.contains("1 parked jobs") && refused.contains("start the server on it once"),
        "{refused}"
    );
    assert_eq!(check(1).expect("is looked at"), 0);
}
