//! What a partition goes back to when it is loaded.

use std::sync::Arc;

use base::Timestamp;
use engine::EngineSettings;

use super::partition::Partition;
use crate::harness::track::Track;
use crate::harness::violation::Checked;

impl Track<Partition> {
    /// A partition was loaded at batch `seq`. Its clocks stand at what was recorded, and run again
    /// after the grace. A partition that has never written has nothing to forgive.
    pub(crate) fn load(
        &mut self,
        seq: u64,
        now: Timestamp,
        process: (u64, &Arc<EngineSettings>),
        attended: [bool; 3],
    ) -> Checked {
        let (process, settings) = process;
        let listened = self.present.listening.listened;
        self.back_to(seq)?;
        self.present.settings = Arc::clone(settings);
        self.present.unfinished = None;
        self.present.looked_at = Timestamp(0);
        let now = now.max(self.present.now);
        let grace_ms = if seq == 0 { 0 } else { settings.restart_grace.as_millis() as i64 };
        let ways = (settings.ways_configured, attended);
        self.present.listening.start(now, grace_ms, listened, ways);
        self.present.loaded_by(process, now);
        Ok(())
    }
}
