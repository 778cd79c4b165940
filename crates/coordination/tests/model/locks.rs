//! Locks against a plain list of who asked, in order.

use std::collections::BTreeMap;
use std::time::Duration;

use base::Timestamp;
use coordination::{CoordinationName, LockBounds, LockRefused, LockRequest, LockStep, LockTable};
use proptest::prelude::*;
use records::{Lock, Op};

const BOUNDS: LockBounds = LockBounds { held_max: 100, waiting_max: 100, free_max: 2 };

#[derive(Clone, Debug)]
enum Call {
    Acquire { lock: u8, owner: u8, ttl: u64, wait: u64 },
    Extend { lock: u8, owner: u8, ttl: u64 },
    Release { lock: u8, owner: u8 },
    Leave { ticket: usize },
    Pass(u64),
    Restart,
}

fn calls() -> impl Strategy<Value = Call> {
    let (lock, owner, ttl) = (0_u8..4, 0_u8..4, 1_u64..50);
    prop_oneof![
        6 => (lock.clone(), owner.clone(), ttl.clone(), 0_u64..60)
            .prop_map(|(lock, owner, ttl, wait)| Call::Acquire { lock, owner, ttl, wait }),
        2 => (lock.clone(), owner.clone(), ttl)
            .prop_map(|(lock, owner, ttl)| Call::Extend { lock, owner, ttl }),
        3 => (lock, owner).prop_map(|(lock, owner)| Call::Release { lock, owner }),
        1 => (0_usize..50).prop_map(|ticket| Call::Leave { ticket }),
        4 => (0_u64..30).prop_map(Call::Pass),
        1 => Just(Call::Restart),
    ]
}

/// A lock of the model: its holder with fence and end, and those that wait in order.
#[derive(Debug, Default)]
struct NaiveLock {
    holder: Option<(u8, u64, Timestamp, u64)>,
    line: Vec<(u64, u8, u64, Timestamp)>,
}

#[derive(Debug, Default)]
struct Naive {
    locks: BTreeMap<u8, NaiveLock>,
    latest_fence: u64,
    /// Who was given a lock, and whether it has a new fence.
    granted: Vec<(u64, u8, bool)>,
}

impl Naive {
    fn settle(&mut self, lock: u8, now: Timestamp) {
        let of = self.locks.entry(lock).or_default();
        if of.holder.is_some_and(|(_, _, until, _)| until <= now) {
            of.holder = None;
        }
        while of.holder.is_none() && !of.line.is_empty() {
            let (ticket, owner, ttl, until) = of.line.remove(0);
            if until > now {
                of.holder = Some((owner, 0, now.after(Duration::from_millis(ttl)), ticket));
                self.granted.push((ticket, owner, true));
                let others = of.line.extract_if(.., |(_, other, ..)| *other == owner);
                for (ticket, _, ttl, _) in others.filter(|(.., until)| *until > now) {
                    of.holder = Some((owner, 0, now.after(Duration::from_millis(ttl)), u64::MAX));
                    self.granted.push((ticket, owner, false));
                }
            }
        }
        of.line.retain(|(.., until)| *until > now);
    }
}

fn name(lock: u8) -> CoordinationName {
    CoordinationName::unchecked("a", &lock.to_string())
}

/// The rows that the changes leave.
fn store(rows: &mut BTreeMap<String, Lock>, ops: Vec<Op>) {
    for op in ops {
        match op {
            Op::PutLock(lock) => drop(rows.insert(lock.name.to_string(), *lock)),
            Op::DeleteLock(_, name) => drop(rows.remove(&*name)),
            other => unreachable!("{other:?}"),
        }
    }
}

proptest! {
    #[test]
    fn one_holds_a_lock_at_a_time_in_order_and_fences_rise(
        calls in proptest::collection::vec(calls(), 1..200),
    ) {
        let mut table: LockTable<u64> = LockTable::new(BOUNDS, 1);
        let (mut model, mut rows) = (Naive::default(), BTreeMap::new());
        let (mut now, mut next_ticket) = (Timestamp(0), 0_u64);
        for call in calls {
            let mut ops = Vec::new();
            let mut step = LockStep::new(now, &mut ops);
            (0..4).for_each(|lock| model.settle(lock, now));
            while table.advance(3, &mut step) {}
            let mut answers = std::mem::take(&mut step.answers);
            match call {
                Call::Acquire { lock, owner, ttl, wait } => {
                    let ticket = next_ticket;
                    next_ticket += 1;
                    let span = Duration::from_millis(ttl);
                    let until = now.after(Duration::from_millis(wait));
                    let asked = LockRequest {
                        name: name(lock), owner: owner.to_string().into(), ttl: span, until, ticket,
                    };
                    let answer = table.acquire(asked, ticket, &mut step);
                    let of = model.locks.entry(lock).or_default();
                    match &mut of.holder {
                        Some((holder, _, end, of_ticket)) if *holder == owner => {
                            (*end, *of_ticket) = (now.after(span), u64::MAX);
                            let granted = answer.and_then(|(_, granted)| granted.ok());
                            prop_assert_eq!(granted.map(|grant| grant.expires_at), Some(*end));
                        }
                        Some(_) if wait == 0 => {
                            prop_assert_eq!(answer, Some((ticket, Err(LockRefused::Held))));
                        }
                        Some(_) => {
                            prop_assert_eq!(answer, None);
                            of.line.push((ticket, owner, ttl, until));
                        }
                        None => {
                            of.holder = Some((owner, 0, now.after(span), ticket));
                            model.granted.push((ticket, owner, true));
                            answers.extend(answer);
                        }
                    }
                }
                Call::Extend { lock, owner, ttl } => {
                    let span = Duration::from_millis(ttl);
                    let extended = table.extend(&name(lock), &owner.to_string(), span, &mut step);
                    let holder = model.locks.entry(lock).or_default().holder.as_mut();
                    match holder.filter(|holder| holder.0 == owner) {
                        Some((_, _, end, of_ticket)) => {
                            (*end, *of_ticket) = (now.after(span), u64::MAX);
                            prop_assert!(extended.is_ok());
                        }
                        None => prop_assert_eq!(extended, Err(LockRefused::NotOwner)),
                    }
                }
                Call::Release { lock, owner } => {
                    let released = table.release(&name(lock), &owner.to_string(), &mut step);
                    let of = model.locks.entry(lock).or_default();
                    let is_its = of.holder.is_some_and(|(holder, ..)| holder == owner);
                    prop_assert_eq!(released.is_ok(), is_its);
                    if is_its {
                        of.holder = None;
                        model.settle(lock, now);
                    }
                }
                Call::Leave { ticket } => {
                    let ticket = ticket as u64;
                    (0..4).for_each(|lock| table.leave(&name(lock), ticket, &mut step));
                    for lock in 0..4 {
                        let of = model.locks.entry(lock).or_default();
                        of.line.retain(|(waiting, ..)| *waiting != ticket);
                        if of.holder.is_some_and(|(.., of_ticket)| of_ticket == ticket) {
                            of.holder = None;
                            model.settle(lock, now);
                        }
                    }
                }
                Call::Pass(ms) => now = now.after(Duration::from_millis(ms)),
                Call::Restart => {
                    let next = table.next_fence();
                    answers.append(&mut step.answers);
                    store(&mut rows, std::mem::take(step.ops));
                    table = LockTable::new(BOUNDS, next);
                    rows.values().for_each(|lock: &Lock| table.load(lock.clone()));
                    for of in model.locks.values_mut() {
                        of.line.clear();
                        of.holder.iter_mut().for_each(|holder| holder.3 = u64::MAX);
                    }
                }
            }
            answers.append(&mut step.answers);
            drop(step);
            store(&mut rows, ops);
            let granted: Vec<_> = answers
                .iter()
                .filter_map(|(ticket, answer)| answer.as_ref().ok().map(|grant| (*ticket, grant)))
                .collect();
            prop_assert_eq!(granted.len(), model.granted.len(), "{:?} {:?}", &granted, &model.granted);
            for (ticket, grant) in &granted {
                let of_model = model.granted.iter().find(|(of, ..)| of == ticket);
                prop_assert_eq!(of_model.map(|(_, owner, _)| owner.to_string()), Some(grant.owner.to_string()));
                if of_model.is_some_and(|(.., is_new)| *is_new) {
                    prop_assert!(grant.fence > model.latest_fence, "fences rise for ever");
                } else {
                    prop_assert_eq!(grant.fence, model.latest_fence, "its holder has it already");
                }
                model.latest_fence = grant.fence;
            }
            model.granted.clear();
            for (lock, of) in &model.locks {
                let shown = table.show(&name(*lock), now);
                let holder = of.holder.filter(|(_, _, until, _)| *until > now);
                prop_assert_eq!(
                    shown.holder.map(|(owner, until)| (owner.to_string(), until)),
                    holder.map(|(owner, _, until, _)| (owner.to_string(), until))
                );
            }
            prop_assert!(rows.values().filter(|lock| lock.owner.is_none()).count() <= BOUNDS.free_max);
        }
    }
}

#[test]
fn a_lock_that_was_forgotten_goes_on_above_its_fence() {
    let mut table: LockTable<()> = LockTable::new(LockBounds { free_max: 0, ..BOUNDS }, 1);
    let mut latest = 0;
    for now in 0..5 {
        let mut ops = Vec::new();
        let mut step = LockStep::new(Timestamp(now), &mut ops);
        let asked = LockRequest {
            name: name(1),
            owner: "a".into(),
            ttl: Duration::from_secs(1),
            until: Timestamp(now),
            ticket: now as u64,
        };
        let granted = table.acquire(asked, (), &mut step).and_then(|(_, granted)| granted.ok());
        let fence = granted.expect("it is free").fence;
        assert!(fence > latest);
        latest = fence;
        table.release(&name(1), "a", &mut step).expect("it is its owner's");
        assert_eq!(table.show(&name(1), Timestamp(now)).fence, 0);
    }
}

#[test]
fn what_is_held_and_who_waits_have_bounds() {
    let bounds = LockBounds { held_max: 1, waiting_max: 1, free_max: 1 };
    let mut table: LockTable<u64> = LockTable::new(bounds, 1);
    let (mut ops, mut ticket) = (Vec::new(), 0);
    let mut step = LockStep::new(Timestamp(0), &mut ops);
    let mut ask = |lock, owner: &str, wait| {
        ticket += 1;
        let asked = LockRequest {
            name: name(lock),
            owner: owner.into(),
            ttl: Duration::from_secs(1),
            until: Timestamp(wait),
            ticket,
        };
        table.acquire(asked, ticket, &mut step).map(|(_, answer)| answer.map(|grant| grant.fence))
    };
    assert_eq!(ask(1, "a", 0), Some(Ok(1)));
    assert_eq!(ask(2, "a", 0), Some(Err(LockRefused::TooMany)));
    assert_eq!(ask(1, "b", 9), None);
    assert_eq!(ask(1, "c", 9), Some(Err(LockRefused::TooManyWaiting)));
    assert_eq!(ask(1, "c", 0), Some(Err(LockRefused::Held)));
    assert_eq!(ask(1, "a", 0), Some(Ok(1)), "its owner again");
}
