//! The log against a model, through crashes, deaths of the process and failing writes.
//!
//! The model knows only what was appended, what was written and what was confirmed. After every
//! opening all that was confirmed is there, bit for bit. All that was written is there if only the
//! process died. What else is there was appended after it, in order and without a gap. No position
//! that was ever confirmed names another frame.

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone)]
enum Step {
    Append(u16),
    Write,
    Sync,
    Claim,
    Free,
    /// Power is lost, and the log opened.
    Crash,
    /// The process dies, and the log is opened.
    Kill,
    FailRead(u64),
    FailWrite(u64),
    FailSync(u64),
    /// Room for so many bytes more; the next opening finds it empty again.
    Fill(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (1_u16..1500).prop_map(Step::Append),
        4 => Just(Step::Write),
        6 => Just(Step::Sync),
        3 => Just(Step::Claim),
        1 => Just(Step::Free),
        2 => Just(Step::Crash),
        2 => Just(Step::Kill),
        1 => (1_u64..4).prop_map(Step::FailRead),
        1 => (1_u64..6).prop_map(Step::FailWrite),
        1 => (1_u64..6).prop_map(Step::FailSync),
        1 => (0_u64..2000).prop_map(Step::Fill),
    ]
}

struct Run {
    simulated: SimulatedDisk,
    disk: Arc<dyn Disk>,
    log: Option<Log>,
    /// Frames that were confirmed; claims have no entry.
    confirmed: Frames,
    /// The last confirmed position, that of a claim too.
    durable: Position,
    /// Frames that were appended after it.
    unconfirmed: Frames,
    /// The last position that is in its file.
    written: Position,
    freed: Position,
    appended: u64,
}

impl Run {
    fn new(seed: u64) -> Run {
        let simulated = SimulatedDisk::new(seed);
        let disk: Arc<dyn Disk> = Arc::new(simulated.clone());
        let log = Some(create(&disk));
        let (confirmed, unconfirmed) = (Frames::new(), Frames::new());
        let (durable, written, freed) = (Position::ZERO, Position::ZERO, Position::ZERO);
        Run { simulated, disk, log, confirmed, durable, unconfirmed, written, freed, appended: 0 }
    }

    fn take(&mut self, step: &Step) {
        match step {
            Step::Append(length) => self.append(*length),
            Step::Write => self.write(),
            Step::Sync => self.sync(),
            Step::Claim => self.claim(),
            Step::Free => self.free(),
            Step::Crash => {
                self.simulated.crash();
                self.written = self.durable;
                self.reopen();
            }
            Step::Kill => {
                self.simulated.kill();
                self.reopen();
            }
            Step::FailRead(nth) => self.simulated.fail_read(*nth),
            Step::FailWrite(nth) => self.simulated.fail_write(*nth),
            Step::FailSync(nth) => self.simulated.fail_sync(*nth),
            Step::Fill(bytes) => self.fill(*bytes),
        }
    }

    fn append(&mut self, length: u16) {
        let Some(log) = &mut self.log else { return };
        self.appended += 1;
        let mut payload = self.appended.to_le_bytes().to_vec();
        payload.resize(usize::from(length).max(8), self.appended as u8);
        if let Ok(position) = log.append(&payload) {
            assert!(position > self.durable, "{position} was confirmed before");
            self.unconfirmed.push((position, payload));
        }
    }

    fn write(&mut self) {
        let Some(log) = &mut self.log else { return };
        if let Ok(position) = log.write() {
            assert_eq!((position, position), (log.end(), log.written()));
            assert!(log.durable() <= position);
            self.written = position;
            if log.durable() == position {
                self.confirm(position);
            }
        }
    }

    fn sync(&mut self) {
        let Some(log) = &mut self.log else { return };
        if let Ok(position) = log.sync() {
            assert_eq!(position, log.end());
            self.confirm(position);
        }
    }

    fn claim(&mut self) {
        let Some(log) = &mut self.log else { return };
        if log.append_claim().is_ok() {
            let durable = log.durable();
            assert_eq!(durable, log.end());
            self.confirm(durable);
        }
    }

    fn confirm(&mut self, durable: Position) {
        assert!(durable >= self.durable);
        (self.durable, self.written) = (durable, durable);
        self.confirmed.append(&mut self.unconfirmed);
    }

    fn free(&mut self) {
        let through = Position((self.freed.0 + self.durable.0) / 2);
        let Some(log) = &mut self.log else { return };
        // Freeing may fail half way.
        self.freed = through;
        assert!(log.free_through(through).is_ok() || log.sync().is_err());
        self.confirmed.retain(|(position, _)| *position > through);
    }

    fn fill(&mut self, room: u64) {
        let names = self.disk.list().unwrap();
        let used: u64 = names.iter().filter_map(|name| self.simulated.file_len(name)).sum();
        self.simulated.set_capacity(Some(used + room));
    }

    /// Opens until it works: a fault that was set may come to pass in the opening, and none comes
    /// twice.
    fn reopen(&mut self) {
        self.log = None;
        self.simulated.set_capacity(None);
        for _ in 0..10 {
            match open_after(&self.disk, self.durable, self.freed) {
                Ok((opened, frames)) => return self.opened(opened, frames),
                Err(LogError::Io { .. }) => {}
                Err(refused) => panic!("refused without damage: {refused}"),
            }
        }
        panic!("no fault is left, and still it does not open");
    }

    fn opened(&mut self, opened: OpenedLog, mut frames: Frames) {
        let rest = frames.split_off(self.confirmed.len().min(frames.len()));
        assert_eq!(frames, self.confirmed, "what was confirmed");
        assert!(self.unconfirmed.starts_with(&rest), "{rest:?} was not appended after it");
        assert!(opened.log.end() >= self.durable.max(self.written));
        assert_eq!(opened.log.durable(), opened.log.end());
        self.unconfirmed = rest;
        self.confirm(opened.log.end());
        self.log = Some(opened.log);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn a_log_keeps_what_it_confirmed_and_invents_nothing(
        seed in any::<u64>(),
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let mut run = Run::new(seed);
        for step in steps.iter().chain([&Step::Crash, &Step::Append(1), &Step::Sync, &Step::Crash]) {
            run.take(step);
        }
        prop_assert!(run.log.is_some());
    }
}

/// The window that no random run can be trusted to hit. Every write and sync of a run with rotation
/// fails or is the last before the crash, under many fates of what was not synced.
#[test]
fn a_crash_or_failure_at_any_write_or_sync_loses_nothing_confirmed() {
    let work = |run: &mut Run| {
        for number in 0..12 {
            run.append(80 + number * 20);
            run.append(30);
            if number % 3 == 1 {
                run.write();
                run.append(50);
                run.write();
            } else {
                run.sync();
            }
            if number % 4 == 3 {
                run.claim();
                run.free();
            }
        }
    };
    for seed in 0..20 {
        for nth in 1..60 {
            for fail in [Step::FailWrite(nth), Step::FailSync(nth)] {
                for end in [Step::Crash, Step::Kill] {
                    let mut run = Run::new(seed);
                    run.take(&fail);
                    work(&mut run);
                    run.take(&end);
                    run.take(&Step::Crash);
                    assert!(run.log.is_some());
                }
            }
        }
    }
}

/// A crash inside the very first creation leaves either no log or an empty one.
#[test]
fn a_crash_while_the_log_is_created_leaves_none_or_an_empty_one() {
    let mut outcomes = std::collections::BTreeSet::new();
    for seed in 0..50 {
        for nth in 1..5 {
            let simulated = SimulatedDisk::new(seed);
            let disk: Arc<dyn Disk> = Arc::new(simulated.clone());
            simulated.fail_sync(nth);
            let created = Log::create(disk.clone(), OPTIONS, ID).is_ok();
            simulated.crash();
            match open(&disk) {
                Ok((opened, frames)) => assert_eq!((opened.log.end(), frames.len()), (Position(0), 0)),
                Err(LogError::NotFound { .. }) => {
                    assert!(!created);
                    create(&disk);
                }
                Err(other) => panic!("{other}"),
            }
            outcomes.insert(created);
        }
    }
    assert_eq!(outcomes.len(), 2);
}
