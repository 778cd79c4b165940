//! Random lives: the process dies between any two steps, batches are lost, files are written and
//! not told of. Whatever happens, each mode keeps its promise.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};

use base::random::Random;
use tokio::sync::oneshot::error::TryRecvError;

use super::*;

const STREAMS: [(&str, SaveMode); 4] = [
    ("sync", SaveMode::Sync),
    ("wait", SaveMode::Wait),
    ("periodic", SaveMode::Periodic),
    ("memory", SaveMode::Memory),
];

type AppendAnswer = oneshot::Receiver<Answered<Vec<AppendOutcome>>>;

/// What callers of a stream know.
#[derive(Default)]
struct Ledger {
    /// Ids that were answered, with what was appended under each.
    answered: BTreeMap<u64, String>,
    /// What has to be there for ever.
    promised: BTreeSet<String>,
    /// Ids whose messages a crash took.
    lost: BTreeSet<u64>,
    /// External numbers that were given.
    numbers: u64,
    waiting: Vec<(AppendAnswer, Vec<String>)>,
}

struct Lives {
    bench: Bench,
    random: Random,
    ledgers: Vec<Ledger>,
    ends: usize,
    /// Callers are answered before anything is durable.
    is_rash: bool,
}

impl Lives {
    fn new(seed: u64) -> Self {
        let mut bench = Bench::new();
        for (stream, mode) in STREAMS {
            bench.set(stream, |settings| {
                settings.save = mode;
                settings.save_interval_ms = 500;
                settings.block.messages = 5;
                settings.block.age_ms = 2_000;
                settings.unload_after_ms = 3_000;
                settings.keep.age_ms = None;
            });
        }
        bench.hold();
        let ledgers = STREAMS.iter().map(|_| Ledger::default()).collect();
        Self { bench, random: Random::new(seed), ledgers, ends: 0, is_rash: false }
    }

    fn act(&mut self) {
        match self.random.below(20) {
            0..=6 => self.append(),
            7..=10 => self.write_one(),
            11..=13 => {
                let ms = self.random.below(900);
                self.bench.now = self.bench.now.after(Duration::from_millis(ms));
                self.step(Vec::new());
            }
            14..=16 => self.work(),
            17 => self.step(Vec::new()),
            18 => self.die(),
            _ => self.stop(),
        }
        self.take_answers();
    }

    /// A step, where no more than two batches are being written.
    fn step(&mut self, inputs: Vec<StreamsInput>) {
        while self.bench.held.as_ref().is_some_and(|held| held.len() >= 2) {
            self.write_one();
        }
        self.bench.one_step(inputs);
        let last = self.bench.held.as_mut().and_then(|held| held.last_mut()).filter(|_| self.is_rash);
        let effects = last.map(|(_, effects)| std::mem::take(effects)).unwrap_or_default();
        effects.into_iter().for_each(|effect| self.bench.context.release(effect));
    }

    fn append(&mut self) {
        let place = self.random.below(STREAMS.len() as u64) as usize;
        let count = 1 + self.random.below(4);
        let mut texts = Vec::new();
        for _ in 0..count {
            let ledger = &mut self.ledgers[place];
            let is_again = ledger.numbers > 0 && self.random.below(4) == 0;
            let number = if is_again {
                self.random.below(ledger.numbers)
            } else {
                ledger.numbers += 1;
                ledger.numbers - 1
            };
            texts.push(number.to_string());
        }
        // Some sources give texts.
        let id = |text: &String| if place.is_multiple_of(2) { text.clone() } else { format!("n{text}") };
        let messages = texts.iter().map(|text| from_source(text, &id(text))).collect();
        let (reply, answer) = Reply::new();
        let stream = name(STREAMS[place].0);
        let call = AppendCall::new(stream, messages, reply);
        self.step(vec![StreamsInput::Append(Box::new(call))]);
        self.ledgers[place].waiting.push((answer, texts));
    }

    /// The batch that waits longest is durable.
    fn write_one(&mut self) {
        let Some(held) = self.bench.held.as_mut().filter(|held| !held.is_empty()) else { return };
        let (batch, effects) = held.remove(0);
        self.bench.durable(batch, effects);
    }

    fn work(&mut self) {
        let Some(work) = self.bench.context.take_block_work() else { return };
        if let Some(done) = do_work(&self.bench.store, &self.bench.context, work) {
            self.step(vec![done.into_input()]);
        }
    }

    /// The process dies; of what was being written some is durable.
    fn die(&mut self) {
        let held = self.bench.held.take().unwrap_or_default();
        let durable = self.random.below(held.len() as u64 + 1) as usize;
        for (batch, _) in held.into_iter().take(durable) {
            self.bench.store.commit(batch, Box::new(|_| {}));
        }
        self.take_answers();
        self.ledgers.iter_mut().for_each(|ledger| ledger.waiting.clear());
        self.bench.load();
        self.bench.hold();
        self.ends += 1;
        self.check(false);
    }

    fn stop(&mut self) {
        while self.bench.held.as_ref().is_some_and(|held| !held.is_empty()) {
            self.write_one();
        }
        self.bench.machine().close();
        self.bench.one_step(Vec::new());
        while self.bench.held.as_ref().is_some_and(|held| !held.is_empty()) {
            self.write_one();
        }
        self.take_answers();
        assert!(self.ledgers.iter().all(|ledger| ledger.waiting.is_empty()), "everybody was answered");
        self.bench.load();
        self.bench.hold();
        self.check(true);
    }

    fn take_answers(&mut self) {
        for ((_, mode), ledger) in STREAMS.iter().zip(&mut self.ledgers) {
            let is_durable = matches!(mode, SaveMode::Sync | SaveMode::Wait);
            for (mut answer, texts) in std::mem::take(&mut ledger.waiting) {
                match answer.try_recv() {
                    Err(TryRecvError::Empty) => ledger.waiting.push((answer, texts)),
                    Err(TryRecvError::Closed) => {}
                    Ok(outcomes) => {
                        for (outcome, text) in outcomes.expect("appended").into_iter().zip(texts) {
                            if let AppendOutcome::Appended(id) = outcome {
                                let before = ledger.answered.insert(id, text.clone());
                                assert_eq!(before, None, "{mode:?}: {id} is given twice");
                            }
                            if is_durable {
                                ledger.promised.insert(text);
                            }
                        }
                    }
                }
            }
        }
    }

    /// What is there after a start.
    fn check(&mut self, was_clean: bool) {
        for ((stream, mode), ledger) in STREAMS.iter().zip(&mut self.ledgers) {
            let all = self.bench.all(stream);
            let ids: BTreeSet<u64> = all.iter().map(|(id, _)| *id).collect();
            let texts: BTreeSet<&String> = all.iter().map(|(_, text)| text).collect();
            assert!(all.is_sorted_by_key(|(id, _)| *id) && ids.len() == all.len(), "{mode:?}: {all:?}");
            assert_eq!(texts.len(), all.len(), "{mode:?}: one is there twice: {all:?}");
            for (id, text) in &all {
                assert!(!ledger.lost.contains(id), "{mode:?}: {id} was lost");
                assert!(
                    ledger.answered.get(id).is_none_or(|known| known == text),
                    "{mode:?}: {id} is another"
                );
            }
            let missing = ledger.promised.iter().find(|text| !texts.contains(text));
            assert_eq!(missing, None, "{mode:?}: it was promised");
            let last = ids.last().copied().unwrap_or(0);
            let gone: Vec<u64> = ledger.answered.keys().copied().filter(|id| !ids.contains(id)).collect();
            for id in gone {
                let is_new = ledger.lost.insert(id);
                assert!(!is_new || id > last, "{mode:?}: {id} is missing in the middle of {ids:?}");
                assert!(!is_new || !was_clean, "{mode:?}: a clean stop lost {id}");
                assert!(!is_new || !matches!(mode, SaveMode::Sync | SaveMode::Wait), "{mode:?} lost {id}");
            }
        }
    }
}

#[test]
fn each_mode_keeps_its_promise_whenever_the_process_dies() {
    let (mut ends, mut lost, mut stored) = (0, 0, 0);
    for seed in 0..150 {
        let mut lives = Lives::new(seed);
        for _ in 0..200 {
            lives.act();
        }
        lives.die();
        ends += lives.ends;
        lost += lives.ledgers.iter().map(|ledger| ledger.lost.len()).sum::<usize>();
        stored += lives.bench.files();
    }
    assert!(ends > 500 && lost > 100 && stored > 500, "{ends} ends, {lost} lost, {stored} stored");
}

/// The checks above bite.
#[test]
fn answers_that_are_let_go_before_they_are_durable_are_found() {
    let rash_life = |seed| {
        let mut lives = Lives { is_rash: true, ..Lives::new(seed) };
        (0..200).for_each(|_| lives.act());
    };
    let is_found = |seed: &u64| catch_unwind(AssertUnwindSafe(|| rash_life(*seed))).is_err();
    let found = (0..20).filter(is_found).count();
    assert!(found > 15, "{found} of 20");
}
