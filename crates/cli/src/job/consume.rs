//! Taking jobs from the shell.

use std::time::{Duration, Instant};

use base::duration;
use clap::Args;
use serde_json::json;
use serde_json::value::RawValue;

use super::view::{self, ConsumedJobs, ConsumedView};
use crate::api::{ApiPath, ServerApi};
use crate::failure::CommandFailure;
use crate::list::TableRow;
use crate::screen::Screen;
use crate::table::TextTable;

/// A long wait is cut into such pieces: what lies between may close a connection that is silent for
/// longer.
const WAIT_MAX: Duration = Duration::from_secs(30);

#[derive(Args, Debug)]
pub struct ConsumeJobs {
    /// The namespace.
    #[arg(value_name = "NAMESPACE")]
    namespace: String,
    /// The queue, or several of them: jobs of earlier ones come first.
    #[arg(value_name = "QUEUE[,QUEUE...]")]
    queues: String,
    /// At most so many.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    max: u64,
    /// For how long they are reserved (30s, 2m).
    #[arg(long, value_name = "DURATION", default_value = "2m")]
    ttr: String,
    /// Wait so long for the first one.
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration::parse)]
    wait: Duration,
    /// Acknowledge them once they are shown: whatever becomes of them is up to whoever reads this.
    #[arg(long)]
    ack: bool,
}

impl ConsumeJobs {
    pub(super) fn run(&self, api: &ServerApi, screen: &mut Screen) -> Result<(), CommandFailure> {
        let ConsumedJobs { jobs } = self.take(api)?;
        if jobs.is_empty() {
            if !screen.is_for_programs() {
                screen.note("no jobs");
            }
            return Ok(());
        }
        let read = jobs.iter().map(|job| api.read(job)).collect::<Result<Vec<ConsumedView>, _>>()?;
        show(screen, &jobs, &read)?;
        // Durable at the server and seen here: only then may it be forgotten there.
        screen.flush()?;
        if self.ack { self.acknowledge(api, &read) } else { Ok(()) }
    }

    /// Asks until there is a job or the wait is over.
    fn take(&self, api: &ServerApi) -> Result<ConsumedJobs, CommandFailure> {
        let path = ApiPath::of(&["queues", &self.namespace]).and_any_of(&self.queues).and(&["consume"]);
        let since = Instant::now();
        loop {
            let left = self.wait.saturating_sub(since.elapsed());
            let wait = duration::format(left.min(WAIT_MAX));
            let answer = api.post(&path, &json!({ "max": self.max, "ttr": self.ttr, "wait": wait }))?;
            let taken: ConsumedJobs = api.read(&answer)?;
            if !taken.jobs.is_empty() || left <= WAIT_MAX {
                return Ok(taken);
            }
        }
    }

    fn acknowledge(&self, api: &ServerApi, jobs: &[ConsumedView]) -> Result<(), CommandFailure> {
        let mut stale = 0;
        for (queue, reservations) in view::by_queue(jobs) {
            let path = ApiPath::of(&["queues", &self.namespace, queue, "ack"]);
            let answer = api.post(&path, &json!({ "reservations": reservations }))?;
            stale += api.read::<view::AckedView>(&answer)?.stale.len();
        }
        match stale {
            0 => Ok(()),
            count => Err(CommandFailure::Incomplete(format!(
                "{count} could not be acknowledged: the ttr was over"
            ))),
        }
    }
}

fn show(screen: &mut Screen, jobs: &[Box<RawValue>], read: &[ConsumedView]) -> Result<(), CommandFailure> {
    if screen.is_for_programs() {
        return jobs.iter().try_for_each(|job| screen.write_line(job.get()));
    }
    let rows: Vec<_> = read.iter().map(TableRow::cells).collect();
    let mut table = TextTable::new(ConsumedView::HEADINGS).within(screen.width());
    screen.tell(&table.lines(&rows))
}
