//! Bytes that change by themselves: refused with the file's name and the place, or without any
//! effect on what is read.
//!
//! The tests of `blocklog` flip every byte of a log, those of `pages` every byte of a head. Here
//! one or two bytes are flipped of everything that a directory is made of.

use std::collections::BTreeMap;

use base::random::Random;

use super::*;
use crate::conformance::agree;
use crate::embedded::open::TABLES;
use crate::embedded::pages::PAGE;
use crate::memory::MemoryStore;

/// A place in a file, and the offset at which the file is refused for a flip there; `None` if the
/// flip is without effect.
type Place = (usize, Option<usize>);

/// Where the fields of a head of the tables begin, and where its second slot does.
const HEAD_FIELDS: [usize; 5] = [0, 4, 8, 16, 508];
const HEAD_SLOT: usize = 512;
/// Behind two pages of heads is that of the checksums, and then those of data.
const CHECKSUMS_AT: u64 = 2 * PAGE as u64;
const FIRST_PAGE: u64 = 3;
/// Pages whose checksums are in one page.
const GROUP: u64 = 1_024;

/// Where the fields of a segment's header begin, and its zeros.
const SEGMENT_FIELDS: [usize; 9] = [0, 8, 12, 16, 24, 32, 40, 48, 60];
const SEGMENT_HEADER: usize = 64;
/// Where the fields of a frame's header begin.
const FRAME_FIELDS: [usize; 7] = [0, 4, 8, 16, 24, 32, 36];
const FRAME_HEADER: usize = 40;

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
        let view = store.load(traffic.partition()).map_err(|error| error.to_string())?;
        view.device_residents(&mut |_| {}).map_err(|error| error.to_string())?;
        view.queue_residents(&mut |_| {}).map_err(|error| error.to_string())?;
        assert_eq!(view.head(), model.load(traffic.partition()).expect("loads").head());
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

/// Places in everything but the pages of the tables.
fn places(name: &str, bytes: &[u8], is_last_segment: bool) -> Vec<Place> {
    match name {
        _ if bytes.is_empty() => Vec::new(),
        TABLES => places_in_heads(),
        _ if name.ends_with(".seg") => places_in_segment(bytes, is_last_segment),
        // A segment that was to be used again: an opening removes it.
        _ => vec![(bytes.len() / 2, None)],
    }
}

/// Each field of both slots in both copies of the head, of which one slot is enough; and the zeros
/// behind them.
fn places_in_heads() -> Vec<Place> {
    let slots = [0, PAGE].into_iter().flat_map(|copy| [copy, copy + HEAD_SLOT]);
    let fields = slots.flat_map(|slot| HEAD_FIELDS.map(|field| slot + field));
    fields.chain([2 * HEAD_SLOT, PAGE + 2 * HEAD_SLOT]).map(|at| (at, None)).collect()
}

/// Each field of the header, and what is behind the frames. Of each frame a field of its header, in
/// turn, and its first or last byte.
fn places_in_segment(bytes: &[u8], is_last: bool) -> Vec<Place> {
    let bounds = frame_bounds(bytes);
    let end = bounds[bounds.len() - 1];
    let mut places = SEGMENT_FIELDS.map(|field| (field, Some(0))).to_vec();
    for (turn, frame) in bounds.windows(2).enumerate() {
        let last_byte = frame[1] - 1;
        let of_payload = [frame[0] + FRAME_HEADER, last_byte][turn % 2].min(last_byte);
        // The last frame of all is a claim that nothing claims: it is cut off.
        let refused_at = (!is_last || frame[1] < end).then_some(frame[0]);
        places.push((frame[0] + FRAME_FIELDS[turn % FRAME_FIELDS.len()], refused_at));
        places.push((of_payload, refused_at));
    }
    if end < bytes.len() {
        places.push(((end + bytes.len()) / 2, None));
    }
    places
}

/// Where the frames of a segment begin, and where the last of them ends.
fn frame_bounds(segment: &[u8]) -> Vec<usize> {
    let number = |at: usize| {
        let bytes = segment[at..].first_chunk::<4>().expect("no header is cut off");
        u32::from_le_bytes(*bytes)
    };
    let mut bounds = vec![SEGMENT_HEADER];
    let mut end = SEGMENT_HEADER;
    while segment[end..].starts_with(b"FPF\x01") && number(end + 32) == number(12) {
        end += FRAME_HEADER + (number(end + 4) as usize).next_multiple_of(8);
        bounds.push(end);
    }
    bounds
}

#[test]
fn a_flipped_byte_never_changes_what_is_read() {
    let (disk, model, traffic) = directory();
    let disk = disk.copy_of_durable(0);
    assert_eq!(read(&disk.copy_of_durable(0), &model, &traffic), Ok(()));
    let names = disk.list().expect("lists");
    let last_segment = names.iter().rfind(|name| name.ends_with(".seg")).expect("there is a log");
    let mut refused = 0;
    for name in &names {
        let bytes = disk.durable(name).expect("it is listed");
        for (turn, (at, refused_at)) in (0..).zip(places(name, &bytes, name == last_segment)) {
            let copy = disk.copy_of_durable(turn);
            copy.corrupt(name, at as u64, 1_u8 << (turn % 8));
            let result = read(&copy, &model, &traffic);
            let is_right = match (&result, refused_at) {
                (Ok(()), None) => true,
                (Err(text), Some(offset)) => text.contains(&format!("{name} is damaged at offset {offset}:")),
                _ => false,
            };
            assert!(is_right, "{name} at {at}, to be refused at {refused_at:?}: {result:?}");
            refused += usize::from(refused_at.is_some());
        }
    }
    assert!(refused > 40, "{refused} refused");
}

/// The byte of a page that is flipped: one of its checksum, its first, its last, or one within.
fn place_of(page: u64) -> u64 {
    let begin = page * PAGE as u64;
    match page % 4 {
        0 => CHECKSUMS_AT + (page - FIRST_PAGE) * 4 + page / 4 % 4,
        1 => begin,
        2 => begin + PAGE as u64 - 1,
        _ => begin + page * 97 % PAGE as u64,
    }
}

/// The offset of the page for which the tables are refused.
fn refused_page(text: &str) -> Option<u64> {
    let (_, place) = text.split_once("tables is damaged at offset ")?;
    place.split_once(':')?.0.parse().ok()
}

/// Every page is damaged at once. The first one that is read is refused as if it alone were
/// damaged, and put right before the next turn. Whatever is damaged in the end is never read.
#[test]
fn a_flipped_byte_of_a_page_or_its_checksum_is_refused_at_the_page_or_is_not_read() {
    const BIT: u8 = 0x10;
    let (disk, model, traffic) = directory();
    let damaged = disk.copy_of_durable(0);
    let pages = damaged.file_len(TABLES).expect("there") / PAGE as u64;
    assert!(pages <= FIRST_PAGE + GROUP, "{pages} pages have their checksums in more than one");
    let mut places: BTreeMap<u64, u64> =
        (FIRST_PAGE..pages).map(|page| (page * PAGE as u64, place_of(page))).collect();
    places.values().for_each(|place| damaged.corrupt(TABLES, *place, BIT));
    let mut refused = 0;
    while let Err(text) = read(&damaged.copy_of_durable(refused), &model, &traffic) {
        let place = refused_page(&text).and_then(|page| places.remove(&page));
        let place = place.unwrap_or_else(|| panic!("no damage is there that is left: {text}"));
        damaged.corrupt(TABLES, place, BIT);
        refused += 1;
    }
    assert!(refused > 30, "{refused} refused, {} never read", places.len());
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
