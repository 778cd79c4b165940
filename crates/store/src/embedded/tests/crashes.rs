//! Crashes, deaths of the process and failing disks at any point. What was acknowledged is there.
//! What was not is there whole or not at all, and nothing is missing in between. With syncs at
//! intervals a loss of power may take what was acknowledged since the last one. It takes nothing
//! before a batch that is left, whatever its partition.

use base::random::Random;

use super::*;
use crate::conformance::{agree, loaded};
use crate::memory::MemoryStore;

/// One partition: what was given to the store, and how much of it must be there.
struct Given {
    traffic: Traffic,
    /// Each batch, with the traffic that went on from there.
    batches: Vec<(Batch, Traffic)>,
    /// Batches known to be durable.
    durable: usize,
    /// Of these, batches that were synced.
    synced: usize,
    /// Outcomes that are not known yet.
    open: Vec<(u64, Receiver<CommitOutcome>)>,
}

impl Given {
    fn new(traffic: Traffic) -> Self {
        Self { traffic, batches: Vec::new(), durable: 0, synced: 0, open: Vec::new() }
    }

    fn give(&mut self, store: &EmbeddedStore, changes: u64) {
        let batch = self.traffic.next_batch(changes);
        self.batches.push((batch.clone(), self.traffic.clone()));
        self.open.push((batch.head.seq, give(store, batch)));
    }

    /// Takes the outcomes that are known: each batch is durable before the next.
    fn listen(&mut self, context: &str) {
        self.open.retain(|(seq, receiver)| match receiver.try_recv() {
            Ok(CommitOutcome::Durable) => {
                assert_eq!(self.durable + 1, *seq as usize, "{context}: out of order");
                self.durable += 1;
                false
            }
            Ok(_) => false,
            Err(_) => true,
        });
    }

    /// After a restart: what is there is what was given, up to some batch.
    fn find(&mut self, store: &EmbeddedStore, start: &Traffic, random: &mut Random, context: &str) {
        self.open.clear();
        let partition = start.partition();
        let found = store.partition(partition).head().seq as usize;
        assert!(found >= self.durable, "{context}: {found} batches are left, {} must be", self.durable);
        assert!(found <= self.batches.len(), "{context}");
        self.batches.truncate(found);
        (self.durable, self.synced) = (found, found);
        self.traffic = self.batches.last().map_or_else(|| start.clone(), |(_, traffic)| traffic.clone());
        let model = MemoryStore::new(Lineage(1), 2);
        for (batch, _) in &self.batches {
            model.commit(
                batch.clone(),
                Box::new(|outcome| assert!(matches!(outcome, CommitOutcome::Durable))),
            );
        }
        assert_eq!(loaded(store, partition), loaded(&model, partition), "{context}");
        agree(store, &model, &self.traffic, random, context);
    }
}

/// Lets something of the disk fail soon, now and then.
fn trouble(disk: &SimulatedDisk, random: &mut Random) {
    match random.below(60) {
        0 => disk.fail_write(1 + random.below(8)),
        1 => disk.fail_sync(1 + random.below(4)),
        _ => {}
    }
}

/// Trouble that was on its way may strike the opening; none comes twice.
fn open_at_last(disk: &SimulatedDisk, sync: SyncMode, context: &str) -> EmbeddedStore {
    for _ in 0..3 {
        let options = EmbeddedOptions { sync, ..small() };
        match EmbeddedStore::open(Arc::new(disk.clone()) as Arc<dyn Disk>, options) {
            Ok(store) => return store,
            // a loss of power here would take what the death of a process before it has left
            Err(StoreError::Disk { .. }) if sync != SyncMode::Always => disk.kill(),
            Err(StoreError::Disk { .. }) => disk.crash(),
            Err(error) => panic!("{context}: {error}"),
        }
    }
    panic!("{context}: there is no trouble left, and still it does not open")
}

/// A batch that is left was given before every one that is not, of all partitions.
fn check_order(order: &mut Vec<(usize, u64)>, store: &EmbeddedStore, context: &str) {
    let found = PARTITIONS_OF_TEST.map(|id| store.partition(id).head().seq);
    let is_left = |(index, seq): &(usize, u64)| *seq <= found[*index];
    let left = order.iter().take_while(|batch| is_left(batch)).count();
    assert!(!order[left..].iter().any(is_left), "{context}: {found:?} of {order:?}");
    order.truncate(left);
}

/// What was acknowledged, and what of it the power may have taken.
#[derive(Default)]
struct Account {
    acknowledged: usize,
    taken: usize,
}

/// So many lives of a server.
fn run(seed: u64, lives: u64, sync: SyncMode) -> Account {
    let mut random = Random::new(seed);
    let disk = SimulatedDisk::new(seed);
    let starts = all_traffic(seed);
    let mut given: Vec<_> = starts.iter().cloned().map(Given::new).collect();
    let (mut order, mut account) = (Vec::new(), Account::default());
    for life in 0..lives {
        let context = format!("seed {seed} life {life} {sync:?}");
        let store = open_at_last(&disk, sync, &context);
        check_order(&mut order, &store, &context);
        for (given, start) in given.iter_mut().zip(&starts) {
            given.find(&store, start, &mut random, &format!("{context} partition {}", start.partition()));
        }
        for _ in 0..random.below(60) {
            trouble(&disk, &mut random);
            match random.below(11) {
                0..=4 => {
                    let index = random.below(PARTITIONS_OF_TEST.len() as u64) as usize;
                    given[index].give(&store, 1 + random.below(80));
                    order.push((index, given[index].batches.len() as u64));
                }
                5..=6 => drop(store.commit_step()),
                7 => drop(store.checkpoint_step(Timestamp(0))),
                8 => drop(store.checkpoint_step(Timestamp::MAX)),
                9 => drop(store.idle_step()),
                _ => drop(store.sync_step()),
            }
            given.iter_mut().for_each(|given| given.listen(&context));
            if sync == SyncMode::Always || (!store.is_unsynced() && store.failure().is_none()) {
                given.iter_mut().for_each(|given| given.synced = given.durable);
            }
        }
        // the disk goes first: what a store writes when it is dropped comes too late
        if random.below(4) == 0 {
            disk.kill();
        } else {
            disk.crash();
            for given in &mut given {
                account.taken += given.durable - given.synced;
                given.durable = given.synced;
            }
        }
        drop(store);
    }
    account.acknowledged = given.iter().map(|given| given.durable).sum();
    account
}

/// Seeds tried, from 0 on; `STORE_SEEDS=1000` tries more, `STORE_SEEDS=7..8` one.
fn seeds() -> std::ops::Range<u64> {
    let wanted = std::env::var("STORE_SEEDS").unwrap_or_else(|_| "24".to_owned());
    let (from, to) = wanted.split_once("..").unwrap_or(("0", &wanted));
    from.parse().expect("a number")..to.parse().expect("a number")
}

#[test]
fn what_was_acknowledged_survives_whatever_happens() {
    let mut acknowledged = 0;
    for seed in seeds() {
        let account = run(seed, 12, SyncMode::Always);
        acknowledged += account.acknowledged;
        assert_eq!(account.taken, 0);
    }
    assert!(acknowledged > 0, "something was acknowledged");
}

#[test]
fn with_syncs_at_intervals_only_the_power_takes_and_only_what_came_since_the_last() {
    let mut all = Account::default();
    for seed in seeds().step_by(2) {
        let account = run(seed, 12, SyncMode::Interval(Duration::from_secs(1)));
        all.acknowledged += account.acknowledged;
        all.taken += account.taken;
    }
    assert!(all.acknowledged > 0 && all.taken > 0, "{} acknowledged, {} taken", all.acknowledged, all.taken);
}

#[test]
fn a_crash_while_the_directory_is_made_leaves_nothing_in_the_way() {
    let mut made = 0;
    for nth in 1.. {
        let disk = SimulatedDisk::new(nth);
        if nth % 2 == 0 {
            disk.fail_write(nth / 2);
        } else {
            disk.fail_sync(nth / 2 + 1);
        }
        let first = open(&disk);
        let is_made = first.is_ok();
        disk.crash();
        drop(first);
        let again = open(&disk).unwrap_or_else(|error| panic!("fault {nth}: {error}"));
        assert_eq!(again.lineage(), Lineage(1));
        made = if is_made { made + 1 } else { 0 };
        if made > 4 {
            break;
        }
    }
}
