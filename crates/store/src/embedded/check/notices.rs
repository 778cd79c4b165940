//! What notices on their way say of clients.

use records::NoticePost;

use super::rows::{CheckedPartition, RowCheck};

impl RowCheck<'_, '_> {
    /// A notice on its way is to a client that is there. The clients must have been gone through.
    pub(super) fn notices(&mut self, within: &CheckedPartition) {
        self.indexed(within.partition, |check, post: &NoticePost| {
            match check.registered.clients.contains(&post.client) {
                true => Ok(()),
                false => Err(format!("its client, of incarnation {}, is missing", post.client.0)),
            }
        });
    }
}
