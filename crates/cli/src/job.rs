//! `fieldpost job`: jobs go into queues, are taken out and settled, looked at, changed and
//! cancelled.
//!
//! Each command asks the API once, like all others here; `job work` runs the worker of the client
//! crate.

mod consume;
mod publish;
mod view;
mod work;

use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use serde_json::json;

use super::api::{ApiPath, ServerApi};
use super::failure::CommandFailure;
use super::list::{self, ListFlags};
use super::queue::QueueArgs;
use super::screen::Screen;
use super::server::ServerFlags;
use super::table::{grouped, plain};
use view::{AckedView, ShownJob};
pub(super) use view::{attempt, carried};

/// What can be done with jobs.
#[derive(Debug, Subcommand)]
pub enum JobAction {
    /// Publish a job; it is durable when this returns.
    Publish(Box<publish::PublishJob>),
    /// Take jobs; each is reserved for its ttr, until it is acknowledged or released.
    Consume(consume::ConsumeJobs),
    /// Run a command for each job, its payload on stdin: exit 0 is done, anything else is tried
    /// again. Ctrl-C ends it.
    Work(work::WorkJobs),
    /// Say that jobs are done.
    Ack(AckJobs),
    /// Keep a reservation for longer.
    Extend(Extend),
    /// Give a job back, to be tried again; its last try makes it dead.
    Release(Release),
    /// Show a job without taking it.
    Show(OneJob),
    /// Give a waiting job another payload or time.
    Change(publish::ChangeJob),
    /// Cancel a job, wherever it stands.
    Cancel(OneJob),
    /// List jobs in order of publishing, without taking them.
    Ls(ListJobs),
}

/// Which job.
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("which").required(true).args(["job", "alias"]))]
pub struct OneJob {
    #[command(flatten)]
    place: QueueArgs,
    /// The job.
    #[arg(value_name = "JOB")]
    job: Option<String>,
    /// Its publisher's own id for it, in place of JOB.
    #[arg(long)]
    alias: Option<String>,
}

/// A job that was taken, and what shows it.
#[derive(Args, Debug)]
struct HeldJob {
    #[command(flatten)]
    place: QueueArgs,
    /// The job.
    #[arg(value_name = "JOB")]
    job: String,
    /// Its reservation, as `job consume` told it.
    #[arg(value_name = "RESERVATION")]
    reservation: String,
}

#[derive(Args, Debug)]
pub struct AckJobs {
    #[command(flatten)]
    place: QueueArgs,
    /// Reservations, as `job consume` told them.
    #[arg(value_name = "RESERVATION", required = true)]
    reservations: Vec<String>,
}

#[derive(Args, Debug)]
pub struct Extend {
    #[command(flatten)]
    held: HeldJob,
    /// How long it holds from now (30s, 5m).
    #[arg(long, value_name = "DURATION")]
    ttr: String,
}

#[derive(Args, Debug)]
pub struct Release {
    #[command(flatten)]
    held: HeldJob,
    /// Not to be tried again before this is over (30s, 1h).
    #[arg(long, value_name = "DURATION")]
    delay: Option<String>,
    /// What was wrong; kept with the job if this was its last try.
    #[arg(long, value_name = "TEXT")]
    error: Option<String>,
}

#[derive(Args, Debug)]
pub struct ListJobs {
    #[command(flatten)]
    place: QueueArgs,
    /// Only those in this state.
    #[arg(long, value_enum)]
    state: Option<JobStateFlag>,
    #[command(flatten)]
    list_flags: ListFlags,
}

/// Where a job stands.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum JobStateFlag {
    /// It waits for its time.
    Scheduled,
    /// It can be consumed.
    Ready,
    /// It is with a consumer.
    Reserved,
}

impl JobStateFlag {
    fn as_str(self) -> &'static str {
        match self {
            Self::Scheduled => "scheduled",
            Self::Ready => "ready",
            Self::Reserved => "reserved",
        }
    }
}

impl JobAction {
    pub(super) fn run(
        &self,
        server: &ServerFlags,
        api: &ServerApi,
        screen: &mut Screen,
    ) -> Result<(), CommandFailure> {
        match self {
            Self::Publish(publish) => publish.run(api, screen),
            Self::Consume(consume) => consume.run(api, screen),
            Self::Work(work) => work.run(server, api, screen),
            Self::Ack(AckJobs { place, reservations }) => ack(place, reservations, api, screen),
            Self::Extend(Extend { held, ttr }) => {
                let body = json!({ "reservation": held.reservation, "ttr": ttr });
                api.tell(&held.path("extend"), &body)?;
                screen.tell(&format!("{} is kept for {}\n", plain(&held.job), plain(ttr)))
            }
            Self::Release(release) => release.run(api, screen),
            Self::Show(one) => {
                let job = api.get(&one.path())?;
                screen.show(&job, || Ok(api.read::<ShownJob>(&job)?.facts()))
            }
            Self::Change(change) => change.run(api, screen),
            Self::Cancel(one) => {
                api.delete(&one.path())?;
                screen.tell(&format!("{} cancelled\n", plain(one.name())))
            }
            Self::Ls(ListJobs { place, state, list_flags }) => {
                let path = place.below(&["jobs"]).with_maybe("state", state.map(JobStateFlag::as_str));
                list::show::<ShownJob>(api, screen, &path, list_flags, "no jobs")
            }
        }
    }
}

impl OneJob {
    fn path(&self) -> ApiPath {
        match (&self.job, &self.alias) {
            (Some(job), _) => self.place.below(&["jobs", job]),
            (None, alias) => self.place.below(&["aliases", alias.as_deref().unwrap_or_default()]),
        }
    }

    fn name(&self) -> &str {
        self.job.as_ref().or(self.alias.as_ref()).map_or("", String::as_str)
    }
}

impl HeldJob {
    fn path(&self, verb: &str) -> ApiPath {
        self.place.below(&["jobs", &self.job, verb])
    }
}

impl Release {
    fn run(&self, api: &ServerApi, screen: &mut Screen) -> Result<(), CommandFailure> {
        let Self { held, delay, error } = self;
        let mut body = json!({ "reservation": held.reservation });
        for (field, text) in [("delay", delay), ("error", error)] {
            if let Some(text) = text {
                body[field] = text.clone().into();
            }
        }
        api.tell(&held.path("release"), &body)?;
        screen.tell(&format!("{} given back\n", plain(&held.job)))
    }
}

/// Acknowledges, and fails where anything was not acknowledged: a script has to notice.
fn ack(
    place: &QueueArgs,
    reservations: &[String],
    api: &ServerApi,
    screen: &mut Screen,
) -> Result<(), CommandFailure> {
    let answer = api.post(&place.below(&["ack"]), &json!({ "reservations": reservations }))?;
    let AckedView { acked, stale } = api.read(&answer)?;
    screen.show(&answer, || {
        let stale = stale.iter().map(|reservation| format!("{} holds no longer\n", plain(reservation)));
        Ok(format!("{} acknowledged\n", grouped(acked)) + &stale.collect::<String>())
    })?;
    match stale.len() {
        0 => Ok(()),
        count => Err(CommandFailure::Incomplete(format!(
            "{count} not acknowledged: the ttr was over, or the job was done or cancelled before"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        one: OneJob,
    }

    #[test]
    fn a_job_is_named_by_its_id_or_by_its_alias() {
        for (line, right) in [
            ("shop mail 01J", true),
            ("shop mail --alias basket-17", true),
            ("shop mail", false),
            ("shop mail 01J --alias basket-17", false),
        ] {
            let words = std::iter::once("test").chain(line.split_whitespace());
            assert_eq!(Line::try_parse_from(words).is_ok(), right, "{line}");
        }
    }
}
