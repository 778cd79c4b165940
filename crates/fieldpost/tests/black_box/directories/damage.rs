//! Bytes that change by themselves, in every file of a data directory: the server refuses to start,
//! or stops at the place, and names file and offset; or it has lost nothing. What it answers is
//! never wrong.
//!
//! One loss cannot be seen: after a kill, the end of the log since the latest checkpoint, if it is
//! gone to the byte or is all zeros. A clean stop leaves none of the log needed.

use std::fs;
use std::path::Path;
use std::time::Duration;

use base::random::Random;
use serde_json::Value;
use simulator::server::{ServerError, Site};

use super::compare::{difference, take_readings};
use super::contents;
use super::fixture::{expected, fixtures, unpack};
use super::program::{copy, run, site, word};
use super::story::{LATE, PATIENCE};

/// Damages of each file: one in three a cut, one zeros, one a flipped bit.
const TURNS: u64 = 45;
/// Damages of a block of a stream: whoever reads it asks again and again.
const BLOCK_TURNS: u64 = 6;
const BLOCK_PATIENCE: Duration = Duration::from_secs(3);
const ZEROS: usize = 4_096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Damage {
    Cut,
    Zeros,
    Flip,
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Refused,
    StoppedAtIt,
    /// Of a block of a stream: its messages are refused, and nothing else is.
    BlockRefused,
    Recovered,
    Untouched,
}

impl Damage {
    fn of(turn: u64) -> Self {
        [Self::Cut, Self::Zeros, Self::Flip][(turn % 3) as usize]
    }

    /// Does it to a file, at a place that is in use.
    fn inflict(self, path: &Path, random: &mut Random) -> usize {
        let mut bytes = fs::read(path).expect("readable");
        let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        let at = random.below(used.max(1) as u64) as usize;
        match self {
            Self::Cut => bytes.truncate(at),
            Self::Zeros => {
                let end = (at + ZEROS).min(bytes.len());
                bytes[at..end].fill(0);
            }
            Self::Flip => bytes[at] ^= 1 << random.below(8),
        }
        fs::write(path, bytes).expect("written");
        at
    }
}

#[tokio::test]
async fn after_a_kill_damage_is_refused_or_recovered_and_never_answered_wrongly() {
    let fixture = fixtures().pop().expect("the newest");
    let source = tempfile::tempdir().expect("a directory");
    unpack(&fixture, source.path());
    let outcomes = sweep(source.path(), &expected(&fixture), 1, true).await;
    assert!(outcomes.iter().filter(|outcome| **outcome == Outcome::Refused).count() > 5, "{outcomes:?}");
}

#[tokio::test]
async fn after_a_clean_stop_damage_is_refused_or_without_effect() {
    let fixture = fixtures().pop().expect("the newest");
    let stopped = site();
    unpack(&fixture, &stopped.data_dir());
    let server = stopped.start(PATIENCE).await.expect("ready");
    let expect = contents::read(&stopped).await.expect("readable");
    assert!(server.stop(PATIENCE).await.expect("stopped").success());
    let outcomes = sweep(&stopped.data_dir(), &expect, 2, false).await;
    assert!(outcomes.iter().filter(|outcome| **outcome == Outcome::Refused).count() > 5, "{outcomes:?}");
    assert!(!outcomes.contains(&Outcome::Recovered), "nothing was left to recover: {outcomes:?}");
}

/// Damages every file of `source`, a copy for each turn.
async fn sweep(source: &Path, expect: &Value, seed: u64, may_lose_a_tail: bool) -> Vec<Outcome> {
    let mut random = Random::new(seed);
    let mut outcomes = Vec::new();
    for entry in fs::read_dir(source).expect("listed") {
        let entry = entry.expect("listed");
        if entry.metadata().expect("readable").len() == 0 {
            continue;
        }
        let is_block = entry.path().extension().is_some_and(|extension| extension == "block");
        for turn in 0..if is_block { BLOCK_TURNS } else { TURNS } {
            let site = site();
            copy(source, &site.data_dir());
            let (damage, name) = (Damage::of(turn), entry.file_name().into_string().expect("UTF-8"));
            let at = damage.inflict(&site.data_dir().join(&name), &mut random);
            let context = format!("{name}, {damage:?} at {at}");
            let checked = run(&["check", word(&site.data_dir())]);
            let outcome = outcome(&site, expect, &name, damage, &context).await;
            let is_seen = !matches!(outcome, Outcome::Recovered | Outcome::Untouched);
            assert!(
                !is_seen || (checked.code == Some(1) && checked.out.contains("WRONG: ")),
                "{context}: {checked:?}"
            );
            assert!(outcome != Outcome::Recovered || may_lose_a_tail, "{context}: {outcome:?}");
            outcomes.push(outcome);
        }
    }
    outcomes
}

async fn outcome(site: &Site, expect: &Value, name: &str, damage: Damage, context: &str) -> Outcome {
    let server = match site.start(PATIENCE).await {
        Ok(server) => server,
        Err(ServerError::Ended { status, log_tail }) => {
            assert_eq!(status.code(), Some(1), "{context}: {log_tail}");
            assert!(names_the_place(&log_tail, name), "{context}: {log_tail}");
            return Outcome::Refused;
        }
        Err(error) => panic!("{context}: {error}"),
    };
    let is_block = name.ends_with(".block");
    let mut found = contents::read_within(site, if is_block { BLOCK_PATIENCE } else { PATIENCE }).await;
    if found.is_err() && is_block && !site.log().contains(name) {
        // a busy machine answers later
        found = contents::read(site).await;
    }
    server.kill().await.expect("killed");
    let log = site.log();
    if found.is_err() && is_block {
        assert!(log.contains(name) && !log.contains("accepts nothing more"), "{context}: {log}");
        return Outcome::BlockRefused;
    }
    let Ok(mut found) = found else {
        assert!(names_the_place(&log, name) && log.contains("accepts nothing more"), "{context}: {log}");
        return Outcome::StoppedAtIt;
    };
    if difference(expect, &found, "").is_none() {
        return Outcome::Untouched;
    }
    let mut expect = expect.clone();
    let (whole, kept) = (take_readings(&mut expect, LATE), take_readings(&mut found, LATE));
    assert_eq!(difference(&expect, &found, ""), None, "{context}");
    assert!(kept.len() < whole.len() && kept[..] == whole[..kept.len()], "{context}: {kept:?}");
    let is_told = log.contains("cut off a torn tail") && log.contains(name) && log.contains("offset");
    assert!(is_told || damage != Damage::Flip, "{context}: {log}");
    assert!(name.starts_with("log"), "{context}");
    Outcome::Recovered
}

/// Whether a message leads to the damaged file, or from one file to another that does not go with
/// it.
fn names_the_place(text: &str, name: &str) -> bool {
    let place = ["offset", "position", "missing", "too short", "Heads", "Directory"];
    text.contains(name) && place.iter().any(|place| text.contains(place))
}
