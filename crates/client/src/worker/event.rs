//! What a worker tells of what it does.

use std::sync::Arc;
use std::time::Duration;

use crate::error::Error;
use crate::job::JobReservation;
use crate::queue_control::QueueControl;

/// Something that happened at a worker.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum WorkerEvent {
    /// A job was taken, and its handler begins.
    Begun {
        /// The job.
        job: JobReservation,
        /// Which attempt it is.
        attempt: u32,
    },
    /// Its handler ended well, and the server knows.
    Done {
        /// The job.
        job: JobReservation,
    },
    /// Its handler did not, and the job was given back.
    Failed {
        /// The job.
        job: JobReservation,
        /// What was wrong.
        error: String,
        /// When it is tried again; `None` if that was its last try, and it is dead.
        again_in: Option<Duration>,
    },
    /// Its reservation holds no longer: it could not be kept, or the job was cancelled. What its
    /// handler does is in vain.
    Lost {
        /// The job.
        job: JobReservation,
    },
    /// The server could not be told how the handler ended; the job comes back when its ttr is over.
    Untold {
        /// The job.
        job: JobReservation,
        /// Why not.
        error: Arc<Error>,
    },
    /// The server gave no answer to the question for jobs.
    Away {
        /// Why not.
        error: Arc<Error>,
        /// When it is asked again.
        again_in: Duration,
    },
    /// The queue's workers are told something else than before; `None` is nothing any more. It is
    /// done by itself.
    Control {
        /// What they are told.
        control: Option<QueueControl>,
    },
    /// No more jobs are taken.
    Stopping {
        /// So many handlers are waited for.
        running: usize,
    },
}
