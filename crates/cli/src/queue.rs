//! `fieldpost queue`: how queues stand, what is set for them, and what became of jobs that failed
//! for good.

mod control;
mod set;
mod view;

use clap::{ArgGroup, Args, Subcommand};
use serde::Deserialize;
use serde_json::json;

use super::api::{ApiPath, ServerApi};
use super::failure::CommandFailure;
use super::list::{self, ListFlags};
use super::screen::Screen;
use super::table::{grouped, plain};
use view::{DeadJobView, QueueView};

/// What can be done with queues.
#[derive(Debug, Subcommand)]
pub enum QueueAction {
    /// List queues with how many jobs they have.
    Ls(ListQueues),
    /// Show how a queue stands and what is set for it.
    Stats(QueueArgs),
    /// Change what is set for a queue: order, concurrency, rate, limits.
    Set(set::SetQueue),
    /// Tell the workers of a queue what to do, or show what they are told.
    Control(control::TellWorkers),
    /// Hand out no more jobs.
    Pause(QueueArgs),
    /// Hand out jobs again.
    Resume(QueueArgs),
    /// List jobs that failed for good, the oldest first.
    Dead(ListDead),
    /// Have jobs tried again that failed for good: these, or the oldest.
    Respawn(Respawn),
    /// Drop all jobs that failed for good.
    ClearDead(QueueArgs),
    /// Delete a queue with all its jobs and what is set for it.
    Delete(QueueArgs),
}

/// A queue.
#[derive(Args, Debug)]
pub struct QueueArgs {
    /// The namespace.
    #[arg(value_name = "NAMESPACE")]
    namespace: String,
    /// The queue.
    #[arg(value_name = "QUEUE")]
    queue: String,
}

#[derive(Args, Debug)]
pub struct ListQueues {
    /// Only those of this namespace.
    #[arg(long)]
    namespace: Option<String>,
    #[command(flatten)]
    list_flags: ListFlags,
}

#[derive(Args, Debug)]
pub struct ListDead {
    #[command(flatten)]
    place: QueueArgs,
    #[command(flatten)]
    list_flags: ListFlags,
}

#[derive(Args, Debug)]
#[command(group = ArgGroup::new("which").required(true).args(["jobs", "oldest"]))]
pub struct Respawn {
    #[command(flatten)]
    place: QueueArgs,
    /// The jobs.
    #[arg(value_name = "JOB")]
    jobs: Vec<String>,
    /// The oldest ones, at most so many, in place of JOB.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000))]
    oldest: Option<u64>,
}

#[derive(Deserialize)]
struct RespawnedView {
    respawned: u64,
}

impl QueueArgs {
    pub(super) fn below(&self, parts: &[&str]) -> ApiPath {
        ApiPath::of(&[&["queues", &self.namespace, &self.queue], parts].concat())
    }

    fn name(&self) -> String {
        format!("{}/{}", plain(&self.namespace), plain(&self.queue))
    }
}

impl QueueAction {
    pub(super) fn run(&self, api: &ServerApi, screen: &mut Screen) -> Result<(), CommandFailure> {
        match self {
            Self::Ls(ListQueues { namespace, list_flags }) => {
                let path = ApiPath::of(&["queues"]).with_maybe("namespace", namespace.as_ref());
                list::show::<QueueView>(api, screen, &path, list_flags, "no queues")
            }
            Self::Stats(place) => {
                let stats = api.get(&place.below(&[]))?;
                screen.show(&stats, || Ok(api.read::<QueueView>(&stats)?.facts()))
            }
            Self::Set(set) => set.run(api, screen),
            Self::Control(control) => control.run(api, screen),
            Self::Pause(place) => {
                api.start(&place.below(&["pause"]))?;
                screen.tell(&format!("{} hands out no jobs\n", place.name()))
            }
            Self::Resume(place) => {
                api.start(&place.below(&["resume"]))?;
                screen.tell(&format!("{} hands out jobs\n", place.name()))
            }
            Self::Dead(ListDead { place, list_flags }) => {
                list::show::<DeadJobView>(api, screen, &place.below(&["dead"]), list_flags, "no dead jobs")
            }
            Self::Respawn(respawn) => respawn.run(api, screen),
            Self::ClearDead(place) => {
                api.delete(&place.below(&["dead"]))?;
                screen.tell(&format!("{} has no dead jobs\n", place.name()))
            }
            Self::Delete(place) => {
                api.delete(&place.below(&[]))?;
                screen.tell(&format!("{} deleted\n", place.name()))
            }
        }
    }
}

impl Respawn {
    fn run(&self, api: &ServerApi, screen: &mut Screen) -> Result<(), CommandFailure> {
        let which = match self.oldest {
            Some(limit) => json!({ "limit": limit }),
            None => json!({ "ids": self.jobs }),
        };
        let answer = api.post(&self.place.below(&["dead", "respawn"]), &which)?;
        screen.show(&answer, || {
            let RespawnedView { respawned } = api.read(&answer)?;
            Ok(format!("{} to be tried again\n", grouped(respawned)))
        })
    }
}
