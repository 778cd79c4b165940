//! Bytes that change by themselves: refused with the file's name, or without any effect on what is
//! read.

use base::random::Random;

use super::*;
use crate::conformance::agree;
use crate::memory::MemoryStore;

/// Bits that are flipped in each file, one at a time.
const FLIPS_PER_FILE: usize = 400;

/// A directory with checkpoints and a claimed log behind them, and the model of it.
fn directory() -> (SimulatedDisk, MemoryStore, Vec<Traffic>) {
    let disk = SimulatedDisk::new(1);
    let model = MemoryStore::new(Lineage(1), 2);
    let mut traffic = all_traffic(1);
    let store = open(&disk).expect("opens");
    for round in 0..12 {
        for traffic in &mut traffic {
            let batch = traffic.next_batch(40);
            model.commit(
                batch.clone(),
                Box::new(|outcome| assert!(matches!(outcome, CommitOutcome::Durable))),
            );
            let outcome = give(&store, batch);
            settle(&store);
            assert!(matches!(outcome.try_recv(), Ok(CommitOutcome::Durable)));
        }
        if round % 4 == 1 {
            store.checkpoint_step(Timestamp::MAX);
            store.checkpoint_step(Timestamp::MAX);
        }
    }
    store.idle_step();
    drop(store);
    (disk, model, traffic)
}

/// Opens and reads everything.
fn read(disk: &SimulatedDisk, model: &MemoryStore, traffic: &[Traffic]) -> Result<(), String> {
    let store = open(disk).map_err(|error| error.to_string())?;
    for traffic in traffic {
        let loaded = store.load(traffic.partition(), &mut |_| {});
        let head = loaded.map_err(|error| error.to_string())?;
        assert_eq!(head, model.load(traffic.partition(), &mut |_| {}).expect("loads"));
    }
    // a read that is refused panics in the comparison, with the error's text
    let compared = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        for traffic in traffic {
            agree(&store, model, traffic, &mut Random::new(3), "damaged");
        }
    }));
    match (compared, store.failure()) {
        (Ok(()), None) => Ok(()),
        (_, Some(failure)) => Err(failure.to_string()),
        (Err(panic), None) => std::panic::resume_unwind(panic),
    }
}

#[test]
fn a_flipped_byte_never_changes_what_is_read() {
    let (disk, model, traffic) = directory();
    assert_eq!(read(&disk.copy_of_durable(0), &model, &traffic), Ok(()));
    let mut random = Random::new(5);
    let files = disk.list().expect("lists").into_iter();
    let files =
        files.map(|name| (disk.file_len(&name).expect("there"), name)).filter(|(length, _)| *length > 0);
    let flips: Vec<_> = files
        .flat_map(|(length, name)| std::iter::repeat_n((length, name), FLIPS_PER_FILE))
        .map(|(length, name)| (name, random.below(length), 1 << random.below(8)))
        .collect();
    // Whether a flip is without effect; else it is refused.
    let is_harmless = |(name, offset, bit): &(String, u64, u8)| {
        let copy = disk.copy_of_durable(*offset);
        copy.corrupt(name, *offset, *bit);
        let result = read(&copy, &model, &traffic);
        let is_told = result.as_ref().map_or_else(|text| text.contains(name), |()| true);
        assert!(is_told, "{name} at {offset}: {result:?}");
        result.is_ok()
    };
    let (one, other) = flips.split_at(flips.len() / 2);
    let count = |flips: &[_]| flips.iter().filter(|flip| is_harmless(flip)).count();
    let harmless = std::thread::scope(|scope| {
        let one = scope.spawn(|| count(one));
        count(other) + one.join().expect("no panic")
    });
    let refused = flips.len() - harmless;
    assert!(refused > 200 && harmless > 10, "{refused} refused, {harmless} harmless");
}

#[test]
fn damage_below_the_claim_is_refused_with_file_and_offset() {
    let (disk, ..) = directory();
    // a segment may have been begun that has hardly anything yet
    let used = |name: &String| {
        let bytes = disk.durable(name).unwrap_or_default();
        bytes.iter().rposition(|byte| *byte != 0).unwrap_or(0)
    };
    let segments =
        disk.list().expect("lists").into_iter().filter(|name| name.contains("log") && !name.contains("lock"));
    let last = segments.filter(|name| used(name) > 4_096).max().expect("a segment");
    let bytes = disk.durable(&last).expect("there");
    // the first frame of the last segment begins behind its header
    let copy = disk.copy_of_durable(1);
    copy.corrupt(&last, 64 + 50, 0xff);
    let error = open(&copy).expect_err("damaged");
    let StoreError::Damaged { file, at, .. } = &error else { panic!("{error}") };
    assert!(file.ends_with(&last) && at == "offset 64", "{error}");
    assert!(bytes.len() > 200);
}
