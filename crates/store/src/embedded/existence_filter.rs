//! Which rows may be in the tables: asked before a row is taken for new.
//!
//! "No" is certain. Only tables whose rows mostly come and go are worth asking about. Of the others
//! the answer is always "perhaps", which costs a deletion written for nothing. A partition of
//! queues need not remember what it wrote. What it keeps is numbered as time goes by, so whatever
//! is behind the last of the tables is new. So it is with commands. Of other rows a partition of
//! devices has a Bloom filter, wrong about one time in two hundred. Rows that leave the tables stay
//! in it, so it is made anew when more went in than it has room for.

use base::Timestamp;
use base::hash::derived;

use super::tables::Table;
use crate::codec::key::{FeedEntryKey, ParkedPlace, TableKey};

/// Bits for each key: with [`PROBES`] probes about one wrong "perhaps" in two hundred.
const BITS_PER_KEY: usize = 12;
const PROBES: u64 = 6;
/// Room that every filter has, in keys.
const KEYS_MIN: usize = 4_096;
/// A new filter has room for this many times what is there.
const GROWTH: usize = 2;

/// What may be in the tables of one partition.
#[derive(Debug)]
pub(super) enum ExistenceFilter {
    /// Of devices, the registry, campaigns or streams.
    Devices(BloomFilter, LastCommand),
    /// Of queues.
    Marks(Marks),
}

impl ExistenceFilter {
    /// Whether the row may be there. For a deletion, which has no value: whether there may be such
    /// a row. Never wrong when it says no.
    pub(super) fn may_hold(&self, table: Table, key: &[u8], value: Option<&[u8]>) -> bool {
        match self {
            Self::Devices(filter, _) if table != Table::Commands && NOTED.contains(&table) => {
                filter.may_hold(table, key)
            }
            Self::Devices(_, last) => last.may_hold(table, key),
            Self::Marks(marks) => marks.may_hold(table, key, value),
        }
    }

    /// Notes a row of one of [`ExistenceFilter::tables`] that is there from now on.
    pub(super) fn insert(&mut self, table: Table, key: &[u8]) {
        match self {
            Self::Devices(_, last) if table == Table::Commands => last.insert(key),
            Self::Devices(filter, _) => filter.insert(table, key),
            Self::Marks(marks) => marks.insert(table, key),
        }
    }

    /// Notes that every dead letter before this number may be there.
    pub(super) fn insert_dead_before(&mut self, number: u64) {
        if let Self::Marks(marks) = self {
            marks.next_dead = marks.next_dead.max(number);
        }
    }

    /// The tables whose rows must be noted; of a partition of queues the last of each.
    pub(super) fn tables(&self) -> &'static [Table] {
        match self {
            Self::Devices(..) => &NOTED,
            Self::Marks(_) => &MARKED,
        }
    }

    /// Whether only the last row of each table counts.
    pub(super) fn counts_last_only(&self) -> bool {
        matches!(self, Self::Marks(_))
    }

    /// Whether more went in than it has room for.
    pub(super) fn is_overfull(&self) -> bool {
        match self {
            Self::Devices(filter, _) => filter.keys > filter.keys_max,
            Self::Marks(_) => false,
        }
    }
}

/// The tables whose rows a partition of devices notes: in its Bloom filter, but of
/// [`Table::Commands`] the last row alone, in [`LastCommand`].
pub(super) const NOTED: [Table; 7] = [
    Table::NotificationStates,
    Table::JobHeads,
    Table::JobBodies,
    Table::RunningTasks,
    Table::UntoldTasks,
    Table::GatheredReports,
    Table::Commands,
];
const MARKED: [Table; 5] =
    [Table::JobHeads, Table::JobBodies, Table::ParkedIds, Table::Queues, Table::QueueCounts];

/// The ends of what is in the tables of a partition of queues.
#[derive(Debug, Default)]
pub(super) struct Marks {
    /// The last job: no row of a later one is there.
    job: Option<TableKey>,
    /// The last queue.
    queue: Option<TableKey>,
    /// No dead letter from this number on is there.
    next_dead: u64,
}

impl Marks {
    fn insert(&mut self, table: Table, key: &[u8]) {
        let mark = match table {
            Table::Queues | Table::QueueCounts => &mut self.queue,
            _ => &mut self.job,
        };
        if mark.as_ref().is_none_or(|last| **last < *key) {
            *mark = Some(TableKey::from_slice(key));
        }
    }

    fn may_hold(&self, table: Table, key: &[u8], value: Option<&[u8]>) -> bool {
        match table {
            Table::Queues | Table::QueueCounts => is_up_to(self.queue.as_ref(), key),
            Table::JobHeads | Table::JobBodies | Table::ParkedIds => is_up_to(self.job.as_ref(), key),
            Table::Parked => self.may_hold_parked(key),
            Table::ParkedByLine | Table::ParkedAliases => {
                value.is_none_or(|place| self.may_hold_parked(place))
            }
            Table::Dead => key.last_chunk().is_none_or(|number| self.may_hold_dead(*number)),
            Table::DeadIds => {
                value.and_then(|value| value.try_into().ok()).is_none_or(|number| self.may_hold_dead(number))
            }
            _ => true,
        }
    }

    fn may_hold_parked(&self, place: &[u8]) -> bool {
        ParkedPlace::from_key(place).ok().is_none_or(|place| is_up_to(self.job.as_ref(), &place.id.0))
    }

    fn may_hold_dead(&self, number: [u8; 8]) -> bool {
        u64::from_be_bytes(number) < self.next_dead
    }
}

fn is_up_to(last: Option<&TableKey>, key: &[u8]) -> bool {
    last.is_some_and(|last| *key <= **last)
}

/// When the latest command was given that is in the tables of a partition of devices: no row of a
/// later one is there.
#[derive(Debug, Default)]
pub(super) struct LastCommand(Option<Timestamp>);

impl LastCommand {
    fn insert(&mut self, key: &[u8]) {
        self.0 = self.0.max(FeedEntryKey::at_end_of(key).ok().map(|command| command.at));
    }

    fn may_hold(&self, table: Table, key: &[u8]) -> bool {
        match table {
            Table::Commands
            | Table::CommandsByDevice
            | Table::CommandStates
            | Table::OpenCommands
            | Table::CommandsByDue
            | Table::CommandsByKey
            | Table::FinishedCommands => {
                FeedEntryKey::at_end_of(key).map_or(true, |command| Some(command.at) <= self.0)
            }
            _ => true,
        }
    }
}

/// A Bloom filter of some of what is in the tables of a partition of devices.
#[derive(Debug)]
pub(super) struct BloomFilter {
    bits: Vec<u64>,
    keys: usize,
    keys_max: usize,
}

impl BloomFilter {
    /// An empty filter with room for `keys` and as many again.
    pub(super) fn for_keys(keys: usize) -> Self {
        let keys_max = (keys * GROWTH).max(KEYS_MIN);
        Self { bits: vec![0; (keys_max * BITS_PER_KEY).div_ceil(64)], keys: 0, keys_max }
    }

    pub(super) fn insert(&mut self, table: Table, key: &[u8]) {
        for bit in self.probes(table, key) {
            self.bits[bit / 64] |= 1 << (bit % 64);
        }
        self.keys += 1;
    }

    fn may_hold(&self, table: Table, key: &[u8]) -> bool {
        self.keys > 0 && self.probes(table, key).all(|bit| self.bits[bit / 64] >> (bit % 64) & 1 == 1)
    }

    fn probes(&self, table: Table, key: &[u8]) -> impl Iterator<Item = usize> + use<> {
        let hash = derived(seed(table), key);
        // two halves of one hash stand for any number of them
        let (start, step) = (hash, hash.rotate_left(32) | 1);
        let bits = self.bits.len() as u64 * 64;
        (0..PROBES).map(move |n| {
            let mixed = start.wrapping_add(step.wrapping_mul(n));
            ((u128::from(mixed) * u128::from(bits)) >> 64) as usize
        })
    }
}

/// Among devices a job's head and body come and go together, and only heads are read at a start. A
/// body that stays is inserted by itself.
fn seed(table: Table) -> u64 {
    match table {
        Table::JobBodies => Table::JobHeads as u64,
        table => table as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_devices(keys: usize) -> ExistenceFilter {
        ExistenceFilter::Devices(BloomFilter::for_keys(keys), LastCommand::default())
    }

    #[test]
    fn whatever_is_of_a_later_command_is_new() {
        let mut existence = of_devices(0);
        let key = |at| FeedEntryKey { at: Timestamp(at), number: 9 }.below(&[]);
        assert!(!existence.may_hold(Table::Commands, &key(i64::MIN), None));
        existence.insert(Table::Commands, &key(7));
        existence.insert(Table::Commands, &key(5));
        for (at, may_hold) in [(6, true), (7, true), (8, false)] {
            let below = |prefix: &[u8]| FeedEntryKey { at: Timestamp(at), number: 0 }.below(prefix);
            for (table, key) in [
                (Table::Commands, key(at)),
                (Table::CommandsByDevice, below(b"slot")),
                (Table::CommandStates, key(at)),
                (Table::OpenCommands, below(b"phase slot priority")),
                (Table::CommandsByDue, below(b"due")),
                (Table::CommandsByKey, below(b"slot hash")),
                (Table::FinishedCommands, below(b"ended")),
            ] {
                assert_eq!(existence.may_hold(table, &key, None), may_hold, "{table:?} {at}");
            }
            assert!(existence.may_hold(Table::Timeline, &key(at), None));
        }
    }

    #[test]
    fn what_went_in_is_held_and_little_else() {
        let mut existence = of_devices(10_000);
        let keys = |from: u64| (from..from + 20_000).map(u64::to_be_bytes);
        assert!(!existence.may_hold(Table::NotificationStates, b"x", None));
        keys(0).for_each(|key| existence.insert(Table::NotificationStates, &key));
        assert!(keys(0).all(|key| existence.may_hold(Table::NotificationStates, &key, None)));
        let wrong =
            keys(1 << 40).filter(|key| existence.may_hold(Table::NotificationStates, key, None)).count();
        assert!(wrong < 20_000 / 100, "{wrong}");
        assert!(!existence.is_overfull());
        existence.insert(Table::NotificationStates, b"one more");
        assert!(existence.is_overfull());
    }

    #[test]
    fn a_body_is_held_where_its_job_is() {
        let mut existence = of_devices(1);
        existence.insert(Table::JobHeads, b"job");
        assert!(existence.may_hold(Table::JobBodies, b"job", None));
        assert!(!existence.may_hold(Table::NotificationStates, b"job", None));
    }

    #[test]
    fn what_nobody_remembers_may_be_there() {
        for existence in [of_devices(0), ExistenceFilter::Marks(Marks::default())] {
            assert!(existence.may_hold(Table::Answers, b"key", Some(b"value")));
        }
    }

    #[test]
    fn whatever_is_behind_the_last_is_new() {
        let mut existence = ExistenceFilter::Marks(Marks::default());
        let job = |number| [number; crate::codec::key::JOB_BYTES];
        let place = |number| {
            let id = records::JobId(job(number));
            ParkedPlace { clock: Some(records::JobClock::Wall), at: base::Timestamp(5), id }.to_key()
        };
        let queue = |number: u64| number.to_be_bytes();
        assert!(!existence.may_hold(Table::ParkedIds, &job(0), None));
        existence.insert(Table::ParkedIds, &job(7));
        existence.insert(Table::JobBodies, &job(5));
        existence.insert(Table::Queues, &queue(7));
        existence.insert_dead_before(8);
        for (number, may_hold) in [(6, true), (7, true), (8, false)] {
            let dead = records::QueueKey(u64::from(number));
            let rows = [
                (Table::JobHeads, &job(number)[..], &b""[..]),
                (Table::Parked, &place(number), b""),
                (Table::ParkedByLine, b"line", &place(number)),
                (Table::ParkedAliases, b"alias", &place(number)),
                (Table::QueueCounts, &queue(u64::from(number)), b""),
                (Table::Dead, &crate::codec::key::dead(dead, u64::from(number)), b""),
                (Table::DeadIds, b"id", &queue(u64::from(number))),
            ];
            for (table, key, value) in rows {
                assert_eq!(existence.may_hold(table, key, Some(value)), may_hold, "{table:?} {number}");
            }
        }
        assert!(existence.may_hold(Table::ParkedAliases, b"alias", None), "whose it is is not known");
    }
}
