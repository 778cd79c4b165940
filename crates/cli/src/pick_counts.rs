//! What came of the picks of a task or of a slot, in numbers, as people see them.

use serde::Deserialize;

use crate::table::{Cell, FAINT, grouped};

/// How many devices were wanted, and how many picks came to what.
#[derive(Deserialize)]
pub(super) struct PickCountsView {
    pub(super) wanted: u64,
    picked: u64,
    pub(super) answered: u64,
    failed: u64,
    expired: u64,
    replaced: u64,
}

impl PickCountsView {
    /// Every count with its name.
    pub(super) fn named(&self) -> [(&'static str, u64); 6] {
        [
            ("wanted", self.wanted),
            ("picked", self.picked),
            ("answered", self.answered),
            ("failed", self.failed),
            ("expired", self.expired),
            ("replaced", self.replaced),
        ]
    }

    /// All of them in a line: good answers of those that were wanted, and what else there is.
    pub(super) fn cells(&self) -> [Cell; 2] {
        let of = format!("{} of {} answered", grouped(self.answered), grouped(self.wanted));
        let rest = self
            .named()
            .into_iter()
            .filter(|(name, count)| !matches!(*name, "wanted" | "answered") && *count > 0);
        let rest: Vec<_> = rest.map(|(name, count)| format!("{name} {}", grouped(count))).collect();
        [Cell::text(&of), Cell::text(&rest.join(", ")).styled(FAINT)]
    }
}
