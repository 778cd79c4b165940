//! Reports that are gathered for copies: what they are, that each is there once, and when they go.

use std::sync::Arc;
use std::time::Duration;

use base::{DeviceId, Incarnation};
use records::GatheredReports;

use super::rig::{PARTITION, Rig, number, slice};
use super::*;
use crate::devices::input::{DeviceInput, GatheredInput};
use crate::devices::intake::ReportId;
use crate::gathering::{CopyBacklog, Gathering, PartitionBacklog};
use crate::kernel::reply::Reply;
use crate::streams::{CopyKey, StreamName};

const ALL: Incarnation = Incarnation(71);
const DOORS: Incarnation = Incarnation(72);

fn gathering(gather: Incarnation, selector: Option<&str>) -> Gathering {
    let stream = StreamName::new("edge", "reports").expect("a name");
    let selection = selector.map(|text| fleet::Selection::parse(text).expect("a selection"));
    Gathering { gather, key: CopyKey { stream, copy: "dc1".into() }, selection }
}

impl Rig {
    fn gather_for(&self, copies: Vec<Gathering>) {
        self.context.devices.gatherings.set(copies);
    }

    fn rows(&self, gather: Incarnation) -> Vec<GatheredReports> {
        self.view().gathered_reports((gather, 0), usize::MAX).expect("reads")
    }

    /// The values that are gathered, and the number of the first.
    fn gathered(&self, gather: Incarnation) -> (u64, Vec<String>) {
        let rows = self.rows(gather);
        let values = rows.iter().flat_map(|row| &row.reports).map(|report| report.value.to_json());
        (rows.first().map_or(0, |row| row.first), values.collect())
    }

    fn taken(&mut self, gather: Incarnation, next: u64) {
        self.ask(|reply| DeviceInput::Gathered(GatheredInput::Taken { gather, next, reply }));
    }

    /// Registers a device and takes a report of it in one step.
    fn create_and_report(&mut self, device: NewDevice, value: Value) {
        let (_pending, report) =
            slice(&device.id, None, vec![ReportContent::Value { value, ts: None }], None);
        let device = Box::new(device.check(&self.settings.registry_rules()).expect("allowed"));
        let (reply, _answer) = Reply::new();
        self.step(vec![DeviceInput::CreateDevice { device, reply }, report]);
    }

    /// The data directory is given a number of its own.
    fn mark_directory(&mut self, mark: u64) {
        Arc::make_mut(&mut self.settings).directory_mark = Some(mark);
        self.reload();
    }
}

#[test]
fn without_a_copy_nothing_is_gathered() {
    let mut rig = Rig::linked();
    rig.report("0xA", number(1));
    assert_eq!(rig.gathered(ALL), (0, vec![]));
}

#[test]
fn accepted_reports_are_gathered_in_order_with_their_times_and_without_repeats() {
    let mut rig = Rig::linked();
    rig.gather_for(vec![gathering(ALL, None)]);
    let content = |value, ts| ReportContent::Value { value: number(value), ts };
    rig.say_with_id("0xA", content(1, None), Some(ReportId(1)));
    rig.say_with_id("0xA", content(1, None), Some(ReportId(1)));
    rig.say("0xA", ReportContent::Alive);
    rig.say("0xA", content(7, None));
    rig.say("0xA", content(0, Some(Timestamp(5))));
    assert_eq!(rig.gathered(ALL), (1, vec!["1".to_owned(), "0".to_owned()]), "7 is nothing that a lock says");
    let times: Vec<_> = rig.rows(ALL).iter().map(|row| (row.received_at, row.reports[0].ts)).collect();
    assert_eq!(times, [(rig.now(), None), (rig.now(), Some(Timestamp(5)))]);
}

#[test]
fn a_copy_gets_what_its_selector_means() {
    let mut rig = Rig::linked();
    rig.create_kind("door", "door");
    rig.gather_for(vec![gathering(ALL, None), gathering(DOORS, Some("kind=door"))]);
    rig.report("0xA", number(1));
    rig.report("door", number(5));
    assert_eq!(rig.gathered(ALL).1, ["1", "5"]);
    assert_eq!(rig.gathered(DOORS), (1, vec!["5".to_owned()]), "each copy has numbers of its own");
}

#[test]
fn a_device_that_was_registered_just_now_has_its_labels() {
    let mut rig = Rig::linked();
    rig.gather_for(vec![gathering(DOORS, Some("site=12"))]);
    for (id, site) in [("a", "12"), ("b", "13")] {
        let labels = Some([("site".to_owned(), site.to_owned())].into());
        rig.create_and_report(NewDevice { id: id.into(), labels, ..NewDevice::default() }, number(1));
    }
    let devices: Vec<_> = rig.rows(DOORS)[0].reports.iter().map(|report| report.device.clone()).collect();
    assert_eq!(devices, [DeviceId::new("a").expect("an id")]);
}

#[test]
fn reports_of_a_copied_data_directory_have_another_name() {
    let mut rig = Rig::linked();
    rig.gather_for(vec![gathering(ALL, None)]);
    rig.report("0xA", number(1));
    rig.mark_directory(5);
    rig.attend();
    rig.report("0xA", number(0));
    let [before, after] = &rig.rows(ALL)[..] else { panic!("one of each") };
    assert_ne!(before.lineage, after.lineage);
    assert_eq!((before.first, after.first), (1, 2));
}

#[test]
fn what_a_stream_has_goes_and_its_numbers_do_not_come_again() {
    let mut rig = Rig::linked();
    rig.gather_for(vec![gathering(ALL, None)]);
    (0..3).for_each(|_| drop(rig.report("0xA", number(1))));
    rig.taken(ALL, 3);
    assert_eq!(rig.gathered(ALL), (3, vec!["1".to_owned()]));
    rig.taken(ALL, 4);
    rig.taken(ALL, 4);
    assert_eq!(rig.gathered(ALL), (4, vec![]), "one row without reports keeps the number");
    rig.restart();
    rig.attend();
    rig.report("0xA", number(0));
    assert_eq!(rig.gathered(ALL), (4, vec!["0".to_owned()]));
    assert_eq!(rig.rows(ALL).len(), 1);
}

#[test]
fn what_waits_is_known_after_a_start_and_goes_with_its_copy() {
    let mut rig = Rig::linked();
    rig.gather_for(vec![gathering(ALL, None)]);
    for _ in 0..3 {
        rig.report("0xA", number(1));
        rig.stand_still(Duration::from_secs(1));
    }
    let waits = |rig: &Rig| {
        let gatherings = &rig.context.devices.gatherings;
        (gatherings.counts().waiting, gatherings.waiting().into_values().collect::<Vec<_>>())
    };
    let waiting = waits(&rig);
    let of_all = |reports, oldest_at| CopyBacklog { gather: ALL, reports, oldest_at };
    let oldest_at = |rig: &Rig| rig.rows(ALL)[0].received_at;
    assert_eq!((waiting.0.reports, &waiting.1[..]), (3, &[of_all(3, oldest_at(&rig))][..]));
    // Only the start tells it.
    rig.context.devices.gatherings.set_backlog(PARTITION, PartitionBacklog::default(), 0);
    rig.restart();
    rig.attend();
    assert_eq!(waits(&rig), waiting);
    rig.taken(ALL, 3);
    assert_eq!(waits(&rig).1, [of_all(1, oldest_at(&rig))]);
    rig.gather_for(vec![]);
    assert!(!rig.ask(|reply| DeviceInput::Gathered(GatheredInput::Forget { reply })));
    assert_eq!(rig.rows(ALL), []);
    assert_eq!((waits(&rig).0.bytes, waits(&rig).1), (0, vec![]));
}

#[test]
fn a_large_step_is_gathered_in_rows_that_one_append_takes() {
    let mut rig = Rig::linked();
    rig.gather_for(vec![gathering(ALL, None)]);
    // Equal ones: a step takes them all.
    let contents = (0..1_200).map(|_| ReportContent::Value { value: number(1), ts: None }).collect();
    rig.say_many("0xA", contents);
    let rows: Vec<_> = rig.rows(ALL).iter().map(|row| (row.first, row.reports.len())).collect();
    assert_eq!(rows, [(1, 500), (501, 500), (1_001, 200)]);
}
