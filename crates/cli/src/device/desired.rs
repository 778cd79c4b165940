//! `fieldpost device desired`: what a device is to have, beside what it has confirmed.

use clap::{Args, Subcommand};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::below;
use crate::api::ServerApi;
use crate::failure::CommandFailure;
use crate::input;
use crate::list::{self, TableRow};
use crate::screen::Screen;
use crate::table::{BAD, Cell, FAINT, GOOD, OPEN, TextTable, plain};

#[derive(Args, Debug)]
pub struct Desired {
    /// The device.
    #[arg(value_name = "DEVICE")]
    id: String,
    #[command(subcommand)]
    change: Option<DesiredChange>,
}

/// How to change what a device is to have.
#[derive(Debug, Subcommand)]
enum DesiredChange {
    /// It is to have this value under this key. A command brings it there.
    Set {
        /// The entry's key.
        #[arg(value_name = "KEY")]
        key: String,
        /// Any JSON: 1, true, '"open"', '{"t":21}'.
        #[arg(value_name = "VALUE", allow_hyphen_values = true, value_parser = input::json)]
        value: Box<RawValue>,
    },
    /// It is to have no entry under this key. A command brings it there.
    Delete {
        /// The entry's key.
        #[arg(value_name = "KEY")]
        key: String,
    },
}

/// A wish on its way out.
#[derive(Serialize)]
struct DesiredValue<'a> {
    value: &'a RawValue,
}

#[derive(Deserialize)]
struct DesiredRows {
    items: Vec<Box<RawValue>>,
}

/// An entry: what is wished, and what the device has.
#[derive(Deserialize)]
struct DesiredRow {
    key: String,
    desired: Option<Box<RawValue>>,
    confirmed: Option<Box<RawValue>>,
    pending: bool,
}

impl Desired {
    pub(super) fn run(&self, api: &ServerApi, screen: &mut Screen) -> Result<(), CommandFailure> {
        let entries = below(&self.id, "desired");
        match &self.change {
            None => show(api, screen, &api.get(&entries)?),
            Some(DesiredChange::Set { key, value }) => {
                let entry = api.replace(&entries.and(&[key]), &DesiredValue { value })?;
                screen.show(&entry, || Ok(format!("{} is to be {}\n", plain(key), plain(value.get()))))
            }
            Some(DesiredChange::Delete { key }) => {
                api.delete(&entries.and(&[key]))?;
                screen.tell(&format!("{} is to be deleted\n", plain(key)))
            }
        }
    }
}

/// Shows all entries, of which a device has a thousand at most.
fn show(api: &ServerApi, screen: &mut Screen, entries: &RawValue) -> Result<(), CommandFailure> {
    let DesiredRows { items } = api.read(entries)?;
    if items.is_empty() && !screen.is_for_programs() {
        screen.note("no entries");
    }
    let mut table = TextTable::new(DesiredRow::HEADINGS).within(screen.width());
    list::show_items::<DesiredRow>(api, screen, &mut table, &items)
}

impl TableRow for DesiredRow {
    const HEADINGS: &'static [&'static str] = &["KEY", "DESIRED", "CONFIRMED", ""];

    fn cells(&self) -> Vec<Cell> {
        let value = |value: &Option<Box<RawValue>>| {
            value.as_deref().map_or_else(|| Cell::maybe(None), |value| Cell::short(value.get()))
        };
        let stands = match &self.desired {
            _ if self.pending => Cell::text("pending").styled(OPEN),
            None => Cell::text("not desired").styled(FAINT),
            Some(desired) if is_same(desired, self.confirmed.as_deref()) => {
                Cell::text("confirmed").styled(GOOD)
            }
            Some(_) => Cell::text("not taken").styled(BAD),
        };
        vec![Cell::elastic(&self.key), value(&self.desired), value(&self.confirmed), stands]
    }
}

fn is_same(desired: &RawValue, confirmed: Option<&RawValue>) -> bool {
    let value = |text: &RawValue| serde_json::from_str::<Value>(text.get()).ok();
    confirmed.is_some_and(|confirmed| value(desired) == value(confirmed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_shows_whether_the_device_has_it() {
        let items = [
            r#"{"key":"volume","desired":5,"confirmed":3,"pending":true}"#,
            r#"{"key":"lamp","desired":"on","confirmed":"on","pending":false}"#,
            r#"{"key":"name","desired":null,"confirmed":"gate","pending":false}"#,
            r#"{"key":"heat","desired":7,"confirmed":5,"pending":false}"#,
            r#"{"key":"mode","desired":[1, 2],"confirmed":[1,2],"pending":false}"#,
            r#"{"key":"fan","desired":1,"confirmed":null,"pending":false}"#,
        ];
        let rows: Vec<_> = items
            .iter()
            .map(|item| serde_json::from_str::<DesiredRow>(item).expect("an entry").cells())
            .collect();
        let shown = TextTable::new(DesiredRow::HEADINGS).lines(&rows);
        assert_eq!(
            anstream::adapter::strip_str(&shown).to_string(),
            "KEY     DESIRED  CONFIRMED\n\
             volume  5        3          pending\n\
             lamp    \"on\"     \"on\"       confirmed\n\
             name    -        \"gate\"     not desired\n\
             heat    7        5          not taken\n\
             mode    [1, 2]   [1,2]      confirmed\n\
             fan     1        -          not taken\n"
        );
    }
}
