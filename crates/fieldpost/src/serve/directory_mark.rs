//! The data directory's mark: a number that tells it from copies of it.
//!
//! A directory that was copied has all that the first one has. From then on both would call new
//! messages the same. So a file in it names the place in which it was written. Wherever the
//! directory is found in another place, the mark is drawn anew. Earlier messages keep their names,
//! so a directory that only moved loses nothing.

use std::fs::{self, File, Metadata};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::UNIX_EPOCH;

use base::machine::IDENTITY_FILES;
use base::{hash, random};

use super::ServeFailure;

/// The file of the mark.
const FILE: &str = "mark";
/// The same while it is written.
const FILE_NEW: &str = "mark.new";
/// The first words of the file: to change what follows, raise the number.
const FORMAT: &str = "fieldpost mark 1";

/// The mark of a data directory that is in use by this server alone.
pub(super) fn read_or_draw(data_dir: &Path) -> Result<u64, ServeFailure> {
    let failed = |error: io::Error| {
        ServeFailure(format!(
            "the mark of the data directory {} cannot be written: {error}",
            data_dir.display()
        ))
    };
    match read(data_dir) {
        Some(mark) => Ok(mark),
        None => draw(data_dir).map_err(failed),
    }
}

/// `None` where it was written in another place, or is none.
fn read(data_dir: &Path) -> Option<u64> {
    let path = data_dir.join(FILE);
    let text = fs::read_to_string(&path).ok()?;
    let mut words = text.strip_prefix(FORMAT)?.split_whitespace();
    let mut number = || u64::from_str_radix(words.next()?, 16).ok();
    let (place, mark) = (number()?, number()?);
    let is_here = place == place_of(data_dir, &fs::metadata(&path).ok()?);
    if !is_here {
        tracing::warn!("the data directory was moved or copied: new messages of streams get new names");
    }
    is_here.then_some(mark)
}

/// Written beside its place and moved there, so that nobody reads half of it.
fn draw(data_dir: &Path) -> io::Result<u64> {
    let drawn = random::unguessable().map_err(|error| io::Error::other(error.to_string()))?;
    let mark = u64::from_le_bytes(drawn);
    let path = data_dir.join(FILE_NEW);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = File::create_new(&path)?;
    let place = place_of(data_dir, &file.metadata()?);
    writeln!(file, "{FORMAT} {place:016x} {mark:016x}")?;
    file.sync_all()?;
    fs::rename(&path, data_dir.join(FILE))?;
    File::open(data_dir)?.sync_all()?;
    Ok(mark)
}

/// This machine, this directory, and this very file: a copy of a file is another one.
fn place_of(data_dir: &Path, file: &Metadata) -> u64 {
    let made_at = file.created().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    let path = data_dir.canonicalize().unwrap_or_else(|_| data_dir.to_owned());
    let mut bytes = file.ino().to_le_bytes().to_vec();
    bytes.extend_from_slice(&made_at.map_or(0, |at| at.as_nanos()).to_le_bytes());
    bytes.extend_from_slice(path.as_os_str().as_encoded_bytes());
    for of_machine in IDENTITY_FILES {
        bytes.push(0);
        bytes.extend_from_slice(&fs::read(of_machine).unwrap_or_default());
    }
    hash::derived(1, &bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(data_dir: &Path) -> u64 {
        read_or_draw(data_dir).unwrap_or_else(|ServeFailure(error)| panic!("{error}"))
    }

    #[test]
    fn a_directory_keeps_its_mark_and_a_copy_of_it_gets_another_one() {
        let all = tempfile::tempdir().expect("a directory");
        let (one, two) = (all.path().join("one"), all.path().join("two"));
        fs::create_dir(&one).expect("made");
        let first = mark(&one);
        assert_eq!(mark(&one), first);
        fs::create_dir(&two).expect("made");
        fs::copy(one.join(FILE), two.join(FILE)).expect("copied");
        let second = mark(&two);
        assert!(second != first && mark(&two) == second && mark(&one) == first);
        // What was put back over itself is a copy too.
        fs::copy(one.join(FILE), one.join("kept")).expect("copied");
        fs::rename(one.join("kept"), one.join(FILE)).expect("renamed");
        assert!(![first, second].contains(&mark(&one)));
    }

    #[test]
    fn what_is_no_mark_is_drawn_anew() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut before = mark(directory.path());
        for text in ["", "fieldpost mark 1", "fieldpost mark 2 0 0", "fieldpost mark 1 x y"] {
            fs::write(directory.path().join(FILE), text).expect("written");
            let now = mark(directory.path());
            assert_ne!(now, before, "{text:?}");
            before = now;
        }
    }
}
