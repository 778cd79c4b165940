//! `fieldpost job work`: a command is run for each job, as a handler of the client crate's worker.
//!
//! The payload is the command's input. The command's exit code says whether the job is done, and
//! what it said last on stderr is the error that the job keeps. Commands are in process groups of
//! their own: a Ctrl-C stops the worker, which lets them end.

mod child;
mod log;
mod program;

use std::ffi::OsString;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use base::duration;
use clap::Args;
use fieldpost_client::{Client, Error};
use tokio::signal::unix::{SignalKind, signal};

use crate::api::ServerApi;
use crate::failure::CommandFailure;
use crate::screen::Screen;
use crate::server::ServerFlags;
use crate::tls;
use log::WorkLog;
use program::Program;

#[derive(Args, Debug)]
pub struct WorkJobs {
    /// The namespace.
    #[arg(value_name = "NAMESPACE")]
    namespace: String,
    /// The queue, or several of them: jobs of earlier ones come first.
    #[arg(value_name = "QUEUE[,QUEUE...]", value_delimiter = ',', num_args = 1, required = true)]
    queues: Vec<String>,
    /// So many commands run at the same time.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    concurrency: u16,
    /// How long a job stays with this worker when nothing is heard of it; a command may take
    /// longer.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration::parse)]
    ttr: Duration,
    /// When a failed job is tried again; if left out a second later, doubled with each attempt up
    /// to ten minutes.
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    retry_after: Option<Duration>,
    /// How long commands are waited for when the worker is to end.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration::parse)]
    stop_limit: Duration,
    /// End when no job is ready and no command runs.
    #[arg(long)]
    drain: bool,
    /// The command with its arguments.
    #[arg(value_name = "COMMAND", required = true, last = true)]
    command: Vec<OsString>,
}

impl WorkJobs {
    pub(super) fn run(
        &self,
        server: &ServerFlags,
        api: &ServerApi,
        screen: &mut Screen,
    ) -> Result<(), CommandFailure> {
        // Before any job is taken: a slip of the pen must not use up the tries of a whole queue.
        let program = Program::new(&self.command).map_err(CommandFailure::Usage)?;
        let client = api.client();
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        let runtime = runtime.map_err(|error| unstartable(&error))?;
        screen.flush()?;
        let log = Arc::new(WorkLog::new(server.json));
        let worked = runtime.block_on(async {
            let worked = self.work(client, &program, Arc::clone(&log)).await?;
            Ok::<_, CommandFailure>((worked, program.verdict(client, &self.namespace).await))
        });
        // What a command does that was given up is not waited for.
        runtime.shutdown_background();
        let (worked, broken) = worked?;
        if let Some(why) = broken.map_err(|error| refused(server, &error))? {
            return Err(CommandFailure::Incomplete(format!("{why}; its jobs were given back")));
        }
        worked.map_err(|error| refused(server, &error))?;
        // A worker that runs for long has failures; a queue that was to be emptied should not.
        if self.drain { log.verdict() } else { Ok(()) }
    }

    /// Works until a signal, until the command cannot be started, or until the server refuses for
    /// good.
    async fn work(
        &self,
        client: &Client,
        program: &Program,
        log: Arc<WorkLog>,
    ) -> Result<Result<(), Error>, CommandFailure> {
        let mut interrupt = signal(SignalKind::interrupt()).map_err(|error| unstartable(&error))?;
        let mut terminate = signal(SignalKind::terminate()).map_err(|error| unstartable(&error))?;
        let (program, running) = (program.clone(), program.clone());
        let stop = async move {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
                () = program.is_broken() => {}
            }
        };
        let mut worker = client
            .consumer(&self.namespace, &self.queues)
            .raw_worker()
            .concurrency(self.concurrency)
            .ttr(self.ttr)
            .stop_limit(self.stop_limit)
            .observe(move |event| log.record(event));
        if let Some(delay) = self.retry_after {
            worker = worker.retry_delay(move |_| delay);
        }
        if self.drain {
            worker = worker.until_empty();
        }
        Ok(worker.run_until(stop, move |job, lost| running.clone().run(job, lost)).await)
    }
}

fn unstartable(error: &io::Error) -> CommandFailure {
    CommandFailure::Incomplete(format!("no worker can be started: {error}"))
}

/// Why the worker ended, as the other commands say it.
fn refused(server: &ServerFlags, error: &Error) -> CommandFailure {
    let server = server.name();
    match error {
        Error::Refused(refusal) => {
            let mut refusal = refusal.clone();
            refusal.document = None;
            CommandFailure::refused(server, refusal)
        }
        Error::Foreign { what, .. } => CommandFailure::Foreign { server, what: what.clone() },
        other => {
            let of_tls = other.tls_fault().map(|fault| tls::describe(fault, other.root_cause()));
            CommandFailure::NotReached { server, why: of_tls.unwrap_or_else(|| other.to_string()) }
        }
    }
}
