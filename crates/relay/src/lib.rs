//! The outbox relay: moves rows that a service writes into a table of its own PostgreSQL, in its
//! own transactions, to queues and streams.
//!
//! A row is taken when it can be seen, and deleted once it is durable at its destination. Nothing
//! that a kill could lose is remembered outside the database. Rules are pure; the mover does what
//! they say. The server is known by its API only, however a call gets there.

mod announce;
mod backfill;
mod call_sizes;
mod database;
mod gaps;
mod lanes;
mod look;
mod mover;
mod outbox;
mod outgoing;
mod plan;
mod publish;
mod refused;
mod script;
mod table;
mod tls;
mod verdict;

pub use backfill::{BackfillError, BackfillPlan, backfill};
pub use database::{DatabaseError, DatabaseUrl, DatabaseUrlError};
pub use mover::{RelayConfig, relay_name, run};
pub use outgoing::check_destination;
pub use plan::OnRefused;
pub use publish::{CallAnswer, CallMaker, ClientRenewal, OutgoingCall, over_http};
pub use refused::{
    OutboxStatus, RefusedChoice, RefusedRow, drop_refused, list_refused, outbox_status, retry_refused,
};
pub use script::{WatchedTable, inbox_script, outbox_script, watch_script};
pub use table::{TableName, TableNameError};
