//! What a stream is set to.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::span::{maybe_span, sure_span};

/// What a stream is set to. What is `None` has the server's default, and so has what a
/// [`StreamConfig::default`] leaves out.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct StreamConfig {
    /// When messages are saved, and when an append is answered.
    pub save: Option<SaveChoice>,
    /// Longest time to the next save, in the modes that save now and then.
    #[serde(with = "maybe_span", skip_serializing_if = "Option::is_none")]
    pub save_interval: Option<Duration>,
    /// When a block is closed.
    pub block: Option<BlockConfig>,
    /// How long messages are kept.
    pub keep: Option<KeepConfig>,
    /// What becomes of an append when there is no room.
    pub when_full: Option<FullChoice>,
    /// How long a stream that nobody uses stays in memory.
    #[serde(with = "maybe_span", skip_serializing_if = "Option::is_none")]
    pub unload_after: Option<Duration>,
    /// Where blocks of some age go, the youngest first.
    #[serde(rename = "move")]
    pub moves: Vec<MoveConfig>,
}

/// Where the blocks of a stream go at some age.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct MoveConfig {
    /// How old the last message of a block is.
    #[serde(with = "sure_span")]
    pub after: Duration,
    /// The name of the storage.
    pub to: String,
}

/// When messages are saved, and when an append is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SaveChoice {
    /// At once; answered when they are durable.
    Sync,
    /// Once in the interval; answered then.
    Wait,
    /// Once in the interval; answered at once.
    Periodic,
    /// When their block is full; answered at once.
    Memory,
}

/// When a block is closed: by whichever bound it reaches first.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct BlockConfig {
    /// A size such as `1MB`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<String>,
    /// How old its first message may be.
    #[serde(with = "maybe_span", skip_serializing_if = "Option::is_none")]
    pub age: Option<Duration>,
    /// How many messages it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages: Option<u32>,
}

/// How long messages are kept. `None` is without this bound.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct KeepConfig {
    /// For so long.
    #[serde(with = "maybe_span")]
    pub age: Option<Duration>,
    /// So much of them: a size such as `1GB`.
    pub bytes: Option<String>,
    /// What a copy has not taken yet outlives its age.
    pub until_copied: bool,
}

/// What becomes of an append when there is no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FullChoice {
    /// The oldest messages go.
    DropOldest,
    /// It is refused with 503 `stream_full`.
    Reject,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_as_the_server_writes_them() {
        let text = r#"{"save":"sync","save_interval":"1s","block":{"bytes":"1MB","age":"1m","messages":10000},
            "keep":{"age":"7d","bytes":null,"until_copied":true},"when_full":"drop_oldest","unload_after":"1m",
            "move":[{"after":"1d","to":"cold"}]}"#;
        let config: StreamConfig = serde_json::from_str(text).expect("settings");
        assert_eq!(config.keep.as_ref().and_then(|keep| keep.age), Some(Duration::from_secs(7 * 86_400)));
        let written = serde_json::to_string(&config).expect("JSON");
        let again: StreamConfig = serde_json::from_str(&written).expect("settings");
        assert_eq!(again, config);
        let few = StreamConfig { save: Some(SaveChoice::Periodic), ..StreamConfig::default() };
        let written: serde_json::Value = serde_json::to_value(&few).expect("JSON");
        assert_eq!(written["save"], "periodic");
        assert!(written["block"].is_null() && written.get("save_interval").is_none(), "{written}");
    }
}
