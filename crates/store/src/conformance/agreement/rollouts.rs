//! What two stores show of rollouts and their devices.

use base::random::Random;
use records::{MemberPlace, MemberStatus};

use super::read;
use crate::conformance::traffic::Traffic;
use crate::port::View;

pub(super) fn agree(
    view: &dyn View,
    model: &dyn View,
    traffic: &Traffic,
    random: &mut Random,
    context: &str,
) {
    let limit = random.below(40) as usize;
    for after in [None, Some("rollout-2")] {
        let states = |view: &dyn View| read(view.rollout_states(after, limit));
        assert_eq!(states(view), states(model), "{context}");
    }
    let device = Traffic::device_ids().nth(random.below(80) as usize);
    for (id, incarnation) in traffic.rollouts() {
        let by_id = |view: &dyn View| (read(view.rollout(id)), read(view.rollout_state(id)));
        assert_eq!(by_id(view), by_id(model), "{context} {id}");
        for number in 0..3 {
            let named = |view: &dyn View| read(view.rollout_devices(incarnation, number));
            assert_eq!(named(view), named(model), "{context} {id} {number}");
        }
        let place = device.as_ref().map(|device| MemberPlace::of(incarnation, device, 0));
        let member = |view: &dyn View| place.as_ref().and_then(|place| read(view.rollout_member(place)));
        assert_eq!(member(view), member(model), "{context} {place:?}");
        for status in [None].into_iter().chain(MemberStatus::ALL.map(Some)) {
            let members =
                |view: &dyn View| read(view.rollout_members(incarnation, status, place.as_ref(), limit));
            assert_eq!(members(view), members(model), "{context} {id} {status:?} {place:?}");
        }
        let rank = |view: &dyn View| read(view.rollout_rank(incarnation, limit as u64));
        assert_eq!(rank(view), rank(model), "{context} {id} {limit}");
    }
}
