//! Counts and weights of the fleet as people see them.

use fieldpost_client::Fairness;
use serde::Deserialize;

use crate::list::TableRow;
use crate::table::{BAD, Cell, TextTable, facts, grouped, plain};
use crate::when::to_second;

/// How many devices a selection means.
#[derive(Deserialize)]
pub(super) struct CountsView {
    total: u64,
    connected: u64,
    online: u64,
    lost: u64,
    never_seen: u64,
    #[serde(default)]
    items: Vec<CountOfValue>,
    /// There are more values than items.
    #[serde(default)]
    more: bool,
}

#[derive(Deserialize)]
struct CountOfValue {
    value: Option<String>,
    total: u64,
    connected: u64,
}

impl CountsView {
    /// All counts, and below them a row for each value.
    pub(super) fn text(&self, width: Option<usize>) -> String {
        let counts = [
            ("devices", self.total),
            ("connected", self.connected),
            ("online", self.online),
            ("lost", self.lost),
            ("never seen", self.never_seen),
        ];
        let counts = counts.map(|(name, count)| (name, Cell::text(&grouped(count))));
        let rows: Vec<_> = self.items.iter().map(CountOfValue::cells).collect();
        let table = TextTable::new(&["VALUE", "DEVICES", "CONNECTED"]).within(width).lines(&rows);
        let more = if self.more { "there are more values\n" } else { "" };
        format!("{}{table}{more}", facts(&counts))
    }
}

impl CountOfValue {
    fn cells(&self) -> Vec<Cell> {
        let value = self.value.as_deref().map_or_else(|| Cell::maybe(None), Cell::elastic);
        vec![value, Cell::number(self.total), Cell::number(self.connected)]
    }
}

/// How near a device is to its next pick.
#[derive(Deserialize)]
pub(super) struct WeightView {
    device_id: String,
    weight: f64,
    picks: u64,
    last_picked_at: Option<String>,
    benched_until: Option<String>,
}

impl TableRow for WeightView {
    const HEADINGS: &'static [&'static str] =
        &["DEVICE", "WEIGHT", "PICKS 24H", "LAST PICKED", "BENCHED UNTIL"];

    fn cells(&self) -> Vec<Cell> {
        let benched = self.benched_until.as_deref().map(to_second);
        let benched = benched.map_or_else(|| Cell::text(""), |until| Cell::text(&until).styled(BAD));
        vec![
            Cell::text(&self.device_id),
            Cell::text(&format!("{:.4}", self.weight)).aligned_right(),
            Cell::number(self.picks),
            Cell::maybe(self.last_picked_at.as_deref().map(to_second).as_deref()),
            benched,
        ]
    }
}

/// What the weights follow from.
#[derive(Deserialize)]
pub(super) struct FairnessView {
    #[serde(flatten)]
    fairness: Fairness,
    period: String,
}

impl FairnessView {
    /// Everything, each with what it means.
    pub(super) fn facts(&self) -> String {
        let Fairness { connected, avg_picked, avg_tasks, punishment, constant, .. } = &self.fairness;
        let period = plain(&self.period);
        let told = [
            ("connected", grouped(*connected)),
            ("devices per task", format!("{avg_picked:.1}")),
            ("tasks", format!("{avg_tasks:.2} in {period}")),
            ("punishment", format!("{punishment:.3}")),
            ("a pick costs", format!("{:.4}", constant * punishment)),
            ("recovery", format!("{constant:.4} in {period}")),
        ];
        facts(&told.map(|(name, text)| (name, Cell::text(&text))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unstyled(text: &str) -> String {
        anstream::adapter::strip_str(text).to_string()
    }

    #[test]
    fn counts_are_told_with_their_values_below_them() {
        let text = r#"{"total":1200,"connected":900,"online":1000,"lost":150,"never_seen":50,
            "items":[{"value":"7","total":800,"connected":600},{"value":null,"total":400,"connected":300}],"more":true}"#;
        let counts: CountsView = serde_json::from_str(text).expect("counts");
        assert_eq!(
            unstyled(&counts.text(None)),
            "devices     1,200\nconnected   900\nonline      1,000\nlost        150\nnever seen  50\n\
             VALUE  DEVICES  CONNECTED\n7          800        600\n-          400        300\n\
             there are more values\n"
        );
        let text = r#"{"total":1,"connected":0,"online":0,"lost":0,"never_seen":1}"#;
        let counts: CountsView = serde_json::from_str(text).expect("counts");
        assert!(unstyled(&counts.text(None)).ends_with("never seen  1\n"));
    }

    #[test]
    fn a_weight_is_a_row_of_80_columns() {
        let text = r#"{"device_id":"probe17","weight":0.9985,"picks":3,"last_picked_at":"2026-11-21T01:02:03.456Z",
            "benched_until":"2026-11-21T01:12:03.456Z"}"#;
        let weight: WeightView = serde_json::from_str(text).expect("a weight");
        let shown = unstyled(&TextTable::new(WeightView::HEADINGS).lines(&[weight.cells()]));
        assert!(shown.lines().all(|line| line.len() <= 80), "{shown}");
        assert!(
            shown.ends_with("probe17  0.9985          3  2026-11-21 01:02:03Z  2026-11-21 01:12:03Z\n"),
            "{shown}"
        );
    }

    #[test]
    fn fairness_says_what_a_pick_costs() {
        let text = r#"{"connected":19000,"avg_picked":100,"avg_tasks":3.25,"punishment":58.4615,"constant":0.001,"period":"1m"}"#;
        let fairness: FairnessView = serde_json::from_str(text).expect("fairness");
        let facts = unstyled(&fairness.facts());
        assert!(facts.contains("tasks             3.25 in 1m\npunishment        58.462\n"), "{facts}");
        assert!(facts.ends_with("a pick costs      0.0585\nrecovery          0.0010 in 1m\n"), "{facts}");
    }
}
