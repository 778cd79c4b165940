//! `fieldpost campaign coverage`: how evenly the devices that a campaign may pick were picked.

use clap::Args;
use serde::Deserialize;

use super::of;
use crate::api::ServerApi;
use crate::failure::CommandFailure;
use crate::screen::Screen;
use crate::table::{Cell, TextTable, facts, grouped};

#[derive(Args, Debug)]
pub struct CoverageFlags {
    /// The campaign.
    #[arg(value_name = "CAMPAIGN")]
    id: String,
    /// How long to look back; 1h if left out.
    #[arg(long, value_name = "DURATION")]
    period: Option<String>,
    /// A row for each value of this label too.
    #[arg(long, value_name = "KEY")]
    by: Option<String>,
}

/// Picks per device that may be picked now.
#[derive(Deserialize)]
struct CoverageView {
    #[serde(flatten)]
    all: Spread,
    #[serde(default)]
    items: Vec<CoverageOfValue>,
}

#[derive(Deserialize)]
struct CoverageOfValue {
    value: Option<String>,
    #[serde(flatten)]
    spread: Spread,
}

#[derive(Deserialize)]
struct Spread {
    eligible: u64,
    picked: u64,
    never_picked: u64,
    min: u64,
    max: u64,
    mean: f64,
    gini: f64,
}

impl CoverageFlags {
    pub(super) fn run(&self, api: &ServerApi, screen: &mut Screen) -> Result<(), CommandFailure> {
        let path = of(&self.id).and(&["coverage"]);
        let path = path.with_maybe("period", self.period.as_ref()).with_maybe("by", self.by.as_ref());
        let coverage = api.get(&path)?;
        let width = screen.width();
        screen.show(&coverage, || Ok(api.read::<CoverageView>(&coverage)?.text(width)))
    }
}

impl CoverageView {
    fn text(&self, width: Option<usize>) -> String {
        const HEADINGS: &[&str] =
            &["VALUE", "ELIGIBLE", "PICKED", "NEVER PICKED", "LEAST", "MOST", "MEAN", "GINI"];
        let names = ["eligible", "picked", "never picked", "least", "most", "mean", "gini"];
        let all: Vec<_> =
            names.into_iter().zip(self.all.texts().iter().map(|text| Cell::text(text))).collect();
        let rows: Vec<_> = self.items.iter().map(CoverageOfValue::cells).collect();
        facts(&all) + &TextTable::new(HEADINGS).within(width).lines(&rows)
    }
}

impl CoverageOfValue {
    fn cells(&self) -> Vec<Cell> {
        let value = Cell::maybe(self.value.as_deref());
        [value]
            .into_iter()
            .chain(self.spread.texts().iter().map(|text| Cell::text(text).aligned_right()))
            .collect()
    }
}

impl Spread {
    fn texts(&self) -> [String; 7] {
        [
            grouped(self.eligible),
            grouped(self.picked),
            grouped(self.never_picked),
            grouped(self.min),
            grouped(self.max),
            format!("{:.2}", self.mean),
            format!("{:.3}", self.gini),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coverage_is_told_of_all_and_of_each_value() {
        let of = |picked: u64| {
            format!(
                r#""eligible":1000,"picked":{picked},"never_picked":0,"min":1,"max":2,"mean":1.5,"gini":0.16667"#
            )
        };
        let text = format!(r#"{{{},"items":[{{"value":null,{}}}]}}"#, of(1500), of(7));
        let coverage: CoverageView = serde_json::from_str(&text).expect("a coverage");
        let shown = anstream::adapter::strip_str(&coverage.text(None)).to_string();
        assert!(shown.starts_with("eligible      1,000\npicked        1,500\n"), "{shown}");
        assert!(
            shown.ends_with(
                "VALUE  ELIGIBLE  PICKED  NEVER PICKED  LEAST  MOST  MEAN   GINI\n\
                 -         1,000       7             0      1     2  1.50  0.167\n"
            ),
            "{shown}"
        );
    }
}
