//! What became of a job without a word of its worker.
//!
//! The jobs of a machine may have several purposes ([`records::JobPurpose`]). Lapse, cut and expiry
//! are the same for all of them; what follows from it is for the purpose to say.

use base::Timestamp;
use jobs::{Passed, ReleaseOutcome};
use records::{AliasKey, QueueKey};

/// A job of which its worker did not say how it ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct EndedJob {
    pub(super) line: QueueKey,
    pub(super) alias: Option<AliasKey>,
    pub(super) end: JobEnd,
}

/// How it ended.
#[derive(Clone, Copy, Debug)]
pub(super) enum JobEnd {
    /// Its lease ran out.
    Lapsed(ReleaseOutcome),
    /// Its worker is gone with the process.
    Cut(ReleaseOutcome),
    /// It waited for too long, and comes again at that time, if at all.
    Expired(Option<Timestamp>),
}

impl From<Passed> for EndedJob {
    fn from(passed: Passed) -> Self {
        match passed {
            Passed::Lapsed(lapsed) => {
                Self { line: lapsed.queue, alias: lapsed.alias, end: JobEnd::Lapsed(lapsed.released) }
            }
            Passed::Expired(expired) => {
                Self { line: expired.queue, alias: expired.alias, end: JobEnd::Expired(expired.next_run) }
            }
        }
    }
}
