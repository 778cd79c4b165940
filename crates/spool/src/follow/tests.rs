//! The follower over real files, with a spool on a simulated disk.

use std::fs::OpenOptions;
use std::io::Write;

use base::limits::MESSAGE_PAYLOAD_BYTES_MAX;
use blocklog::SimulatedDisk;

use super::*;
use crate::disk_threads::start_writer;
use crate::log::{ReadLimits, SpoolFullChoice, SpoolLogOptions};
use crate::refused::REFUSED_FILES;

/// A followed file, and the spool that its lines go to.
struct FollowRig {
    folder: tempfile::TempDir,
    disk: SimulatedDisk,
    log: Arc<SpoolLog>,
    follower: FileFollower,
}

impl FollowRig {
    /// Follows a file that is empty at first.
    fn start() -> Self {
        Self::start_after(|folder| drop(File::create(folder.join("app.log")).expect("made")))
    }

    /// Follows what is there then.
    fn start_after(first: impl FnOnce(&Path)) -> Self {
        let folder = tempfile::tempdir().expect("a directory");
        first(folder.path());
        let disk = SimulatedDisk::new(1);
        let (log, follower) = opened(&folder.path().join("app.log"), &disk);
        let mut rig = Self { folder, disk, log, follower };
        rig.look();
        rig
    }

    /// The agent is killed and started again; `meanwhile` happens in between.
    fn restart(self, meanwhile: impl FnOnce(&Path)) -> Self {
        self.restart_with("app.log", meanwhile)
    }

    /// The same, and then it follows this file.
    fn restart_with(self, name: &str, meanwhile: impl FnOnce(&Path)) -> Self {
        let Self { folder, disk, log, follower } = self;
        let writer = follower.taker.intake.clone();
        drop((log, follower));
        // The thread that writes has the last hold of the directory; it ends with its last handle.
        drop(writer);
        meanwhile(folder.path());
        let (log, follower) = opened(&folder.path().join(name), &disk);
        let mut rig = Self { folder, disk, log, follower };
        rig.look();
        rig
    }

    fn look(&mut self) {
        self.follower.look().expect("it can be read");
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// What was taken so far.
    fn messages(&self) -> Vec<String> {
        let limits = ReadLimits { records: usize::MAX, bytes: usize::MAX };
        let read = self.log.read(&stream(), None, limits).expect("readable");
        let body = |body: &[u8]| serde_json::from_slice::<serde_json::Value>(body).expect("JSON");
        let text = |body: serde_json::Value| body["payload"].as_str().expect("a text").to_owned();
        read.iter().map(|stored| text(body(&stored.record.entry.body))).collect()
    }
}

fn stream() -> Destination {
    Destination::stream("site", "log").expect("right names")
}

fn opened(path: &Path, disk: &SimulatedDisk) -> (Arc<SpoolLog>, FileFollower) {
    let options = SpoolLogOptions {
        bytes_max: 64_000_000,
        when_full: SpoolFullChoice::Reject,
        place: 1,
        earlier_place: 2,
    };
    let damaged = Arc::new(SimulatedDisk::new(0));
    let (log, writer) = loop {
        // The thread of the run before lets go of the directory when it ends.
        match SpoolLog::open(Arc::new(disk.clone()), damaged.clone(), options) {
            Ok(opened) => break opened,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
    };
    let (intake, _) = start_writer(writer, Arc::default(), Box::new(|| Ok(false))).expect("a thread");
    let refused = Arc::new(RefusedFile::open(Arc::new(disk.clone())).expect("it opens"));
    let follower = FileFollower::new(path, stream(), intake, Arc::clone(&log), refused);
    (log, follower)
}

fn append(path: &Path, text: &str) {
    let mut file = OpenOptions::new().create(true).append(true).open(path).expect("it opens");
    file.write_all(text.as_bytes()).expect("written");
}

/// Nobody has written to it for a while.
fn grow_old(path: &Path, age_secs: u64) {
    was_written_at(path, SystemTime::now() - Duration::from_secs(age_secs));
}

fn was_written_at(path: &Path, at: SystemTime) {
    File::options().append(true).open(path).and_then(|file| file.set_modified(at)).expect("a time");
}

/// As `logrotate` does it, with so many files: each is renamed to the next number.
fn rotate(folder: &Path, keep: u32) {
    let name = |number: u32| match number {
        0 => folder.join("app.log"),
        _ => folder.join(format!("app.log.{number}")),
    };
    for number in (0..keep).rev() {
        if name(number).exists() {
            fs::rename(name(number), name(number + 1)).expect("renamed");
        }
    }
}

#[test]
fn a_file_that_is_renamed_is_left_only_when_nobody_writes_to_it_any_more() {
    let mut rig = FollowRig::start();
    let (path, old) = (rig.path("app.log"), rig.path("app.log.1"));
    append(&path, "one\n");
    rig.look();
    rotate(rig.folder.path(), 3);
    append(&path, "three\n");
    // However long this takes.
    was_written_at(&old, SystemTime::now() + Duration::from_secs(60));
    rig.look();
    assert_eq!(rig.messages(), ["one"], "its writer may not know yet");
    append(&old, "two\n");
    rig.look();
    grow_old(&old, 5);
    rig.look();
    assert_eq!(rig.messages(), ["one", "two", "three"]);
}

#[test]
fn files_that_were_rotated_away_within_one_look_are_read_in_order() {
    let mut rig = FollowRig::start();
    let path = rig.path("app.log");
    for text in ["one\n", "two\n", "three\n", "four\n"] {
        append(&path, text);
        if text == "one\n" {
            rig.look();
        }
        rotate(rig.folder.path(), 9);
    }
    append(&path, "five\n");
    for (number, age) in [(4, 50), (3, 40), (2, 30), (1, 20)] {
        grow_old(&rig.path(&format!("app.log.{number}")), age);
    }
    rig.look();
    rig.look();
    assert_eq!(rig.messages(), ["one", "two", "three", "four", "five"]);
}

#[test]
fn files_that_were_rotated_away_while_the_agent_was_down_are_read_in_order() {
    for is_gone in [false, true] {
        let mut rig = FollowRig::start();
        append(&rig.path("app.log.7"), "long ago\n");
        grow_old(&rig.path("app.log.7"), 1_000);
        append(&rig.path("app.log.bak"), "a copy\n");
        append(&rig.path("app.log"), "one\n");
        rig.look();
        let rig = rig.restart(|folder| {
            let path = folder.join("app.log");
            append(&path, "two\n");
            grow_old(&path, 9);
            for text in ["three\n", "four\n"] {
                rotate(folder, 4);
                append(&path, text);
                grow_old(&path, 5);
            }
            rotate(folder, 4);
            append(&path, "five\n");
            if is_gone {
                fs::remove_file(folder.join("app.log.3")).expect("removed");
            }
        });
        // A rest that is in no file any more is lost, and nothing else.
        let expected: &[_] = if is_gone {
            &["one", "three", "four", "five"]
        } else {
            &["one", "two", "three", "four", "five"]
        };
        assert_eq!(rig.messages(), expected, "{is_gone}");
        let rig = rig.restart(|folder| append(&folder.join("app.log"), "six\n"));
        assert_eq!(rig.messages().len(), expected.len() + 1, "nothing comes twice: {:?}", rig.messages());
    }
}

#[test]
fn files_that_were_copied_and_cut_while_the_agent_was_down_are_read_in_order() {
    let mut rig = FollowRig::start();
    append(&rig.path("app.log"), "one, the first of all\n");
    rig.look();
    let mut rig = rig.restart(|folder| {
        let path = folder.join("app.log");
        for (number, text) in [(2, "two\n"), (1, "three\n")] {
            append(&path, text);
            let copy = folder.join(format!("app.log.{number}"));
            fs::copy(&path, &copy).expect("copied");
            grow_old(&copy, 10 * number);
            File::options().write(true).open(&path).and_then(|file| file.set_len(0)).expect("cut");
        }
        append(&path, "four\n");
    });
    rig.look();
    assert_eq!(rig.messages(), ["one, the first of all", "two", "three", "four"]);
    let path = rig.path("app.log");
    rotate(rig.folder.path(), 9);
    grow_old(&rig.path("app.log.1"), 2);
    append(&path, "five\n");
    rig.look();
    let again = rig.messages();
    assert_eq!(again.len(), 5, "copies that are older than its last line are not read again: {again:?}");
}

#[test]
fn a_file_that_is_mounted_after_the_start_goes_on_where_it_stopped() {
    let mut rig = FollowRig::start();
    append(&rig.path("app.log"), "one\n");
    rig.look();
    let mut rig = rig.restart(|folder| {
        fs::create_dir(folder.join("unmounted")).expect("made");
        append(&folder.join("app.log"), "two\n");
        fs::rename(folder.join("app.log"), folder.join("unmounted/app.log")).expect("renamed");
    });
    rig.look();
    assert_eq!(rig.messages(), ["one"]);
    // Another mount may have other numbers of files.
    fs::copy(rig.path("unmounted/app.log"), rig.path("app.log")).expect("copied");
    rig.look();
    assert_eq!(rig.messages(), ["one", "two"], "nothing comes twice");
}

#[test]
fn a_folder_that_is_mounted_after_the_start_goes_on_where_it_stopped() {
    let rig = FollowRig::start_after(|folder| {
        fs::create_dir(folder.join("logs")).expect("made");
        append(&folder.join("logs/app.log"), "before\n");
    });
    let mut rig = rig.restart_with("logs/app.log", |_| {});
    append(&rig.path("logs/app.log"), "one\n");
    rig.look();
    let mut rig = rig.restart_with("logs/app.log", |folder| {
        fs::rename(folder.join("logs"), folder.join("unmounted")).expect("renamed");
    });
    assert_eq!(rig.messages(), ["one"]);
    fs::rename(rig.path("unmounted"), rig.path("logs")).expect("renamed");
    append(&rig.path("logs/app.log"), "two\n");
    rig.look();
    assert_eq!(rig.messages(), ["one", "two"], "nothing comes twice");
}

#[test]
fn a_file_that_was_missing_is_read_from_its_start_unless_another_file_system_brings_an_old_one() {
    let (long_ago, later) = (Timestamp(1), now().after(Duration::from_secs(3_600)));
    for (is_elsewhere, since, expected) in [
        (false, later, &["old", "new"][..]),
        (true, later, &["new"]),
        (true, Timestamp(0), &["new"]),
        (true, long_ago, &["old", "new"]),
    ] {
        let mut rig = FollowRig::start_after(|_| {}).restart(|_| {});
        let FollowStart::Missing { device, .. } = rig.follower.start else {
            panic!("{:?}", rig.follower.start)
        };
        let device = device + u64::from(is_elsewhere);
        rig.follower.start = FollowStart::Missing { device, since };
        append(&rig.path("app.log"), "old\n");
        rig.look();
        append(&rig.path("app.log"), "new\n");
        rig.look();
        assert_eq!(rig.messages(), expected, "{is_elsewhere} {since}");
    }
}

#[test]
fn since_when_a_file_is_missing_is_known_after_a_restart() {
    let before = now();
    let rig = FollowRig::start_after(|_| {});
    let first = rig.follower.start;
    let FollowStart::Missing { since, .. } = first else { panic!("{first:?}") };
    assert!((before..=now()).contains(&since), "{since}");
    let rig = rig.restart(|_| {});
    assert_eq!(rig.follower.start, first);
}

#[test]
fn a_path_that_an_earlier_version_did_not_note_is_noted_and_no_other_file_is_taken_for_it() {
    let mut rig = FollowRig::start();
    append(&rig.path("app.log"), "one\n");
    rig.look();
    let position = rig.log.followed().expect("it is followed");
    rig.log.follow_from(0, position).expect("saved");
    let rig = rig.restart(|folder| {
        fs::rename(folder.join("app.log"), folder.join("other.log")).expect("renamed");
        append(&folder.join("other.log"), "of another\n");
        grow_old(&folder.join("other.log"), 60);
        append(&folder.join("app.log"), "two\n");
    });
    assert_eq!(rig.messages(), ["one", "two"]);
    assert_eq!(rig.log.followed_path(), path_hash(&rig.path("app.log")));
    let rig = rig.restart(|_| {});
    assert_eq!(rig.messages(), ["one", "two"], "nothing comes twice");
}

#[test]
fn another_file_is_followed_from_its_end_and_the_one_before_is_left() {
    let mut rig = FollowRig::start();
    append(&rig.path("app.log"), "one\n");
    rig.look();
    let mut rig = rig.restart_with("other.log", |folder| {
        append(&folder.join("app.log"), "two\n");
        grow_old(&folder.join("app.log"), 60);
        append(&folder.join("other.log"), "before\n");
    });
    rig.look();
    assert_eq!(rig.messages(), ["one"]);
    append(&rig.path("other.log"), "three\n");
    rig.look();
    assert_eq!(rig.messages(), ["one", "three"]);
    let mut rig = rig.restart_with("renamed.log", |folder| {
        fs::rename(folder.join("other.log"), folder.join("renamed.log")).expect("renamed");
        append(&folder.join("renamed.log"), "four\n");
    });
    rig.look();
    assert_eq!(rig.messages(), ["one", "three", "four"], "the very same file goes on");
}

#[test]
fn a_file_of_another_name_is_no_copy_of_one_that_was_cut() {
    let mut rig = FollowRig::start();
    let path = rig.path("app.log");
    append(&path, "one\n");
    rig.look();
    append(&rig.path("other.log"), "one\nof others\n");
    File::options().write(true).open(&path).and_then(|file| file.set_len(0)).expect("cut");
    append(&path, "two\n");
    rig.look();
    assert_eq!(rig.messages(), ["one", "two"]);
}

#[test]
fn a_blank_line_is_a_message() {
    let mut rig = FollowRig::start();
    append(&rig.path("app.log"), "\none\n\r\n\n");
    rig.look();
    assert_eq!(rig.messages(), ["", "one", "", ""]);
}

#[test]
fn a_line_is_one_message_up_to_the_limit_and_a_longer_one_is_refused() {
    let mut rig = FollowRig::start();
    let path = rig.path("app.log");
    let longest = "x".repeat(MESSAGE_PAYLOAD_BYTES_MAX - 2);
    append(&path, &format!("before\n{longest}\n{longest}y\nafter\n{longest}{longest}{longest}"));
    rig.look();
    assert_eq!(rig.messages(), ["before", &longest, "after"], "no line is split");
    append(&path, "z\nlast\n");
    rig.look();
    assert_eq!(rig.messages(), ["before", &longest, "after", "last"]);
    let text = rig.disk.durable(REFUSED_FILES[0]).expect("there");
    let refused: Vec<serde_json::Value> = String::from_utf8(text)
        .expect("text")
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(refused.len(), 2);
    assert_eq!(
        (&refused[1]["code"], &refused[1]["destination"]),
        (&"line_too_long".into(), &"stream:site/log".into())
    );
    let bytes = (3 * longest.len() + 1).to_string();
    assert!(
        refused[1]["detail"].as_str().is_some_and(|detail| detail.contains(&bytes)),
        "{}",
        refused[1]["detail"]
    );
    assert_eq!(refused[1]["body"]["payload"], longest[..BEGINNING_BYTES]);
    assert_eq!(rig.log.summary().totals.refused, 2);
    let rig = rig.restart(|folder| append(&folder.join("app.log"), "more\n"));
    assert_eq!((rig.messages().len(), rig.log.summary().totals.refused), (5, 2));
}
