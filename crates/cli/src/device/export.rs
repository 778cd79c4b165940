//! `fieldpost device export`: the registry as lines that an import takes, here or on another
//! server.

use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::{Filter, clients_of};
use crate::api::{ApiPath, ServerApi};
use crate::failure::CommandFailure;
use crate::list::{self, ListFlags};
use crate::screen::Screen;

#[derive(Args, Debug)]
pub struct Export {
    #[command(flatten)]
    filter: Filter,
    /// Also say who is told of each device; takes a request for each.
    #[arg(long)]
    clients: bool,
}

/// What an import takes: a registration, without what the server found out by itself.
#[derive(Deserialize, Serialize)]
struct RegistrationLine {
    id: String,
    kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<String>,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    labels: Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    report_interval: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    commands: Option<Box<RawValue>>,
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    clients: Option<Vec<String>>,
}

impl Export {
    pub(super) fn run(&self, api: &ServerApi, screen: &mut Screen) -> Result<(), CommandFailure> {
        let path = self.filter.of(ApiPath::of(&["devices"]));
        list::each_page(api, &path, &ListFlags::ALL, |devices| {
            for device in devices {
                let mut line: RegistrationLine = api.read(device)?;
                if self.clients {
                    line.clients = Some(clients_of(&line.id, api)?);
                }
                let text = serde_json::to_string(&line).expect("a line has only names for keys");
                screen.write_line(&text)?;
            }
            Ok(())
        })
        .map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exported_line_has_only_what_an_import_takes() {
        for (device, line) in [
            (
                r#"{"id":"a","kind":"lock","address":null,"labels":{},"report_interval":null,"commands":null,
                    "registered_at":"2026-11-20T12:00:00.000Z","state":{"value":1,"connection":"online"}}"#,
                r#"{"id":"a","kind":"lock"}"#,
            ),
            (
                r#"{"id":"a","kind":"lock","address":"Hall","labels":{"site":"12"},"report_interval":"30m"}"#,
                r#"{"id":"a","kind":"lock","address":"Hall","labels":{"site":"12"},"report_interval":"30m"}"#,
            ),
            (
                r#"{"id":"a","kind":"lock","commands":{"window":2,"gap":null}}"#,
                r#"{"id":"a","kind":"lock","commands":{"window":2,"gap":null}}"#,
            ),
        ] {
            let read: RegistrationLine = serde_json::from_str(device).expect("a device");
            assert_eq!(serde_json::to_string(&read).expect("JSON"), line);
        }
    }
}
