//! What two stores show of queues.

use base::Timestamp;
use base::random::Random;
use records::{JobClock, JobHead, JobId, ParkedJob, QueueKey};

use super::read;
use crate::conformance::queues::parked_times;
use crate::conformance::traffic::Traffic;
use crate::port::ParkedScan;
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
    let locks = |view: &dyn View| read(view.locks());
    assert_eq!(locks(view), locks(model), "{context}");
    let controls = |view: &dyn View| read(view.queue_controls());
    assert_eq!(controls(view), controls(model), "{context}");
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
    let every = ParkedScan::all(clock);
    let all = parked_times(model, every, usize::MAX);
    assert_eq!(parked_times(view, every, usize::MAX), all, "{context} {clock:?}");
    for _ in 0..6 {
        let moment = |random: &mut Random| {
            let found = all.get(random.below(all.len() as u64 + 1) as usize).copied();
            let (at, id) = found.unwrap_or(every.after);
            match random.below(3) {
                0 => (at, JobId([0; 16])),
                1 => (Timestamp(at.0.saturating_add(9_000)), id),
                _ => (at, id),
            }
        };
        let scan_max = 1 + random.below(20) as usize;
        let scan = ParkedScan { after: moment(random), ..every };
        let rest = |view: &dyn View| parked_times(view, scan, scan_max);
        assert_eq!(rest(view), rest(model), "{context} {scan:?} {scan_max}");
        // All between two moments, whatever else is found.
        let (known, until) = (moment(random), moment(random));
        let is_meant = |moment: &(Timestamp, JobId)| *moment > known && *moment <= until;
        let mut found = parked_times(view, ParkedScan { known, until, ..every }, scan_max);
        found.retain(is_meant);
        let expect: Vec<_> = all.iter().copied().filter(is_meant).collect();
        assert_eq!(found, expect, "{context} {clock:?} {known:?} {until:?} {scan_max}");
    }
}
