//! Segment files that were freed and wait to be used again.
//!
//! Unlinking a file of 16 MB makes the next sync wait for the file system to give its blocks back.
//! A new file has to be given blocks anew. A file that is used again costs neither. A freed segment
//! gets another name, so that no opening takes it for a part of the log. It keeps its bytes until
//! it is written over.
//!
//! Nothing is written to a spare before its new name is durable, as it is by the next segment that
//! is begun. Otherwise a crash could bring the old name back, over a header that is no longer its
//! own. A spare is used once in one life of the process, or not at all: an opening removes those
//! that it finds. One of them may hold frames that were meant for a segment which never came to be,
//! and their positions will be given again.

use std::collections::VecDeque;

use crate::disk::Disk;
use crate::error::LogError;
use crate::segment::segment_name;

const SPARE_SUFFIX: &str = ".spare";

/// A file that may be used again.
#[derive(Debug)]
pub(crate) struct Spare {
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// A sync of the directory came after it got this name.
    is_settled: bool,
}

/// All of them, the one that waits longest first.
#[derive(Debug)]
pub(crate) struct Spares {
    waiting: VecDeque<Spare>,
    most: usize,
}

/// The name under which the segment `sequence` waits to be used again.
pub(crate) fn spare_name(sequence: u32) -> String {
    format!("{}{SPARE_SUFFIX}", segment_name(sequence))
}

/// What the name of a spare stands for without its ending; `None` for any other file.
pub(crate) fn spared(name: &str) -> Option<&str> {
    name.strip_suffix(SPARE_SUFFIX)
}

impl Spares {
    pub(crate) fn none(most: usize) -> Spares {
        Spares { waiting: VecDeque::new(), most }
    }

    pub(crate) fn have_room(&self) -> bool {
        self.waiting.len() < self.most
    }

    /// Gives the segment `sequence`, whose file is `bytes` long, its name as a spare.
    pub(crate) fn take(&mut self, disk: &dyn Disk, sequence: u32, bytes: u64) -> Result<(), LogError> {
        let (old, name) = (segment_name(sequence), spare_name(sequence));
        disk.rename(&old, &name).map_err(LogError::io("rename", disk, &old))?;
        self.waiting.push_back(Spare { name, bytes, is_settled: false });
        Ok(())
    }

    /// The one to use. None while no sync of the directory has come since the first one was freed.
    /// One more file is made then; from that time on there is one that is ready.
    pub(crate) fn pop(&mut self) -> Option<Spare> {
        self.waiting.pop_front_if(|first| first.is_settled)
    }

    /// All names so far are durable.
    pub(crate) fn directory_was_synced(&mut self) {
        self.waiting.iter_mut().for_each(|spare| spare.is_settled = true);
    }
}
