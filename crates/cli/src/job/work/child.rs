//! One command for one job: the payload goes in, the exit code comes out.

use std::ffi::OsString;
use std::io;
use std::process::{ExitStatus, Stdio};

use base::limits::JOB_ERROR_BYTES_MAX;
use fieldpost_client::{CancellationToken, Failure, Job};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStderr, ChildStdin, Command};

/// What is read of a command's stderr at once.
const PIECE_BYTES: usize = 4_096;

/// Where a command finds the alias of its job.
const ALIAS: &str = "FIELDPOST_JOB_ALIAS";

/// The command for a job.
pub(super) fn command(words: &[OsString], job: &Job) -> Command {
    let mut command = Command::new(&words[0]);
    command
        .args(&words[1..])
        .env("FIELDPOST_JOB_ID", job.id.as_str())
        .env("FIELDPOST_JOB_QUEUE", &job.queue)
        .env("FIELDPOST_JOB_ATTEMPT", job.attempt.to_string())
        .env("FIELDPOST_JOB_TRIES", job.tries.to_string())
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    match job.alias.as_deref().unwrap_or_default() {
        // No environment can hold it, and another job's would be wrong.
        alias if alias.contains('\0') => command.env_remove(ALIAS),
        alias => command.env(ALIAS, alias),
    };
    command
}

/// Sees a command through to its end, which says whether the job is done; it is killed when the job
/// is lost.
///
/// # Errors
/// When the command cannot be followed.
pub(super) async fn see_through(
    child: &mut Child,
    job: &Job,
    lost: &CancellationToken,
) -> io::Result<Result<(), Failure>> {
    tokio::select! {
        ended = follow(child, job.payload.as_bytes()) => {
            let (status, stderr_end) = ended?;
            Ok(verdict(status, &stderr_end))
        }
        () = lost.cancelled() => {
            child.kill().await?;
            Ok(Err(Failure::new("the job was lost")))
        }
    }
}

/// Feeds a command, passes on what it says, and waits for its end.
async fn follow(child: &mut Child, payload: &[u8]) -> io::Result<(ExitStatus, String)> {
    let (stdin, stderr) = (child.stdin.take(), child.stderr.take());
    let ((), stderr_end, status) =
        tokio::try_join!(feed(stdin, payload), listen(stderr), async { child.wait().await })?;
    Ok((status, stderr_end))
}

/// A command need not read what it gets.
async fn feed(stdin: Option<ChildStdin>, payload: &[u8]) -> io::Result<()> {
    let Some(mut stdin) = stdin else { return Ok(()) };
    match stdin.write_all(payload).await {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}

/// Passes stderr on as it comes, and keeps its end.
async fn listen(stderr: Option<ChildStderr>) -> io::Result<String> {
    let Some(mut stderr) = stderr else { return Ok(String::new()) };
    let (mut end, mut piece) = (Vec::new(), [0; PIECE_BYTES]);
    let mut own = tokio::io::stderr();
    loop {
        let read = stderr.read(&mut piece).await?;
        if read == 0 {
            // All of it is out before the worker says what became of the job.
            own.flush().await?;
            return Ok(String::from_utf8_lossy(&end).trim().to_owned());
        }
        own.write_all(&piece[..read]).await?;
        end.extend_from_slice(&piece[..read]);
        let spare = end.len().saturating_sub(JOB_ERROR_BYTES_MAX);
        end.drain(..spare);
    }
}

fn verdict(status: ExitStatus, stderr_end: &str) -> Result<(), Failure> {
    match (status.success(), stderr_end) {
        (true, _) => Ok(()),
        (false, "") => Err(Failure::new(status.to_string())),
        (false, words) => Err(Failure::new(format!("{status}: {words}"))),
    }
}
