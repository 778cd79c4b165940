//! Changing what is set for a stream.
//!
//! The API sets all at once. Here a change leaves what it does not name as it is: that is asked for
//! before. A stream that is not there is made.

use clap::{ArgGroup, Args, ValueEnum};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::StreamArgs;
use crate::api::ServerApi;
use crate::failure::CommandFailure;
use crate::screen::Screen;

/// What a change may name; it names something.
const CHANGES: [&str; 14] = [
    "save",
    "save_interval",
    "block_bytes",
    "block_age",
    "block_messages",
    "keep_age",
    "no_keep_age",
    "keep_bytes",
    "no_keep_bytes",
    "when_full",
    "unload_after",
    "until_copied",
    "moves",
    "no_move",
];

#[derive(Args, Debug)]
#[command(group = ArgGroup::new("changes").required(true).multiple(true).args(CHANGES))]
pub struct SetStream {
    #[command(flatten)]
    place: StreamArgs,
    /// When messages are saved, and when an append is answered.
    #[arg(long, value_enum, value_name = "MODE")]
    save: Option<SaveFlag>,
    /// Longest time to the next save, in the modes that save now and then (1s, 250ms).
    #[arg(long, value_name = "DURATION")]
    save_interval: Option<String>,
    /// Close a block that is so large (1MB).
    #[arg(long, value_name = "SIZE")]
    block_bytes: Option<String>,
    /// Close a block that is so old (1m).
    #[arg(long, value_name = "DURATION")]
    block_age: Option<String>,
    /// Close a block that has so many messages.
    #[arg(long, value_name = "N")]
    block_messages: Option<u64>,
    /// Keep messages for so long (7d).
    #[arg(long, value_name = "DURATION")]
    keep_age: Option<String>,
    /// Keep them however old they are.
    #[arg(long, conflicts_with = "keep_age")]
    no_keep_age: bool,
    /// Keep so much of them (10GB).
    #[arg(long, value_name = "SIZE")]
    keep_bytes: Option<String>,
    /// Keep them however many they are.
    #[arg(long, conflicts_with = "keep_bytes")]
    no_keep_bytes: bool,
    /// Keep what a copy has not taken yet, however old it is.
    #[arg(long, value_name = "YES", value_parser = clap::value_parser!(bool), action = clap::ArgAction::Set)]
    until_copied: Option<bool>,
    /// What becomes of an append when there is no room.
    #[arg(long, value_enum, value_name = "WHAT")]
    when_full: Option<FullFlag>,
    /// How long a stream that nobody uses stays in memory (1m).
    #[arg(long, value_name = "DURATION")]
    unload_after: Option<String>,
    /// Bring blocks of this age to a storage (1d:cold); once for each step. The others go.
    #[arg(long = "move", value_name = "AGE:STORAGE", value_parser = parse_move)]
    moves: Vec<MoveFlag>,
    /// Leave blocks where they are.
    #[arg(long, conflicts_with = "moves")]
    no_move: bool,
}

/// Where blocks of some age go.
#[derive(Clone, Debug)]
struct MoveFlag {
    after: String,
    to: String,
}

fn parse_move(text: &str) -> Result<MoveFlag, String> {
    match text.split_once(':') {
        Some((after, to)) if !after.is_empty() && !to.is_empty() => {
            Ok(MoveFlag { after: after.to_owned(), to: to.to_owned() })
        }
        _ => Err("write an age and a storage, such as 1d:cold".to_owned()),
    }
}

/// When messages are saved, and when an append is answered.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum SaveFlag {
    /// At once; answered when they are durable.
    Sync,
    /// Once in the interval; answered then.
    Wait,
    /// Once in the interval; answered at once.
    Periodic,
    /// When their block is full; answered at once.
    Memory,
}

/// What becomes of an append when there is no room.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum FullFlag {
    /// The oldest messages go.
    #[value(name = "drop_oldest")]
    DropOldest,
    /// It is refused.
    Reject,
}

#[derive(Deserialize)]
struct StreamNow {
    settings: Map<String, Value>,
}

impl SetStream {
    pub(super) fn run(&self, api: &ServerApi, screen: &mut Screen) -> Result<(), CommandFailure> {
        let mut settings = match api.get(&self.place.below(&[])) {
            Ok(stream) => api.read::<StreamNow>(&stream)?.settings,
            Err(CommandFailure::Refused(refusal)) if refusal.code.as_deref() == Some("unknown_stream") => {
                Map::new()
            }
            Err(failure) => return Err(failure),
        };
        self.change(&mut settings);
        api.set(&self.place.below(&["settings"]), &settings)?;
        screen.tell(&format!("{} set\n", self.place.name()))
    }

    fn change(&self, settings: &mut Map<String, Value>) {
        let save = self.save.map(|save| match save {
            SaveFlag::Sync => "sync",
            SaveFlag::Wait => "wait",
            SaveFlag::Periodic => "periodic",
            SaveFlag::Memory => "memory",
        });
        let when_full = self.when_full.map(|when_full| match when_full {
            FullFlag::DropOldest => "drop_oldest",
            FullFlag::Reject => "reject",
        });
        let (save, when_full) = (save.map(Value::from), when_full.map(Value::from));
        let step = |one: &MoveFlag| json!({"after": one.after, "to": one.to});
        let moves = (self.no_move || !self.moves.is_empty()).then(|| self.moves.iter().map(step).collect());
        let text = |text: &Option<String>| text.clone().map(Value::from);
        let cleared = |is_cleared: bool, value| if is_cleared { Some(Value::Null) } else { value };
        for (object, name, value) in [
            (None, "save", save),
            (None, "save_interval", text(&self.save_interval)),
            (Some("block"), "bytes", text(&self.block_bytes)),
            (Some("block"), "age", text(&self.block_age)),
            (Some("block"), "messages", self.block_messages.map(Value::from)),
            (Some("keep"), "age", cleared(self.no_keep_age, text(&self.keep_age))),
            (Some("keep"), "bytes", cleared(self.no_keep_bytes, text(&self.keep_bytes))),
            (Some("keep"), "until_copied", self.until_copied.map(Value::from)),
            (None, "when_full", when_full),
            (None, "unload_after", text(&self.unload_after)),
            (None, "move", moves),
        ] {
            let Some(value) = value else { continue };
            match object {
                None => drop(settings.insert(name.to_owned(), value)),
                Some(object) => settings.entry(object).or_insert_with(|| json!({}))[name] = value,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        set: SetStream,
    }

    #[test]
    fn a_change_leaves_what_it_does_not_name() {
        let now =
            json!({"save": "sync", "keep": {"age": "7d", "bytes": "1GB", "until_copied": true}, "move": []});
        for (line, expect) in [
            (
                "--save periodic --save-interval 250ms --no-keep-age",
                Some(json!({"save": "periodic", "save_interval": "250ms",
                    "keep": {"age": null, "bytes": "1GB", "until_copied": true}, "move": []})),
            ),
            (
                "--block-messages 500 --until-copied false --when-full drop_oldest",
                Some(json!({"save": "sync", "block": {"messages": 500}, "when_full": "drop_oldest",
                    "keep": {"age": "7d", "bytes": "1GB", "until_copied": false}, "move": []})),
            ),
            (
                "--move 1d:cold --move 30d:bucket",
                Some(json!({"save": "sync", "keep": {"age": "7d", "bytes": "1GB", "until_copied": true},
                    "move": [{"after": "1d", "to": "cold"}, {"after": "30d", "to": "bucket"}]})),
            ),
            (
                "--no-move",
                Some(json!({"save": "sync", "keep": {"age": "7d", "bytes": "1GB", "until_copied": true},
                    "move": []})),
            ),
            ("--move cold", None),
            ("", None),
            ("--save never", None),
            ("--keep-bytes 1GB --no-keep-bytes", None),
        ] {
            let words = ["test", "shop", "orders"].into_iter().chain(line.split_whitespace());
            let changed = Line::try_parse_from(words).ok().map(|line| {
                let mut settings = now.as_object().expect("an object").clone();
                line.set.change(&mut settings);
                Value::from(settings)
            });
            assert_eq!(changed, expect, "{line}");
        }
    }
}
