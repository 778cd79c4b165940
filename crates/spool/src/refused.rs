//! `refused.ndjson`: what the server refused for good, one object a line, for people.
//!
//! When the file has [`FILE_BYTES_MAX`] it becomes `refused.1.ndjson`, in place of the one before.
//! A line may be there twice when the spool was killed at the wrong moment; `number` tells.

use std::io;
use std::sync::{Arc, Mutex};

use base::Timestamp;
use base::locks::locked;
use blocklog::{Disk, DiskFile};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::record::SpoolRecord;
use crate::verdict::RefusalReason;

/// The file, and the one before it.
pub(crate) const REFUSED_FILES: [&str; 2] = ["refused.ndjson", "refused.1.ndjson"];

/// Most bytes of a file.
const FILE_BYTES_MAX: u64 = 16 * 1_024 * 1_024;

#[derive(Serialize)]
struct RefusedEntry<'a> {
    at: String,
    destination: &'a str,
    number: u64,
    received_at: String,
    status: u16,
    code: &'a str,
    detail: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<&'a RawValue>,
    /// What is no JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
}

/// The file.
pub(crate) struct RefusedFile {
    disk: Arc<dyn Disk>,
    open: Mutex<OpenFile>,
}

struct OpenFile {
    file: Arc<dyn DiskFile>,
    length: u64,
    /// A crash cut off the last line: the next one must not continue it.
    is_torn: bool,
}

impl RefusedFile {
    pub(crate) fn open(disk: Arc<dyn Disk>) -> io::Result<Self> {
        let file = disk.open(REFUSED_FILES[0], true)?;
        disk.sync_directory()?;
        let length = file.len()?;
        let mut last = [b'\n'];
        if length > 0 {
            file.read_at(length - 1, &mut last)?;
        }
        Ok(Self { disk, open: Mutex::new(OpenFile { file, length, is_torn: last != [b'\n'] }) })
    }

    /// Adds these, durably.
    pub(crate) fn add(&self, refused: &[(&SpoolRecord, &RefusalReason)], now: Timestamp) -> io::Result<()> {
        let mut text = Vec::new();
        for (record, reason) in refused {
            line(record, reason, now, &mut text)?;
        }
        let mut open = locked(&self.open);
        if open.length > 0 && open.length + text.len() as u64 > FILE_BYTES_MAX {
            match self.disk.rename(REFUSED_FILES[0], REFUSED_FILES[1]) {
                // An earlier try came so far.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                renamed => renamed?,
            }
            *open = OpenFile { file: self.disk.open(REFUSED_FILES[0], true)?, length: 0, is_torn: false };
            self.disk.sync_directory()?;
        }
        let OpenFile { file, length, is_torn } = &mut *open;
        if *is_torn {
            text.insert(0, b'\n');
        }
        file.write_at(*length, &text)?;
        file.sync()?;
        (*length, *is_torn) = (*length + text.len() as u64, false);
        Ok(())
    }
}

fn line(record: &SpoolRecord, reason: &RefusalReason, now: Timestamp, out: &mut Vec<u8>) -> io::Result<()> {
    let body = serde_json::from_slice::<&RawValue>(&record.entry.body).ok();
    let text = body.is_none().then(|| String::from_utf8_lossy(&record.entry.body).into_owned());
    let shape = RefusedEntry {
        at: now.to_string(),
        destination: record.entry.destination.as_str(),
        number: record.number,
        received_at: record.received.to_string(),
        status: reason.status,
        code: &reason.code,
        detail: &reason.detail,
        body,
        text,
    };
    let mut line = serde_json::to_vec(&shape)?;
    // Outside of texts, line ends are blanks of JSON.
    line.iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r')).for_each(|byte| *byte = b' ');
    out.append(&mut line);
    out.push(b'\n');
    Ok(())
}

#[cfg(test)]
mod tests {
    use blocklog::SimulatedDisk;

    use super::*;
    use crate::destination::Destination;
    use crate::record::SpoolEntry;

    fn record(body: String) -> SpoolRecord {
        let destination = Destination::reports();
        let entry = SpoolEntry { destination, items: 1, key: None, follow: None, body: body.into() };
        SpoolRecord { identity: 1, number: 7, received: Timestamp(0), entry }
    }

    #[test]
    fn a_line_that_a_crash_cut_off_spoils_none_behind_it() {
        let disk = SimulatedDisk::new(1);
        let torn = disk.open(REFUSED_FILES[0], true).expect("it opens");
        torn.write_at(0, b"{\"at\":").expect("written");
        let reason = RefusalReason { status: 422, code: "c".into(), detail: "d".into() };
        let refused = RefusedFile::open(Arc::new(disk.clone())).expect("it opens");
        for number in [1, 2] {
            refused.add(&[(&record(number.to_string()), &reason)], Timestamp(0)).expect("written");
        }
        let text = String::from_utf8(disk.durable(REFUSED_FILES[0]).expect("there")).expect("text");
        let lines: Vec<_> = text.lines().map(serde_json::from_str::<serde_json::Value>).collect();
        assert_eq!(
            (lines.len(), lines[0].is_err(), lines[1].is_ok(), lines[2].is_ok()),
            (3, true, true, true)
        );
    }

    #[test]
    fn each_refusal_is_a_line_of_json_and_the_file_does_not_grow_for_ever() {
        let disk = SimulatedDisk::new(1);
        let reason = RefusalReason { status: 422, code: "not_an_object".into(), detail: "d".into() };
        let refused = RefusedFile::open(Arc::new(disk.clone())).expect("it opens");
        let all = [record("{\n\"a\":1}".into()), record("no\njson".into())];
        let reasons = all.each_ref().map(|record| reason.of_body(&record.entry.body));
        let both = [(&all[0], &reasons[0]), (&all[1], &reasons[1])];
        refused.add(&both, Timestamp(0)).expect("written");
        let text = String::from_utf8(disk.durable(REFUSED_FILES[0]).expect("there")).expect("text");
        let lines: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        assert_eq!((&lines[0]["body"]["a"], &lines[0]["number"]), (&1.into(), &7.into()));
        assert_eq!((&lines[1]["text"], lines.len()), (&"no\njson".into(), 2));
        let codes = [&lines[0]["code"], &lines[1]["code"]];
        assert_eq!(codes, ["not_an_object", "unreadable"], "it was sent as null");
        let large = record(format!("\"{}\"", "x".repeat(FILE_BYTES_MAX as usize / 2)));
        for _ in 0..4 {
            refused.add(&[(&large, &reason)], Timestamp(0)).expect("written");
        }
        let length = |name| disk.file_len(name).expect("there");
        assert!(length(REFUSED_FILES[0]) + length(REFUSED_FILES[1]) < 2 * FILE_BYTES_MAX);
    }
}
