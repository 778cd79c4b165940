//! The worker of blocks, step by step: it may be cut off between any two.

use std::collections::BTreeSet;

use engine::streams::StreamsInput;
use engine::streams::block_worker::{BlockWork, do_work, sweep_files};

use super::{MeantInput, World};
use crate::harness::violation::{Checked, Invariant};
use crate::streams::fault_injection::{FILE_NOT_DELETED, FILE_NOT_WRITTEN};

impl World {
    /// The worker goes on. Whether it had anything to do.
    pub(super) fn work(&mut self) -> bool {
        let has_room = self.has_room();
        let Some(server) = self.server.as_mut() else { return false };
        let store = &*server.context.kernel.store;
        if !server.has_swept {
            server.has_swept = true;
            let before = store.blocks().list().map_or(0, |names| names.len());
            server.has_failed |= !sweep_files(store);
            let after = store.blocks().list().map_or(0, |names| names.len());
            self.counts.swept += before.saturating_sub(after) as u64;
            return true;
        }
        if server.done.is_some() {
            if !has_room {
                return false;
            }
            let done = server.done.take().map(Box::new);
            let takes = done.is_some_and(|done| self.hand_in(StreamsInput::Stored(done), MeantInput::Told));
            return takes;
        }
        let Some(work) = server.context.streams.take_block_work() else { return false };
        self.machine.trace.note(format_args!("{work:?}"));
        let is_deletion = matches!(work, BlockWork::Delete(_));
        if is_deletion && self.machine.injects(FILE_NOT_DELETED) {
            return true;
        }
        let done = do_work(store, work);
        if let Some(stored) = &done {
            let has_failed = stored.result.is_err();
            server.has_failed |= has_failed;
            self.counts.blocks_failed += u64::from(has_failed);
            if self.machine.injects(FILE_NOT_WRITTEN) {
                let _gone = store.blocks().delete(&stored.block.file().block_name().to_string());
            }
        }
        // Whoever deletes on a disk that fails leaves it to the next start.
        server.has_failed |= is_deletion && self.machine.is_storage_faulty();
        server.done = done;
        true
    }

    /// Each file has its row, and each row its file.
    pub(super) fn check_files(&self) -> Checked {
        let Some(server) = self.server.as_ref() else { return Ok(()) };
        let names = server.context.kernel.store.blocks().list();
        let names = names.map_err(|error| Invariant::FILES_HAVE_BLOCKS.broken(error.to_string()))?;
        let names: BTreeSet<String> = names.into_iter().collect();
        let present = &self.model.present;
        let rows = present.streams.values().flat_map(|found| found.blocks.values());
        let rows: BTreeSet<String> = rows.map(records::StreamBlock::file_name).collect();
        let missing: Vec<_> = rows.difference(&names).collect();
        Invariant::BLOCKS_HAVE_FILES.check(missing.is_empty(), || format!("{missing:?} are missing"))?;
        let left: Vec<_> = names.difference(&rows).collect();
        Invariant::FILES_HAVE_BLOCKS
            .check(left.is_empty() || server.has_failed, || format!("{left:?} are left"))
    }
}
