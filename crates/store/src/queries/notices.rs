//! Notices by time, and their posts by client.

use base::Incarnation;
use records::{Notice, NoticeKey, NoticePost};

use super::feeds::TableRange;
use crate::codec::key::{self, FeedEntryKey};
use crate::key_range::KeyRange;
use crate::port::{Page, StoreError, View};
use crate::table::Table;

impl dyn View + '_ {
    /// Notices, ordered by [`NoticeKey`]; registry partition only. `keep` drops items before they
    /// count towards the limit.
    pub fn notices(
        &self,
        page: Page<NoticeKey>,
        keep: &dyn Fn(&Notice) -> bool,
    ) -> Result<Vec<Notice>, StoreError> {
        let found = TableRange::of(Table::Notices, &[], page).records::<Notice>(self)?;
        found.filter(|notice| notice.as_ref().map_or(true, keep)).take(page.limit).collect()
    }

    /// One notice.
    pub fn notice(&self, at: NoticeKey) -> Result<Option<Notice>, StoreError> {
        self.record(&key::feed_entry(at))
    }

    /// Notices on their way to clients, in order of client and notice; registry partition only.
    pub fn notice_posts(
        &self,
        after: Option<(Incarnation, NoticeKey)>,
        limit: usize,
    ) -> Result<Vec<NoticePost>, StoreError> {
        let place =
            |(client, at): (Incarnation, NoticeKey)| FeedEntryKey::from(at).below(&key::incarnation(client));
        self.records(KeyRange::of(&[]).after(after.map(place)), true)?.take(limit).collect()
    }
}
