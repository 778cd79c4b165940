//! Keys of records whose ids hold them.

use base::EntityId;

use crate::{CommandKey, DeliveryKey, EventKey, NoticeKey, QuarantineKey};

macro_rules! keys_in_ids {
    ($($key:ident),+) => {$(
        impl From<EntityId> for $key {
            fn from(id: EntityId) -> Self {
                Self { at: id.at, number: id.number }
            }
        }
    )+};
}
keys_in_ids!(CommandKey, DeliveryKey, EventKey, NoticeKey, QuarantineKey);
