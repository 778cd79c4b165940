//! One file of the simulated disk: what a reader sees, what is durable, and what lies between.
//!
//! Between two syncs every changed sector keeps all its versions, so that a crash can choose among
//! them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::random::DiskRandom;

/// What a disk writes whole or not at all, in bytes.
const SECTOR_BYTES: usize = 512;

type Sector = [u8; SECTOR_BYTES];

#[derive(Default)]
pub(super) struct Content {
    current: Vec<u8>,
    durable: Vec<u8>,
    /// By the number of the sector, what was written to it and is not durable.
    unsynced: BTreeMap<usize, Unsynced>,
    /// The lengths that the file had since the last sync, with the write that changed them.
    lengths: Vec<(u64, usize)>,
    /// Counts writes since the file was made.
    writes: u64,
}

#[derive(Default)]
struct Unsynced {
    /// The write, and the whole sector after it; ascending.
    versions: Vec<(u64, Sector)>,
    /// A sync of this failed, and the system takes it for clean: the next sync passes it by.
    is_forsaken: bool,
}

/// What becomes of the unsynced part of a file in a crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CrashOutcome {
    LoseAll,
    KeepAll,
    /// What was written up to a moment, the last write torn.
    UpToAMoment,
    /// Each write on its own.
    SomeWrites,
    /// Each sector as any write left it.
    SomeSectors,
}

impl CrashOutcome {
    pub(super) fn random(random: &mut DiskRandom) -> CrashOutcome {
        match random.below(8) {
            0 => CrashOutcome::LoseAll,
            1 => CrashOutcome::KeepAll,
            2 | 3 => CrashOutcome::UpToAMoment,
            4 | 5 => CrashOutcome::SomeWrites,
            _ => CrashOutcome::SomeSectors,
        }
    }
}

impl Content {
    /// A file that is durable as it is.
    pub(super) fn of(bytes: Vec<u8>) -> Content {
        Content { current: bytes.clone(), durable: bytes, ..Content::default() }
    }

    pub(super) fn current(&self) -> &[u8] {
        &self.current
    }

    pub(super) fn durable(&self) -> &[u8] {
        &self.durable
    }

    pub(super) fn write(&mut self, offset: usize, data: &[u8]) {
        if data.is_empty() {
            return;
        }
        let end = offset + data.len();
        if end > self.current.len() {
            self.current.resize(end, 0);
        }
        self.current[offset..end].copy_from_slice(data);
        self.changed(offset..end);
    }

    pub(super) fn set_len(&mut self, length: usize) {
        let cut = length..self.current.len().max(length);
        self.current.resize(length, 0);
        self.changed(cut);
    }

    fn changed(&mut self, bytes: Range<usize>) {
        self.writes += 1;
        self.lengths.push((self.writes, self.current.len()));
        if bytes.is_empty() {
            return;
        }
        for number in bytes.start / SECTOR_BYTES..bytes.end.div_ceil(SECTOR_BYTES) {
            let sector = self.sector(number);
            let unsynced = self.unsynced.entry(number).or_default();
            unsynced.versions.push((self.writes, sector));
            unsynced.is_forsaken = false;
        }
    }

    /// The sector as a reader sees it, with zeros beyond the end of the file.
    fn sector(&self, number: usize) -> Sector {
        let mut sector = [0; SECTOR_BYTES];
        let begin = (number * SECTOR_BYTES).min(self.current.len());
        let end = (begin + SECTOR_BYTES).min(self.current.len());
        sector[..end - begin].copy_from_slice(&self.current[begin..end]);
        sector
    }

    pub(super) fn sync(&mut self) {
        self.durable.resize(self.current.len(), 0);
        let (current, durable) = (&self.current, &mut self.durable);
        self.unsynced.retain(|number, unsynced| {
            if !unsynced.is_forsaken {
                let begin = (number * SECTOR_BYTES).min(current.len());
                let end = (begin + SECTOR_BYTES).min(current.len());
                durable[begin..end].copy_from_slice(&current[begin..end]);
            }
            unsynced.is_forsaken
        });
        self.lengths.clear();
    }

    pub(super) fn sync_failed(&mut self) {
        for unsynced in self.unsynced.values_mut() {
            unsynced.is_forsaken = true;
        }
    }

    pub(super) fn corrupt(&mut self, offset: usize, xor: u8) {
        self.current[offset] ^= xor;
        if let Some(byte) = self.durable.get_mut(offset) {
            *byte ^= xor;
        }
        if let Some(unsynced) = self.unsynced.get_mut(&(offset / SECTOR_BYTES)) {
            for (_, sector) in &mut unsynced.versions {
                sector[offset % SECTOR_BYTES] ^= xor;
            }
        }
    }

    /// The power fails: chooses what is left.
    pub(super) fn crash(&mut self, random: &mut DiskRandom) {
        let lengths = std::mem::take(&mut self.lengths);
        let survivors = Survivors::choose(self.writes, self.unsynced.values(), &lengths, random);
        let longest = lengths.iter().map(|(_, length)| *length).max().unwrap_or(0).max(self.current.len());
        let durable_length = self.durable.len();
        let length = survivors.length(&lengths, random).unwrap_or(durable_length);
        let mut left = std::mem::take(&mut self.durable);
        left.resize(longest.max(durable_length).next_multiple_of(SECTOR_BYTES), 0);
        for (number, unsynced) in std::mem::take(&mut self.unsynced) {
            if let Some(sector) = survivors.version(&unsynced.versions, random) {
                let begin = number * SECTOR_BYTES;
                left.resize(left.len().max(begin + SECTOR_BYTES), 0);
                left[begin..begin + SECTOR_BYTES].copy_from_slice(sector);
            }
        }
        left.truncate(length);
        self.current.clone_from(&left);
        self.durable = left;
    }
}

/// Which writes survive a crash.
struct Survivors {
    outcome: CrashOutcome,
    /// With [`CrashOutcome::UpToAMoment`], the write in which the power failed.
    moment: u64,
    /// With [`CrashOutcome::SomeWrites`], those that survive.
    kept: BTreeSet<u64>,
}

impl Survivors {
    fn choose<'a>(
        newest: u64,
        unsynced: impl Iterator<Item = &'a Unsynced>,
        lengths: &[(u64, usize)],
        random: &mut DiskRandom,
    ) -> Survivors {
        let mut writes: BTreeSet<u64> =
            unsynced.flat_map(|unsynced| unsynced.versions.iter().map(|(write, _)| *write)).collect();
        writes.extend(lengths.iter().map(|(write, _)| *write));
        let oldest = writes.first().copied().unwrap_or(newest);
        let moment = oldest + random.below(newest - oldest + 1);
        writes.retain(|_| random.below(2) == 0);
        Survivors { outcome: CrashOutcome::random(random), moment, kept: writes }
    }

    /// What is left of a sector; `None` for what was durable.
    fn version<'a>(&self, versions: &'a [(u64, Sector)], random: &mut DiskRandom) -> Option<&'a Sector> {
        let survivor = match self.outcome {
            CrashOutcome::LoseAll => None,
            CrashOutcome::KeepAll => versions.last(),
            CrashOutcome::UpToAMoment => versions
                .iter()
                .rev()
                .find(|(write, _)| *write < self.moment || (*write == self.moment && random.below(2) == 0)),
            CrashOutcome::SomeWrites => versions.iter().rev().find(|(write, _)| self.kept.contains(write)),
            CrashOutcome::SomeSectors => {
                let chosen = random.below(versions.len() as u64 + 1) as usize;
                chosen.checked_sub(1).and_then(|at| versions.get(at))
            }
        };
        survivor.map(|(_, sector)| sector)
    }

    /// The length that the file has; `None` for the durable one.
    fn length(&self, lengths: &[(u64, usize)], random: &mut DiskRandom) -> Option<usize> {
        let survivor = match self.outcome {
            CrashOutcome::LoseAll => None,
            CrashOutcome::KeepAll => lengths.last(),
            CrashOutcome::UpToAMoment => lengths.iter().rev().find(|(write, _)| *write <= self.moment),
            CrashOutcome::SomeWrites => lengths.iter().rev().find(|(write, _)| self.kept.contains(write)),
            CrashOutcome::SomeSectors => {
                let chosen = random.below(lengths.len() as u64 + 1) as usize;
                chosen.checked_sub(1).and_then(|at| lengths.get(at))
            }
        };
        survivor.map(|(_, length)| *length)
    }
}
