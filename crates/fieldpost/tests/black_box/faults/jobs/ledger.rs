//! What publishers and consumers know of their jobs, and what contradicts it.
//!
//! Nothing here was asked of the server. A job is known from being sent on, an attempt from being
//! handed over, an end from the answer to an acknowledgement. An answer may be read after another
//! that was given later. So what it says is held only against what was known when its question was
//! asked.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard};
use std::time::Instant;

use serde_json::Value;
use tokio::sync::watch;

use crate::faults::PATIENCE;

/// So many contradictions are named.
const NAMED_MAX: usize = 20;

/// See the module.
#[derive(Default)]
pub(super) struct Ledger {
    jobs: Mutex<BTreeMap<u64, Known>>,
    counts: watch::Sender<Counts>,
}

/// How far the clients have come.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) published: u64,
    pub(super) done: u64,
    /// Of those done, with a reservation of a process that had been killed.
    pub(super) done_across_kills: u64,
}

/// A job as the server lists it.
pub(super) struct Listed {
    pub(super) id: String,
    pub(super) attempt: u32,
}

#[derive(Default)]
struct Known {
    /// From the first answer that names it.
    id: Option<String>,
    is_published: bool,
    /// When each attempt was seen.
    attempts: BTreeMap<u32, Instant>,
    state: State,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum State {
    /// The server may hand it over.
    #[default]
    Waiting,
    /// A consumer has it since, and keeps it.
    Held(Instant),
    /// An acknowledgement was answered then.
    Done(Instant),
}

impl Known {
    fn is_called(&mut self, number: u64, id: &str) {
        let first = self.id.get_or_insert_with(|| id.to_owned());
        assert_eq!(first, id, "job {number} has two ids");
    }
}

impl Ledger {
    fn jobs(&self) -> MutexGuard<'_, BTreeMap<u64, Known>> {
        self.jobs.lock().expect("whoever panicked has failed the test already")
    }

    /// These are about to be published.
    pub(super) fn sent(&self, numbers: Range<u64>) {
        self.jobs().extend(numbers.map(|number| (number, Known::default())));
    }

    /// The answer to that.
    pub(super) fn published(&self, numbers: Range<u64>, answer: &Value) {
        let answered = answer["jobs"].as_array().expect("jobs");
        assert_eq!(answered.len() as u64, numbers.end - numbers.start, "{answer}");
        let mut jobs = self.jobs();
        for (number, job) in numbers.clone().zip(answered) {
            let known = jobs.get_mut(&number).expect("it was sent");
            known.is_called(number, job["id"].as_str().expect("an id"));
            known.is_published = true;
        }
        self.counts.send_modify(|counts| counts.published += numbers.end - numbers.start);
    }

    /// A job was handed over to a consumer that had asked at `asked`, and keeps it or leaves it to
    /// its end; its number.
    pub(super) fn came(&self, job: &Value, asked: Instant, keeps: bool) -> u64 {
        let number = job["payload"].as_u64().expect("a number");
        let attempt = job["attempt"].as_u64().expect("a number") as u32;
        let mut jobs = self.jobs();
        let known = jobs.get_mut(&number).unwrap_or_else(|| panic!("nobody published {number}"));
        known.is_called(number, job["id"].as_str().expect("an id"));
        if let State::Held(since) | State::Done(since) = known.state {
            assert!(since >= asked, "{number} came again although it was {:?}", known.state);
        }
        let newest = known.attempts.last_key_value().map_or(0, |(attempt, _)| *attempt);
        let before = known.attempts.iter().filter(|(_, seen)| **seen < asked).map(|(attempt, _)| *attempt);
        let before = before.max().unwrap_or(0);
        assert!(attempt > before, "attempt {attempt} of {number} follows attempt {before}");
        let seen = known.attempts.insert(attempt, Instant::now());
        assert!(seen.is_none(), "attempt {attempt} of {number} came twice");
        if keeps {
            assert!(attempt > newest, "attempt {newest} of {number} came while attempt {attempt} was held");
            known.state = State::Held(Instant::now());
        }
        number
    }

    /// A consumer is about to give it back.
    pub(super) fn given_back(&self, number: u64) {
        self.jobs().get_mut(&number).expect("it came").state = State::Waiting;
    }

    /// An acknowledgement was answered.
    pub(super) fn done(&self, number: u64) {
        self.jobs().get_mut(&number).expect("it came").state = State::Done(Instant::now());
        self.counts.send_modify(|counts| counts.done += 1);
    }

    /// That one was with a reservation that had outlived its process.
    pub(super) fn done_across_a_kill(&self) {
        self.counts.send_modify(|counts| counts.done_across_kills += 1);
    }

    /// Waits until no more than so many are published and not done.
    pub(super) async fn until_fewer_than(&self, open: u64) {
        self.until(|counts| counts.published < counts.done + open).await;
    }

    /// Waits until `more` are done beyond those so far.
    pub(super) async fn until_done(&self, more: u64) {
        let goal = self.counts.borrow().done + more;
        self.until(|counts| counts.done >= goal).await;
    }

    async fn until(&self, reached: impl FnMut(&Counts) -> bool) {
        let mut counts = self.counts.subscribe();
        let ended = tokio::time::timeout(PATIENCE, counts.wait_for(reached)).await.map(drop);
        assert!(ended.is_ok(), "no further than {:?}", self.counts.borrow());
    }

    /// Holds what the server has against what is known, when nobody works any more.
    pub(super) fn close(&self, listed: &BTreeMap<u64, Listed>) {
        let jobs = self.jobs();
        let mut wrong: Vec<String> = jobs
            .iter()
            .filter_map(|(number, known)| {
                let contradiction = contradiction(known, listed.get(number))?;
                Some(format!("{number}: {contradiction}"))
            })
            .collect();
        wrong.extend(
            listed.keys().filter(|number| !jobs.contains_key(number)).map(|n| format!("{n}: nobody's")),
        );
        let counts = *self.counts.borrow();
        eprintln!("{counts:?}, {} are left", listed.len());
        let count = wrong.len();
        wrong.truncate(NAMED_MAX);
        assert!(wrong.is_empty(), "{count} jobs are not as they must be:\n  {}", wrong.join("\n  "));
        assert!(counts.done_across_kills > 0, "no reservation outlived its process");
    }
}

fn contradiction(known: &Known, listed: Option<&Listed>) -> Option<String> {
    let newest = known.attempts.last_key_value().map_or(0, |(attempt, _)| *attempt);
    match (known.state, listed) {
        (State::Done(_), None) => None,
        (State::Done(_), Some(_)) => Some("acknowledged, and there".to_owned()),
        (_, None) => Some(format!("published ({}), and gone", known.is_published)),
        (_, Some(listed)) if listed.attempt < newest => {
            Some(format!("attempt {newest} came, {} is shown", listed.attempt))
        }
        (_, Some(listed)) if known.id.as_ref() != Some(&listed.id) => {
            Some(format!("known as {:?}, shown as {}", known.id, listed.id))
        }
        (State::Held(_), Some(_)) => Some("held by a client that should have ended it".to_owned()),
        (State::Waiting, Some(_)) => None,
    }
}
