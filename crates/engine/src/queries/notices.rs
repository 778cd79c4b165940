//! Notices by time.

use base::{PartitionId, Problem};
use records::{Notice, NoticeKey, NoticeKind};
use store::Page;

use super::feeds::part_of;
use super::{FeedKey, Queries, unreadable};

impl Queries {
    /// Notices by time, of one kind or of all. They are made in one partition, in the order of
    /// their keys: whatever is durable is shown.
    ///
    /// # Errors
    /// See [`Queries::device`].
    pub fn notices(
        &self,
        kind: Option<NoticeKind>,
        page: Page<FeedKey<NoticeKey>>,
    ) -> Result<Vec<(FeedKey<NoticeKey>, Notice)>, Problem> {
        let partition = PartitionId::REGISTRY;
        let view = self.view(partition)?;
        let page = part_of(&page, partition);
        let is_meant = |notice: &Notice| kind.is_none_or(|kind| notice.kind == kind);
        let found = view.notices(page, &is_meant).map_err(unreadable)?;
        Ok(found.into_iter().map(|notice| (FeedKey { key: notice.id.into(), partition }, notice)).collect())
    }
}
