//! Backups: all that was acknowledged before and nothing half, and one that is not whole is
//! refused.

use base::random::Random;

use super::*;
use crate::conformance::agree;
use crate::memory::MemoryStore;

/// A store that took traffic, checkpoints in between, and a model of it.
struct Source {
    disk: SimulatedDisk,
    store: EmbeddedStore,
    model: MemoryStore,
    traffic: Vec<Traffic>,
}

impl Source {
    fn new(seed: u64) -> Self {
        let disk = SimulatedDisk::new(seed);
        let store = open(&disk).expect("opens");
        let mut source =
            Self { disk, store, model: MemoryStore::new(Lineage(1), 2), traffic: all_traffic(seed) };
        for round in 0..12 {
            source.go_on(40);
            if round % 4 == 1 {
                source.store.checkpoint_step(Timestamp::MAX);
            }
        }
        source
    }

    /// A batch for each partition, also of the model.
    fn go_on(&mut self, changes: u64) {
        for traffic in &mut self.traffic {
            let batch = traffic.next_batch(changes);
            self.model.commit(
                batch.clone(),
                Box::new(|outcome| assert!(matches!(outcome, CommitOutcome::Durable))),
            );
            commit(&self.store, batch);
        }
    }

    /// A batch for each partition that the model does not see.
    fn go_on_alone(&mut self) {
        for traffic in &mut self.traffic {
            let batch = traffic.next_batch(10);
            commit(&self.store, batch);
        }
    }
}

fn commit(store: &EmbeddedStore, batch: Batch) {
    for op in &batch.ops {
        if let records::Op::PutStreamBlock(block) = op {
            let bytes = vec![block.first as u8; block.stored_bytes as usize];
            store.blocks().put(&block.file_name(), &bytes).expect("is written");
        }
    }
    let outcome = give(store, batch);
    settle(store);
    assert!(matches!(outcome.try_recv(), Ok(CommitOutcome::Durable)));
}

fn all_of(mut backup: Backup) -> Vec<Vec<u8>> {
    std::iter::from_fn(|| backup.next_piece().expect("is read")).collect()
}

fn restored(backup: &[u8]) -> Result<(SimulatedDisk, BackupSummary), StoreError> {
    let disk = SimulatedDisk::new(77);
    let options = EmbeddedOptions { identity: None, ..small() };
    let summary = restore(backup, "the backup", &(Arc::new(disk.clone()) as Arc<dyn Disk>), &options)?;
    Ok((disk, summary))
}

/// Holds a store against a model, partition by partition.
fn holds(store: &EmbeddedStore, model: &MemoryStore, traffic: &[Traffic], context: &str) {
    for traffic in traffic {
        let view = |store: &dyn Store| store.load(traffic.partition()).expect("loads");
        assert_eq!(view(store).head(), view(model).head(), "{context}");
        agree(store, model, traffic, &mut Random::new(3), context);
    }
}

#[test]
fn a_restored_backup_holds_what_was_acknowledged_before_it_began_and_nothing_later() {
    for seed in 0..4 {
        let mut source = Source::new(seed);
        let mut backup = source.store.backup().expect("begins");
        let mut bytes = Vec::new();
        // the server goes on while the backup is read
        while let Some(piece) = backup.next_piece().expect("is read") {
            bytes.extend(piece);
            source.go_on_alone();
            source.store.checkpoint_step(Timestamp::MAX);
        }
        let (disk, summary) = restored(&bytes).expect("is restored");
        assert_eq!(verify_backup(&bytes[..], "it").expect("is whole"), summary);
        assert_eq!(summary.bytes, bytes.len() as u64);
        let store = open(&disk).expect("opens");
        assert_ne!(store.lineage(), source.store.lineage(), "the lineage is renewed");
        assert_eq!((store.partitions(), store.recorded_now()), (2, source.model.recorded_now()));
        holds(&store, &source.model, &source.traffic, &format!("seed {seed}"));
    }
}

#[test]
fn a_restored_directory_goes_on_where_the_backup_ended() {
    let mut source = Source::new(9);
    let bytes = all_of(source.store.backup().expect("begins")).concat();
    let (disk, _) = restored(&bytes).expect("is restored");
    source.store = open(&disk).expect("opens");
    for _ in 0..6 {
        source.go_on(40);
        source.store.checkpoint_step(Timestamp::MAX);
    }
    source.store.idle_step();
    let Source { store, model, traffic, .. } = source;
    drop(store);
    disk.crash();
    let store = open(&disk).expect("opens again");
    holds(&store, &model, &traffic, "after more");
}

#[test]
fn after_everything_was_checkpointed_no_cut_of_the_log_goes_unseen() {
    let source = Source::new(5);
    source.store.checkpoint_all().expect("writes");
    source.store.idle_step();
    let Source { disk, store, model, traffic } = source;
    drop(store);
    // a segment may have been begun that has hardly anything yet
    let used = |name: &String| {
        let bytes = disk.durable(name).unwrap_or_default();
        bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last as u64)
    };
    let segments = disk.list().expect("lists").into_iter().filter(|name| name.contains("log"));
    let last = segments.filter(|name| used(name) > 4_096).max().expect("a segment");
    let length = disk.file_len(&last).expect("there");
    let mut refused = 0;
    for end in (0..length).step_by(length as usize / 200 + 1) {
        let copy = disk.copy_of_durable(end);
        copy.open(&last, false).and_then(|file| file.set_len(end)).expect("cuts");
        match open(&copy) {
            Ok(store) => holds(&store, &model, &traffic, &format!("cut at {end}")),
            Err(error) => {
                refused += 1;
                assert!(error.to_string().contains(&last), "{error}");
            }
        }
    }
    assert!(refused > 10, "{refused}");
}

#[test]
fn a_backup_that_is_not_whole_is_refused_with_its_name_and_an_offset() {
    let source = Source::new(2);
    let pieces = all_of(source.store.backup().expect("begins"));
    let bytes = pieces.concat();
    let refused = |bytes: &[u8], context: &str| {
        let error = verify_backup(bytes, "the backup").map(drop).expect_err(context).to_string();
        assert!(error.contains("the backup"), "{context}: {error}");
        assert!(error.contains("offset") || error.contains("is no backup"), "{context}: {error}");
    };
    let mut random = Random::new(1);
    let starts = pieces.iter().scan(0, |at, piece| Some(std::mem::replace(at, *at + piece.len())));
    for end in starts.chain((0..200).map(|_| random.below(bytes.len() as u64) as usize)) {
        refused(&bytes[..end], &format!("cut at {end}"));
    }
    for _ in 0..400 {
        let mut changed = bytes.clone();
        let at = random.below(bytes.len() as u64) as usize;
        changed[at] ^= 1 << random.below(8);
        refused_or_of_another_form(&changed, at);
    }
    for index in 0..pieces.len() {
        let without: Vec<u8> = [&pieces[..index], &pieces[index + 1..]].concat().concat();
        refused(&without, &format!("without piece {index}"));
        let twice = [&pieces[..=index], &pieces[index..]].concat().concat();
        refused(&twice, &format!("piece {index} twice"));
    }
    let other = all_of(source.store.backup().expect("begins"));
    assert_eq!(other.len(), pieces.len(), "nothing has changed");
    let mixed = [&pieces[..1], &other[1..]].concat().concat();
    refused(&mixed, "mixed with another");
    refused(b"", "empty");
}

/// A byte of a header may make the piece one of a later form; that is said.
fn refused_or_of_another_form(bytes: &[u8], at: usize) {
    let error = verify_backup(bytes, "the backup").map(drop).expect_err("changed").to_string();
    assert!(error.starts_with("the backup "), "{at}: {error}");
}

#[test]
fn what_was_not_restored_to_its_end_is_no_data_directory() {
    let source = Source::new(3);
    let bytes = all_of(source.store.backup().expect("begins")).concat();
    let error = restored(&bytes[..bytes.len() - 1]).map(drop).expect_err("cut off");
    assert!(error.to_string().contains("cut off"), "{error}");
    let into = |disk: &SimulatedDisk| {
        restore(&bytes[..], "the backup", &(Arc::new(disk.clone()) as Arc<dyn Disk>), &small()).map(drop)
    };
    let mut ended = 0;
    for nth in 0.. {
        let disk = SimulatedDisk::new(nth);
        disk.fail_sync(nth + 1);
        if into(&disk).is_ok() {
            break;
        }
        ended += 1;
        disk.crash();
        let names = disk.list().expect("lists");
        if names.iter().any(|name| name == super::super::open::TABLES) {
            // only the last sync of all was missing
            holds(&open(&disk).expect("opens"), &source.model, &source.traffic, &format!("sync {nth}"));
        } else if let Ok(store) = open(&disk) {
            let heads = PARTITIONS_OF_TEST.map(|id| store.load(id).expect("loads").head().seq);
            assert_eq!(
                (heads, names.iter().any(|name| name.starts_with("tables"))),
                ([0; PARTITIONS_OF_TEST.len()], false),
                "{names:?}"
            );
        } else {
            let error = into(&disk).expect_err("something is there");
            assert!(error.to_string().contains("is not empty"), "{error}");
        }
    }
    assert!(ended > 4, "{ended}");
}

#[test]
fn a_directory_that_is_not_empty_is_not_restored_into() {
    let source = Source::new(4);
    let bytes = all_of(source.store.backup().expect("begins")).concat();
    let before = source.disk.list().expect("lists");
    let disk = Arc::new(source.disk.clone()) as Arc<dyn Disk>;
    let error = restore(&bytes[..], "the backup", &disk, &small()).map(drop).expect_err("is full");
    assert!(error.to_string().contains("is not empty"), "{error}");
    assert_eq!(source.disk.list().expect("lists"), before);
}

#[test]
fn a_store_that_has_failed_makes_no_backup() {
    let mut source = Source::new(6);
    source.disk.fail_sync(1);
    let batch = source.traffic[0].next_batch(5);
    let outcome = give(&source.store, batch);
    source.store.commit_step();
    assert!(matches!(outcome.try_recv(), Ok(CommitOutcome::Failed(_))));
    assert!(matches!(source.store.backup().map(drop), Err(StoreError::Poisoned(_))));
}
