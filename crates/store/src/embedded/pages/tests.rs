//! The layer of checksums, as its library uses it: lengths, parts, damage and crashes.

use blocklog::{Disk, SimulatedDisk};

use super::*;
use base::random::Random;

const NAME: &str = "pages";

fn open(disk: &SimulatedDisk) -> io::Result<CheckedPages> {
    CheckedPages::open(disk.open(NAME, true)?, NAME.to_owned())
}

fn page(fill: u8) -> Vec<u8> {
    vec![fill; PAGE]
}

fn read(pages: &CheckedPages, number: u64) -> io::Result<Vec<u8>> {
    let mut out = vec![0; PAGE];
    pages.read(number * PAGE as u64, &mut out).map(|()| out)
}

fn write(pages: &CheckedPages, number: u64, data: &[u8]) {
    pages.write(number * PAGE as u64, data).expect("writes");
}

#[test]
fn lengths_are_those_that_were_set() {
    let disk = SimulatedDisk::new(1);
    let pages = open(&disk).expect("opens");
    for count in [1, 2, 3, GROUP, GROUP + 1, GROUP + 2, 3 * GROUP + 1, 3 * GROUP + 2, 5, 0] {
        pages.set_len(count * PAGE as u64).expect("sets");
        assert_eq!(pages.len().expect("known"), count * PAGE as u64);
    }
    assert!(pages.set_len(100).is_err());
}

#[test]
fn what_is_written_is_read_also_across_groups_and_in_parts() {
    let disk = SimulatedDisk::new(2);
    let mut pages = open(&disk).expect("opens");
    pages.set_len((2 * GROUP + 9) * PAGE as u64).expect("sets");
    pages.write(0, &[7; 320]).expect("writes");
    let run: Vec<u8> = [page(1), page(2), page(3), page(4)].concat();
    write(&pages, GROUP - 1, &run);
    for _ in 0..2 {
        let mut out = vec![0; run.len()];
        pages.read((GROUP - 1) * PAGE as u64, &mut out).expect("reads");
        assert!(out == run);
        let mut part = [0; 6];
        pages.read(GROUP * PAGE as u64 - 3, &mut part).expect("reads");
        assert_eq!(part, [1, 1, 1, 2, 2, 2]);
        let mut head = [1; PAGE];
        pages.read(0, &mut head).expect("reads");
        assert!(head[..320] == [7; 320] && head[320..].iter().all(|byte| *byte == 0));
        assert!(read(&pages, 2 * GROUP).expect("reads") == page(0), "never written");
        pages.sync().expect("syncs");
        pages = open(&disk).expect("opens again");
    }
}

#[test]
fn pages_that_were_cut_off_come_back_as_zeros() {
    let disk = SimulatedDisk::new(3);
    let pages = open(&disk).expect("opens");
    for keep in [2, 5, GROUP + 1, GROUP + 2] {
        let len = (GROUP + 20) * PAGE as u64;
        pages.set_len(len).expect("sets");
        (1..GROUP + 20).for_each(|number| write(&pages, number, &page(9)));
        pages.set_len(keep * PAGE as u64).expect("sets");
        pages.set_len(len).expect("sets");
        for number in 1..GROUP + 20 {
            let expect = if number < keep { 9 } else { 0 };
            assert!(read(&pages, number).expect("reads") == page(expect), "keep {keep} page {number}");
        }
    }
}

#[test]
fn many_groups_are_written_and_read_again() {
    let disk = SimulatedDisk::new(4);
    let pages = open(&disk).expect("opens");
    let groups = GROUPS_KEPT_MAX as u64 + 40;
    // as sparse as a real file would be: one page in each group
    pages.set_len((groups * GROUP + 1) * PAGE as u64).expect("sets");
    (0..groups).for_each(|group| write(&pages, 1 + group * GROUP, &page(group as u8)));
    for group in 0..groups {
        assert!(read(&pages, 1 + group * GROUP).expect("reads") == page(group as u8));
    }
    assert!(locked(&pages.state).checksums.len() <= GROUPS_KEPT_MAX);
}

#[test]
fn every_flipped_byte_is_corrected_or_named() {
    let disk = SimulatedDisk::new(5);
    let pages = open(&disk).expect("opens");
    pages.set_len(4 * PAGE as u64).expect("sets");
    for fill in [3, 4] {
        pages.write(0, &[fill; 320]).expect("writes");
        (1..3).for_each(|number| write(&pages, number, &page(fill)));
        pages.sync().expect("syncs");
    }
    let length = disk.file_len(NAME).expect("there");
    for offset in (0..length).filter(|offset| offset % 4_096 < 1_100 || offset % 7 == 0) {
        disk.corrupt(NAME, offset, 0x10);
        let found = open(&disk).and_then(|pages| {
            let mut head = [0; 320];
            pages.read(0, &mut head)?;
            let data = (1..4).map(|number| read(&pages, number)).collect::<io::Result<Vec<_>>>()?;
            Ok((head, data))
        });
        match found {
            Ok((head, data)) => {
                assert!(head == [4; 320] && data == [page(4), page(4), page(0)], "offset {offset}");
            }
            Err(error) => {
                assert!(offset >= (HEAD_PAGES * PAGE as u64), "offset {offset}");
                assert!(error.to_string().starts_with("pages is damaged at offset"), "{error}");
            }
        }
        disk.corrupt(NAME, offset, 0x10);
    }
}

/// The library keeps two states; its head says which one counts, and no page of that one is
/// overwritten.
#[test]
fn a_crash_leaves_the_state_that_was_synced_or_the_next() {
    let mut random = Random::new(6);
    for seed in 0..300 {
        let disk = SimulatedDisk::new(seed);
        let pages = open(&disk).expect("opens");
        pages.set_len(9 * PAGE as u64).expect("sets");
        disk.sync_directory().expect("syncs");
        let steps = 1 + random.below(6);
        let mut durable = 0_u8;
        let mut written = 0_u8;
        for _ in 0..steps {
            let next = written + 1;
            let half = u64::from(next % 2) * 4;
            (1..5).for_each(|number| write(&pages, half + number, &page(next)));
            pages.sync().expect("syncs");
            pages.write(0, &[next; 320]).expect("writes");
            written = next;
            if random.below(4) == 0 {
                break;
            }
            pages.sync().expect("syncs");
            durable = next;
        }
        disk.crash();
        let pages = open(&disk).expect("opens again");
        let mut head = [0; 320];
        pages.read(0, &mut head).expect("reads");
        assert!(head == [durable; 320] || head == [written; 320], "seed {seed}: {}", head[0]);
        let half = u64::from(head[0] % 2) * 4;
        if head[0] > 0 {
            for number in 1..5 {
                assert!(read(&pages, half + number).expect("whole") == page(head[0]), "seed {seed}");
            }
        }
    }
}

/// After a failed sync the operating system shows what it never wrote; an opening that reads it
/// relies on it.
#[test]
fn a_head_that_an_earlier_process_failed_to_sync_is_made_durable_before_the_next() {
    for seed in 0..200 {
        let disk = SimulatedDisk::new(seed);
        let pages = open(&disk).expect("opens");
        pages.set_len(2 * PAGE as u64).expect("sets");
        disk.sync_directory().expect("syncs");
        pages.write(0, &[1; 320]).expect("writes");
        pages.sync().expect("syncs");
        pages.write(0, &[2; 320]).expect("writes");
        disk.fail_sync(1);
        assert!(pages.sync().is_err());
        disk.kill();
        let pages = open(&disk).expect("opens again");
        pages.write(0, &[3; 320]).expect("writes");
        disk.crash();
        let mut head = [0; 320];
        open(&disk).and_then(|pages| pages.read(0, &mut head)).expect("whole");
        assert!(head == [2; 320] || head == [3; 320], "seed {seed}: {}", head[0]);
    }
}
