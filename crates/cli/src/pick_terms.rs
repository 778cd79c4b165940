//! Which devices are picked, and on which terms, whether once or again and again.

use clap::{Args, ValueEnum};
use serde::Serialize;

/// Terms as flags, and as they are sent. What is left out the server's settings say.
#[derive(Args, Debug, Serialize)]
pub(super) struct PickFlags {
    /// How many devices.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    count: u32,
    #[command(flatten)]
    #[serde(flatten)]
    terms: PickTermFlags,
}

/// The terms but for the number of devices: what is not given is not sent.
#[derive(Args, Debug, Serialize)]
pub(super) struct PickTermFlags {
    /// Which devices: 'operator=7,kind!=lock'; every device if it is left out.
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    selector: Option<String>,
    /// Devices of this place, by the server's setting [fleet] place: CN_520000.
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<String>,
    /// This device; may be given several times.
    #[arg(long)]
    #[serde(rename = "devices", skip_serializing_if = "Vec::is_empty")]
    device: Vec<String>,
    /// Not devices that this selector means.
    #[arg(long, value_name = "SELECTOR")]
    #[serde(skip_serializing_if = "Option::is_none")]
    exclude: Option<String>,
    /// Only devices that this task picked.
    #[arg(long, value_name = "TASK", conflicts_with = "not_as")]
    #[serde(skip_serializing_if = "Option::is_none")]
    same_as: Option<String>,
    /// No device that this task picked.
    #[arg(long, value_name = "TASK")]
    #[serde(skip_serializing_if = "Option::is_none")]
    not_as: Option<String>,
    /// Equal numbers for each value of this label, as far as there are devices.
    #[arg(long, value_name = "KEY")]
    #[serde(skip_serializing_if = "Option::is_none")]
    spread_by: Option<String>,
    /// How long a device has for its answer; 10s if left out.
    #[arg(long, value_name = "DURATION")]
    #[serde(skip_serializing_if = "Option::is_none")]
    answer_timeout: Option<String>,
    /// Who goes first where the server's rate makes picks wait; ordinary if left out.
    #[arg(long, value_enum)]
    #[serde(skip_serializing_if = "Option::is_none")]
    class: Option<Class>,
}

/// Who goes first.
#[derive(Clone, Copy, Debug, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
enum Class {
    /// Large customers.
    Large,
    /// Enterprises.
    Enterprise,
    /// Everybody else.
    Ordinary,
}
