//! The workers of blocks, step by step: they may be cut off between any two.

use std::collections::BTreeSet;

use engine::streams::block_sweep::sweep_files;
use engine::streams::block_worker::{BlockWork, DoneWork, do_work};
use records::{StreamBlock, block_folder};
use store::BlockStorage;

use super::{MeantInput, World};
use crate::harness::violation::{Checked, Invariant};
use crate::streams::cold_storage::COLD;
use crate::streams::fault_injection::{FILE_NOT_DELETED, FILE_NOT_WRITTEN, MOVED_FILE_LOST};

impl World {
    /// The workers go on. Whether they had anything to do.
    pub(super) fn work(&mut self) -> bool {
        let has_room = self.has_room();
        let Some(server) = self.server.as_mut() else { return false };
        let store = &*server.context.kernel.store;
        if !server.has_swept {
            server.has_swept = true;
            let count = || store.blocks().names("").map_or(0, |names| names.len());
            let before = count();
            server.has_failed |= !sweep_files(store, &server.context.streams);
            self.counts.swept += before.saturating_sub(count()) as u64;
            return true;
        }
        if server.done.is_some() {
            if !has_room {
                return false;
            }
            let done = server.done.take().map(DoneWork::into_input);
            return done.is_some_and(|done| self.hand_in(done, MeantInput::Told));
        }
        let Some(work) = server.context.streams.take_block_work() else { return false };
        self.machine.trace.note(format_args!("{work:?}"));
        let is_deletion = matches!(work, BlockWork::Delete(_));
        if is_deletion && self.machine.injects(FILE_NOT_DELETED) {
            return true;
        }
        let done = do_work(store, &server.context.streams, work);
        match &done {
            Some(DoneWork::Stored(stored)) => {
                let has_failed = stored.result.is_err();
                server.has_failed |= has_failed;
                self.counts.blocks_failed += u64::from(has_failed);
                if self.machine.injects(FILE_NOT_WRITTEN) {
                    let _gone = store.blocks().delete(&stored.block.file().block_name().to_string());
                }
            }
            Some(DoneWork::Moved(moved)) => {
                self.counts.moves_failed += u64::from(moved.result.is_err());
                if let Ok(row) = &moved.result
                    && self.machine.injects(MOVED_FILE_LOST)
                {
                    let _gone = self.cold.delete(&row.file_name());
                }
            }
            None => {}
        }
        // Whoever deletes on a disk that fails leaves it to the next start.
        server.has_failed |= done.is_none() && self.machine.is_storage_faulty();
        server.done = done;
        true
    }

    /// The worker of the other storage looks at it, as it does now and then.
    pub(super) fn look_at_cold(&mut self) {
        let Some(server) = self.server.as_ref() else { return };
        let count = || self.cold.blocks().names(&self.cold_folder()).map_or(0, |names| names.len());
        let before = count();
        server.context.streams.look_at_storage(&*server.context.kernel.store, COLD);
        let after = count();
        self.counts.cold_swept += before.saturating_sub(after) as u64;
    }

    /// The other storage is away, or back.
    pub(super) fn change_cold(&mut self, is_away: bool) {
        self.machine.trace.note(format_args!("the cold storage is away: {is_away}"));
        self.cold.go_away(is_away);
    }

    fn cold_folder(&self) -> String {
        self.server
            .as_ref()
            .map_or_else(String::new, |server| block_folder(server.context.kernel.store.lineage()))
    }

    /// Each file has its row, and each row its file, in both storages.
    pub(super) fn check_files(&self) -> Checked {
        let Some(server) = self.server.as_ref() else { return Ok(()) };
        let local = server.context.kernel.store.blocks().names("");
        let local = local.map_err(|error| Invariant::FILES_HAVE_BLOCKS.broken(error.to_string()))?;
        let cold = self.cold.blocks().names(&self.cold_folder());
        let cold = cold.map_err(|error| Invariant::FILES_HAVE_BLOCKS.broken(error.to_string()))?;
        let present = &self.model.present;
        let rows = || present.streams.values().flat_map(|found| found.blocks.values());
        for (names, is_local, may_be_left) in [(local, true, server.has_failed), (cold, false, false)] {
            let names: BTreeSet<String> = names.into_iter().collect();
            let rows: BTreeSet<String> =
                rows().filter(|row| row.is_local() == is_local).map(StreamBlock::file_name).collect();
            let missing: Vec<_> = rows.difference(&names).collect();
            Invariant::BLOCKS_HAVE_FILES.check(missing.is_empty(), || format!("{missing:?} are missing"))?;
            let left: Vec<_> = names.difference(&rows).collect();
            Invariant::FILES_HAVE_BLOCKS
                .check(left.is_empty() || may_be_left, || format!("{left:?} are left"))?;
        }
        Ok(())
    }
}
