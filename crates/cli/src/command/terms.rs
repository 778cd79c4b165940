//! The terms of a command, whether one device is told or many.

use clap::Args;
use serde::Serialize;

/// Terms as flags, and as they are sent. What is left out the server's settings say.
#[derive(Args, Debug, Serialize)]
pub(crate) struct TermFlags {
    /// Worth doing for this long (30s, 2h); then it expires.
    #[arg(long, value_name = "DURATION")]
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl: Option<String>,
    /// Not to go out before this time (2026-11-21T01:02:03Z).
    #[arg(long, value_name = "TIME")]
    #[serde(skip_serializing_if = "Option::is_none")]
    not_before: Option<String>,
    /// How long the device has for its answer before the command goes out again; the server's
    /// setting if left out.
    #[arg(long, value_name = "DURATION")]
    #[serde(skip_serializing_if = "Option::is_none")]
    ack_timeout: Option<String>,
    /// How long a device that says it is at work may go without saying so again; 10m if left out.
    #[arg(long, value_name = "DURATION")]
    #[serde(skip_serializing_if = "Option::is_none")]
    run_timeout: Option<String>,
    /// How often it goes out; the server's setting if left out.
    #[arg(long, value_name = "N")]
    #[serde(skip_serializing_if = "Option::is_none")]
    max_attempts: Option<u32>,
    /// Who asks for it, in your words.
    #[arg(long, value_name = "TEXT")]
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<String>,
    /// A waiting command of the device with the same key gives way to this one.
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    /// From -100 to 100, higher ones go first; 0 if left out.
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<i32>,
}
