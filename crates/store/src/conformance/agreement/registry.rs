//! Compares what two stores show of the registry: portals, nodes, notices and operations.

use base::random::Random;
use base::{EntityId, Incarnation, Timestamp};
use records::{NoticeKey, NoticeKind};

use super::read;
use crate::conformance::traffic::{CLIENTS, Traffic};
use crate::port::{Page, View};

pub(super) fn agree(
    view: &dyn View,
    model: &dyn View,
    traffic: &Traffic,
    random: &mut Random,
    context: &str,
) {
    for key in traffic.notices() {
        assert_eq!(read(view.notice(*key)), read(model.notice(*key)), "{context} {key:?}");
    }
    for id in traffic.operations() {
        assert_eq!(read(view.operation(*id)), read(model.operation(*id)), "{context} {id:?}");
        assert_eq!(read(view.operation_state(*id)), read(model.operation_state(*id)), "{context} {id:?}");
    }
    let limit = random.below(40) as usize;
    let any = |random: &mut Random, of: usize| random.below(of as u64 + 1) as usize;
    let operation: Option<EntityId> =
        traffic.operations().get(any(random, traffic.operations().len())).copied();
    let states = |view: &dyn View| read(view.operation_states(operation, limit));
    assert_eq!(states(view), states(model), "{context}");
    let portal = Incarnation(random.below(40));
    for after in [None, Some(portal)] {
        let tokens = |view: &dyn View| read(view.portal_tokens(after, limit));
        assert_eq!(tokens(view), tokens(model), "{context}");
    }
    let nodes = |view: &dyn View| read(view.peer_nodes(limit));
    assert_eq!(nodes(view), nodes(model), "{context}");
    let notice: Option<NoticeKey> = traffic.notices().get(any(random, traffic.notices().len())).copied();
    let client = Incarnation(random.below(CLIENTS + 2));
    for after in [None, notice.map(|notice| (client, notice))] {
        let posts = |view: &dyn View| read(view.notice_posts(after, limit));
        assert_eq!(posts(view), posts(model), "{context}");
    }
    let (from, to) = traffic.times();
    let middle = Timestamp(from.0 + random.below((to.0 - from.0) as u64) as i64);
    for (from, to) in [(from, to), (from, middle), (middle, to)] {
        let page = Page { from, to, ascending: random.below(2) == 0, after: notice, limit };
        let all = |view: &dyn View| read(view.notices(page, &|_| true));
        assert_eq!(all(view), all(model), "{context} {page:?}");
        let low = |view: &dyn View| read(view.notices(page, &|notice| notice.kind == NoticeKind::StorageLow));
        assert_eq!(low(view), low(model), "{context} {page:?}");
    }
}
