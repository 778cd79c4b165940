//! Runs the copies of streams between nodes, over the nodes' own API.
//!
//! Each copy has a task, which reads durable messages at one end and appends them at the other. It
//! moves the copy's position when the answer says that they are durable there. What an end is, the
//! task does not know: this server, another one over HTTP, or one of a test.
//!
//! ```text
//!   source: a StreamEnd --page--> CopyRun --append--> sink: a StreamEnd
//!                                    |
//!                                 CopyHome: the row, its moves, the clock
//! ```
//!
//! | module | what |
//! |---|---|
//! | [`ends`] | the ports: an end of a copy, and where its row is |
//! | [`run`] | the loop of one copy: what becomes of failures |
//! | `copy_run` | a copy while nothing fails |
//! | `batch_size` | how much it sends at a time |
//! | [`here`] | the ends and the home in this server |
//! | [`places`] | what all copies together hold in memory |
//! | [`peer`] | an end at another node, over HTTP |
//! | [`reports`] | the ends of a copy of kind `reports` |
//! | [`gathered_reports`] | reports on their way from devices to the streams of copies |
//! | [`tasks`] | a task for each copy that runs |

mod batch_size;
mod copy_run;
pub mod ends;
pub mod gathered_reports;
pub mod here;
pub mod peer;
pub mod places;
pub mod reports;
pub mod run;
pub mod tasks;
mod tls_fault;
mod transport;

pub use ends::{
    CopyBatch, CopyFailure, CopyFailureKind, CopyHome, PageAsk, SinkAnswer, SourcePage, StreamEnd,
};
pub use run::run_copy;
pub use tasks::run_copies;
