//! Bytes that change by themselves, in every file of a data directory. The server refuses to start,
//! or stops at the place, and names file and offset; or it has lost nothing. What it answers is
//! never wrong.
//!
//! One loss cannot be seen. After a kill, the end of the log since the latest checkpoint may be
//! gone to the byte or be all zeros. A clean stop leaves none of the log needed.
//!
//! Each turn starts the program, so here are few: for places that differ in kind. Every byte of a
//! log and of a block, and every page, has its turn in the tests of `blocklog`, `streams` and
//! `store`.

use std::fs;
use std::ops::Range;
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

/// The header of a log, or one of the four heads of the tables.
const HEAD: Range<usize> = 0..64;
/// Checksums of 252 pages of the tables. There are more pages than that.
const CHECKSUMS: Range<usize> = 8_192..9_200;
/// How far from its end the two last places of a log begin. The reports of [`LATE`] are in both,
/// and no checkpoint has seen them.
const LOG_ENDS: [usize; 2] = [1_400, 400];
/// Equal parts of the log and of the tables: by turns they are cut, get zeros, or a flipped bit.
const PARTS: usize = 6;
/// Whoever reads a damaged block of a stream asks again and again.
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
    const ALL: [Self; 3] = [Self::Cut, Self::Zeros, Self::Flip];

    /// What is left of a file that it strikes somewhere in `place`, and where it did.
    fn inflict(self, whole: &[u8], place: &Range<usize>, random: &mut Random) -> (Vec<u8>, usize) {
        let mut bytes = whole.to_vec();
        let at = place.start + random.below(place.len() as u64) as usize;
        match self {
            Self::Cut => bytes.truncate(at),
            Self::Zeros => {
                let end = (at + ZEROS).min(bytes.len());
                bytes[at..end].fill(0);
            }
            Self::Flip => bytes[at] ^= 1 << random.below(8),
        }
        (bytes, at)
    }
}

#[tokio::test]
async fn after_a_kill_damage_is_refused_or_recovered_and_never_answered_wrongly() {
    let fixture = fixtures().pop().expect("the newest");
    let source = tempfile::tempdir().expect("a directory");
    unpack(&fixture, source.path());
    let outcomes = sweep(source.path(), &expected(&fixture), 1, true).await;
    assert!(outcomes.iter().filter(|outcome| **outcome == Outcome::Refused).count() > 5, "{outcomes:?}");
    assert!(outcomes.contains(&Outcome::Recovered), "the end of the log was cut off: {outcomes:?}");
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

/// Damages every file of `source`, each time in a copy.
async fn sweep(source: &Path, expect: &Value, seed: u64, may_lose_a_tail: bool) -> Vec<Outcome> {
    let mut random = Random::new(seed);
    let mut outcomes = Vec::new();
    let damaged = tempfile::tempdir().expect("a directory");
    copy(source, damaged.path());
    for name in names(source) {
        let whole = fs::read(source.join(&name)).expect("readable");
        for (damage, place) in damages(&name, &whole) {
            let (bytes, at) = damage.inflict(&whole, &place, &mut random);
            fs::write(damaged.path().join(&name), bytes).expect("written");
            let context = format!("{name}, {damage:?} at {at}");
            let site = site();
            copy(damaged.path(), &site.data_dir());
            let outcome = outcome(&site, expect, &name, damage, &context).await;
            if !matches!(outcome, Outcome::Recovered | Outcome::Untouched) {
                let checked = run(&["check", word(damaged.path())]);
                let is_told = checked.code == Some(1) && checked.out.contains("WRONG: ");
                assert!(is_told, "{context}: {checked:?}");
            }
            assert!(outcome != Outcome::Recovered || may_lose_a_tail, "{context}: {outcome:?}");
            outcomes.push(outcome);
        }
        fs::write(damaged.path().join(&name), whole).expect("written");
    }
    outcomes
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("listed");
    let mut names: Vec<_> = entries
        .map(|entry| entry.expect("listed").file_name().into_string().expect("our files are named in ASCII"))
        .collect();
    names.sort_unstable();
    names
}

/// What is done to a file, and where. Each place of a kind of its own has everything done to it,
/// each of the file's parts one thing.
fn damages(name: &str, whole: &[u8]) -> Vec<(Damage, Range<usize>)> {
    let used = whole.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let anywhere = 0..used;
    let (kinds, parts) = match name {
        "tables" => (vec![HEAD, CHECKSUMS], PARTS),
        _ if name.starts_with("log") => {
            let [one, other] = LOG_ENDS.map(|length| used.saturating_sub(length));
            (vec![HEAD, one..other, other..used], PARTS)
        }
        _ => (vec![anywhere], 0),
    };
    let everything = kinds.into_iter().flat_map(|place| Damage::ALL.map(|damage| (damage, place.clone())));
    let by_turns = (0..parts).zip(Damage::ALL.into_iter().cycle());
    let by_turns = by_turns.map(|(part, damage)| (damage, used * part / parts..used * (part + 1) / parts));
    // A file without bytes has no place.
    everything.chain(by_turns).filter(|(_, place)| !place.is_empty()).collect()
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
