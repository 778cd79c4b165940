//! Appending a message, or many from a file.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use serde_json::value::RawValue;

use super::StreamArgs;
use super::view::AppendedView;
use crate::api::ServerApi;
use crate::failure::CommandFailure;
use crate::import::{self, ImportCount};
use crate::payload_flags::PayloadFlags;
use crate::screen::Screen;
use crate::when::When;

/// What is of one message, and of none of many lines.
const OF_ONE: [&str; 10] = [
    "payload",
    "file",
    "bytes",
    "source",
    "external_id",
    "segment",
    "ts",
    "headers",
    "expect_last_id",
    "idempotency_key",
];

#[derive(Args, Debug)]
pub struct Append {
    #[command(flatten)]
    place: StreamArgs,
    #[command(flatten)]
    carried: PayloadFlags,
    /// Where it comes from; with --external-id it is there once, however often it is appended.
    #[arg(long, requires = "external_id")]
    source: Option<String>,
    /// Its id at its source: a number or a text.
    #[arg(long, value_name = "ID", requires = "source")]
    external_id: Option<String>,
    /// By which it can be read apart.
    #[arg(long)]
    segment: Option<String>,
    /// Its own time: a time, or how long ago; the time of receipt if left out.
    #[arg(long, value_name = "WHEN")]
    ts: Option<When>,
    /// A text that travels with it (trace=4711); may be given again.
    #[arg(long = "header", value_name = "NAME=TEXT", value_parser = header)]
    headers: Vec<(String, String)>,
    /// Only if this is the stream's newest message, 0 for none.
    #[arg(long, value_name = "ID")]
    expect_last_id: Option<u64>,
    /// Append only once, however often this is asked with the same key within a day.
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// Append a message for each line of a file, - for stdin. A line is a JSON object with payload,
    /// and with source, external_id, segment, ts and headers if there are any. Lines are sent as
    /// they come.
    #[arg(long, value_name = "FILE", conflicts_with_all = OF_ONE)]
    lines: Option<PathBuf>,
}

/// A message on its way out.
#[derive(Serialize)]
struct AppendBody<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    external_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    segment: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ts: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    headers: BTreeMap<&'a str, &'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expect_last_id: Option<u64>,
}

impl Append {
    pub(super) fn run(&self, api: &ServerApi, screen: &mut Screen) -> Result<(), CommandFailure> {
        let path = self.place.below(&["messages"]);
        if let Some(file) = &self.lines {
            return import::run(api, screen, &path, file, &[ImportCount::Appended, ImportCount::Duplicates]);
        }
        let answer = api.post_once(&path, &self.body()?, self.idempotency_key.as_deref())?;
        screen.show(&answer, || Ok(api.read::<AppendedView>(&answer)?.to_text()))
    }

    fn body(&self) -> Result<AppendBody<'_>, CommandFailure> {
        let (payload, payload_base64) = self.carried.read_or_null()?;
        Ok(AppendBody {
            payload,
            payload_base64,
            source: self.source.as_deref(),
            external_id: self.external_id.as_deref(),
            segment: self.segment.as_deref(),
            ts: self.ts.map(|ts| ts.to_string()),
            headers: self.headers.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect(),
            expect_last_id: self.expect_last_id,
        })
    }
}

fn header(text: &str) -> Result<(String, String), String> {
    let named = text.split_once('=').filter(|(name, _)| !name.is_empty());
    let (name, text) = named.ok_or_else(|| "write it as NAME=TEXT".to_owned())?;
    Ok((name.to_owned(), text.to_owned()))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        append: Append,
    }

    fn body(words: &[&str]) -> Option<String> {
        let words = ["test", "shop", "orders"].iter().chain(words);
        let line = Line::try_parse_from(words).ok()?;
        let body = line.append.body().expect("no file is read");
        Some(serde_json::to_string(&body).expect("a body has only names for keys"))
    }

    #[test]
    fn a_message_says_what_was_given_and_nothing_else() {
        for (words, expect) in [
            (&[][..], Some(r#"{"payload":null}"#)),
            (
                &["--payload", r#"{"n": 1.50}"#, "--segment", "eu"],
                Some(r#"{"payload":{"n": 1.50},"segment":"eu"}"#),
            ),
            (
                &["--payload", "1", "--source", "till-4", "--external-id", "17", "--expect-last-id", "0"],
                Some(r#"{"payload":1,"source":"till-4","external_id":"17","expect_last_id":0}"#),
            ),
            (
                &["--payload", "1", "--header", "trace=a=b", "--ts", "2026-11-21T01:02:03Z"],
                Some(r#"{"payload":1,"ts":"2026-11-21T01:02:03.000Z","headers":{"trace":"a=b"}}"#),
            ),
            (&["{}"], None),
            (&["--source", "till-4"], None),
            (&["--external-id", "17"], None),
            (&["--header", "trace"], None),
            (&["--lines", "f", "--payload", "1"], None),
            (&["--lines", "f", "--segment", "eu"], None),
        ] {
            assert_eq!(body(words).as_deref(), expect, "{words:?}");
        }
    }
}
