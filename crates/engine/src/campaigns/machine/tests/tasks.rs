//! Tasks: who is picked, replaced, and when it is over.

use std::collections::BTreeSet;
use std::num::NonZeroU32;

use records::{OutcomeReceiver, PickOutcome, TaskStanding};

use super::*;
use crate::outcomes::SendResult;

#[test]
fn a_task_picks_as_many_as_it_wants_and_is_done_when_all_have_answered() {
    let mut bench = Bench::of(10);
    let task = bench.task(4);
    assert_eq!((task.state.counts.picked, task.state.standing), (4, TaskStanding::Running));
    assert!(bench.orders.iter().all(|order| order.what == OrderKind::Give));
    bench.carry(|order| if order.number == 0 { Act::Refuses } else { Act::Does });
    let (_, state, picks) = bench.stored(task.task.incarnation);
    let counts = state.counts;
    assert_eq!((counts.answered, counts.failed, counts.expired, counts.replaced), (3, 1, 0, 0));
    assert_eq!((state.standing, state.ended), (TaskStanding::Done, 4));
    let numbers: BTreeSet<_> = picks.iter().filter_map(|pick| Some(pick.end.as_ref()?.number)).collect();
    assert_eq!(numbers, (0..4).collect(), "the results have an order");
    assert_eq!(bench.machine().open_picks.all(), 0);
}

#[test]
fn fewer_devices_than_wanted_are_all_picked_and_nobody_is_awaited() {
    let mut bench = Bench::of(2);
    let task = bench.task(5);
    assert_eq!(task.state.counts.picked, 2);
    bench.carry(|_| Act::Does);
    assert_eq!(bench.stored(task.task.incarnation).1.standing, TaskStanding::Done);
    bench.fleet.set([]);
    let nobody = bench.task(5);
    assert_eq!(bench.stored(nobody.task.incarnation).1.standing, TaskStanding::Done);
}

#[test]
fn who_drops_out_is_replaced_until_as_many_were_replaced_as_are_wanted() {
    let mut bench = Bench::of(100);
    let task = bench.task(3);
    bench.carry(|_| Act::IsMute);
    let (_, state, picks) = bench.stored(task.task.incarnation);
    assert_eq!((state.counts.picked, state.counts.expired, state.counts.replaced), (6, 6, 3));
    assert_eq!(state.standing, TaskStanding::Done);
    let devices: BTreeSet<_> = picks.iter().map(|pick| pick.place).collect();
    assert_eq!(devices.len(), 6, "nobody is picked twice");
}

#[test]
fn a_refusal_is_an_answer_and_who_is_away_is_replaced() {
    let mut bench = Bench::of(100);
    let task = bench.task(3);
    bench.carry(|order| match order.number {
        0 => Act::Refuses,
        1 => Act::IsAway,
        _ => Act::Does,
    });
    let (_, state, picks) = bench.stored(task.task.incarnation);
    assert_eq!((state.counts.picked, state.counts.failed, state.counts.answered), (4, 1, 2));
    assert_eq!(picks[1].end.as_ref().map(|end| end.outcome), Some(PickOutcome::WentAway));
}

#[test]
fn behind_the_deadline_nobody_is_replaced_and_what_did_not_go_out_is_taken_back() {
    let mut bench = Bench::of(100);
    let task = bench.task(3);
    bench.carry(|order| if order.number == 0 { Act::Gets } else { Act::IsBusy });
    bench.pass(NewTask::DEADLINE);
    let taken_back: Vec<_> = bench.orders.iter().map(|order| (order.number, order.what, order.why)).collect();
    let why = PickOutcome::NotSent;
    assert_eq!(taken_back, [(1, OrderKind::TakeBack, why), (2, OrderKind::TakeBack, why)]);
    bench.carry(|_| Act::IsBusy);
    let (_, state, _) = bench.stored(task.task.incarnation);
    assert_eq!((state.counts.picked, state.counts.expired), (3, 2));
    assert_eq!(state.standing, TaskStanding::Running, "one of them is at work");
}

#[test]
fn a_cancellation_is_answered_when_nothing_more_goes_out() {
    let mut bench = Bench::of(100);
    let task = bench.task(3);
    bench.carry(|order| if order.number == 0 { Act::Gets } else { Act::IsBusy });
    let id = task.task.id;
    let mut answer = bench.begin(|reply| CampaignsInput::Task(TaskCall::Cancel { id, reply }));
    assert!(answer.try_recv().is_err(), "two commands may still go out");
    bench.carry(|_| Act::IsBusy);
    assert_eq!(answer.try_recv(), Ok(Ok(())));
    let (_, state, _) = bench.stored(task.task.incarnation);
    assert_eq!((state.standing, state.ended_at), (TaskStanding::Cancelled, None));
    bench.load();
    bench.settle(Vec::new());
    bench.carry(|_| Act::Does);
    let (_, state, _) = bench.stored(task.task.incarnation);
    assert_eq!((state.standing, state.counts.answered), (TaskStanding::Cancelled, 1));
    assert!(state.ended_at.is_some(), "also after another process");
}

#[test]
fn devices_that_are_always_selected_alike_are_never_more_than_one_pick_apart() {
    let mut bench = Bench::of(23);
    for round in 0..60_u32 {
        // Punishment changes with the time between tasks, and with who is connected.
        bench.pass(Duration::from_secs(u64::from(round % 7) * 13));
        bench.task(1 + round * 5 % 9);
        bench.carry(|_| Act::Does);
        if round % 11 == 0 {
            bench.load();
        }
        let picks = bench.picks();
        let most = picks.values().max().copied().unwrap_or(0);
        let least = if picks.len() < 23 { 0 } else { picks.values().min().copied().unwrap_or(0) };
        assert!(most - least <= 1, "after task {round}: {picks:?}");
    }
}

#[test]
fn after_a_crash_open_picks_are_ensured_and_nobody_is_picked_again_or_beyond_what_is_wanted() {
    let mut bench = Bench::of(50);
    let task = bench.task(10);
    // The process dies before any order was carried.
    bench.fleet.set([]);
    bench.load();
    bench.settle(Vec::new());
    assert_eq!(bench.orders.len(), 10);
    assert!(bench.orders.iter().all(|order| order.what == OrderKind::Ensure));
    bench.carry(|order| if order.number < 6 { Act::Does } else { Act::IsBusy });
    let places = |bench: &Bench| -> Vec<_> {
        let picks = bench.stored(task.task.incarnation).2;
        picks.iter().map(|pick| pick.place).collect()
    };
    // Until the deadline, nobody counts as gone away.
    bench.tell(PickUpdate::WentAway(places(&bench)));
    assert!(bench.orders.is_empty());
    bench.fleet.set(0..50);
    bench.tell(PickUpdate::Came((0..50).map(place).collect()));
    assert_eq!(bench.stored(task.task.incarnation).1.counts.picked, 10, "as many as are wanted");
    bench.pass(NewTask::DEADLINE);
    bench.carry(|_| Act::IsBusy);
    let (_, state, picks) = bench.stored(task.task.incarnation);
    assert_eq!((state.standing, state.counts.answered, state.counts.expired), (TaskStanding::Done, 6, 4));
    assert_eq!(picks.iter().map(|pick| pick.place).collect::<BTreeSet<_>>().len(), 10);
}

#[test]
fn after_a_crash_devices_are_picked_as_they_come() {
    let mut bench = Bench::of(50);
    bench.searches = Some(Vec::new());
    let task = bench.task(4);
    bench.carry(|_| Act::IsMute);
    assert_eq!(bench.stored(task.task.incarnation).1.counts.expired, 4);
    bench.searches = None;
    bench.fleet.set([]);
    bench.load();
    bench.settle(Vec::new());
    assert_eq!(bench.stored(task.task.incarnation).1.standing, TaskStanding::Running);
    bench.fleet.set(0..3);
    bench.tell(PickUpdate::Came((0..3).map(place).collect()));
    bench.fleet.set(0..50);
    bench.tell(PickUpdate::Came((3..50).map(place).collect()));
    let (_, state, _) = bench.stored(task.task.incarnation);
    assert_eq!((state.counts.picked, state.counts.replaced), (8, 4));
    bench.carry(|_| Act::Does);
    assert_eq!(bench.stored(task.task.incarnation).1.standing, TaskStanding::Done);
}

#[test]
fn a_mute_device_is_set_aside_and_freed_by_a_new_session() {
    let mut bench = Bench::of(10);
    for _ in 0..3 {
        bench.task(10);
        bench.carry(|order| if order.place.slot.0 == 4 { Act::IsMute } else { Act::Does });
    }
    let mute = |bench: &Bench| bench.fleet.mute.lock().expect("no test panics with it").clone();
    assert_eq!(mute(&bench), [4].into());
    let task = bench.task(10);
    assert_eq!(task.state.counts.picked, 9);
    bench.carry(|_| Act::Does);
    bench.fleet.set_answering(place(7), false);
    bench.load();
    assert_eq!(mute(&bench), [4].into(), "also after another process; and nobody else");
    bench.settle(Vec::new());
    bench.tell(PickUpdate::Came(vec![place(4)]));
    assert_eq!(mute(&bench), [].into());
    assert_eq!(bench.task(10).state.counts.picked, 10);
}

#[test]
fn a_mute_device_is_freed_by_an_answer_to_a_command_of_no_task() {
    let mut bench = Bench::of(10);
    for _ in 0..3 {
        bench.task(10);
        bench.carry(|order| if order.place.slot.0 == 4 { Act::IsMute } else { Act::Does });
    }
    assert_eq!(bench.task(10).state.counts.picked, 9);
    bench.carry(|_| Act::Does);
    bench.tell(PickUpdate::Answered(vec![place(4)]));
    assert_eq!(bench.task(10).state.counts.picked, 10);
}

#[test]
fn the_pick_of_a_deleted_device_ends_and_its_share_goes() {
    let mut bench = Bench::of(2);
    let task = bench.task(2);
    bench.carry(|_| Act::Gets);
    bench.tell(PickUpdate::Gone(vec![place(0), place(1)]));
    let (_, state, picks) = bench.stored(task.task.incarnation);
    assert_eq!((state.standing, state.counts.expired), (TaskStanding::Done, 2));
    let outcomes: Vec<_> = picks.iter().filter_map(|pick| Some(pick.end.as_ref()?.outcome)).collect();
    assert_eq!(outcomes, [PickOutcome::NoAnswer; 2]);
    let view = bench.store.view(PartitionId::CAMPAIGNS).expect("readable");
    assert_eq!(view.pick_shares(None, 10).expect("readable"), []);
}

#[test]
fn the_picks_of_very_many_deleted_devices_end_in_several_steps() {
    const DEVICES: u32 = 5_000;
    let mut bench = Bench::of(DEVICES);
    bench.task(DEVICES);
    bench.carry(|_| Act::Gets);
    assert_eq!(bench.machine().open_picks.all(), DEVICES as usize);
    bench.searches = Some(Vec::new());
    let gone = PickUpdate::Gone((0..DEVICES).map(place).collect());
    bench.one_step(vec![CampaignsInput::Update(gone, Reply::new().0)]);
    let mut steps = 1;
    while bench.machine().has_unfinished() {
        bench.one_step(Vec::new());
        steps += 1;
    }
    assert_eq!((steps > 1, bench.machine().open_picks.all()), (true, 0), "{steps} steps");
}

#[test]
fn a_rate_makes_picks_wait_and_none_is_lost() {
    let mut settings = EngineSettings::for_tests();
    settings.campaigns.rate = NonZeroU32::new(10).map(NonZeroU32::get);
    let mut bench = Bench::with(100, settings);
    let task = bench.task(40);
    assert_eq!(task.state.counts.picked, 40, "they are planned at once");
    let at_once = bench.orders.len();
    assert!(at_once <= 2, "{at_once} went out at once");
    bench.pass(Duration::from_secs(2));
    assert!((19..=22).contains(&bench.orders.len()), "{} in two seconds", bench.orders.len());
    bench.pass(Duration::from_secs(2));
    assert_eq!(bench.orders.len(), 40);
}

#[test]
fn picks_that_ended_while_they_waited_take_nothing_of_the_rate() {
    let mut settings = EngineSettings::for_tests();
    settings.campaigns.rate = Some(10);
    let mut bench = Bench::with(100, settings);
    let first = bench.task(40);
    bench.task(5);
    let id = first.task.id;
    let cancelled = bench.begin(|reply| CampaignsInput::Task(TaskCall::Cancel { id, reply }));
    assert_eq!(bench.machine().counted.picks_waiting, 5);
    bench.fleet.set([]);
    bench.tell(PickUpdate::Gone((0..100).map(place).collect()));
    assert_eq!(bench.machine().counted.picks_waiting, 0);
    drop(cancelled);
}

#[test]
fn a_rate_holds_also_after_another_process() {
    let mut settings = EngineSettings::for_tests();
    settings.campaigns.rate = Some(10);
    let mut bench = Bench::with(100, settings);
    bench.task(40);
    bench.load();
    bench.settle(Vec::new());
    let at_once = bench.orders.len();
    assert!(at_once <= 2, "{at_once} went out at once");
    bench.pass(Duration::from_secs(2));
    assert!((19..=22).contains(&bench.orders.len()), "{} in two seconds", bench.orders.len());
    assert!(bench.orders.iter().all(|order| order.what == OrderKind::Ensure));
}

#[test]
fn a_task_of_very_many_is_written_over_several_batches() {
    let mut bench = Bench::of(20_000);
    let task = bench.task(15_000);
    assert_eq!(task.state.counts.picked, 15_000, "it is answered when all are picked");
    assert_eq!(bench.orders.len(), 15_000);
    bench.carry(|_| Act::Does);
    let (_, state, picks) = bench.stored(task.task.incarnation);
    assert_eq!((state.standing, picks.len()), (TaskStanding::Done, 15_000));
    assert_eq!(state.counts.replaced, 0);
}

#[test]
fn a_token_has_so_many_picks_in_an_hour() {
    let mut settings = EngineSettings::for_tests();
    settings.campaigns.token_picks_per_hour.insert("ci".into(), Some(5));
    let mut bench = Bench::with(100, settings);
    let of_ci = |bench: &mut Bench| bench.new_task(3, |new| new.terms.token = Some("ci".into()));
    assert!(of_ci(&mut bench).is_ok());
    assert_eq!(
        of_ci(&mut bench).map_err(|problem| (problem.status, problem.code)),
        Err((429, "picks_exhausted"))
    );
    assert!(bench.new_task(3, |_| {}).is_ok(), "others are not concerned");
    bench.pass(Duration::from_secs(3_600));
    assert!(of_ci(&mut bench).is_ok());
}

#[test]
fn a_token_that_is_no_longer_configured_has_nobody_picked() {
    let mut settings = EngineSettings::for_tests();
    settings.campaigns.token_picks_per_hour.insert("ops".into(), None);
    let mut bench = Bench::with(100, settings);
    let of = |bench: &mut Bench, token: &str| bench.new_task(3, |new| new.terms.token = Some(token.into()));
    assert_eq!(of(&mut bench, "ops").expect("no limit").state.counts.picked, 3);
    assert_eq!(of(&mut bench, "gone").map_err(|problem| problem.code), Err("picks_exhausted"));
}

#[test]
fn a_device_has_so_many_picks_in_an_hour() {
    let mut settings = EngineSettings::for_tests();
    settings.campaigns.device_picks_per_hour = Some(2);
    let mut bench = Bench::with(3, settings);
    for expect in [3, 3, 0] {
        assert_eq!(bench.task(3).state.counts.picked, expect);
        bench.carry(|_| Act::Does);
        bench.load();
        bench.settle(Vec::new());
    }
    bench.pass(Duration::from_secs(3_700));
    assert_eq!(bench.task(3).state.counts.picked, 3);
}

#[test]
fn the_end_of_a_task_is_told_until_it_is_taken_or_given_up() {
    let mut bench = Bench::of(3);
    let queue = OutcomeReceiver::Queue { namespace: "ns".into(), queue: "q".into() };
    let task = bench.new_task(1, |new| new.terms.receiver = Some(queue)).expect("begun");
    let incarnation = task.task.incarnation;
    bench.carry(|_| Act::Does);
    let lease = |bench: &mut Bench| {
        bench.ask(|reply| CampaignsInput::Task(TaskCall::LeaseEnds { max: 10, reply })).len()
    };
    assert_eq!((lease(&mut bench), lease(&mut bench)), (1, 0), "it is leased once");
    // A lease is in memory alone.
    bench.load();
    bench.settle(Vec::new());
    assert_eq!(lease(&mut bench), 1);
    let told = |bench: &mut Bench, result| {
        let told = |reply| CampaignsInput::Task(TaskCall::EndTold { task: incarnation, result, reply });
        bench.ask(told);
    };
    told(&mut bench, SendResult::Failed(None));
    assert_eq!(bench.stored(incarnation).1.post.map(|post| post.attempts), Some(1));
    assert_eq!(lease(&mut bench), 0, "it waits for its time");
    bench.pass(Duration::from_secs(3_600));
    assert_eq!(lease(&mut bench), 1);
    told(&mut bench, SendResult::Delivered);
    assert_eq!(bench.stored(incarnation).1.post, None);
    let view = bench.store.view(PartitionId::CAMPAIGNS).expect("readable");
    assert_eq!(view.pick_terms(task.task.terms).expect("readable"), None, "nothing has the terms");
    assert_eq!(bench.machine().terms.bytes(), 0, "and they count no longer");
}

#[test]
fn a_pick_without_room_for_its_result_is_ordered_again_until_the_deadline() {
    let mut bench = Bench::of(2);
    let task = bench.task(2);
    bench.carry(|_| Act::HasNoRoom);
    assert!(bench.orders.is_empty(), "not at once");
    bench.pass(Duration::from_secs(1));
    let again: Vec<_> = bench.orders.iter().map(|order| order.what).collect();
    assert_eq!(again, [OrderKind::Ensure; 2]);
    bench.carry(|order| if order.number == 0 { Act::Does } else { Act::HasNoRoom });
    for _ in 0..NewTask::DEADLINE.as_secs() {
        bench.pass(Duration::from_secs(1));
        bench.carry(|_| Act::HasNoRoom);
    }
    let (_, state, picks) = bench.stored(task.task.incarnation);
    assert_eq!((state.standing, state.counts.answered), (TaskStanding::Done, 1));
    assert_eq!(picks[1].end.as_ref().map(|end| end.outcome), Some(PickOutcome::NotSent));
}

#[test]
fn who_went_away_untold_is_called_off_once_its_pick_is_asked_for() {
    let mut bench = Bench::of(1);
    let task = bench.task(1);
    bench.carry(|_| Act::IsBusy);
    bench.tell(PickUpdate::AskAgain);
    bench.carry(|_| Act::IsAway);
    let (_, state, picks) = bench.stored(task.task.incarnation);
    assert_eq!(state.standing, TaskStanding::Done);
    assert_eq!(picks[0].end.as_ref().map(|end| end.outcome), Some(PickOutcome::WentAway));
}
