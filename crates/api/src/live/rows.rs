//! Rollouts, operations and a client that a page shows, as a stream sends them: those that changed
//! since.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use base::Problem;

use super::LiveLook;
use super::digest::digest;
use super::feed::MESSAGE_BYTES_MAX;
use super::visible::{VisibleChanges, add};

/// Rows that a stream shows where none are named.
const ROWS_MAX: usize = 200;
/// Rows that are in memory at a time.
const ROWS_PER_READ: usize = 32;

/// Reads of a list at a look: behind much that is not shown it ends before it has found all.
const READS_MAX: usize = 2 * ROWS_MAX / ROWS_PER_READ;

/// An id and the JSON of what has it.
pub(crate) type IdentifiedRow = (String, Vec<u8>);

/// Rows of a list, and where it goes on.
pub(crate) type RowPage = (Vec<IdentifiedRow>, Option<String>);

/// Rows that have an id each.
pub(crate) trait RowSource: Send + Sync {
    /// The one with that id, if its reader may see it.
    fn named(&self, id: &str) -> Result<Option<Vec<u8>>, Problem>;
    /// Up to so many behind `after`, in the order of their list, and behind which one there may be
    /// more.
    fn page(&self, after: Option<&str>, rows: usize) -> Result<RowPage, Problem>;
}

/// The rows that a page shows.
pub(super) struct VisibleRows {
    source: Arc<dyn RowSource>,
    /// Those that are named; the first of the list where none are.
    ids: BTreeSet<String>,
    /// Digests of what was sent last.
    sent: HashMap<String, u64>,
    /// A page is told of all that there are, also where there are none.
    is_begun: bool,
}

/// What a look has found.
#[derive(Default)]
struct FoundRows {
    changed: Vec<(String, u64, Vec<u8>)>,
    bytes: usize,
    /// All that there are now.
    present: HashSet<String>,
    /// What is not present is gone.
    is_whole: bool,
    more: bool,
}

impl VisibleRows {
    pub(super) fn new(source: Arc<dyn RowSource>, ids: BTreeSet<String>) -> Self {
        Self { source, ids, sent: HashMap::new(), is_begun: false }
    }

    /// What changed since it was sent, as much as a message takes. `None` where a message would say
    /// nothing.
    ///
    /// # Errors
    /// When the store cannot be read now, or `busy`.
    pub(super) async fn changed(&mut self, look: &LiveLook<'_>) -> Result<Option<VisibleChanges>, Problem> {
        let (source, ids, sent) = (Arc::clone(&self.source), self.ids.clone(), self.sent.clone());
        let found = look.read(move || FoundRows::read(&*source, &ids, &sent)).await?;
        let mut changed = VisibleChanges { more: found.more, ..VisibleChanges::default() };
        for (id, digest, text) in found.changed {
            add(&mut changed.items, &text);
            self.sent.insert(id, digest);
        }
        if found.is_whole {
            self.sent.retain(|id, _| {
                let is_present = found.present.contains(id);
                if !is_present {
                    add(&mut changed.gone, &serde_json::to_vec(id).expect("text is JSON"));
                }
                is_present
            });
        } else if self.ids.is_empty() {
            // Rows that others have pushed off the list's beginning are shown no more.
            self.sent.retain(|id, _| found.present.contains(id) || found.more);
        }
        let is_first = !std::mem::replace(&mut self.is_begun, true);
        Ok((is_first || !changed.is_empty()).then_some(changed))
    }
}

impl FoundRows {
    fn read(
        source: &dyn RowSource,
        ids: &BTreeSet<String>,
        sent: &HashMap<String, u64>,
    ) -> Result<Self, Problem> {
        let mut found = Self::default();
        if ids.is_empty() {
            found.read_first(source, sent)?;
            return Ok(found);
        }
        found.is_whole = true;
        for id in ids {
            if let Some(text) = source.named(id)? {
                found.take(id.clone(), text, sent);
            }
        }
        Ok(found)
    }

    fn read_first(&mut self, source: &dyn RowSource, sent: &HashMap<String, u64>) -> Result<(), Problem> {
        let mut after: Option<String> = None;
        for _ in 0..READS_MAX {
            let wanted = ROWS_PER_READ.min(ROWS_MAX - self.present.len());
            let (page, next) = source.page(after.as_deref(), wanted)?;
            for (id, text) in page {
                self.take(id, text, sent);
            }
            self.is_whole = next.is_none();
            if self.is_whole || self.present.len() >= ROWS_MAX {
                break;
            }
            after = next;
        }
        Ok(())
    }

    fn take(&mut self, id: String, text: Vec<u8>, sent: &HashMap<String, u64>) {
        let digest = digest(&text);
        if sent.get(&id) != Some(&digest) {
            self.bytes += text.len();
            if self.bytes > MESSAGE_BYTES_MAX && !self.changed.is_empty() {
                self.more = true;
            } else {
                self.changed.push((id.clone(), digest, text));
            }
        }
        self.present.insert(id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows `000`, `001` and so on, each so many bytes long, of which some are not shown.
    struct Numbered(usize, usize, std::ops::Range<usize>);

    impl Numbered {
        fn row(&self, number: usize) -> IdentifiedRow {
            (format!("{number:03}"), vec![b'1'; self.1])
        }
    }

    impl RowSource for Numbered {
        fn named(&self, id: &str) -> Result<Option<Vec<u8>>, Problem> {
            Ok(id.parse().ok().filter(|number| *number < self.0).map(|number| self.row(number).1))
        }

        /// A page may be short, or empty.
        fn page(&self, after: Option<&str>, rows: usize) -> Result<RowPage, Problem> {
            let first = after.map_or(0, |after| after.parse::<usize>().expect("a number") + 1);
            let looked_at: Vec<usize> = (first..self.0).take(rows).collect();
            let next = looked_at.last().filter(|last| **last + 1 < self.0).map(|last| self.row(*last).0);
            let shown = looked_at.into_iter().filter(|number| !self.2.contains(number));
            Ok((shown.map(|number| self.row(number)).collect(), next))
        }
    }

    fn found(source: &Numbered, ids: &[&str], sent: &HashMap<String, u64>) -> FoundRows {
        let ids = ids.iter().map(|id| (*id).to_owned()).collect();
        FoundRows::read(source, &ids, sent).expect("readable")
    }

    #[test]
    fn a_look_finds_what_changed_of_the_first_rows_or_of_those_that_are_named() {
        let nothing = HashMap::new();
        for (rows, hidden, ids, changed, is_whole) in [
            (0, 0..0, &[][..], 0, true),
            (40, 0..0, &[], 40, true),
            (250, 0..0, &[], ROWS_MAX, false),
            (100, 10..80, &[], 30, true),
            (1_000, 10..900, &[], 10, false),
            (250, 0..0, &["003", "249", "250"], 2, true),
        ] {
            let found = found(&Numbered(rows, 1, hidden), ids, &nothing);
            assert_eq!((found.changed.len(), found.is_whole), (changed, is_whole), "{rows} {ids:?}");
        }
        let sent = HashMap::from([("000".to_owned(), digest(b"1")), ("001".to_owned(), 0)]);
        let found = found(&Numbered(3, 1, 0..0), &[], &sent);
        assert_eq!(found.changed.iter().map(|row| &*row.0).collect::<Vec<_>>(), ["001", "002"]);
    }

    #[test]
    fn a_message_takes_so_many_and_the_next_one_the_others() {
        let source = Numbered(5, MESSAGE_BYTES_MAX / 2, 0..0);
        let (mut sent, mut counts) = (HashMap::new(), Vec::new());
        loop {
            let found = found(&source, &[], &sent);
            counts.push(found.changed.len());
            sent.extend(found.changed.into_iter().map(|(id, digest, _)| (id, digest)));
            if !found.more {
                break;
            }
        }
        assert_eq!(counts, [2, 2, 1]);
    }
}
