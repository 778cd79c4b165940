//! Every record and frame survives its stored form; anything else is refused without a panic.

mod versions;

use std::collections::BTreeSet;
use std::ops::{Range, RangeBounds};

use base::random::Random;
use base::{PartitionId, WayIn};
use records::{
    Batch, CountedOf, CountsKey, DeviceSlot, GroupKey, JobClock, JobId, KeptFrom, LastSeen, Metric, Op,
    PartitionHead, QueueKey, Sign, SignReading,
};

use super::key::{self, BlobKey, FeedEntryKey, ParkedPlace};
use super::*;
use crate::conformance::traffic::Traffic;
use base::{Attended, Incarnation, Kind, Timestamp, Value};

fn batches(seed: u64) -> impl Iterator<Item = Batch> {
    let partition = match seed % 7 {
        0 => PartitionId::REGISTRY,
        6 => PartitionId::of_streams(seed as u16),
        5 => PartitionId::CAMPAIGNS,
        1 | 2 => PartitionId::of_queues(seed as u16),
        _ => PartitionId(seed as u16),
    };
    let mut traffic = Traffic::new(seed, partition);
    std::iter::repeat_with(move || traffic.next_batch(60)).take(20)
}

#[test]
fn every_batch_survives_its_frame() {
    for seed in 0..100 {
        for batch in batches(seed) {
            let frame = encode_batch(&batch);
            assert_eq!(decode_batch(&frame), Ok(batch), "seed {seed}");
        }
    }
}

/// Seeds whose batches have every change.
const SEEDS_OF_EVERY_CHANGE: Range<u64> = 0..20;

macro_rules! names_of_changes {
    ($($(#[$doc:meta])* $number:literal $change:ident($($part:ident: $type:ty),+) $does:tt)*) => {
        const CHANGES: &[&str] = &[$(stringify!($change)),*];

        fn name_of(op: &Op) -> &'static str {
            match op {
                Op::Sign(_) => "Sign",
                $(Op::$change(..) => stringify!($change),)*
            }
        }
    };
}

records::all_changes!(names_of_changes);

/// A change that no batch has is compared with no model, and no checksum has the bytes of its
/// record.
#[test]
fn every_change_is_in_the_traffic() {
    let ops = SEEDS_OF_EVERY_CHANGE.flat_map(batches).flat_map(|batch| batch.ops);
    let made: BTreeSet<_> = ops.map(|op| name_of(&op)).collect();
    let missing: Vec<_> = CHANGES.iter().filter(|name| !made.contains(*name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// Frames hold records in the bytes of their rows. Another checksum here is another stored format:
/// it needs a version.
#[test]
fn the_bytes_of_every_record_stay_as_they_are() {
    let frames = SEEDS_OF_EVERY_CHANGE.flat_map(batches).map(|batch| encode_batch(&batch));
    let checksum = frames.fold(0, |sum, frame| crc32c::crc32c_append(sum, &frame));
    assert_eq!(checksum, 0xae54_4fc3, "{checksum:#010x}");
}

/// What bounds a batch is its weight: the log takes it.
#[test]
fn no_change_weighs_less_than_its_bytes() {
    let empty = encode_batch(&Batch::new(PartitionId(0))).len();
    for op in (0..40).flat_map(batches).flat_map(|batch| batch.ops) {
        let weight = op.weight();
        let frame = encode_batch(&Batch { ops: vec![op.clone()], ..Batch::new(PartitionId(0)) });
        assert!(frame.len() - empty <= weight, "{} bytes weigh {weight}: {op:?}", frame.len() - empty);
    }
}

#[test]
fn an_equal_report_takes_at_most_eight_bytes() {
    let sign = |slot, readings, value| {
        let reading = SignReading { ts: None, value: Value::Number(value), changed: false };
        Op::Sign(Sign {
            slot: DeviceSlot(slot),
            way: WayIn::Amqp,
            readings,
            newest_ts: None,
            reading: Some(reading),
        })
    };
    let frame_of = |ops| encode_batch(&Batch { ops, ..Batch::new(PartitionId(0)) }).len();
    for (slot, readings, value, bytes) in
        [(0, 1, 0.0, 3), (62_500, 1_000, 1.0, 6), (2_000_000, 2_000_000, 1.0, 7)]
    {
        assert_eq!(frame_of(vec![sign(slot, readings, value)]) - frame_of(vec![]), bytes, "slot {slot}");
    }
    let full = |slot| vec![sign(slot, 100_000, 1.0); 1_000];
    assert!(frame_of(full(62_499)) <= 8 * 1_000, "{}", frame_of(full(62_499)));
}

#[test]
fn bytes_that_are_cut_or_changed_are_refused_or_read_as_something_else() {
    let mut random = Random::new(3);
    for seed in 0..30 {
        let frame = encode_batch(&batches(seed).nth(10).expect("twenty"));
        for end in 0..frame.len() {
            assert!(decode_batch(&frame[..end]).is_err(), "seed {seed} cut at {end}");
        }
        for _ in 0..2_000 {
            let mut changed = frame.clone();
            for _ in 0..=random.below(3) {
                let at = random.below(changed.len() as u64) as usize;
                changed[at] = random.next_u64() as u8;
            }
            if let Ok(batch) = decode_batch(&changed) {
                let again = decode_batch(&encode_batch(&batch));
                assert_eq!(again, Ok(batch), "seed {seed}");
            }
        }
    }
}

#[test]
fn noise_is_refused_without_a_panic() {
    let mut random = Random::new(9);
    let mut refused = 0;
    for _ in 0..20_000 {
        let length = random.below(200) as usize;
        let mut noise: Vec<u8> = (0..length).map(|_| random.next_u64() as u8).collect();
        if let Some(version) = noise.first_mut() {
            *version = 1 + (*version & 1);
        }
        refused += u32::from(decode_batch(&noise).is_err());
        refused += u32::from(decode_seen_slice(&noise).is_err());
    }
    assert!(refused > 39_000, "{refused}");
}

#[test]
fn a_wrong_length_asks_for_no_memory() {
    let mut frame = encode_batch(&Batch::new(PartitionId(0)));
    frame.pop();
    put_u64(&mut frame, u64::MAX >> 1);
    assert!(matches!(decode_batch(&frame), Err(CodecError::Truncated { .. })));
}

#[test]
fn a_later_version_is_named() {
    let mut frame = encode_batch(&Batch::new(PartitionId(0)));
    frame[0] = 8;
    let error = decode_batch(&frame).expect_err("a later version");
    assert_eq!(error.to_string(), "a batch at byte 0 is of version 8, and this build knows versions up to 7");
    frame[0] = 7;
    frame[3] = 9;
    let error = decode_batch(&frame).expect_err("a later version");
    assert_eq!(error, CodecError::Version { what: "a partition's head", at: 3, found: 9, known: 4 });
}

#[test]
fn the_signs_of_life_of_a_slice_survive_and_are_small() {
    let mut random = Random::new(4);
    for full in [true, false] {
        let mut slice: crate::port::SeenSlice = [None; 256];
        for seen in &mut slice {
            if full || random.below(3) == 0 {
                *seen = Some(LastSeen {
                    at: Timestamp(1_800_000_000_000 + random.below(60_000) as i64),
                    way: WayIn::ALL[random.below(3) as usize],
                    attended: Attended(90_000_000_000 + random.below(60_000) as i64),
                    readings: random.below(100_000) as u32,
                    newest_ts: None,
                });
            }
        }
        let bytes = encode_seen_slice(&slice);
        assert!(bytes.len() <= 256 * 11, "{}", bytes.len());
        assert_eq!(decode_seen_slice(&bytes).as_deref(), Ok(&slice));
    }
}

#[test]
fn extreme_signs_of_life_survive() {
    let mut slice: crate::port::SeenSlice = [None; 256];
    for (seen, at) in slice.iter_mut().zip([i64::MIN, i64::MAX, 0, -1]) {
        *seen = Some(LastSeen {
            at: Timestamp(at),
            way: WayIn::Mqtt,
            attended: Attended(!at),
            readings: u32::MAX,
            newest_ts: Some(Timestamp(!at / 2)),
        });
    }
    assert_eq!(decode_seen_slice(&encode_seen_slice(&slice)).as_deref(), Ok(&slice));
}

#[test]
fn the_order_of_keys_is_the_order_of_what_they_stand_for() {
    let times = [i64::MIN, -5, -1, 0, 1, 255, 256, 1_800_000_000_000, i64::MAX];
    let entries = times.iter().flat_map(|at| [0, 1, u32::MAX].map(|number| (*at, number)));
    let entries: Vec<_> = entries.map(|(at, number)| FeedEntryKey { at: Timestamp(at), number }).collect();
    let keys: Vec<_> = entries.iter().map(|entry| entry.below(b"x")).collect();
    assert!(keys.is_sorted());
    for (entry, key) in entries.iter().zip(&keys) {
        assert_eq!(FeedEntryKey::at_end_of(key), Ok(*entry));
    }
    let blob = |day, sequence| BlobKey { slice: 3, day, sequence };
    let blobs = [blob(i32::MIN, 9), blob(-1, 3), blob(0, 0), blob(0, 1), blob(20_000, 0)];
    assert!(blobs.map(BlobKey::to_key).is_sorted());
    for blob in blobs {
        assert_eq!(BlobKey::from_key(&blob.to_key()), Ok(blob));
    }
    assert!(FeedEntryKey::at_end_of(b"short").is_err() && BlobKey::from_key(b"short").is_err());
    assert!(key::slot(DeviceSlot(255)) < key::slot(DeviceSlot(256)));
}

#[test]
fn the_order_of_the_keys_of_counts_is_the_order_of_their_names() {
    let of = [CountedOf::All, CountedOf::Client(Incarnation(0)), CountedOf::Client(Incarnation(256))];
    let of = of.into_iter().chain([CountedOf::Label(0), CountedOf::Label(u64::MAX)]);
    let metrics = [Metric::Reports, Metric::Changes, Metric::Losses, Metric::Deliveries];
    let of_day = |day| {
        let each = move |of| metrics.map(|metric| CountsKey { day, of, metric });
        of.clone().flat_map(each)
    };
    let names: Vec<_> = [0, 1, 255, 256, u32::MAX].into_iter().flat_map(of_day).collect();
    assert!(names.is_sorted() && names.iter().map(|name| key::counts(*name)).is_sorted());
}

#[test]
fn what_keeps_everything_says_so_in_a_byte() {
    let size = |kept_from| PartitionHead { kept_from, ..PartitionHead::default() }.to_row().len();
    let kept = KeptFrom { events: Timestamp(0), ..KeptFrom::EVER };
    assert_eq!(size(kept), size(KeptFrom::EVER) + 1);
}

#[test]
fn parked_jobs_stand_by_clock_then_bucket_then_run_then_time() {
    let (engine, wall) = (Some(JobClock::Engine), Some(JobClock::Wall));
    let bucket = 1 << ParkedPlace::BUCKET_BITS;
    let job = |run: u8, other: u8| {
        let mut id = [other; 16];
        id[JobId::RUN].copy_from_slice(&[0, run]);
        JobId(id)
    };
    let places = [
        (engine, ParkedPlace::FIRST.0, job(2, 5)),
        (engine, -1, job(2, 4)),
        (engine, 7, job(1, 9)),
        (engine, 8, job(1, 3)),
        (engine, 8, job(1, 4)),
        (engine, bucket - 1, job(1, 0)),
        (engine, 0, job(2, 1)),
        (engine, bucket, job(0, 1)),
        (wall, -5, job(0, 2)),
        (wall, ParkedPlace::LAST.0, job(0, 0)),
        (None, 0, job(0, 0)),
    ];
    let places = places.map(|(clock, at, id)| ParkedPlace { clock, at: Timestamp(at), id });
    assert!(places.map(ParkedPlace::to_key).is_sorted());
    for place in places {
        let key = place.to_key();
        assert_eq!(ParkedPlace::from_key(&key), Ok(place));
        assert_eq!(ParkedPlace::of_job(place.id, &place.beside_id()), Ok(place));
        for clock in [JobClock::Engine, JobClock::Wall] {
            let keys = ParkedPlace::of_clock(clock);
            assert_eq!((keys.low, keys.high).contains(&key), place.clock == Some(clock), "{place:?}");
        }
        let end = place.end_of_run();
        assert!(end.to_key() > key && end.at.0 / bucket == place.at.0 / bucket || end.at.0 < 0);
    }
    let far = [i64::MIN, i64::MAX];
    let far = far.map(|at| ParkedPlace { clock: engine, at: Timestamp(at), id: job(0, 0) });
    let [first, last] = far.map(|place| ParkedPlace::from_key(&place.to_key()).map(|place| place.at));
    assert_eq!((first, last), (Ok(ParkedPlace::FIRST), Ok(ParkedPlace::LAST)));
    assert!(ParkedPlace::from_key(b"short").is_err());
    assert!(ParkedPlace::of_job(job(0, 0), &[u8::MAX; 8]).is_err(), "nothing is found by this");
}

#[test]
fn what_is_known_of_a_run_is_passed_over_and_nothing_else() {
    let mut random = base::random::Random::new(1);
    let mut draw = || {
        let mut id = [0; 16];
        [3, 7, 12].into_iter().for_each(|byte| id[byte] = random.below(3) as u8);
        (Timestamp(random.below(3) as i64), JobId(id))
    };
    for _ in 0..2_000 {
        let (known, (at, id)) = (draw(), draw());
        let place = ParkedPlace { clock: Some(JobClock::Engine), at, id };
        let is_before = place.to_key() < place.front_from(known).to_key();
        assert!(!is_before || (at, id) <= known, "{known:?} {place:?}");
        let is_surely_known = (at, &id.0[..JobId::RUN.start]) < (known.0, &known.1.0[..JobId::RUN.start]);
        assert_eq!(is_before, is_surely_known, "{known:?} {place:?}");
    }
}

#[test]
fn lines_of_a_queue_and_of_its_groups_lie_apart() {
    let lines = [(1, None), (1, Some(0)), (1, Some(u64::MAX)), (2, None)];
    let lines = lines.map(|(queue, group)| key::line(QueueKey(queue), group.map(GroupKey)));
    assert!(lines.is_sorted());
    for (line, next) in lines.iter().zip(&lines[1..]) {
        assert!(!next.starts_with(line));
    }
}

#[test]
fn devices_of_a_kind_are_not_those_of_a_longer_one() {
    let kind = |text| Kind::new(text).expect("a kind");
    let keys = [("a", "z"), ("aa", "b"), ("b", "a")].map(|(of, id)| key::kind(&kind(of), id.as_bytes()));
    assert!(keys.is_sorted() && !keys[1].starts_with(&key::kind(&kind("a"), b"")));
}
