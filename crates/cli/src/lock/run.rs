//! `fieldpost lock run`: a command that runs while a lock is held.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use base::duration;
use clap::Args;
use fieldpost_client::{Error, LockGuard};
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};

use super::LockPlace;
use crate::api::ServerApi;
use crate::failure::CommandFailure;
use crate::screen::Screen;
use crate::server::ServerFlags;

/// Where the command finds the fence.
const FENCE: &str = "FIELDPOST_FENCE";
/// So long a command may take to end once it was asked to.
const STOP_LIMIT: Duration = Duration::from_secs(10);

#[derive(Args, Debug)]
pub struct RunLocked {
    #[command(flatten)]
    place: LockPlace,
    /// How long the lock stays when nothing is heard of this machine any more.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration::parse)]
    ttl: Duration,
    /// How long to stand in line for it.
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration::parse)]
    wait: Duration,
    /// The command with its arguments. Its exit code is this one's; it finds the fence in
    /// FIELDPOST_FENCE.
    #[arg(value_name = "COMMAND", required = true, last = true)]
    command: Vec<OsString>,
}

/// How the command ended.
enum RunEnd {
    Exited(ExitStatus),
    Lost,
}

impl RunLocked {
    pub(super) fn run(
        &self,
        server: &ServerFlags,
        api: &ServerApi,
        screen: &mut Screen,
    ) -> Result<(), CommandFailure> {
        screen.flush()?;
        let name = self.place.shown();
        // The client tries again for a while, and says nothing meanwhile.
        match api.reach(&self.place.below(&[])) {
            Err(failure) if failure.may_pass() => screen.note(&format!("{failure}; waiting for it")),
            reached => reached?,
        }
        let lock = api.client().lock(&self.place.namespace, &self.place.name).ttl(self.ttl).wait(self.wait);
        let Some(guard) = api.wait_for(lock.acquire())? else {
            return Err(CommandFailure::Incomplete(format!("{name} is held by another owner")));
        };
        let ended = api.wait_for(async {
            let ended = self.see_through(&guard).await;
            // A lock that cannot be let go ends when its ttl is over: the command's end says more.
            if let Err(error) = guard.release().await {
                screen.note(&format!("{name} could not be let go on {}: {error}", server.name()));
            }
            Ok::<_, Error>(ended)
        })?;
        match ended.map_err(|error| self.not_run(&error))? {
            RunEnd::Exited(status) if status.success() => Ok(()),
            RunEnd::Exited(status) => Err(CommandFailure::Command(exit_code(status))),
            RunEnd::Lost => {
                Err(CommandFailure::Incomplete(format!("{name} was lost, and the command was stopped")))
            }
        }
    }

    fn not_run(&self, error: &io::Error) -> CommandFailure {
        CommandFailure::Usage(format!("{} cannot be run: {error}", self.command[0].display()))
    }

    /// Runs the command to its end; it is stopped when the lock is lost.
    async fn see_through(&self, guard: &LockGuard) -> io::Result<RunEnd> {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut command = Command::new(&self.command[0]);
        command.args(&self.command[1..]).env(FENCE, guard.fence().to_string()).kill_on_drop(true);
        let mut child = command.spawn()?;
        let lost = guard.lost();
        loop {
            tokio::select! {
                ended = child.wait() => return ended.map(RunEnd::Exited),
                () = lost.cancelled() => {
                    stop(&mut child).await?;
                    return Ok(RunEnd::Lost);
                }
                // The terminal has told the command as well; it says when it is done.
                _ = interrupt.recv() => {}
                _ = terminate.recv() => ask_to_end(&child)?,
            }
        }
    }
}

fn ask_to_end(child: &Child) -> io::Result<()> {
    let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(rustix::process::Pid::from_raw);
    match pid {
        Some(pid) => Ok(rustix::process::kill_process(pid, rustix::process::Signal::TERM)?),
        None => Ok(()),
    }
}

async fn stop(child: &mut Child) -> io::Result<()> {
    ask_to_end(child)?;
    match tokio::time::timeout(STOP_LIMIT, child.wait()).await {
        Ok(ended) => ended.map(drop),
        Err(_) => child.kill().await,
    }
}

/// As shells tell it: 128 and the number of the signal where one ended it.
fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    u8::try_from(code & 0xff).unwrap_or(1)
}
