//! What two stores show of queues.

use base::Timestamp;
use base::random::Random;
use records::{JobClock, JobHead, JobId, ParkedJob, QueueKey};

use super::read;
use crate::conformance::queues::{FIRST, parked_times_from};
use crate::conformance::traffic::Traffic;
use crate::port::View;

pub(super) fn agree(
    view: &dyn View,
    model: &dyn View,
    traffic: &Traffic,
    random: &mut Random,
    context: &str,
) {
    for (queue, id) in traffic.jobs_in_queues() {
        assert_eq!(read(view.job(id)), read(model.job(id)), "{context} {id:?}");
        assert_eq!(read(view.job_body(id)), read(model.job_body(id)), "{context} {id:?}");
        assert_eq!(read(view.dead_by_id(queue, id)), read(model.dead_by_id(queue, id)), "{context} {id:?}");
    }
    for queue in traffic.queues() {
        of_queue(view, model, queue, random, context);
    }
    for clock in [JobClock::Engine, JobClock::Wall] {
        by_time(view, model, clock, random, context);
    }
    for key in traffic.answers() {
        assert_eq!(read(view.answer(key)), read(model.answer(key)), "{context} {key:?}");
    }
    let (start, end) = traffic.times();
    for _ in 0..4 {
        let mut moment = || Timestamp(start.0 + random.below((end.0 - start.0) as u64) as i64);
        let (from, until) = (moment(), moment());
        let from = (random.below(2) == 0).then_some(from);
        let limit = random.below(10) as usize;
        let given = |view: &dyn View| read(view.answers_given(from, until, limit));
        assert_eq!(given(view), given(model), "{context} {from:?} {until:?}");
    }
}

fn of_queue(view: &dyn View, model: &dyn View, queue: QueueKey, random: &mut Random, context: &str) {
    for alias in Traffic::aliases() {
        let of = |view: &dyn View| read(view.parked_alias(queue, alias));
        assert_eq!(of(view), of(model), "{context} {queue:?} {alias:?}");
    }
    for group in Traffic::groups() {
        let (from_back, limit) = (random.below(2) == 0, random.below(10) as usize);
        let whole = read(model.parked_line(queue, group, None, from_back, usize::MAX));
        let place = |job: &ParkedJob| (job.head.visible_at, job.head.number);
        let after = whole.get(random.below(1 + whole.len() as u64) as usize).map(place);
        let line = |view: &dyn View| read(view.parked_line(queue, group, after, from_back, limit));
        assert_eq!(line(view), line(model), "{context} {queue:?} {group:?} {after:?} {from_back} {limit}");
    }
    let (after, limit) = ((random.below(2) == 0).then(|| random.below(20)), random.below(10) as usize);
    for ascending in [true, false] {
        let dead = |view: &dyn View| read(view.dead(queue, after, ascending, limit));
        assert_eq!(dead(view), dead(model), "{context} {queue:?} {after:?} {ascending} {limit}");
    }
    let (scan_max, limit) = (1 + random.below(20) as usize, 1 + random.below(5) as usize);
    let is_even = |job: &JobHead| job.number.is_multiple_of(2);
    let mut after = None;
    loop {
        let jobs = |view: &dyn View| read(view.jobs_of(queue, after, scan_max, limit, &is_even));
        let found = jobs(view);
        let resident = |view: &dyn View| read(view.resident_jobs_of(queue, after, scan_max, limit, &is_even));
        assert_eq!(resident(view), resident(model), "{context} {queue:?} {after:?} {scan_max} {limit}");
        assert_eq!(found, jobs(model), "{context} {queue:?} {after:?} {scan_max} {limit}");
        if found.next.is_none() {
            break;
        }
        assert!(found.next > after, "{context}: it goes on");
        after = found.next;
    }
}

fn by_time(view: &dyn View, model: &dyn View, clock: JobClock, random: &mut Random, context: &str) {
    let all = read(model.parked_times(clock, FIRST, usize::MAX)).found;
    assert_eq!(read(view.parked_times(clock, FIRST, usize::MAX)).found, all, "{context} {clock:?}");
    for _ in 0..6 {
        let place = all.get(random.below(all.len() as u64 + 1) as usize).copied().unwrap_or(FIRST);
        let after = match random.below(3) {
            0 => (place.0, JobId([0; 16])),
            1 => (Timestamp(place.0.0.saturating_add(9_000)), place.1),
            _ => place,
        };
        let scan_max = 1 + random.below(20) as usize;
        let rest = |view: &dyn View| parked_times_from(view, clock, after, scan_max);
        assert_eq!(rest(view), rest(model), "{context} {clock:?} {after:?} {scan_max}");
    }
}
