//! `fieldpost report`: sends reports as a device would, and looks at those that were rejected.

mod rejected;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde::Serialize;
use serde_json::value::RawValue;

use super::api::{ApiPath, ServerApi};
use super::failure::CommandFailure;
use super::import::{self, ImportCount};
use super::input::json;
use super::screen::Screen;
use super::when::When;

/// What can be done with reports.
#[derive(Debug, Subcommand)]
pub enum ReportAction {
    /// Report a value for a device; it is durable when this returns.
    Send(Send),
    /// Send reports from a file: one JSON object a line, with device_id, data, and ts and id if
    /// there are any.
    Import(ImportReports),
    /// The reports that were rejected, as they came.
    #[command(subcommand)]
    Rejected(rejected::RejectedAction),
}

#[derive(Args, Debug)]
pub struct Send {
    /// The device.
    #[arg(value_name = "DEVICE")]
    device: String,
    /// Any JSON: 1, -2.5, true, '"open"', '{"t":21}'.
    #[arg(value_name = "VALUE", allow_hyphen_values = true, value_parser = json)]
    value: Box<RawValue>,
    /// The device's own time: a time, or how long ago.
    #[arg(long, value_name = "WHEN")]
    ts: Option<When>,
    /// The report's id: a repeat of it is accepted without effect.
    #[arg(long)]
    id: Option<String>,
}

#[derive(Args, Debug)]
pub struct ImportReports {
    /// The file, - for stdin. Lines are sent as they come.
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// A report on its way out.
#[derive(Serialize)]
struct OutgoingReport<'a> {
    device_id: &'a str,
    data: &'a RawValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    ts: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
}

impl ReportAction {
    pub(super) fn run(&self, api: &ServerApi, screen: &mut Screen) -> Result<(), CommandFailure> {
        match self {
            Self::Send(send) => send.run(api, screen),
            Self::Import(ImportReports { file }) => {
                import::run(api, screen, &ApiPath::of(&["reports"]), file, &[ImportCount::Accepted])
            }
            Self::Rejected(command) => command.run(api, screen),
        }
    }
}

impl Send {
    fn run(&self, api: &ServerApi, screen: &mut Screen) -> Result<(), CommandFailure> {
        let report = OutgoingReport {
            device_id: &self.device,
            data: &self.value,
            ts: self.ts.map(|ts| ts.to_string()),
            id: self.id.as_deref(),
        };
        let answer = api.post(&ApiPath::of(&["reports"]), &report)?;
        screen.show(&answer, || Ok("accepted\n".to_owned()))
    }
}
