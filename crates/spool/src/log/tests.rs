//! The log against a naive model, on a disk that fails in every way that disks do.

use std::collections::BTreeMap;

use blocklog::SimulatedDisk;
use proptest::prelude::*;

use super::*;
use crate::record::{FollowPosition, SpoolEntry};

const BYTES_MAX: u64 = 4 * 1_024 * 1_024;
const ALL: ReadLimits = ReadLimits { records: usize::MAX, bytes: usize::MAX };

fn options(bytes_max: u64, when_full: SpoolFullChoice) -> SpoolLogOptions {
    SpoolLogOptions { bytes_max, when_full, place: 1, earlier_place: 9 }
}

fn open_with(disk: &SimulatedDisk, options: SpoolLogOptions) -> (Arc<SpoolLog>, SpoolWriter) {
    let damaged = Arc::new(SimulatedDisk::new(0));
    SpoolLog::open(Arc::new(disk.clone()), damaged, options).expect("it always starts")
}

fn open(disk: &SimulatedDisk) -> (Arc<SpoolLog>, SpoolWriter) {
    open_with(disk, options(BYTES_MAX, SpoolFullChoice::Reject))
}

fn queue(number: usize) -> Destination {
    Destination::queue("ns", &format!("q{number}")).expect("right names")
}

fn entry(to: usize, body: &str) -> SpoolEntry {
    SpoolEntry { destination: queue(to), items: 1, key: None, follow: None, body: body.to_owned().into() }
}

fn append(writer: &mut SpoolWriter, to: usize, body: &str) -> Result<u64, AppendError> {
    writer.commit(vec![vec![entry(to, body)]], Timestamp(1)).remove(0)
}

/// What of a destination waits, in order.
fn waiting(log: &SpoolLog, of: usize) -> Vec<String> {
    let read = log.read(&queue(of), None, ALL).expect("readable");
    read.iter().map(|stored| String::from_utf8_lossy(&stored.record.entry.body).into_owned()).collect()
}

fn finish(log: &SpoolLog, of: usize, count: usize) -> usize {
    let limits = ReadLimits { records: count, ..ALL };
    let read = log.read(&queue(of), None, limits).expect("readable");
    log.done(&queue(of), &read, 0);
    read.len()
}

#[test]
fn what_is_appended_waits_in_order_until_it_is_done() {
    let disk = SimulatedDisk::new(1);
    let (log, mut writer) = open(&disk);
    for number in 0..10 {
        assert_eq!(append(&mut writer, number % 2, &number.to_string()), Ok(1));
    }
    assert_eq!(waiting(&log, 0), ["0", "2", "4", "6", "8"]);
    assert_eq!(finish(&log, 0, 2), 2);
    log.save().expect("saved");
    drop((log, writer));
    disk.crash();
    let (log, mut writer) = open(&disk);
    assert_eq!(waiting(&log, 0), ["4", "6", "8"]);
    assert_eq!(waiting(&log, 1), ["1", "3", "5", "7", "9"]);
    assert_eq!((log.summary().waiting, log.summary().totals.forwarded), (8, 2));
    append(&mut writer, 0, "10").expect("room");
    assert_eq!(waiting(&log, 0), ["4", "6", "8", "10"]);
}

#[test]
fn a_number_is_never_given_twice_and_another_place_has_another_identity() {
    let disk = SimulatedDisk::new(1);
    let mut seen = BTreeMap::new();
    let mut newest = 0;
    for place in [1, 1, 2] {
        let (log, mut writer) =
            open_with(&disk, SpoolLogOptions { place, ..options(BYTES_MAX, SpoolFullChoice::Reject) });
        append(&mut writer, 0, "x").expect("room");
        let read = log.read(&queue(0), None, ALL).expect("readable");
        let record = &read.last().expect("there is one").record;
        assert!(record.number > newest, "{} after {newest}", record.number);
        newest = record.number;
        *seen.entry(record.identity).or_insert(0) += 1;
        assert_eq!(finish(&log, 0, 1), 1);
        log.tidy_up(true).expect("tidied");
        assert_eq!(log.summary().disk_bytes, 0);
    }
    assert_eq!(seen.into_values().max(), Some(2), "the same place keeps its identity");
}

/// The identity under which each record of a destination waits.
fn identities(log: &SpoolLog, of: usize) -> Vec<u64> {
    let read = log.read(&queue(of), None, ALL).expect("readable");
    read.iter().map(|stored| stored.record.identity).collect()
}

#[test]
fn a_new_identity_is_drawn_once_and_changes_nothing_that_was_accepted() {
    let disk = SimulatedDisk::new(1);
    let (log, mut writer) = open(&disk);
    for number in 0..3 {
        append(&mut writer, 0, &number.to_string()).expect("room");
    }
    assert_eq!(finish(&log, 0, 2), 2);
    log.save().expect("saved");
    let before = log.identity();
    drop((log, writer));
    disk.open(NEW_IDENTITY_FILE, true).expect("made");
    disk.sync_directory().expect("synced");
    let (log, mut writer) = open(&disk);
    let identity = log.identity();
    assert_ne!(identity, before);
    append(&mut writer, 0, "3").expect("room");
    assert_eq!(waiting(&log, 0), ["2", "3"], "what is done does not come again");
    assert_eq!(identities(&log, 0), [before, identity]);
    drop((log, writer));
    disk.crash();
    let (log, _writer) = open(&disk);
    assert_eq!((log.identity(), identities(&log, 0)), (identity, vec![before, identity]), "once only");
}

#[test]
fn the_place_of_an_earlier_state_is_known_by_its_earlier_hash() {
    let options = options(BYTES_MAX, SpoolFullChoice::Reject);
    for (place, has_earlier_place, expect) in
        [(1, false, true), (9, false, false), (9, true, true), (1, true, false), (5, true, false)]
    {
        let state = SpoolState { place, has_earlier_place, ..SpoolState::default() };
        assert_eq!(options.is_place_of(&state), expect, "{place} {has_earlier_place}");
    }
}

#[test]
fn where_it_is_full_it_refuses_and_has_room_again_once_something_is_done() {
    let (log, mut writer) = open_with(&SimulatedDisk::new(1), options(40_000, SpoolFullChoice::Reject));
    let body = "x".repeat(900);
    let mut taken = 0;
    while append(&mut writer, taken % 2, &body).is_ok() {
        taken += 1;
    }
    assert!((35..45).contains(&taken), "{taken}");
    assert_eq!(append(&mut writer, 0, &body), Err(AppendError::Full));
    // One destination goes on; the other one holds up only itself.
    for _ in 0..50 {
        assert!(finish(&log, 1, 10) >= 5);
        let again = (0..10).take_while(|_| append(&mut writer, 1, &body).is_ok()).count();
        assert!(again >= 5, "{again}");
    }
    assert_eq!(waiting(&log, 0).len(), taken.div_ceil(2));
    assert!(log.summary().disk_bytes <= 40_000);
}

#[test]
fn where_it_is_full_the_oldest_may_go() {
    let (log, mut writer) = open_with(&SimulatedDisk::new(1), options(64_000, SpoolFullChoice::DropOldest));
    for number in 0..1_000 {
        append(&mut writer, 0, &format!("{number:0900}")).expect("there is always room");
    }
    let left = waiting(&log, 0);
    let dropped = log.summary().totals.dropped as usize;
    assert_eq!(left.len() + dropped, 1_000);
    let numbers: Vec<usize> = left.iter().map(|body| body.parse().expect("a number")).collect();
    assert_eq!(numbers, (dropped..1_000).collect::<Vec<_>>());
    assert!(left.len() > 30, "{}", left.len());
    assert_eq!(append(&mut writer, 0, &"x".repeat(70_000)), Err(AppendError::Full));
}

#[test]
fn a_call_of_which_the_oldest_went_is_known_after_a_restart_too() {
    let disk = SimulatedDisk::new(1);
    let drop_oldest = options(64_000, SpoolFullChoice::DropOldest);
    let (log, mut writer) = open_with(&disk, drop_oldest);
    let body = "x".repeat(900);
    for _ in 0..40 {
        append(&mut writer, 0, &body).expect("there is room");
    }
    let read = log.read(&queue(0), None, ALL).expect("readable");
    let number = |stored: Option<&StoredRecord>| stored.expect("there are some").record.number;
    let (first, end) = (number(read.first()), number(read.last()));
    let call = CallInFlight { end, begun: Timestamp(1), records: read.len() as u32 };
    assert!(log.begin_call(&queue(0), first, call));
    while log.summary().totals.dropped == 0 {
        append(&mut writer, 1, &body).expect("there is always room");
    }
    assert_eq!(log.in_flight(&queue(0)), Some(call));
    assert!(!log.begin_call(&queue(0), first, call), "its first records are gone");
    drop((log, writer));
    disk.crash();
    let (log, _writer) = open_with(&disk, drop_oldest);
    assert_eq!(log.in_flight(&queue(0)), Some(call));
    let read = log.read(&queue(0), None, ALL).expect("readable");
    let (dropped, left) = (log.summary().totals.dropped, read.len() as u64);
    assert_eq!(dropped + left, u64::from(call.records));
    assert_eq!(log.give_up(&queue(0), &read), left);
    assert_eq!(log.give_up(&queue(0), &read), 0, "once only");
    assert_eq!((log.summary().totals.dropped, log.in_flight(&queue(0))), (dropped + left, None));
}

#[test]
fn a_full_disk_refuses_and_goes_on_when_there_is_room() {
    let disk = SimulatedDisk::new(1);
    let (log, mut writer) = open(&disk);
    append(&mut writer, 0, "first").expect("room");
    disk.set_capacity(Some(50_000));
    let body = "x".repeat(5_000);
    let mut taken = 1;
    while append(&mut writer, 0, &body).is_ok() {
        taken += 1;
    }
    assert!(matches!(append(&mut writer, 0, &body), Err(AppendError::Disk(_))));
    drop((log, writer));
    disk.crash();
    let (log, mut writer) = open(&disk);
    assert_eq!(waiting(&log, 0).len(), taken);
    finish(&log, 0, taken);
    log.tidy_up(true).expect("tidied");
    append(&mut writer, 0, "last").expect("room again");
    assert_eq!(waiting(&log, 0), ["last"]);
}

#[test]
fn so_many_destinations_and_no_more_may_wait() {
    let (log, mut writer) = open(&SimulatedDisk::new(1));
    let max = crate::index::DESTINATIONS_MAX;
    let all = (0..max).map(|number| entry(number, "x")).collect();
    assert_eq!(writer.commit(vec![all], Timestamp(1)), [Ok(max as u64)]);
    assert_eq!(append(&mut writer, max, "x"), Err(AppendError::TooManyDestinations));
    finish(&log, 7, 1);
    append(&mut writer, max, "x").expect("there is room");
}

#[test]
fn how_far_a_file_was_followed_is_known_with_its_lines() {
    let disk = SimulatedDisk::new(1);
    let follow = FollowPosition { file: 1, offset: 7, head_bytes: 2, head_checksum: 3 };
    let line = SpoolEntry { follow: Some(follow), ..entry(0, "\"line\"") };
    let (log, mut writer) = open(&disk);
    writer.commit(vec![vec![line]], Timestamp(1)).remove(0).expect("room");
    assert_eq!(log.followed(), Some(follow));
    drop((log, writer));
    disk.crash();
    let (log, writer) = open(&disk);
    assert_eq!(log.followed(), Some(follow));
    finish(&log, 0, 1);
    log.tidy_up(true).expect("tidied");
    drop((log, writer));
    disk.crash();
    assert_eq!(open(&disk).0.followed(), Some(follow));
}

/// What happens to a spool.
#[derive(Clone, Debug)]
enum Event {
    Append { to: usize, count: usize, bytes: usize },
    Finish { of: usize, count: usize },
    Save,
    TidyUp,
    Crash,
    FailWrite(u64),
    FailSync(u64),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        6 => (0_usize..3, 1_usize..6, 0_usize..3_000).prop_map(|(to, count, bytes)| Event::Append { to, count, bytes }),
        4 => (0_usize..3, 1_usize..9).prop_map(|(of, count)| Event::Finish { of, count }),
        1 => Just(Event::Save),
        1 => Just(Event::TidyUp),
        1 => Just(Event::Crash),
        1 => (1_u64..4).prop_map(Event::FailWrite),
        1 => (1_u64..4).prop_map(Event::FailSync),
    ]
}

/// A spool beside lists of what waits: what has to be there, and what may be there beside it.
struct SpoolAndModel {
    disk: SimulatedDisk,
    log: Arc<SpoolLog>,
    writer: SpoolWriter,
    appended: u64,
    /// By destination: number, and whether its request was accepted.
    model: [Vec<(u64, bool)>; 3],
    /// Done since the state was saved: it may come again.
    done: [Vec<u64>; 3],
}

impl SpoolAndModel {
    fn new(seed: u64) -> Self {
        let disk = SimulatedDisk::new(seed);
        let (log, writer) = open(&disk);
        Self { disk, log, writer, appended: 0, model: Default::default(), done: Default::default() }
    }

    fn happen(&mut self, event: &Event) {
        match *event {
            Event::Append { to, count, bytes } => {
                let numbers: Vec<u64> = (0..count as u64).map(|nth| self.appended + nth).collect();
                self.appended += count as u64;
                let body = |number: &u64| format!("{number} {}", "x".repeat(bytes));
                let request = numbers.iter().map(|number| entry(to, &body(number))).collect();
                let accepted = self.writer.commit(vec![request], Timestamp(1)).remove(0).is_ok();
                self.model[to].extend(numbers.into_iter().map(|number| (number, accepted)));
            }
            Event::Finish { of, count } => {
                let limits = ReadLimits { records: count, ..ALL };
                let Ok(read) = self.log.read(&queue(of), None, limits) else { return };
                self.log.done(&queue(of), &read, 0);
                for stored in &read {
                    let number = number_of(&String::from_utf8_lossy(&stored.record.entry.body));
                    // What was never answered well before it is not handed out any more, and may
                    // come back as long as none of it is saved.
                    let is_gone = |(other, accepted): &mut (u64, bool)| {
                        *other == number || (*other < number && !*accepted)
                    };
                    let gone = self.model[of].extract_if(.., is_gone);
                    self.done[of].extend(gone.map(|(gone, _)| gone));
                }
            }
            Event::Save if self.log.save().is_ok() => self.done = Default::default(),
            Event::TidyUp if self.log.tidy_up(true).is_ok() => self.done = Default::default(),
            Event::Save | Event::TidyUp => {}
            Event::Crash => {
                self.disk.crash();
                (self.log, self.writer) = open(&self.disk);
                // What was done and not saved waits again, perhaps.
                for (model, done) in self.model.iter_mut().zip(std::mem::take(&mut self.done)) {
                    model.extend(done.into_iter().map(|number| (number, false)));
                    model.sort_unstable();
                }
            }
            Event::FailWrite(nth) => self.disk.fail_write(nth),
            Event::FailSync(nth) => self.disk.fail_sync(nth),
        }
    }

    /// Everything accepted is there, in order, once; nothing else is but what was never answered
    /// well, or done and not saved yet.
    fn check(&self) {
        for of in 0..3 {
            let there: Vec<u64> = waiting(&self.log, of).iter().map(|body| number_of(body)).collect();
            assert!(there.is_sorted_by(|a, b| a < b), "in order and once: {there:?}");
            let expected = self.model[of].iter().filter(|(_, accepted)| *accepted).map(|(number, _)| *number);
            let lost: Vec<u64> = expected.filter(|number| !there.contains(number)).collect();
            assert!(lost.is_empty(), "{of}: {lost:?} are lost of {there:?}");
            let known = |number: &&u64| {
                self.model[of].iter().any(|(known, _)| known == *number) || self.done[of].contains(number)
            };
            let foreign: Vec<_> = there.iter().filter(|number| !known(number)).collect();
            assert!(foreign.is_empty(), "{of}: {foreign:?} should not be there");
        }
    }
}

fn number_of(body: &str) -> u64 {
    body.split(' ').next().and_then(|number| number.parse().ok()).expect("a body of this test")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn crashes_and_failing_writes_lose_nothing_that_was_accepted(
        seed: u64, events in prop::collection::vec(event(), 1..40),
    ) {
        let mut spool = SpoolAndModel::new(seed);
        for event in &events {
            spool.happen(event);
        }
        spool.happen(&Event::Crash);
        spool.check();
    }

    /// Whatever happens to a file while the spool is stopped, it starts, and records that are whole
    /// are there.
    #[test]
    fn damaged_files_cost_what_they_hold(
        counts in prop::collection::vec(1_usize..30, 1..4),
        hits in prop::collection::vec((any::<u64>(), any::<u64>(), 1_u8..), 1..5),
        cut in prop::option::of((any::<u64>(), any::<u64>())),
    ) {
        let disk = SimulatedDisk::new(1);
        let mut appended = 0;
        // Each life has a segment of its own.
        for count in &counts {
            let (_log, mut writer) = open(&disk);
            for _ in 0..*count {
                append(&mut writer, 0, &format!("{appended} {}", "x".repeat(100))).expect("room");
                appended += 1;
            }
        }
        let mut names = disk.list().expect("listed");
        names.sort();
        let mut hit_records = 0;
        for (which, at, xor) in hits {
            let name = &names[(which % names.len() as u64) as usize];
            let length = disk.file_len(name).expect("it is there");
            if length > 0 {
                disk.corrupt(name, at % length, xor);
                hit_records += usize::from(first_of(name).is_some());
            }
        }
        let mut cut_records = 0;
        if let Some((which, at)) = cut {
            let name = &names[(which % names.len() as u64) as usize];
            let length = disk.file_len(name).expect("it is there");
            let file = disk.open(name, false).expect("it is there");
            let left = at % (length + 1);
            file.set_len(left).expect("cut");
            // Records here are over 150 bytes.
            cut_records = if first_of(name).is_some() { ((length - left) / 150 + 1) as usize } else { 0 };
        }
        let (log, mut writer) = open(&disk);
        let there: Vec<u64> = waiting(&log, 0).iter().map(|body| number_of(body)).collect();
        prop_assert!(there.is_sorted_by(|a, b| a < b), "{:?}", there);
        prop_assert!(there.len() + hit_records + cut_records >= appended, "{} of {appended}", there.len());
        prop_assert_eq!(log.summary().waiting, there.len() as u64);
        append(&mut writer, 0, "999999 new").expect("it goes on");
        prop_assert_eq!(waiting(&log, 0).len(), there.len() + 1);
        drop((log, writer));
        // What was damaged is set aside: it is counted once.
        let before = open(&disk).0.summary().totals.damaged;
        prop_assert_eq!(open(&disk).0.summary().totals.damaged, before);
    }
}

#[test]
fn a_record_that_rots_while_it_waits_is_set_aside_and_the_rest_goes_on() {
    let disk = SimulatedDisk::new(1);
    let (log, mut writer) = open(&disk);
    for number in 0..9 {
        append(&mut writer, number % 2, &format!("body of {number}")).expect("room");
    }
    let name = disk.list().expect("listed").into_iter().find(|name| first_of(name).is_some()).expect("one");
    let length = disk.file_len(&name).expect("it is there");
    disk.corrupt(&name, length / 2, 1);
    let left = waiting(&log, 0).len() + waiting(&log, 1).len();
    let summary = log.summary();
    assert_eq!((left, summary.waiting, summary.totals.damaged), (8, 8, 1));
    append(&mut writer, 0, "more").expect("it goes on");
    assert_eq!(waiting(&log, 0).last().map(String::as_str), Some("more"));
    assert_eq!(log.damaged.list().expect("listed").len(), 1);
}
