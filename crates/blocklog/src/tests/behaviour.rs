//! What holds while nothing goes wrong, on both kinds of disk.

use super::*;
use crate::Tail;

#[test]
fn what_was_synced_comes_back_in_order_and_bit_for_bit() {
    check_on_every_disk(|disk| {
        let mut log = create(&disk);
        let mut appended = Vec::new();
        for number in 0..40 {
            let position = log.append(&payload(number)).unwrap();
            appended.push((position, payload(number)));
            if number % 3 == 0 {
                assert_eq!(log.sync().unwrap(), position);
            }
        }
        log.sync().unwrap();
        assert_eq!((log.end(), log.durable()), (Position(40), Position(40)));
        drop(log);
        let (opened, frames) = open(&disk).unwrap();
        assert_eq!(frames, appended);
        assert_eq!(opened.tail, None);
        assert_eq!(opened.log.id(), ID);
        assert_eq!((opened.log.end(), opened.log.durable()), (Position(40), Position(40)));
    });
}

#[test]
fn nothing_is_written_before_a_sync() {
    let simulated = SimulatedDisk::new(1);
    let disk: Arc<dyn Disk> = Arc::new(simulated.clone());
    let mut log = create(&disk);
    let before = simulated.counters();
    log.append(b"waits").unwrap();
    assert_eq!(simulated.counters(), before);
    assert_eq!((log.durable(), log.end()), (Position(0), Position(1)));
}

#[test]
fn a_sync_within_a_segment_is_one_write_and_one_sync() {
    let simulated = SimulatedDisk::new(1);
    let disk: Arc<dyn Disk> = Arc::new(simulated.clone());
    let mut log = create(&disk);
    for number in 0..3 {
        let before = simulated.counters();
        log.append(&[number; 20]).unwrap();
        log.append(&[number; 20]).unwrap();
        log.sync().unwrap();
        log.sync().unwrap();
        let after = simulated.counters();
        assert_eq!((after.writes - before.writes, after.syncs - before.syncs), (1, 1));
    }
}

#[test]
fn what_was_written_is_synced_only_when_asked_or_when_a_segment_is_full() {
    let simulated = SimulatedDisk::new(1);
    let disk: Arc<dyn Disk> = Arc::new(simulated.clone());
    let mut log = create(&disk);
    let before = simulated.counters();
    for number in 1..=3 {
        log.append(&[number; 20]).unwrap();
        assert_eq!(log.write().unwrap(), Position(u64::from(number)));
        log.write().unwrap();
    }
    let after = simulated.counters();
    assert_eq!((after.writes - before.writes, after.syncs - before.syncs), (3, 0));
    assert_eq!((log.durable(), log.written()), (Position(0), Position(3)));
    assert_eq!(log.sync().unwrap(), Position(3));
    assert_eq!((simulated.counters().writes, simulated.counters().syncs), (after.writes, after.syncs + 1));
    log.append(&vec![9; OPTIONS.segment_bytes as usize]).unwrap();
    log.write().unwrap();
    assert_eq!((log.durable(), log.written()), (Position(4), Position(4)));
}

/// The next frames must not claim what was only written.
#[test]
fn what_was_only_written_is_lost_without_a_word_when_the_power_fails() {
    let simulated = SimulatedDisk::new(1);
    let disk: Arc<dyn Disk> = Arc::new(simulated.clone());
    let mut log = create(&disk);
    log.append(b"synced").unwrap();
    log.sync().unwrap();
    log.append(b"written").unwrap();
    log.write().unwrap();
    log.append(b"written too").unwrap();
    log.write().unwrap();
    simulated.kill();
    let left: Arc<dyn Disk> = Arc::new(simulated.copy_of_durable(1));
    assert_eq!(open(&left).unwrap().1, [(Position(1), b"synced".to_vec())]);
    assert_eq!(open(&disk).unwrap().1.len(), 3, "the process alone takes nothing with it");
    let left: Arc<dyn Disk> = Arc::new(simulated.copy_of_durable(1));
    assert_eq!(open(&left).unwrap().1.len(), 3, "and an opening makes it durable");
}

#[test]
fn most_syncs_do_not_change_the_length_of_the_file() {
    let simulated = SimulatedDisk::new(1);
    let mut log = Log::create(Arc::new(simulated.clone()), LogOptions::default(), ID).unwrap();
    let mut lengths = std::collections::BTreeSet::new();
    for number in 0..1000 {
        log.append(&payload(number)).unwrap();
        log.sync().unwrap();
        lengths.insert(simulated.file_len("log-0000000001.seg").unwrap());
    }
    assert!(lengths.len() <= 2, "{lengths:?}");
}

#[test]
fn frames_after_the_asked_position_are_handed_out_and_no_others() {
    check_on_every_disk(|disk| {
        let mut log = create(&disk);
        for number in 0..40 {
            log.append(&payload(number)).unwrap();
        }
        log.append_claim().unwrap();
        drop(log);
        for after in 0..=41 {
            let (_, frames) = open_after(&disk, Position(41), Position(after)).unwrap();
            let expected: Vec<_> = (after + 1..=40).map(Position).collect();
            assert_eq!(frames.iter().map(|(position, _)| *position).collect::<Vec<_>>(), expected);
        }
    });
}

#[test]
fn a_full_segment_is_followed_by_another_and_has_no_byte_too_many() {
    check_on_every_disk(|disk| {
        let mut log = create(&disk);
        for number in 0..40 {
            log.append(&payload(number)).unwrap();
            log.sync().unwrap();
        }
        let names = segment_files(&disk);
        assert!(names.len() > 3, "{names:?}");
        for name in &names {
            assert!(disk.open(name, false).unwrap().len().unwrap() <= OPTIONS.segment_bytes, "{name}");
        }
    });
}

#[test]
fn one_sync_may_fill_many_segments() {
    check_on_every_disk(|disk| {
        let mut log = create(&disk);
        for number in 0..100 {
            log.append(&payload(number)).unwrap();
        }
        assert_eq!(log.sync().unwrap(), Position(100));
        log.append(b"one more").unwrap();
        log.sync().unwrap();
        drop(log);
        assert_eq!(open(&disk).unwrap().1.len(), 101);
    });
}

#[test]
fn a_frame_longer_than_a_segment_gets_one_to_itself() {
    check_on_every_disk(|disk| {
        let mut log = create(&disk);
        let long = vec![7; 3 * OPTIONS.segment_bytes as usize];
        for payload in [&b"first"[..], &long, b"last", &long, &long] {
            log.append(payload).unwrap();
            log.sync().unwrap();
        }
        assert_eq!(segment_files(&disk).len(), 5);
        drop(log);
        let (_, frames) = open(&disk).unwrap();
        assert_eq!(
            frames.iter().map(|(_, payload)| payload.len()).collect::<Vec<_>>(),
            [5, 1920, 4, 1920, 1920]
        );
    });
}

#[test]
fn payloads_out_of_bounds_are_refused_and_the_log_goes_on() {
    let disk: Arc<dyn Disk> = Arc::new(SimulatedDisk::new(1));
    let mut log = create(&disk);
    assert!(matches!(log.append(&[]), Err(LogError::EmptyPayload)));
    let long = vec![0; crate::PAYLOAD_BYTES_MAX + 1];
    assert!(matches!(
        log.append(&long),
        Err(LogError::PayloadTooLarge { bytes: 67_108_865, max: 67_108_864 })
    ));
    assert_eq!(log.append(b"good").unwrap(), Position(1));
}

#[test]
fn a_claim_takes_a_position_is_not_handed_out_and_is_not_repeated() {
    check_on_every_disk(|disk| {
        let mut log = create(&disk);
        log.append_claim().unwrap();
        assert_eq!(log.end(), Position(0), "there is nothing to claim");
        log.append(b"one").unwrap();
        log.append_claim().unwrap();
        log.append_claim().unwrap();
        assert_eq!((log.end(), log.durable()), (Position(2), Position(2)));
        drop(log);
        let mut log = open(&disk).unwrap().0.log;
        log.append_claim().unwrap();
        assert_eq!(log.end(), Position(2), "the claim is still the last frame");
        assert_eq!(log.append(b"three").unwrap(), Position(3));
        log.sync().unwrap();
        drop(log);
        assert_eq!(
            open(&disk).unwrap().1,
            [(Position(1), b"one".to_vec()), (Position(3), b"three".to_vec())]
        );
    });
}

#[test]
fn freed_segments_are_gone_and_the_rest_opens() {
    check_on_every_disk(|disk| {
        let mut log = create(&disk);
        for number in 0..60 {
            log.append(&payload(number)).unwrap();
            log.sync().unwrap();
        }
        let before = segment_files(&disk).len();
        log.free_through(Position(30)).unwrap();
        let after = segment_files(&disk).len();
        assert!(after < before && after > 1, "{before} segments became {after}");
        drop(log);
        let (opened, frames) = open_after(&disk, Position(60), Position(30)).unwrap();
        assert_eq!(frames.len(), 30);
        let mut log = opened.log;
        log.free_through(Position(60)).unwrap();
        assert_eq!(segment_files(&disk).len(), 1);
        assert_eq!(log.append(b"next").unwrap(), Position(61));
        log.sync().unwrap();
        drop(log);
        let (opened, frames) = open_after(&disk, Position(60), Position(60)).unwrap();
        assert_eq!((opened.log.end(), frames), (Position(61), vec![(Position(61), b"next".to_vec())]));
    });
}

#[test]
fn what_was_freed_is_missed_by_a_replay_that_needs_it() {
    let disk: Arc<dyn Disk> = Arc::new(SimulatedDisk::new(1));
    let mut log = create(&disk);
    for number in 0..60 {
        log.append(&payload(number)).unwrap();
    }
    log.sync().unwrap();
    log.free_through(Position(30)).unwrap();
    drop(log);
    let LogError::Missing { from, to, file } = open(&disk).unwrap_err() else { panic!("not missed") };
    assert_eq!((from, file.ends_with(&segment_files(&disk)[0])), (Position(1), true));
    let error = open_after(&disk, Position::ZERO, to.previous()).unwrap_err();
    assert!(
        matches!(error, LogError::Missing { from, to: still, .. } if from == to && still == to),
        "{error}"
    );
    assert!(open_after(&disk, Position::ZERO, to).is_ok());
}

#[test]
fn the_bytes_since_a_position_shrink_to_none() {
    let disk: Arc<dyn Disk> = Arc::new(SimulatedDisk::new(1));
    let options = LogOptions { segment_bytes: 300_000, zeros_ahead_bytes: 0, spare_segments_max: 0 };
    let mut log = Log::create(disk.clone(), options, ID).unwrap();
    for _ in 0..20 {
        log.append(&[1; 99_960]).unwrap();
    }
    assert_eq!(log.bytes_since(Position::ZERO), 2_000_000);
    assert_eq!(log.bytes_since(Position(15)), 500_000);
    assert_eq!(log.bytes_since(log.end()), 0);
    log.sync().unwrap();
    drop(log);
    let log = Log::open(disk, options, Position::ZERO, Position::ZERO, &mut |_| Ok(())).unwrap().log;
    assert_eq!(log.bytes_since(Position(15)), 500_000);
}

#[test]
fn a_log_is_created_once_and_opened_only_where_one_is() {
    check_on_every_disk(|disk| {
        assert!(matches!(open(&disk), Err(LogError::NotFound { .. })));
        drop(create(&disk));
        let again = Log::create(disk.clone(), OPTIONS, LogId(2));
        assert!(
            matches!(again, Err(LogError::AlreadyExists { file }) if file.ends_with("log-0000000001.seg"))
        );
        let (opened, frames) = open(&disk).unwrap();
        assert_eq!((opened.log.end(), frames.len(), opened.tail), (Position(0), 0, None));
    });
}

#[test]
fn a_caller_that_refuses_a_frame_stops_the_opening_with_its_reason() {
    let disk: Arc<dyn Disk> = Arc::new(SimulatedDisk::new(1));
    let mut log = create(&disk);
    log.append(b"one").unwrap();
    log.append(b"two").unwrap();
    log.sync().unwrap();
    drop(log);
    let mut visit = |frame: crate::Frame<'_>| match frame.position {
        Position(2) => Err("not a batch".into()),
        _ => Ok(()),
    };
    let error = Log::open(disk, OPTIONS, Position::ZERO, Position::ZERO, &mut visit).unwrap_err();
    assert_eq!(error.to_string(), "the frame at position 2 was not accepted");
    assert_eq!(std::error::Error::source(&error).unwrap().to_string(), "not a batch");
}

#[test]
fn other_files_of_the_directory_are_left_alone() {
    check_on_every_disk(|disk| {
        disk.open("tables.redb", true).unwrap().write_at(0, b"tables").unwrap();
        let mut log = create(&disk);
        for number in 0..30 {
            log.append(&payload(number)).unwrap();
            log.sync().unwrap();
        }
        log.free_through(Position(30)).unwrap();
        drop(log);
        open_after(&disk, Position(30), Position(30)).unwrap();
        assert_eq!(disk.open("tables.redb", false).unwrap().len().unwrap(), 6);
    });
}

#[test]
fn an_unfinished_segment_is_removed() {
    check_on_every_disk(|disk| {
        drop(create(&disk));
        disk.open("log-0000000002.seg.new", true).unwrap().write_at(0, b"half a hea").unwrap();
        open(&disk).unwrap();
        assert_eq!(segment_files(&disk), ["log-0000000001.seg"]);
    });
}

#[test]
fn a_log_is_created_over_what_an_unfinished_creation_left() {
    check_on_every_disk(|disk| {
        disk.open("log-0000000001.seg.new", true).unwrap().write_at(0, &[0xff; 5000]).unwrap();
        drop(create(&disk));
        let (opened, frames) = open(&disk).unwrap();
        assert_eq!((opened.tail, frames.len()), (None, 0));
    });
}

#[test]
fn a_torn_tail_is_cut_once_and_the_log_goes_on() {
    check_on_every_disk(|disk| {
        let mut log = create(&disk);
        log.append(b"kept").unwrap();
        log.append(b"torn").unwrap();
        log.sync().unwrap();
        drop(log);
        let file = disk.open("log-0000000001.seg", false).unwrap();
        file.write_at(64 + 48 + 41, b"*").unwrap();
        let (opened, frames) = open(&disk).unwrap();
        let name = disk.path().join("log-0000000001.seg").display().to_string();
        assert_eq!(opened.tail, Some(Tail { cut_bytes: 44, file: name, offset: 112 }));
        assert_eq!(frames, [(Position(1), b"kept".to_vec())]);
        let mut log = opened.log;
        log.append(b"new").unwrap();
        log.sync().unwrap();
        drop(log);
        let (opened, frames) = open(&disk).unwrap();
        assert_eq!(opened.tail, None);
        assert_eq!(frames, [(Position(1), b"kept".to_vec()), (Position(2), b"new".to_vec())]);
    });
}

#[test]
fn a_second_lock_is_refused_until_the_first_is_dropped() {
    check_on_every_disk(|disk| {
        let held = disk.lock("lock").unwrap();
        let refused = disk.lock("lock").map(drop).unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::WouldBlock);
        drop(held);
        assert!(disk.lock("lock").is_ok());
    });
}

#[test]
fn names_that_lead_out_of_the_directory_are_refused() {
    check_on_every_disk(|disk| {
        for name in ["", ".", "..", "../x", "/x", "a/b"] {
            let refused = disk.open(name, true).map(drop).unwrap_err();
            assert_eq!(refused.kind(), std::io::ErrorKind::InvalidInput, "{name}");
        }
    });
}
