//! Compares what two stores show of tasks, campaigns and picks.

use base::Timestamp;
use base::random::Random;

use super::read;
use crate::conformance::traffic::Traffic;
use crate::port::View;
use crate::queries::ResultPage;

pub(super) fn agree(
    view: &dyn View,
    model: &dyn View,
    traffic: &Traffic,
    random: &mut Random,
    context: &str,
) {
    let limit = random.below(40) as usize;
    for task in traffic.tasks() {
        let of = task.incarnation;
        let itself =
            |view: &dyn View| (read(view.task(of)), read(view.task_of(&task.id)), read(view.task_state(of)));
        assert_eq!(itself(view), itself(model), "{context} {of:?}");
        for after in [None, Some(random.below(8) as u32)] {
            let some = |view: &dyn View| {
                let results =
                    [false, true].map(|descending| read(view.results(of, after, descending, limit)));
                (read(view.picks(of, after, limit)), results)
            };
            assert_eq!(some(view), some(model), "{context} {of:?} {after:?}");
        }
    }
    let after = traffic.tasks().nth(random.below(20) as usize).map(|task| task.incarnation);
    let lists =
        |view: &dyn View| (read(view.running_tasks(after, limit)), read(view.untold_tasks(after, limit)));
    assert_eq!(lists(view), lists(model), "{context} {after:?}");
    let (from, to) = traffic.times();
    let middle = Timestamp(from.0 + random.below((to.0 - from.0) as u64) as i64);
    let ended =
        |view: &dyn View| [false, true].map(|is_slot| read(view.tasks_ended(is_slot, None, middle, limit)));
    assert_eq!(ended(view), ended(model), "{context} {middle:?}");
    let place = Traffic::place(random.below(100));
    let of_device =
        |view: &dyn View| (read(view.picks_since(place, middle, limit)), read(view.pick_share(place)));
    assert_eq!(of_device(view), of_device(model), "{context} {place:?}");
    let shares = |view: &dyn View| [None, Some(place)].map(|after| read(view.pick_shares(after, limit)));
    assert_eq!(shares(view), shares(model), "{context} {place:?}");
    assert_eq!(read(view.pick_clock()), read(model.pick_clock()), "{context}");
    campaigns(view, model, traffic, (middle, limit), context);
}

fn campaigns(
    view: &dyn View,
    model: &dyn View,
    traffic: &Traffic,
    (middle, limit): (Timestamp, usize),
    context: &str,
) {
    for after in [None, Some("campaign-1")] {
        let some = |view: &dyn View| read(view.campaigns(after, limit));
        assert_eq!(some(view), some(model), "{context} {after:?}");
    }
    let (start, end) = traffic.times();
    let last = traffic.tasks().last().map(|task| task.incarnation);
    for campaign in Traffic::campaigns() {
        for (from, until) in [(start, end), (start, middle), (middle, end)] {
            for after in [None, last.map(|last| (middle, last))] {
                let slots = |view: &dyn View| read(view.slots(campaign, (from, until), after, limit));
                assert_eq!(slots(view), slots(model), "{context} {campaign:?} {after:?}");
                let after = after.map(|(at, task)| (at, task, 0));
                let device = traffic.some_result().map(|(_, device)| device);
                for (device, is_descending) in [(None, false), (None, true), (device.as_ref(), true)] {
                    let page = ResultPage { from, until, device, after, is_descending, limit };
                    let results = |view: &dyn View| read(view.campaign_results(campaign, page));
                    assert_eq!(results(view), results(model), "{context} {campaign:?} {page:?}");
                }
            }
        }
    }
}
