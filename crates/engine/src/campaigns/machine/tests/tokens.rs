//! What one token may hold of what there is for all, also after another process.

use ::campaigns::token_use::share_of_token;
use records::{CampaignPace, OutcomeReceiver};

use super::super::campaigns::CAMPAIGNS_MAX;
use super::super::posts::POSTS_MAX;
use super::super::{OPEN_PICKS_MAX, RUNNING_MAX};
use super::*;
use crate::campaigns::input::{CampaignCall, PresentCampaign};
use crate::campaigns::{CampaignPatch, TrackedCampaign};

/// How something is refused.
type Refusal = (u16, &'static str);

impl Bench {
    /// A task of that token, or how it is refused.
    fn of_token(&mut self, token: &str, count: u32) -> Result<TrackedTask, Refusal> {
        let asked = self.new_task(count, |new| new.terms.token = Some(token.into()));
        asked.map_err(|problem| (problem.status, problem.code))
    }

    /// Another process, which goes on with what the one before had begun.
    fn begin_anew(&mut self) {
        self.load();
        self.settle(Vec::new());
    }

    /// A campaign of that token, begun or replaced, or how it is refused.
    fn campaign_of(&mut self, token: &str, id: &str, pace: CampaignPace) -> Result<TrackedCampaign, Refusal> {
        let mut new = super::campaigns::new(pace, 1);
        new.terms.token = Some(token.into());
        let (id, new) = (Box::from(id), Box::new(new));
        let present = PresentCampaign::IsReplaced(crate::OnlyIf::default());
        let input = |reply| CampaignsInput::Campaign(CampaignCall::Create { id, new, present, reply });
        self.ask(input).map(|begun| begun.0).map_err(|problem| (problem.status, problem.code))
    }
}

#[test]
fn one_token_has_a_quarter_of_the_tasks_that_may_go_on() {
    let mut bench = Bench::of(3);
    for _ in 0..share_of_token(RUNNING_MAX) {
        bench.of_token("lab", 1).expect("there is room");
    }
    let refused = Err((429, "too_many_tasks"));
    assert_eq!(bench.of_token("lab", 1).map(|_| ()), refused);
    bench.begin_anew();
    assert_eq!(bench.of_token("lab", 1).map(|_| ()), refused, "also after another process");
    let problem =
        bench.new_task(1, |new| new.terms.token = Some("lab".into())).expect_err("it has its share");
    assert!(problem.detail.contains("2500 of the 10000"), "{}", problem.detail);
    bench.of_token("ops", 1).expect("others find room");
    bench.new_task(1, |_| {}).expect("without tokens everybody is one");
    bench.carry(|_| Act::Does);
    bench.of_token("lab", 1).expect("its tasks have ended");
}

#[test]
fn one_token_has_a_quarter_of_the_picks_that_may_be_open() {
    let share = u32::try_from(share_of_token(OPEN_PICKS_MAX)).expect("a small number");
    let mut bench = Bench::of(share + 1);
    let refused = Err((429, "too_many_tasks"));
    assert_eq!(bench.of_token("lab", share + 1).map(|_| ()), refused);
    let first = bench.of_token("lab", share).expect("it is its share");
    assert_eq!(bench.of_token("lab", 1).map(|_| ()), refused);
    bench.begin_anew();
    assert_eq!(bench.of_token("lab", 1).map(|_| ()), refused, "also after another process");
    bench.of_token("ops", 1).expect("others find room");
    bench.carry(|order| if order.task == first.task.incarnation { Act::Does } else { Act::Gets });
    bench.of_token("lab", share).expect("its picks have ended");
}

#[test]
fn a_slot_of_a_token_that_has_its_share_is_skipped() {
    let mut bench = Bench::of(3);
    let minute = CampaignPace::Every(60_000);
    let made = bench.campaign_of("lab", "probe", minute).expect("made");
    for _ in 0..share_of_token(RUNNING_MAX) {
        bench.of_token("lab", 1).expect("there is room");
    }
    let skipped = |bench: &mut Bench| -> Vec<_> {
        bench.pass(Duration::from_secs(60));
        bench.slots(&made).iter().map(|(_, state)| state.was_skipped).collect()
    };
    assert_eq!(skipped(&mut bench), [true]);
    let (campaign, token) = (Some(Arc::from("probe")), Some(Box::from("lab")));
    assert_eq!(bench.warnings, [CampaignWarning::NoRoomForSlot { campaign, token }]);
    bench.campaign_of("ops", "probe", minute).expect("it is another's now");
    assert_eq!(skipped(&mut bench), [true, false]);
}

#[test]
fn one_token_has_a_quarter_of_the_campaigns_and_of_their_slots() {
    let mut bench = Bench::of(1);
    let (day, second) = (CampaignPace::Every(86_400_000), CampaignPace::Every(1_000));
    for number in 0..share_of_token(CAMPAIGNS_MAX) {
        bench.campaign_of("lab", &format!("c{number}"), day).expect("there is room");
    }
    let refused = Err((429, "too_many_campaigns"));
    assert_eq!(bench.campaign_of("lab", "more", day).map(|_| ()), refused);
    bench.campaign_of("ops", "more", day).expect("others find room");
    assert_eq!(bench.campaign_of("lab", "more", day).map(|_| ()), refused, "whoever changes it has it");
    bench.begin_anew();
    assert_eq!(bench.campaign_of("lab", "another", day).map(|_| ()), refused, "also after another process");
    let id = Box::from("c0");
    let patch = Box::new(CampaignPatch { token: Some("ops".into()), ..CampaignPatch::default() });
    let patched = |reply| CampaignsInput::Campaign(CampaignCall::Patch { id, patch, reply });
    bench.ask(patched).expect("changed");
    bench.campaign_of("lab", "another", day).expect("one of its own is another's now");
    let id = Box::from("c1");
    bench
        .ask(|reply| {
            CampaignsInput::Campaign(CampaignCall::Delete { id, only_if: crate::OnlyIf::default(), reply })
        })
        .expect("known");
    bench.campaign_of("lab", "one more", day).expect("one of its own is gone");
    for number in 0..25 {
        bench.campaign_of("fast", &format!("f{number}"), second).expect("1,500 slots a minute");
    }
    assert_eq!(bench.campaign_of("fast", "f25", second).map(|_| ()), refused);
    bench.campaign_of("fast", "f0", CampaignPace::Every(2_000)).expect("fewer than before");
    bench.campaign_of("ops", "f25", second).expect("others find room");
}

#[test]
fn picks_of_the_hour_count_also_after_another_process() {
    let mut settings = EngineSettings::for_tests();
    settings.campaigns.token_picks_per_hour.extend([("lab".into(), Some(5)), ("ops".into(), None)]);
    let mut bench = Bench::with(100, settings);
    bench.of_token("lab", 3).expect("its limit is 5");
    bench.of_token("ops", 3).expect("it has no limit");
    bench.carry(|_| Act::Does);
    bench.begin_anew();
    assert_eq!(bench.of_token("lab", 3).map(|_| ()), Err((429, "picks_exhausted")));
    bench.of_token("lab", 2).expect("that is left");
    bench.of_token("ops", 3).expect("it has no limit");
    bench.pass(Duration::from_secs(3_600));
    bench.begin_anew();
    bench.of_token("lab", 5).expect("another hour");
}

#[test]
fn when_too_many_ends_wait_the_token_that_has_most_loses_its_oldest() {
    let mut bench = Bench::of(1);
    let told = |bench: &mut Bench, token: &str| {
        let receiver = OutcomeReceiver::Queue { namespace: "ns".into(), queue: "q".into() };
        let asked = |new: &mut NewTask| {
            (new.terms.token, new.terms.receiver) = (Some(token.into()), Some(receiver));
        };
        let task = bench.new_task(1, asked).expect("there is room").task.incarnation;
        bench.carry(|_| Act::Does);
        task
    };
    let quiet = [told(&mut bench, "quiet"), told(&mut bench, "quiet")];
    let of_loud: Vec<_> = (2..POSTS_MAX).map(|_| told(&mut bench, "loud")).collect();
    bench.begin_anew();
    let waits = |bench: &Bench, task| bench.stored(task).1.post.is_some();
    assert!(waits(&bench, quiet[0]) && waits(&bench, of_loud[0]), "all of them fit");
    let newest = told(&mut bench, "quiet");
    assert!(!waits(&bench, of_loud[0]), "the oldest of whoever has most");
    assert!(waits(&bench, of_loud[1]));
    let (task, token) = (bench.stored(of_loud[0]).0.id, Some(Box::from("loud")));
    assert_eq!(bench.warnings, [CampaignWarning::EndGivenUp { task, token }]);
    assert!(quiet.into_iter().chain([newest]).all(|task| waits(&bench, task)));
}
