//! Failing disks: the first failure is the last thing a log does.

use super::*;

type Call = fn(&mut Log) -> Result<(), LogError>;

const CALLS: [Call; 5] = [
    |log| log.append(b"more").map(drop),
    |log| log.write().map(drop),
    |log| log.sync().map(drop),
    Log::append_claim,
    |log| log.free_through(Position(1)),
];

fn check_poisoned(log: &mut Log, first: &str) {
    let durable = log.durable();
    for call in CALLS {
        match call(log) {
            Err(LogError::Poisoned { first: text }) => assert!(text.contains(first), "{text}"),
            other => panic!("not poisoned: {other:?}"),
        }
    }
    assert_eq!(log.durable(), durable);
}

fn log_with_one_frame() -> (SimulatedDisk, Arc<dyn Disk>, Log) {
    let simulated = SimulatedDisk::new(9);
    let disk: Arc<dyn Disk> = Arc::new(simulated.clone());
    let mut log = create(&disk);
    log.append(b"one").unwrap();
    log.sync().unwrap();
    (simulated, disk, log)
}

#[test]
fn a_failed_write_poisons() {
    let (simulated, _, mut log) = log_with_one_frame();
    log.append(b"two").unwrap();
    simulated.fail_write(1);
    let error = log.sync().unwrap_err();
    assert_eq!(error.to_string(), "cannot write /simulated/log-0000000001.seg");
    assert!(std::error::Error::source(&error).is_some());
    check_poisoned(&mut log, "cannot write /simulated/log-0000000001.seg: Input/output error");
}

#[test]
fn a_failed_sync_poisons() {
    let (simulated, _, mut log) = log_with_one_frame();
    log.append(b"two").unwrap();
    simulated.fail_sync(1);
    assert!(log.sync().is_err());
    check_poisoned(&mut log, "cannot sync /simulated/log-0000000001.seg: Input/output error");
    assert_eq!(log.durable(), Position(1));
}

#[test]
fn a_failed_sync_of_what_was_written_before_poisons() {
    let (simulated, _, mut log) = log_with_one_frame();
    log.append(b"two").unwrap();
    assert_eq!(log.write().unwrap(), Position(2));
    simulated.fail_sync(1);
    assert!(log.sync().is_err());
    check_poisoned(&mut log, "cannot sync /simulated/log-0000000001.seg: Input/output error");
    assert_eq!((log.durable(), log.written()), (Position(1), Position(2)));
}

#[test]
fn a_full_disk_poisons_and_what_was_confirmed_stays() {
    let (simulated, disk, mut log) = log_with_one_frame();
    simulated.set_capacity(Some(400));
    log.append(&[1; 300]).unwrap();
    log.append(&[2; 300]).unwrap();
    assert!(log.sync().is_err());
    check_poisoned(&mut log, "No space left on device");
    simulated.kill();
    let error = open(&disk).map(drop);
    assert!(error.is_ok(), "opening needs no room: {error:?}");
    simulated.set_capacity(None);
    let (opened, frames) = open(&disk).unwrap();
    assert_eq!(frames[0], (Position(1), b"one".to_vec()));
    assert_eq!(opened.tail, None, "the first opening has cut it");
}

#[test]
fn a_failure_in_any_step_of_a_rotation_poisons() {
    for nth in 1..=3 {
        let (simulated, _, mut log) = log_with_one_frame();
        log.append(&vec![5; OPTIONS.segment_bytes as usize]).unwrap();
        simulated.fail_sync(nth);
        assert!(log.sync().is_err());
        check_poisoned(&mut log, "cannot sync");
    }
}

#[test]
fn a_refused_payload_does_not_poison() {
    let (_, _, mut log) = log_with_one_frame();
    assert!(log.append(&[]).is_err());
    log.append(b"two").unwrap();
    assert_eq!(log.sync().unwrap(), Position(2));
}

/// The system takes what it failed to write for clean: it can be read, and is not on the disk.
#[test]
fn frames_whose_sync_failed_are_durable_once_an_opening_has_handed_them_out() {
    let (simulated, disk, mut log) = log_with_one_frame();
    log.append(b"two").unwrap();
    simulated.fail_sync(1);
    assert!(log.sync().is_err());
    simulated.kill();
    let expected = [(Position(1), b"one".to_vec()), (Position(2), b"two".to_vec())];
    assert_eq!(open(&disk).unwrap().1, expected);
    let after_power_loss: Arc<dyn Disk> = Arc::new(simulated.copy_of_durable(1));
    assert_eq!(open(&after_power_loss).unwrap().1, expected);
}

#[test]
fn an_opening_that_cannot_sync_fails() {
    let (simulated, disk, log) = log_with_one_frame();
    drop(log);
    for nth in 1..=2 {
        simulated.fail_sync(nth);
        let error = open(&disk).unwrap_err();
        assert!(matches!(error, LogError::Io { .. }), "{error}");
    }
    assert!(open(&disk).is_ok());
}
