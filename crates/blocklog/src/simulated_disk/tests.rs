//! What the simulated disk keeps and loses.

use std::collections::BTreeSet;

use super::*;

const NAME: &str = "file";

/// A disk with a durable file of 4 sectors of ones.
fn disk_with_file(seed: u64) -> (SimulatedDisk, Arc<dyn DiskFile>) {
    let disk = SimulatedDisk::new(seed);
    let file = disk.open(NAME, true).unwrap();
    file.write_at(0, &[1; 2048]).unwrap();
    file.sync().unwrap();
    disk.sync_directory().unwrap();
    (disk, file)
}

fn read_all(disk: &SimulatedDisk, name: &str) -> Vec<u8> {
    let file = disk.open(name, false).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_at(0, &mut bytes).unwrap();
    bytes
}

#[test]
fn what_was_synced_survives_every_crash() {
    for seed in 0..200 {
        let (disk, file) = disk_with_file(seed);
        file.write_at(100, &[2; 1000]).unwrap();
        file.sync().unwrap();
        let before = read_all(&disk, NAME);
        disk.crash();
        disk.crash();
        assert_eq!(read_all(&disk, NAME), before);
        assert_eq!(disk.durable(NAME), Some(before));
    }
}

/// Two writes of two sectors each, one after the other.
#[test]
fn unsynced_writes_are_lost_kept_reordered_and_torn() {
    let mut outcomes = BTreeSet::new();
    for seed in 0..400 {
        let (disk, file) = disk_with_file(seed);
        file.write_at(0, &[2; 1024]).unwrap();
        file.write_at(1024, &[3; 1024]).unwrap();
        disk.crash();
        let after = read_all(&disk, NAME);
        let sectors: Vec<u8> = after.chunks(512).map(|sector| sector[0]).collect();
        assert!(after.chunks(512).all(|sector| sector.iter().all(|byte| *byte == sector[0])));
        outcomes.insert(sectors);
    }
    for expected in
        [[1, 1, 1, 1], [2, 2, 3, 3], [2, 2, 1, 1], [1, 1, 3, 3], [1, 2, 1, 1], [2, 2, 1, 3], [1, 2, 3, 1]]
    {
        assert!(outcomes.contains(&expected[..]), "{expected:?} never happened");
    }
}

#[test]
fn a_sector_is_never_older_than_what_was_synced() {
    for seed in 0..200 {
        let (disk, file) = disk_with_file(seed);
        for value in 2..6 {
            file.write_at(0, &[value; 512]).unwrap();
            if value == 3 {
                file.sync().unwrap();
            }
        }
        disk.crash();
        assert!((3..6).contains(&read_all(&disk, NAME)[0]));
    }
}

#[test]
fn the_length_after_a_crash_is_one_that_the_file_had() {
    let mut lengths = BTreeSet::new();
    for seed in 0..200 {
        let (disk, file) = disk_with_file(seed);
        file.set_len(100).unwrap();
        file.write_at(3000, &[4; 10]).unwrap();
        disk.crash();
        let after = read_all(&disk, NAME);
        assert!(after.iter().take(100).all(|byte| *byte == 1));
        lengths.insert(after.len());
    }
    assert_eq!(lengths, BTreeSet::from([100, 2048, 3010]));
}

#[test]
fn a_cut_that_was_synced_leaves_zeros_when_the_file_grows_again() {
    for seed in 0..50 {
        let (disk, file) = disk_with_file(seed);
        file.set_len(700).unwrap();
        file.sync().unwrap();
        file.set_len(2048).unwrap();
        disk.crash();
        assert!(read_all(&disk, NAME).iter().skip(700).all(|byte| *byte == 0));
    }
}

#[test]
fn names_survive_up_to_some_moment() {
    let mut outcomes = BTreeSet::new();
    for seed in 0..200 {
        let (disk, _file) = disk_with_file(seed);
        disk.open("new", true).unwrap();
        disk.rename("new", "other").unwrap();
        disk.remove(NAME).unwrap();
        disk.crash();
        outcomes.insert(disk.list().unwrap().join(" "));
    }
    assert_eq!(outcomes, ["file", "file new", "file other", "other"].map(str::to_owned).into());
}

#[test]
fn a_name_is_durable_only_when_the_directory_was_synced() {
    let disk = SimulatedDisk::new(1);
    let file = disk.open(NAME, true).unwrap();
    file.write_at(0, b"content").unwrap();
    file.sync().unwrap();
    assert_eq!(disk.durable(NAME), None);
    disk.sync_directory().unwrap();
    assert_eq!(disk.durable(NAME).unwrap(), b"content");
}

#[test]
fn what_a_failed_sync_left_can_be_read_and_is_not_durable_until_written_again() {
    let (disk, file) = disk_with_file(1);
    file.write_at(0, &[2; 10]).unwrap();
    disk.fail_sync(1);
    assert!(file.sync().is_err());
    file.sync().unwrap();
    assert_eq!(read_all(&disk, NAME)[0], 2);
    assert_eq!(disk.durable(NAME).unwrap()[0], 1);
    file.write_at(0, &[2; 10]).unwrap();
    file.sync().unwrap();
    assert_eq!(disk.durable(NAME).unwrap()[0], 2);
}

#[test]
fn faults_come_once_and_when_they_were_asked_for() {
    let (disk, file) = disk_with_file(1);
    disk.fail_write(2);
    disk.fail_read(1);
    file.write_at(0, &[5]).unwrap();
    assert_eq!(file.write_at(0, &[6; 2048]).unwrap_err().raw_os_error(), Some(EIO));
    file.write_at(0, &[7]).unwrap();
    assert_eq!(file.read_at(0, &mut [0]).unwrap_err().raw_os_error(), Some(EIO));
    file.read_at(0, &mut [0]).unwrap();
    let counted = disk.counters();
    assert_eq!((counted.reads, counted.failed_reads), (2, 1));
}

#[test]
fn a_full_disk_takes_what_has_room() {
    let (disk, file) = disk_with_file(1);
    disk.set_capacity(Some(2100));
    assert_eq!(file.write_at(2000, &[8; 500]).unwrap_err().raw_os_error(), Some(ENOSPC));
    assert_eq!(disk.file_len(NAME), Some(2100));
    assert_eq!(file.set_len(3000).unwrap_err().raw_os_error(), Some(ENOSPC));
    file.write_at(0, &[9; 2100]).unwrap();
    disk.set_capacity(None);
    file.write_at(2000, &[8; 500]).unwrap();
}

#[test]
fn a_crash_or_kill_ends_handles_and_locks() {
    let (disk, file) = disk_with_file(1);
    let lock = disk.lock("lock").unwrap();
    assert!(disk.lock("lock").is_err());
    disk.kill();
    assert!(file.write_at(0, b"x").is_err() && file.sync().is_err() && file.len().is_err());
    let _second = disk.lock("lock").unwrap();
    drop(lock);
    assert!(disk.lock("lock").is_err(), "the lock of the dead process frees nothing");
    disk.crash();
    assert!(disk.lock("lock").is_ok());
}

#[test]
fn rot_is_seen_at_once_and_stays() {
    let (disk, _file) = disk_with_file(1);
    disk.corrupt(NAME, 7, 0x80);
    assert_eq!(read_all(&disk, NAME)[7], 0x81);
    disk.crash();
    assert_eq!(read_all(&disk, NAME)[7], 0x81);
}

#[test]
fn the_same_seed_tears_the_same_way() {
    let run = |seed| {
        let (disk, file) = disk_with_file(seed);
        for at in 0..20 {
            file.write_at(at * 90, &[at as u8; 300]).unwrap();
        }
        disk.crash();
        read_all(&disk, NAME)
    };
    for seed in 0..20 {
        assert_eq!(run(seed), run(seed));
    }
    assert!((1..20).any(|seed| run(seed) != run(0)));
}

#[test]
fn counters_tell_what_was_asked() {
    let (disk, file) = disk_with_file(1);
    file.read_at(0, &mut [0; 4]).unwrap();
    let asked = DiskCounters { reads: 1, failed_reads: 0, writes: 1, bytes_written: 2048, syncs: 2 };
    assert_eq!(disk.counters(), asked);
}
