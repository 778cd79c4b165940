//! Checks: a sound directory is found sound and left as it is, and whatever does not agree is told
//! with its place.

use std::collections::BTreeMap;
use std::path::Path;

use base::random::Random;
use base::{Attended, ClientId, DeviceId, EntityId, Incarnation, Kind, Value, WayIn};
use blocklog::RealDisk;
use records::{
    AliasKey, Attempt, AttemptDetail, Client, Connection, CountedOf, CountsKey, Delivery, DeliveryKey,
    DeliveryProgress, DeliveryStatus, DeviceProfile, DeviceSlot, DeviceState, Event, EventKind,
    GatheredReport, GatheredReports, HeadState, HourlyCounts, JobHead, JobId, JobTerms, Metric,
    NotificationState, Op, PaceOverride, PartitionHead, Quarantined, QueueKey, Sign, SignReading,
};

mod campaigns;
mod commands;
mod job_bodies;
mod missing;
mod operations;
mod portals;
mod queues;
mod rollouts;
mod streams;

use super::*;
use crate::codec::{Stored, key};
use crate::embedded::backup::piece::{HEADER_BYTES, RowsRead};
use crate::embedded::open::TABLES;
use crate::embedded::tables::{Table, Tables, TablesTransaction};
use crate::key_range::KeyRange;
use crate::table::TablePartitions;

const PARTITION: PartitionId = PartitionId(0);
const CLIENT: Incarnation = Incarnation(1);
const SLOT: DeviceSlot = DeviceSlot(0);
const JOB: JobId = JobId([9; 16]);

fn one_partition() -> EmbeddedOptions {
    EmbeddedOptions { partitions: 1, ..small() }
}

fn open_real(directory: &Path) -> Result<EmbeddedStore, StoreError> {
    let disk = RealDisk::open_dir(directory, false).expect("is there");
    EmbeddedStore::open(Arc::new(disk), one_partition())
}

fn id(number: u32) -> EntityId {
    EntityId::derive(Lineage(1), 5, Incarnation(1), Timestamp(1_000), number, &[])
}

fn device(text: &str, slot: u32) -> DeviceProfile {
    DeviceProfile {
        id: DeviceId::new(text).expect("an id"),
        incarnation: Incarnation(u64::from(slot)),
        slot: DeviceSlot(slot),
        kind: Kind::lock(),
        address: None,
        labels: vec![("site".to_owned(), "12".to_owned())],
        report_interval_ms: None,
        pace: PaceOverride::default(),
        registered_at: Timestamp(1),
        expected_from: Attended(2),
        clients: vec![CLIENT],
    }
}

fn client() -> Client {
    Client {
        id: ClientId::new("gate").expect("an id"),
        incarnation: CLIENT,
        name: "Gate".to_owned(),
        url: "http://gate.example/".to_owned(),
        secret: vec![1; 24],
        previous_secret: None,
        enabled: true,
        notices: false,
        created_at: Timestamp(1),
    }
}

fn told() -> Vec<Op> {
    let progress = DeliveryProgress {
        status: DeliveryStatus::Pending,
        attempts: 1,
        next_attempt_at: Some(Timestamp(5)),
    };
    let delivery = Delivery {
        id: id(1),
        slot: SLOT,
        device: device("A", 0).id,
        client: CLIENT,
        client_id: client().id,
        kind: EventKind::Changed,
        sequence: 1,
        progress,
        resend_of: None,
    };
    let state = NotificationState {
        slot: SLOT,
        client: CLIENT,
        untold: vec![EventKind::Changed],
        previous: None,
        skipped: 0,
        pending: Some(records::PendingDelivery { delivery: id(1), attempts: 1 }),
        in_flight: None,
        failed: None,
    };
    let job = JobHead {
        id: JOB,
        queue: QueueKey(CLIENT.0),
        number: 1,
        run_at: Timestamp(5),
        visible_at: Timestamp(6),
        attempt: 1,
        tries: 10,
        state: HeadState::Waiting,
        alias: Some(AliasKey(u128::from(SLOT.0))),
        terms: JobTerms::default(),
        successor: None,
    };
    let attempt = Attempt {
        delivery: DeliveryKey::from(id(1)),
        number: 1,
        at: Timestamp(1_001),
        duration_ms: 4,
        status_code: Some(500),
        error: None,
        detail: AttemptDetail::default(),
    };
    vec![
        Op::PutDelivery(Box::new(delivery)),
        Op::PutAttempt(Box::new(attempt)),
        Op::PutNotificationState(Box::new(state)),
        Op::PutJob(Box::new(job)),
        Op::PutJobBody(JOB, Arc::from(&b"{}"[..])),
    ]
}

/// Something of everything, all of which agrees.
fn everything() -> Vec<Op> {
    let state = DeviceState {
        value: Some(Value::Number(1.0)),
        changed_at: Some(Timestamp(3)),
        connection: Connection::Online,
        sequence: 1,
    };
    let event = Event {
        id: id(0),
        slot: SLOT,
        device: device("A", 0).id,
        kind: EventKind::Changed,
        sequence: 1,
        value: Some(Value::Number(1.0)),
        previous: None,
    };
    let refused = Quarantined {
        id: id(2),
        way: WayIn::Mqtt,
        topic: Some("x".to_owned()),
        device: None,
        code: "bad_payload".to_owned(),
        detail: "it is not JSON".to_owned(),
        payload: b"{".to_vec(),
        cut: false,
    };
    let count = CountsKey { day: 0, of: CountedOf::All, metric: Metric::Reports };
    let mut ops = vec![
        Op::PutDevice(Box::new(device("A", 0))),
        Op::PutDevice(Box::new(device("B", 1))),
        Op::PutDevice(Box::new(device("C", 2))),
        Op::PutState(SLOT, state),
        Op::PutReportIds(SLOT, Box::new([1, 2].into_iter().collect())),
        Op::PutEvent(Box::new(event)),
        Op::PutQuarantined(Box::new(refused)),
        Op::PutCounts(count, Box::new(HourlyCounts([1; 24]))),
        Op::DeleteDevice(device("C", 2).id, DeviceSlot(2)),
    ];
    ops.extend((1..=300).map(|readings| sign(readings % 2, readings)));
    ops.extend(told());
    ops.push(gathered(1));
    ops.push(gathered(3));
    ops
}

fn gathered(first: u64) -> Op {
    let report = GatheredReport { device: device("A", 0).id, ts: None, value: Value::Number(1.0) };
    let reports = vec![report.clone(), report];
    let (gather, lineage, received_at) = (Incarnation(9), Lineage(1), Timestamp(1_000));
    Op::PutGatheredReports(Box::new(GatheredReports { gather, first, lineage, received_at, reports }))
}

fn sign(slot: u32, readings: u32) -> Op {
    let reading = SignReading { ts: None, value: Value::Number(f64::from(readings) * 0.37), changed: true };
    let (slot, way) = (DeviceSlot(slot), WayIn::Http);
    Op::Sign(Sign { slot, way, readings, newest_ts: None, reading: Some(reading) })
}

fn put(store: &EmbeddedStore, partition: PartitionId, seq: u64, ops: Vec<Op>) {
    let head = PartitionHead {
        seq,
        now: Timestamp(2_000),
        next_slot: 3,
        next_incarnation: 3,
        next_dead: 2,
        next_fence: 2,
        ..PartitionHead::default()
    };
    let outcome = give(store, Batch { partition, head, ops });
    settle(store);
    assert!(matches!(outcome.try_recv(), Ok(CommitOutcome::Durable)));
}

/// A directory with something in every table, and something that is only in the log.
fn directory() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open_real(directory.path()).expect("opens");
    put(&store, PartitionId::REGISTRY, 1, vec![Op::PutClient(Box::new(client()))]);
    put(&store, PartitionId::REGISTRY, 2, rollouts::everything());
    put(&store, PartitionId::REGISTRY, 3, operations::everything());
    put(&store, PartitionId::REGISTRY, 4, portals::everything());
    put(&store, PartitionId::CAMPAIGNS, 1, campaigns::everything());
    put(&store, PARTITION, 1, everything());
    put(&store, PARTITION, 2, commands::everything());
    put(&store, queues::PARTITION, 1, queues::everything());
    streams::files(&store);
    put(&store, streams::PARTITION, 1, streams::everything());
    store.checkpoint_all().expect("writes");
    put(&store, PARTITION, 3, vec![sign(0, 301)]);
    store.idle_step();
    directory
}

/// What a check found, and how many rows there were.
fn check(directory: &Path) -> (Vec<String>, BTreeMap<&'static str, u64>) {
    let (mut found, mut counts) = (Vec::new(), BTreeMap::new());
    let mut tell = |told| match told {
        Checked::Found(error) => found.push(error.to_string()),
        Checked::Counted(what, count) => drop(counts.insert(what, count)),
        Checked::Noted(_) => {}
    };
    let findings =
        check_directory(directory, &crate::BlockStorages::default(), &mut tell).expect("can be looked at");
    assert_eq!(findings, found.len() as u64);
    (found, counts)
}

fn files(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let read = |entry: std::io::Result<std::fs::DirEntry>| {
        let path = entry.expect("is listed").path();
        (path.display().to_string(), std::fs::read(&path).expect("is read"))
    };
    directory.read_dir().expect("lists").map(read).collect()
}

#[test]
fn a_sound_directory_is_found_sound_and_stays_as_it_is() {
    let directory = directory();
    let before = files(directory.path());
    let (found, counts) = check(directory.path());
    assert_eq!(found, Vec::<String>::new());
    assert!(files(directory.path()) == before, "nothing was changed");
    for (what, expect) in [
        ("devices", 2),
        ("readings", 301),
        ("clients", 2),
        ("pairs", 1),
        ("deleted_devices", 1),
        ("events", 1),
    ] {
        assert_eq!(counts[what], expect, "{what}");
    }
    for table in Table::in_use() {
        assert!(counts[table.name()] > 0, "{table:?} has something to be checked");
    }
}

#[test]
fn a_directory_that_is_in_use_or_none_is_not_looked_at() {
    let directory = directory();
    let server = open_real(directory.path()).expect("opens");
    let refused = |path: &Path| {
        check_directory(path, &crate::BlockStorages::default(), &mut |_| {})
            .expect_err("is refused")
            .to_string()
    };
    assert!(refused(directory.path()).contains("in use"));
    drop(server);
    let empty = tempfile::tempdir().expect("a directory");
    assert!(refused(empty.path()).contains("no data directory"));
}

/// A partition that has rows in the table.
fn partition_of(table: Table) -> PartitionId {
    match table.partitions() {
        TablePartitions::Devices => PARTITION,
        TablePartitions::Registry => PartitionId::REGISTRY,
        TablePartitions::Campaigns => PartitionId::CAMPAIGNS,
        TablePartitions::Streams => streams::PARTITION,
        TablePartitions::Queues | TablePartitions::All | TablePartitions::Nobody => queues::PARTITION,
    }
}

/// Changes the tables behind the store's back.
fn change(directory: &Path, change: impl FnOnce(&TablesTransaction<'_>) -> Result<(), StoreError>) {
    let store = open_real(directory).expect("opens");
    store.checkpoint_all().expect("writes");
    drop(store);
    let disk = RealDisk::open_dir(directory, false).expect("is there");
    let tables = Tables::open(&disk, TABLES, 1 << 20).expect("opens");
    tables.write(change).expect("writes");
}

#[test]
fn a_row_that_is_missing_is_told_by_what_names_it() {
    let feed_entry = |number| key::feed_entry(DeliveryKey::from(id(number)));
    let cases = [
        (Table::Devices, key::device(&device("A", 0).id), "no device has slot 0"),
        (Table::DevicesByClient, key::link(CLIENT, b"A"), "its row in devices_by_client is missing"),
        (Table::Clients, key::client(&client().id), ""),
        (Table::Events, feed_entry(0), "what it names is not in events"),
        (Table::Deliveries, feed_entry(1), "its delivery is missing"),
        (Table::Progress, feed_entry(1), "its row in delivery_progress is missing"),
        (
            Table::NotificationStates,
            key::notification_state(SLOT, CLIENT),
            "its pair of device and client is missing",
        ),
        (Table::JobHeads, key::job(JOB), "its row in job_heads is missing"),
    ];
    for (table, key, expect) in cases {
        let directory = directory();
        let partition = if table == Table::Clients { PartitionId::REGISTRY } else { PARTITION };
        change(directory.path(), |writer| {
            let mut rows = writer.table(table)?;
            assert!(rows.get(partition, &key)?.is_some(), "{table:?} has it");
            rows.remove(partition, &key)
        });
        let (found, _) = check(directory.path());
        // a client that is gone may have been deleted, and its links not swept yet
        assert_eq!(found.is_empty(), table == Table::Clients, "{table:?}: {found:?}");
        let told = |text: &String| text.contains(expect) && text.contains(TABLES);
        assert!(found.is_empty() || found.iter().any(told), "{table:?}: {found:?}");
    }
}

#[test]
fn a_row_that_nothing_asks_for_is_told() {
    let cases: [(Table, crate::codec::key::TableKey, &str); 4] = [
        (Table::DevicesByClient, key::link(CLIENT, b"Z"), "what it names is not in devices"),
        (Table::DevicesByClient, key::link(Incarnation(2), b"A"), "what it names stands elsewhere"),
        (Table::DevicesByKind, key::kind(&Kind::new("meter").expect("a kind"), b"A"), "stands elsewhere"),
        (Table::Deleted, key::slot(DeviceSlot(1)), "slot 1 is that of a device"),
    ];
    for (table, key, expect) in cases {
        let directory = directory();
        change(directory.path(), |writer| writer.table(table)?.put(PARTITION, &key, &[]));
        let (found, _) = check(directory.path());
        assert!(found.len() == 1 && found[0].contains(expect), "{table:?}: {found:?}");
    }
}

#[test]
fn blobs_and_their_index_name_each_other_and_agree() {
    for (table, expect) in
        [(Table::Blobs, "a block of readings"), (Table::BlobIndex, "reading_blob_index is missing")]
    {
        let directory = directory();
        change(directory.path(), |writer| {
            let mut rows = writer.table(table)?;
            let first = rows.first(PARTITION, &KeyRange::all(), 1, |_, _| Ok(true))?;
            rows.remove(PARTITION, &first[0].0)
        });
        let (found, _) = check(directory.path());
        assert!(found.len() == 1 && found[0].contains(expect), "{table:?}: {found:?}");
    }
}

#[test]
fn a_row_that_makes_no_sense_is_told_in_every_table() {
    let marks = [
        Table::DevicesByClient,
        Table::DevicesByLabel,
        Table::DevicesByKind,
        Table::EventsByDevice,
        Table::DeliveriesByClient,
        Table::DeliveriesByDevice,
        Table::Deleted,
        Table::AnswersByTime,
        Table::CommandsByDevice,
        Table::MembersByStatus,
        Table::SlotsByCampaign,
        Table::RunningTasks,
        Table::UntoldTasks,
        Table::EndedTasks,
        Table::SpansByBlock,
        Table::PushedSubscriptions,
        // told by the row of their blob
        Table::Blobs,
        // bytes as they were given
        Table::JobBodies,
    ];
    for table in Table::in_use().filter(|table| !marks.contains(table)) {
        let directory = directory();
        let partition = partition_of(table);
        let mut place = String::new();
        change(directory.path(), |writer| {
            let mut rows = writer.table(table)?;
            let first = rows.first(partition, &KeyRange::all(), 1, |_, _| Ok(true))?;
            let (key, row) = &first[0];
            place = key.iter().map(|byte| format!("{byte:02x}")).collect();
            rows.put(partition, key, &row[..row.len() - 1])
        });
        let (found, _) = check(directory.path());
        let told = |text: &String| text.contains(TABLES) && text.contains(&place);
        assert!(found.iter().any(told), "{table:?} {place}: {found:?}");
    }
}

/// All rows, as a backup has them; or why there are none.
fn contents(directory: &Path) -> Result<Vec<Vec<u8>>, String> {
    let store = open_real(directory).map_err(|error| error.to_string())?;
    let mut backup = store.backup().map_err(|error| error.to_string())?;
    let mut bodies = Vec::new();
    while let Some(piece) = backup.next_piece().map_err(|error| error.to_string())? {
        let body = &piece[HEADER_BYTES..];
        // what is no piece of rows, and the heads of partitions, say where in the log it was cut
        if RowsRead::decode(body).is_ok_and(|rows| rows.table != Table::Heads) {
            bodies.push(body.to_vec());
        }
    }
    Ok(bodies)
}

/// Flips, zeros and cuts: found, or without effect.
#[test]
fn damage_is_found_or_has_no_effect() {
    let source = directory();
    let whole = files(source.path());
    let expect = contents(source.path()).expect("is read");
    let mut random = Random::new(11);
    let (mut found, mut harmless) = (0, 0);
    for (path, bytes) in whole.iter().filter(|(_, bytes)| !bytes.is_empty()) {
        let name = Path::new(path).file_name().and_then(|name| name.to_str()).expect("a name");
        for turn in 0..90 {
            let copy = tempfile::tempdir().expect("a directory");
            for (other, bytes) in &whole {
                let name = Path::new(other).file_name().expect("a name");
                std::fs::write(copy.path().join(name), bytes).expect("writes");
            }
            let what = damage(&mut random, turn, bytes, &copy.path().join(name));
            let (told, _) = check(copy.path());
            match (told.first(), contents(copy.path())) {
                (Some(text), _) => {
                    found += 1;
                    assert!(text.contains(name) || text.contains("log"), "{name} {what}: {text}");
                }
                (None, Ok(rows)) => {
                    harmless += 1;
                    assert!(rows == expect || is_shorter_log(name, &what), "{name} {what}: other rows");
                }
                (None, Err(error)) => panic!("{name} {what}: not found by the check, but {error}"),
            }
        }
    }
    assert!(found > 40 && harmless > 10, "{found} found, {harmless} harmless");
}

/// Changes a file in place; what was done to it.
fn damage(random: &mut Random, turn: u64, bytes: &[u8], path: &Path) -> String {
    let used = bytes.iter().rposition(|byte| *byte != 0).map_or(1, |last| last + 1) as u64;
    let at = random.below(used) as usize;
    let mut changed = bytes.to_vec();
    let what = match turn % 4 {
        0 => {
            changed.truncate(at);
            format!("cut at {at}")
        }
        1 => {
            let end = (at + 512).min(changed.len());
            changed[at..end].fill(0);
            format!("zeros at {at}")
        }
        _ => {
            changed[at] ^= 1 << random.below(8);
            format!("flipped at {at}")
        }
    };
    std::fs::write(path, changed).expect("writes");
    what
}

/// What was committed since the last checkpoint, and nothing else, is only in the log: where that
/// ends no file but it says.
fn is_shorter_log(name: &str, what: &str) -> bool {
    name.contains("log") && !what.starts_with("flipped")
}
