//! What the server knows of itself: which limits there are, and how near they are.

use crate::ApiState;
use crate::host::LimitUsage;

/// Everything that has a limit, as far as it may be near: what the API keeps, and what the program
/// around it keeps.
pub(crate) fn limits(api: &ApiState) -> Vec<LimitUsage> {
    let (following, following_max) = api.engine().following();
    let (lists, memory) = (&api.shared.lists, &api.shared.memory);
    let own = [
        ("callers that follow a feed", following, following_max),
        ("pages of lists being read", lists.in_flight(), lists.most()),
        ("memory of bodies and answers, in bytes", memory.held_bytes(), memory.bytes()),
    ];
    let own =
        own.map(|(name, used, max)| LimitUsage { name, used: used as u64, max: max as u64, setting: None });
    own.into_iter()
        .chain([api.shared.live.limit()])
        .chain(api.host().map(crate::ServerHost::limits).unwrap_or_default())
        .collect()
}
