//! Campaigns, their slots and their results as people see them.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::follow::Timed;
use crate::list::TableRow;
use crate::pick_counts::PickCountsView;
use crate::receiver::ReceiverView;
use crate::table::{BAD, Cell, FAINT, GOOD, OPEN, facts, grouped, line};
use crate::task::ResultView;
use crate::when::{age_of, to_second, with_age};

/// A campaign.
#[derive(Deserialize)]
pub(super) struct CampaignView {
    id: String,
    name: Option<String>,
    status: String,
    created_at: String,
    payload: Box<RawValue>,
    selector: Option<String>,
    exclude: Option<String>,
    devices: Option<Vec<String>>,
    same_as: Option<String>,
    not_as: Option<String>,
    spread_by: Option<String>,
    count: u64,
    every: Option<String>,
    over: Option<String>,
    phase: Option<String>,
    class: Option<String>,
    answer_timeout: Option<String>,
    from: Option<String>,
    until: Option<String>,
    missed: Option<String>,
    #[serde(default)]
    panel: bool,
    results: Option<ReceiverView>,
}

impl CampaignView {
    /// Everything that is known of it.
    pub(super) fn facts(&self) -> String {
        let mut known = vec![("id", Cell::text(&self.id))];
        let mut tell = |name, text: Option<&str>| {
            known.extend(text.map(|text| (name, Cell::text(text))));
        };
        tell("name", self.name.as_deref());
        tell("payload", Some(self.payload.get()));
        tell("selector", self.selector.as_deref());
        tell("exclude", self.exclude.as_deref());
        let devices = self.devices.as_ref().map(|devices| format!("{} named", grouped(devices.len() as u64)));
        tell("devices", devices.as_deref());
        tell("same as", self.same_as.as_deref());
        tell("not as", self.not_as.as_deref());
        tell("spread by", self.spread_by.as_deref());
        tell("picks", Some(&self.pace()));
        tell("panel", self.panel.then_some("the same devices in each slot"));
        tell("phase", self.phase.as_deref());
        tell("class", self.class.as_deref());
        tell("answer timeout", self.answer_timeout.as_deref());
        tell("from", self.from.as_deref());
        tell("until", self.until.as_deref());
        tell("missed slots", self.missed.as_deref());
        tell("results", self.results.as_ref().map(ReceiverView::place));
        tell("created", Some(&with_age(&self.created_at)));
        known.insert(1, ("status", self.status()));
        facts(&known)
    }

    /// The secret of its receiver, where it was made just now.
    pub(super) fn secret_once(&self) -> String {
        self.results.as_ref().map(ReceiverView::secret_once).unwrap_or_default()
    }

    /// How many devices, and how often.
    fn pace(&self) -> String {
        let count = grouped(self.count);
        match (&self.every, &self.over) {
            (Some(every), _) => format!("{count} every {every}"),
            (None, Some(over)) => format!("{count} over {over}"),
            (None, None) => count,
        }
    }

    fn status(&self) -> Cell {
        Cell::standing(&self.status, &[(GOOD, &["running"]), (OPEN, &["paused"])])
    }
}

impl TableRow for CampaignView {
    const HEADINGS: &'static [&'static str] = &["ID", "STATUS", "PICKS", "AGE", "NAME"];

    fn cells(&self) -> Vec<Cell> {
        vec![
            Cell::text(&self.id),
            self.status(),
            Cell::text(&self.pace()),
            Cell::text(&age_of(&self.created_at)),
            self.name.as_deref().map_or_else(|| Cell::maybe(None), Cell::short),
        ]
    }
}

/// A slot, and what came of its picks.
#[derive(Deserialize)]
pub(super) struct SlotView {
    pub(super) slot: u64,
    due_at: String,
    #[serde(flatten)]
    counts: PickCountsView,
    #[serde(default)]
    skipped: bool,
}

impl SlotView {
    /// What came of it, in a line of a campaign that is watched.
    pub(super) fn line(&self) -> String {
        let due = Cell::text(&to_second(&self.due_at)).styled(FAINT);
        let slot = Cell::text(&format!("slot {}", self.slot));
        if self.skipped {
            return line(&[due, slot, Cell::text("skipped").styled(BAD)]);
        }
        let [answered, rest] = self.counts.cells();
        line(&[due, slot, answered, rest])
    }
}

impl TableRow for SlotView {
    const HEADINGS: &'static [&'static str] =
        &["SLOT", "DUE", "WANTED", "PICKED", "ANSWERED", "FAILED", "EXPIRED", "REPLACED"];

    fn cells(&self) -> Vec<Cell> {
        let due = Cell::text(&to_second(&self.due_at));
        let due = if self.skipped { due.styled(BAD) } else { due };
        let slot = Cell::text(&self.slot.to_string());
        if self.skipped {
            return vec![slot, due, Cell::number(self.counts.wanted), Cell::text("skipped").styled(BAD)];
        }
        let counts = self.counts.named().map(|(_, count)| Cell::number(count));
        [slot, due].into_iter().chain(counts).collect()
    }
}

/// What came of a device in a slot.
#[derive(Deserialize)]
#[serde(transparent)]
pub(super) struct SlotResultView(ResultView);

impl TableRow for SlotResultView {
    const HEADINGS: &'static [&'static str] = &["SLOT", "DEVICE", "PICKED", "OUTCOME", "TOOK", "SAID"];

    fn cells(&self) -> Vec<Cell> {
        let slot = self.0.slot.map(|slot| slot.to_string());
        [Cell::maybe(slot.as_deref())].into_iter().chain(self.0.cells()).collect()
    }
}

impl Timed for SlotResultView {
    fn time(&self) -> &str {
        self.0.time()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::TextTable;

    fn unstyled(text: &str) -> String {
        anstream::adapter::strip_str(text).to_string()
    }

    #[test]
    fn a_campaign_is_shown_with_what_was_said_of_it() {
        let text = r#"{"id":"dns","name":null,"status":"paused","created_at":"2026-11-21T01:02:03.456Z",
            "payload":{"probe":"dns"},"selector":"operator=7","count":6000,"every":null,"over":"1h","phase":"12s",
            "class":"ordinary","answer_timeout":"10s","missed":"skip","panel":false,
            "results":{"url":"https://a.example","secret":"whsec_x"}}"#;
        let campaign: CampaignView = serde_json::from_str(text).expect("a campaign");
        let facts = unstyled(&campaign.facts());
        assert!(
            facts.starts_with(
                "id              dns\nstatus          paused\npayload         {\"probe\":\"dns\"}\n"
            ),
            "{facts}"
        );
        assert!(facts.contains("picks           6,000 over 1h\nphase           12s\n"), "{facts}");
        assert!(facts.contains("results         https://a.example\n") && !facts.contains("whsec"), "{facts}");
        assert!(campaign.secret_once().starts_with("secret  whsec_x\n"));
    }

    #[test]
    fn a_slot_says_what_came_of_it_or_that_it_was_skipped() {
        let slot = |rest: &str| {
            let text = format!(
                r#"{{"slot":5894102,"due_at":"2026-11-21T01:05:00.000Z","started_at":null,"wanted":20,
                "picked":21,"answered":20,"failed":0,"expired":1,"replaced":1{rest}}}"#
            );
            serde_json::from_str::<SlotView>(&text).expect("a slot")
        };
        let line = unstyled(&slot("").line());
        assert_eq!(
            line,
            "2026-11-21 01:05:00Z  slot 5894102  20 of 20 answered  picked 21, expired 1, replaced 1\n"
        );
        let rows = [slot("").cells(), slot(",\"skipped\":true").cells()];
        let shown = unstyled(&TextTable::new(SlotView::HEADINGS).lines(&rows));
        assert!(shown.lines().all(|line| line.len() <= 90), "{shown}");
        assert!(shown.ends_with("5894102  2026-11-21 01:05:00Z      20  skipped\n"), "{shown}");
    }
}
