//! What the workers of a queue are told to do.

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::QueueArgs;
use crate::api::ServerApi;
use crate::failure::CommandFailure;
use crate::input::json;
use crate::screen::Screen;
use crate::table::{Cell, facts};

#[derive(Args, Debug)]
pub struct TellWorkers {
    #[command(flatten)]
    place: QueueArgs,
    /// Whether they take jobs. If left out, what they are told is shown.
    #[arg(value_name = "STATE", value_enum)]
    state: Option<WorkerState>,
    /// So many jobs at a time for each worker at most.
    #[arg(long, value_name = "N", requires = "state", value_parser = clap::value_parser!(u32).range(1..))]
    max_in_flight: Option<u32>,
    /// Anything else for the program, as JSON.
    #[arg(long, value_name = "JSON", requires = "state", value_parser = json)]
    data: Option<Box<RawValue>>,
    /// Tell them nothing any more.
    #[arg(long, conflicts_with = "state")]
    clear: bool,
}

#[derive(Clone, Copy, Debug, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
enum WorkerState {
    /// They take jobs.
    Run,
    /// They take no more, and wait until they may.
    Drain,
    /// They take no more, and end.
    Stop,
}

#[derive(Serialize)]
struct ControlBody<'a> {
    state: WorkerState,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_in_flight: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct ControlView {
    state: String,
    max_in_flight: Option<u64>,
    data: Option<Box<RawValue>>,
}

impl TellWorkers {
    pub(super) fn run(&self, api: &ServerApi, screen: &mut Screen) -> Result<(), CommandFailure> {
        let (path, name) = (self.place.below(&["control"]), self.place.name());
        if self.clear {
            api.delete(&path)?;
            return screen.tell(&format!("workers of {name} are told nothing any more\n"));
        }
        if let Some(state) = self.state {
            let body = ControlBody { state, max_in_flight: self.max_in_flight, data: self.data.as_deref() };
            api.set(&path, &body)?;
            return screen.tell(&format!("workers of {name} are told\n"));
        }
        let control = api.get(&path)?;
        screen.show(&control, || {
            let ControlView { state, max_in_flight, data } = api.read(&control)?;
            Ok(facts(&[
                ("state", Cell::text(&state)),
                ("max in flight", max_in_flight.map_or(Cell::maybe(None), Cell::number)),
                ("data", Cell::maybe(data.as_deref().map(RawValue::get))),
            ]))
        })
    }
}
