//! The demo after its account: the locks go on for whoever wants to look at them in the console,
//! and the server is stopped.

use std::time::Duration;

use simulator::server::RunningServer;
use simulator::traffic::Dial;

use super::Failure;
use super::screen::DemoScreen;
use super::stage::Stage;

/// How long stopping may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// Longest time that the locks go on: the receivers remember every notification.
const KEPT_FOR_MAX: Duration = Duration::from_secs(3_600);

/// A demo that was played, with its server still up.
pub(super) struct Played {
    pub(super) stage: Stage,
    pub(super) server: RunningServer,
    /// Nothing is missing that the server vouched for.
    pub(super) is_complete: bool,
}

impl Played {
    /// Lets the locks go on until Ctrl-C.
    pub(super) async fn keep(&mut self, screen: &mut DemoScreen) -> Result<(), Failure> {
        self.stage.dial = Dial::new(&self.stage.devices);
        let fleet = self.stage.start_kept_locks();
        let console = self.stage.console().await;
        screen.line(&format!("\nThe locks go on. See them at {console} until you press Ctrl-C."))?;
        // An hour that is over ends it as Ctrl-C does.
        if let Ok(interrupted) = tokio::time::timeout(KEPT_FOR_MAX, tokio::signal::ctrl_c()).await {
            interrupted?;
        }
        self.stage.dial.finish();
        fleet.finish(PATIENCE).await;
        Ok(())
    }

    /// Stops the server; whether nothing was missing.
    pub(super) async fn end(self) -> Result<bool, Failure> {
        let stopped = self.server.stop(PATIENCE).await?;
        if stopped.success() {
            return Ok(self.is_complete);
        }
        let log = self.stage.site.log_tail();
        Err(format!("the server ended with {stopped}; its log ends with:\n{log}").into())
    }
}
