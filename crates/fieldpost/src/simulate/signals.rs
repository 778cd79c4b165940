//! SIGINT and SIGTERM: whoever sends one wants to see what there is so far.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Both signals; as long as this lives they do not end the process.
#[derive(Debug)]
pub(super) struct InterruptSignals {
    interrupt: Signal,
    terminate: Signal,
}

impl InterruptSignals {
    pub(super) fn listen() -> io::Result<Self> {
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    /// Waits for either.
    pub(super) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
