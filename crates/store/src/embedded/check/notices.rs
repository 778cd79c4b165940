//! What notices on their way say of clients.

use records::{Notice, NoticePost};

use super::rows::{RowCheck, Within};

impl RowCheck<'_, '_> {
    /// A notice on its way is to a client that is there. The clients must have been gone through.
    pub(super) fn notices(&mut self, within: &Within) {
        let partition = within.partition;
        self.indexed(partition, |_, _: &Notice| Ok(()));
        self.indexed(partition, |check, post: &NoticePost| {
            match check.registered.clients.contains(&post.client) {
                true => Ok(()),
                false => Err(format!("its client, of incarnation {}, is missing", post.client.0)),
            }
        });
    }
}
