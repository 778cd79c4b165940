//! Campaigns: slots on the clock, exact, once each.

use records::{CampaignPace, MissedSlots, PickOutcome};

use super::*;
use crate::campaigns::input::{CampaignCall, PresentCampaign};
use crate::campaigns::{CampaignPatch, NewCampaign, TrackedCampaign};
use crate::{ObjectVersion, OnlyIf};

const MINUTE: Duration = Duration::from_secs(60);

pub(super) fn new(pace: CampaignPace, count: u32) -> NewCampaign {
    NewCampaign {
        request: 1,
        id: None,
        name: None,
        terms: NewPickTerms::new(Arc::from(&b"{}"[..]), count),
        pace,
        phase: Some(Duration::ZERO),
        from: None,
        until: None,
        missed: MissedSlots::Skip,
        is_panel: false,
    }
}

fn every_minute(count: u32) -> NewCampaign {
    new(CampaignPace::Every(60_000), count)
}

impl Bench {
    fn campaign(&mut self, new: NewCampaign) -> TrackedCampaign {
        let (id, present) = (Box::from("probe"), PresentCampaign::IsReplaced(OnlyIf::default()));
        let new = Box::new(new);
        let input = |reply| CampaignsInput::Campaign(CampaignCall::Create { id, new, present, reply });
        self.ask(input).expect("made").0
    }

    fn patch(&mut self, patch: CampaignPatch) -> Answered<Box<TrackedCampaign>> {
        let (id, patch) = (Box::from("probe"), Box::new(patch));
        self.ask(|reply| CampaignsInput::Campaign(CampaignCall::Patch { id, patch, reply }))
    }

    fn set_paused(&mut self, is_paused: bool) {
        self.set_paused_if(is_paused, OnlyIf::default()).expect("known");
    }

    fn set_paused_if(&mut self, is_paused: bool, only_if: OnlyIf) -> Answered<()> {
        let id = Box::from("probe");
        let call = |reply| CampaignCall::SetPaused { id, is_paused, only_if, reply };
        self.ask(|reply| CampaignsInput::Campaign(call(reply)))
    }

    fn put_if(&mut self, new: NewCampaign, only_if: OnlyIf) -> Result<TrackedCampaign, &'static str> {
        let (id, new, present) = (Box::from("probe"), Box::new(new), PresentCampaign::IsReplaced(only_if));
        let input = |reply| CampaignsInput::Campaign(CampaignCall::Create { id, new, present, reply });
        self.ask(input).map(|begun| begun.0).map_err(|problem| problem.code)
    }

    /// The slots of a campaign with their states, the oldest first.
    pub(super) fn slots(&self, campaign: &TrackedCampaign) -> Vec<(TaskRecord, TaskState)> {
        let view = self.store.view(PartitionId::CAMPAIGNS).expect("readable");
        let (from, until) = (Timestamp(0), Timestamp::MAX);
        let found = view.slots(campaign.campaign.incarnation, (from, until), None, usize::MAX);
        let mut slots = found.expect("readable");
        slots.reverse();
        slots
    }

    /// Time passes, and every device does at once what it is asked.
    fn pass_answering(&mut self, span: Duration) {
        let until = self.now.after(span);
        while self.now < until {
            self.pass(Duration::from_secs(1));
            self.carry(|_| Act::Does);
        }
    }
}

#[test]
fn every_slot_picks_its_count_once_when_it_is_due() {
    let mut bench = Bench::of(30);
    let campaign = bench.campaign(every_minute(7));
    bench.pass_answering(5 * MINUTE);
    let slots = bench.slots(&campaign);
    let due: Vec<_> = slots.iter().filter_map(|(task, _)| Some(task.slot?.due_at)).collect();
    let expect: Vec<_> = (1..=5).map(|minute| NOW.after(minute * MINUTE)).collect();
    assert_eq!(due, expect);
    assert!(slots.iter().all(|(task, state)| task.wanted == 7 && state.counts.answered == 7));
    let picks = bench.picks();
    assert_eq!(picks.values().sum::<usize>(), 35);
    assert!(picks.values().all(|picks| (1..=2).contains(picks)), "{picks:?}");
}

#[test]
fn a_total_is_spread_over_sixty_slots_exactly() {
    let mut bench = Bench::of(500);
    let campaign = bench.campaign(new(CampaignPace::Over(600_000), 100));
    bench.pass_answering(10 * MINUTE);
    bench.pass_answering(Duration::from_millis(1));
    let in_period = |slot: &&(TaskRecord, TaskState)| {
        slot.0.slot.is_some_and(|slot| slot.due_at >= NOW.after(10 * MINUTE))
    };
    bench.pass_answering(10 * MINUTE);
    let slots = bench.slots(&campaign);
    let period: Vec<_> = slots.iter().filter(in_period).take(60).collect();
    assert_eq!(period.iter().map(|(_, state)| state.counts.picked).sum::<u32>(), 100);
    assert!(period.iter().all(|(task, _)| (1..=2).contains(&task.wanted)));
}

#[test]
fn missed_slots_are_skipped_and_shown_or_the_newest_one_is_done_late() {
    for (missed, expect) in
        [(MissedSlots::Skip, [true, true, true]), (MissedSlots::CatchUp, [true, true, false])]
    {
        let mut bench = Bench::of(30);
        let campaign = bench.campaign(NewCampaign { missed, ..new(CampaignPace::Every(300_000), 5) });
        // The server is down for three slots, and for two minutes more.
        bench.now = NOW.after(17 * MINUTE);
        bench.fleet.set([]);
        bench.load();
        bench.settle(Vec::new());
        let skipped: Vec<_> = bench.slots(&campaign).iter().map(|(_, state)| state.was_skipped).collect();
        assert_eq!(skipped, expect, "{missed:?}");
        bench.fleet.set(0..30);
        bench.tell(PickUpdate::Came((0..30).map(place).collect()));
        bench.carry(|_| Act::Does);
        let answered: u32 = bench.slots(&campaign).iter().map(|(_, state)| state.counts.answered).sum();
        assert_eq!(answered, if missed == MissedSlots::CatchUp { 5 } else { 0 }, "as they connect");
        bench.load();
        bench.settle(Vec::new());
        assert_eq!(bench.slots(&campaign).len(), 3, "no slot is repeated");
    }
}

#[test]
fn a_slot_that_was_due_while_the_machine_was_loaded_again_was_not_missed() {
    for (is_another_process, expect) in [(false, (false, 5)), (true, (true, 0))] {
        let mut bench = Bench::of(30);
        let campaign = bench.campaign(new(CampaignPace::Every(300_000), 5));
        bench.now = NOW.after(5 * MINUTE + Duration::from_secs(10));
        if is_another_process {
            bench.load();
        } else {
            bench.load_again();
        }
        bench.settle(Vec::new());
        let slots = bench.slots(&campaign);
        let states: Vec<_> =
            slots.iter().map(|(_, state)| (state.was_skipped, state.counts.picked)).collect();
        assert_eq!(states, [expect]);
    }
}

#[test]
fn a_crash_between_the_plan_of_a_slot_and_its_picks_neither_repeats_nor_forgets_it() {
    let mut bench = Bench::of(30);
    let campaign = bench.campaign(every_minute(5));
    bench.searches = Some(Vec::new());
    bench.pass(MINUTE);
    assert_eq!(bench.slots(&campaign).len(), 1, "it is planned");
    assert_eq!(bench.slots(&campaign)[0].1.counts.picked, 0, "and picks nobody before that is durable");
    bench.searches = None;
    bench.load();
    bench.settle(Vec::new());
    bench.carry(|_| Act::Does);
    let slots = bench.slots(&campaign);
    assert_eq!(slots.len(), 1);
    assert_eq!((slots[0].1.counts.picked, slots[0].1.counts.answered), (5, 5));
}

#[test]
fn a_pause_passes_slots_over_and_a_change_holds_from_the_next_slot_on() {
    let mut bench = Bench::of(30);
    let campaign = bench.campaign(every_minute(5));
    bench.pass_answering(MINUTE);
    bench.set_paused(true);
    bench.pass_answering(3 * MINUTE);
    bench.set_paused(false);
    assert_eq!(bench.slots(&campaign).len(), 1, "slots of a pause are not told of");
    let patch = CampaignPatch { count: Some(2), ..CampaignPatch::default() };
    assert_eq!(bench.patch(patch).expect("changed").terms.count, 2);
    bench.pass_answering(MINUTE);
    let wanted: Vec<_> = bench.slots(&campaign).iter().map(|(task, _)| task.wanted).collect();
    assert_eq!(wanted, [5, 2]);
}

#[test]
fn slots_that_were_due_before_a_pause_or_a_change_are_begun_as_they_were() {
    let mut bench = Bench::of(30);
    let campaign = bench.campaign(every_minute(5));
    let late = |bench: &mut Bench| bench.now = bench.now.after(MINUTE);
    late(&mut bench);
    bench.set_paused(true);
    bench.pass_answering(MINUTE);
    bench.set_paused(false);
    late(&mut bench);
    let patch =
        CampaignPatch { pace: Some(CampaignPace::Every(90_000)), count: Some(2), ..Default::default() };
    bench.patch(patch).expect("changed");
    let wanted: Vec<_> = bench.slots(&campaign).iter().map(|(task, _)| task.wanted).collect();
    assert_eq!(wanted, [5, 5]);
}

#[test]
fn slots_that_were_begun_stay_so_over_two_changes_of_the_pace_and_of_the_wall_clock() {
    let mut bench = Bench::of(30);
    let campaign = bench.campaign(every_minute(5));
    bench.pass_answering(5 * MINUTE);
    let pace = |pace| CampaignPatch { pace: Some(pace), ..CampaignPatch::default() };
    bench.patch(pace(CampaignPace::Every(3_600_000))).expect("changed");
    bench.set_back = 3 * MINUTE;
    for is_loaded_again in [false, true] {
        if is_loaded_again {
            bench.load();
        }
        bench.patch(pace(CampaignPace::Every(60_000))).expect("changed");
        bench.pass_answering(MINUTE);
        assert_eq!(bench.slots(&campaign).len(), 5, "the wall clock is not there yet");
        bench.patch(pace(CampaignPace::Every(3_600_000))).expect("changed");
    }
}

#[test]
fn slots_of_a_token_that_is_gone_are_listed_and_pick_nobody() {
    let mut settings = EngineSettings::for_tests();
    settings.campaigns.token_picks_per_hour.insert("ops".into(), None);
    let mut bench = Bench::with(30, settings);
    let mut of_gone = every_minute(5);
    of_gone.terms.token = Some("gone".into());
    let campaign = bench.campaign(of_gone);
    bench.pass_answering(MINUTE);
    bench.patch(CampaignPatch { token: Some("ops".into()), ..CampaignPatch::default() }).expect("changed");
    bench.pass_answering(MINUTE);
    let picked: Vec<_> = bench.slots(&campaign).iter().map(|(_, state)| state.counts.picked).collect();
    assert_eq!(picked, [0, 5], "whoever changes a campaign answers for it from then on");
}

#[test]
fn a_change_is_refused_if_another_one_came_since_it_was_checked() {
    let mut bench = Bench::of(30);
    let checked = Some(bench.campaign(every_minute(5)).terms.incarnation);
    let patch = |count| CampaignPatch { count: Some(count), checked, ..CampaignPatch::default() };
    assert_eq!(bench.patch(patch(50)).expect("as checked").terms.count, 50);
    assert_eq!(bench.patch(patch(60)).map_err(|problem| problem.code), Err("changed_meanwhile"));
}

#[test]
fn only_the_version_that_was_read_is_changed_and_removed() {
    let mut bench = Bench::of(30);
    let read = bench.campaign(every_minute(5));
    let version = ObjectVersion::of_campaign(&read);
    let patch = |count, versions: &[ObjectVersion]| CampaignPatch {
        count: Some(count),
        only_if: OnlyIf::one_of(versions.to_vec()),
        ..CampaignPatch::default()
    };
    bench.pass_answering(MINUTE);
    let changed = bench.patch(patch(50, &[version])).expect("its slots are no change of it");
    let newer = ObjectVersion::of_campaign(&changed);
    assert_eq!(
        bench.patch(patch(60, &[version])).map_err(|problem| problem.code),
        Err("precondition_failed")
    );
    bench.set_paused(true);
    let stale = bench.patch(patch(60, &[version, newer])).map_err(|problem| problem.code);
    assert_eq!(stale, Err("precondition_failed"), "a pause is a change");
    bench.set_paused(false);
    assert_eq!(bench.patch(patch(60, &[version, newer])).expect("as it was read").terms.count, 60);
    let delete = |bench: &mut Bench, only_if| {
        let id = Box::from("probe");
        bench.ask(|reply| CampaignsInput::Campaign(CampaignCall::Delete { id, only_if, reply }))
    };
    let refused = delete(&mut bench, OnlyIf::one_of(vec![newer])).map_err(|problem| problem.code);
    assert_eq!(refused, Err("precondition_failed"));
    delete(&mut bench, OnlyIf::default()).expect("any version");
}

#[test]
fn only_the_version_that_was_read_is_replaced_paused_and_resumed() {
    let mut bench = Bench::of(30);
    let refused = Err("precondition_failed");
    for nothing in [OnlyIf::present(), OnlyIf::one_of(vec![ObjectVersion(1)])] {
        assert_eq!(bench.put_if(every_minute(5), nothing), refused, "it is not made");
    }
    let of = |campaign: &TrackedCampaign| OnlyIf::one_of(vec![ObjectVersion::of_campaign(campaign)]);
    let made = bench.put_if(every_minute(5), OnlyIf::default()).expect("made");
    let replaced = bench.put_if(every_minute(6), of(&made)).expect("as it was read");
    assert_eq!(bench.put_if(every_minute(7), of(&made)), refused);
    for is_paused in [true, false] {
        let set = bench.set_paused_if(is_paused, of(&made)).map_err(|problem| problem.code);
        assert_eq!(set, Err("precondition_failed"));
    }
    bench.set_paused_if(true, of(&replaced)).expect("as it was read");
    assert_eq!(bench.put_if(every_minute(7), of(&replaced)), refused, "a pause is a change");
}

#[test]
fn a_repeat_is_the_campaign_only_for_the_token_that_made_it_and_until_it_is_changed() {
    let mut bench = Bench::of(30);
    bench.campaign(every_minute(5));
    let repeat = |bench: &mut Bench, token: Option<&str>| {
        let (id, mut new) = (Box::from("probe"), Box::new(every_minute(5)));
        new.terms.token = token.map(Box::from);
        let present = PresentCampaign::IsTheSame;
        let input = |reply| CampaignsInput::Campaign(CampaignCall::Create { id, new, present, reply });
        bench.ask(input).map(|_| ()).map_err(|problem| problem.code)
    };
    assert_eq!(repeat(&mut bench, None), Ok(()));
    assert_eq!(repeat(&mut bench, Some("other")), Err("exists"));
    bench.patch(CampaignPatch::default()).expect("changed");
    assert_eq!(repeat(&mut bench, None), Err("exists"));
}

#[test]
fn a_panel_keeps_its_devices_and_replaces_only_who_is_gone() {
    let mut bench = Bench::of(30);
    let campaign = bench.campaign(NewCampaign { is_panel: true, ..every_minute(4) });
    let devices_of = |bench: &Bench, slot: usize| -> BTreeSet<_> {
        let slots = bench.slots(&campaign);
        bench.stored(slots[slot].0.incarnation).2.iter().map(|pick| pick.place.slot.0).collect()
    };
    bench.pass_answering(2 * MINUTE);
    let panel = devices_of(&bench, 0);
    assert_eq!(devices_of(&bench, 1), panel);
    bench.load();
    bench.settle(Vec::new());
    let gone = *panel.first().expect("four devices");
    bench.fleet.set((0..30).filter(|slot| *slot != gone));
    bench.pass_answering(MINUTE);
    let after = devices_of(&bench, 2);
    assert_eq!((after.len(), after.intersection(&panel).count()), (4, 3));
}

#[test]
fn a_restart_does_not_scatter_a_panel() {
    let mut bench = Bench::of(30);
    let caught_up = NewCampaign { missed: MissedSlots::CatchUp, ..every_minute(4) };
    let campaign = bench.campaign(NewCampaign { is_panel: true, ..caught_up });
    let latest = |bench: &Bench| -> BTreeSet<_> {
        let slots = bench.slots(&campaign);
        let (task, _) = slots.last().expect("a slot began");
        bench.stored(task.incarnation).2.iter().map(|pick| pick.place.slot.0).collect()
    };
    bench.pass_answering(2 * MINUTE);
    let panel = latest(&bench);
    assert_eq!(panel.len(), 4);
    // The next slot is due when others than the panel are back.
    bench.now = bench.now.after(MINUTE);
    bench.fleet.set((0..30).filter(|slot| !panel.contains(slot)));
    bench.load();
    bench.settle(Vec::new());
    bench.tell(PickUpdate::Came((0..30).filter(|slot| !panel.contains(slot)).map(place).collect()));
    assert_eq!(latest(&bench), [].into());
    bench.fleet.set(0..30);
    bench.tell(PickUpdate::Came(panel.iter().copied().map(place).collect()));
    assert_eq!(latest(&bench), panel);
}

#[test]
fn a_removed_campaign_begins_no_slot_and_what_did_not_go_out_is_taken_back() {
    let mut bench = Bench::of(30);
    let campaign = bench.campaign(every_minute(3));
    bench.pass(MINUTE);
    bench.carry(|_| Act::IsBusy);
    let id = Box::from("probe");
    bench
        .ask(|reply| CampaignsInput::Campaign(CampaignCall::Delete { id, only_if: OnlyIf::default(), reply }))
        .expect("known");
    assert!(bench.orders.iter().all(|order| order.what == OrderKind::TakeBack));
    assert_eq!(bench.orders.len(), 3);
    bench.carry(|_| Act::IsBusy);
    bench.pass(10 * MINUTE);
    let slots = bench.slots(&campaign);
    assert_eq!(slots.len(), 1);
    let picks = bench.stored(slots[0].0.incarnation).2;
    let outcomes: Vec<_> = picks.iter().filter_map(|pick| Some(pick.end.as_ref()?.outcome)).collect();
    assert_eq!(outcomes, [PickOutcome::Cancelled; 3]);
    bench.load();
    assert_eq!(bench.machine().campaigns.next_due(), None);
}

#[test]
fn an_id_is_taken_once_but_by_put() {
    let mut bench = Bench::of(1);
    let made = bench.campaign(every_minute(3));
    let id = || Box::from("probe");
    let new = |request| Box::new(NewCampaign { request, ..every_minute(3) });
    for (request, present, expect) in [
        (1, PresentCampaign::Refuses, Err("exists")),
        (1, PresentCampaign::IsTheSame, Ok(false)),
        (2, PresentCampaign::IsTheSame, Err("exists")),
        (2, PresentCampaign::IsReplaced(OnlyIf::default()), Ok(false)),
    ] {
        let present_now = present.clone();
        let call = |reply| CampaignCall::Create { id: id(), new: new(request), present: present_now, reply };
        let answer = bench.ask(|reply| CampaignsInput::Campaign(call(reply)));
        let answer = answer.map(|begun| begun.1).map_err(|problem| problem.code);
        assert_eq!(answer, expect, "{request} {present:?}");
    }
    let tracked = bench.campaign(every_minute(3));
    assert_eq!(tracked.campaign.incarnation, made.campaign.incarnation);
}

#[test]
fn campaigns_with_very_many_slots_a_minute_are_refused() {
    let mut bench = Bench::of(1);
    let put = |bench: &mut Bench, id: &str, pace| {
        let (id, new) = (Box::from(id), Box::new(new(pace, 1)));
        let present = PresentCampaign::IsReplaced(OnlyIf::default());
        let input = |reply| CampaignsInput::Campaign(CampaignCall::Create { id, new, present, reply });
        bench.ask(input).map(|begun| begun.1).map_err(|problem| problem.code)
    };
    let second = CampaignPace::Every(1_000);
    for number in 0..100 {
        assert_eq!(put(&mut bench, &format!("c{number}"), second), Ok(true));
    }
    assert_eq!(put(&mut bench, "hourly", CampaignPace::Every(3_600_000)), Err("too_many_campaigns"));
    assert_eq!(put(&mut bench, "c0", second), Ok(false), "one may stay as it is");
    assert_eq!(put(&mut bench, "c0", CampaignPace::Every(2_000)), Ok(false));
    assert_eq!(put(&mut bench, "hourly", CampaignPace::Every(3_600_000)), Ok(true));
    assert_eq!(put(&mut bench, "c0", second), Err("too_many_campaigns"));
}
