//! Which views are open, and so which versions must be kept.

use std::collections::BTreeMap;

/// The batches as of which views read, and how many of them.
#[derive(Debug, Default)]
pub(crate) struct OpenViews(BTreeMap<u64, u32>);

impl OpenViews {
    pub(super) fn open(&mut self, seq: u64) {
        *self.0.entry(seq).or_default() += 1;
    }

    pub(super) fn close(&mut self, seq: u64) {
        if let Some(count) = self.0.get_mut(&seq) {
            *count -= 1;
            if *count == 0 {
                self.0.remove(&seq);
            }
        }
    }

    /// What the batch `seq`, which no view sees yet, must leave as it is.
    pub(super) fn versions(&self, seq: u64) -> Versions {
        let ends = self.0.keys().next().zip(self.0.keys().next_back());
        Versions { seq, views: ends.map(|(oldest, newest)| (*oldest, *newest)) }
    }
}

/// The batch that is being applied, and the oldest and newest view that is open.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Versions {
    pub(crate) seq: u64,
    views: Option<(u64, u64)>,
}

impl Versions {
    /// Whether any view is open.
    pub(super) fn any_view(&self) -> bool {
        self.views.is_some()
    }

    /// Whether a view may read what was written by batch `seq` and is now overwritten.
    pub(super) fn needs(&self, seq: u64) -> bool {
        self.views.is_some_and(|(_, newest)| newest >= seq)
    }

    /// Whether a view may read what was overwritten by batch `seq`.
    pub(super) fn needs_before(&self, seq: u64) -> bool {
        self.views.is_some_and(|(oldest, _)| oldest < seq)
    }
}
