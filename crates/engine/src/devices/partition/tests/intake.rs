//! What a report does beside its value: repeats, refusals that are kept, and counts.

use records::{CountedOf, CountsKey, EventKind, HourlyCounts, Metric};

use super::rig::{Rig, number, status};
use super::*;
use crate::devices::intake::ReportId;

fn value(n: u32) -> ReportContent {
    ReportContent::Value { value: number(n), ts: None }
}

#[test]
fn a_repeat_of_one_of_the_last_eight_ids_has_no_effect() {
    let mut rig = Rig::linked();
    let id = |n: u64| Some(ReportId(n));
    rig.say_with_id("0xA", value(1), id(1));
    rig.say_with_id("0xA", value(0), id(2));
    rig.restart();
    rig.attend();
    rig.say_with_id("0xA", value(1), id(1));
    assert_eq!(rig.events().len(), 2, "a repeat, also after a restart");
    (3..=9).for_each(|n| drop(rig.say_with_id("0xA", value(0), id(n))));
    rig.say_with_id("0xA", value(1), id(1));
    assert_eq!(rig.events().len(), 3, "the ninth back is forgotten");
    assert_eq!(rig.counted(CountedOf::All, Metric::Reports), 10);
}

#[test]
fn a_repeat_is_a_sign_of_life() {
    let mut rig = Rig::linked();
    rig.say_with_id("0xA", value(1), Some(ReportId(1)));
    rig.pass_slowly(HOUR / 2);
    rig.say_with_id("0xA", value(1), Some(ReportId(1)));
    rig.pass_slowly(HOUR / 2 + SECOND);
    assert_eq!(rig.connection("0xA"), Connection::Online);
}

#[test]
fn what_is_refused_is_kept_until_it_is_discarded() {
    let mut rig = Rig::linked();
    rig.quarantine(&[b"one", b"two"]);
    let kept = rig.quarantined();
    assert_eq!(kept.iter().map(|report| &*report.payload).collect::<Vec<_>>(), [b"one", b"two"]);
    rig.discard(kept[0].id).expect("there");
    assert_eq!(rig.discard(kept[0].id).expect_err("gone").code, "unknown_quarantined");
    let another = base::EntityId { tag: kept[1].id.tag ^ 1, ..kept[1].id };
    assert_eq!(rig.discard(another).expect_err("another id").code, "unknown_quarantined");
    assert_eq!(rig.quarantined().len(), 1);
}

#[test]
fn the_oldest_refused_reports_go_when_there_are_too_many_or_they_are_too_old() {
    let mut rig = Rig::linked();
    let large = vec![0; 60_000];
    let payloads: Vec<&[u8]> = (0..20).map(|_| &*large).collect();
    rig.quarantine(&payloads);
    assert_eq!(rig.quarantined().len(), 16, "a million bytes");
    rig.restart();
    rig.quarantine(&[b"newest"]);
    assert_eq!(rig.quarantined().len(), 17);
    rig.pass(30 * 24 * HOUR - SECOND);
    assert_eq!(rig.quarantined().len(), 17);
    rig.pass(SECOND);
    assert_eq!(rig.quarantined().len(), 0);
}

#[test]
fn what_happens_is_counted_for_all_for_the_client_and_for_the_label() {
    let mut rig = Rig::linked();
    rig.label("0xA", "site", "1");
    let site = CountedOf::Label(base::hash::label_hash("site", "1"));
    let acme = CountedOf::Client(rig.client());
    rig.report("0xA", number(1));
    rig.report("0xA", number(1));
    rig.attempt(status(200));
    rig.restart();
    rig.attend();
    rig.report("0xA", number(0));
    for of in [CountedOf::All, site, acme] {
        let counted = [Metric::Reports, Metric::Changes, Metric::Losses, Metric::Deliveries]
            .map(|metric| rig.counted(of, metric));
        assert_eq!(counted, [3, 2, 0, 2], "{of:?}");
    }
    rig.label("0xA", "site", "2");
    rig.link("0xA", false).expect("unlinked");
    rig.report("0xA", number(1));
    assert_eq!((rig.counted(CountedOf::All, Metric::Reports), rig.counted(site, Metric::Reports)), (4, 3));
    assert_eq!(rig.counted(acme, Metric::Changes), 2);
}

#[test]
fn a_report_is_counted_in_the_hour_of_its_ts() {
    let mut rig = Rig::linked();
    let long_ago = rig.now().before(30 * HOUR);
    rig.say("0xA", ReportContent::Value { value: number(1), ts: Some(long_ago) });
    let (day, hour) = CountsKey::day_and_hour(long_ago);
    let mut expect = HourlyCounts::default();
    expect.add(hour, 1);
    assert_eq!(rig.counts(CountsKey { day, of: CountedOf::All, metric: Metric::Reports }), Some(expect));
}

#[test]
fn history_is_kept_for_its_days() {
    let (mut rig, due) = Rig::with_attempt();
    rig.ended(&due, status(200));
    rig.pass(89 * 24 * HOUR);
    assert_eq!((rig.deliveries().len(), rig.events().len()), (1, 1));
    rig.pass(3 * 24 * HOUR);
    assert_eq!((rig.deliveries().len(), rig.events().len()), (0, 1));
    rig.pass(400 * 24 * HOUR);
    assert_eq!(rig.events().len(), 0);
}

#[test]
fn whoever_is_silent_is_noticed_also_while_every_step_is_full() {
    let mut rig = Rig::linked();
    rig.create_kind("m", "meter");
    rig.report("0xA", number(1));
    rig.pass_slowly(HOUR - SECOND);
    rig.stand_still(2 * SECOND);
    let long = |n: u32| Value::from_canonical(&format!("\"{n:04000}\""));
    let contents = (0..600).map(|n| ReportContent::Value { value: long(n), ts: None }).collect();
    assert!(rig.say_many("m", contents).len() > 3, "it takes some steps");
    let events = rig.events();
    let lost = events.iter().position(|kind| *kind == EventKind::Lost).expect("it fell silent");
    assert!(lost < events.len() / 2, "it was noticed last, as event {lost} of {}", events.len());
}
