//! What the listeners share: room for connections and files, who is shown out where there is none, patience
//! with the operating system, and agreeing on TLS.
//!
//! What is spoken on a connection is not known here.

mod arrivals;
pub(crate) mod crowd;
pub(crate) mod patience;
pub(crate) mod room;
pub(crate) mod stopping;
pub(crate) mod tls;

pub use arrivals::{Arrivals, Speak};
pub use room::OpenFiles;
pub use tls::TlsSource;
