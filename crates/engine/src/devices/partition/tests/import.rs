//! Devices that are imported.

use super::rig::{Rig, number};
use super::*;
use crate::devices::input::ImportOutcome;

#[test]
fn a_line_makes_a_device_with_its_links_and_another_brings_it_up_to_date() {
    let mut rig = Rig::linked();
    let linked = |id| ImportDevice {
        device: NewDevice { id, ..NewDevice::default() },
        clients: Some(vec!["acme".to_owned()]),
        expect_from: None,
    };
    assert_eq!(rig.import(linked("0xC".to_owned())), Ok(ImportOutcome::Created));
    assert_eq!(rig.import(linked("0xC".to_owned())), Ok(ImportOutcome::Updated));
    rig.report("0xC", number(1));
    assert_eq!(rig.lease_all().len(), 1);
}

#[test]
fn a_client_that_a_line_does_not_name_is_told_nothing_more() {
    let mut rig = Rig::with_change();
    let device = NewDevice { id: "0xA".to_owned(), ..NewDevice::default() };
    let line = ImportDevice { device, clients: Some(Vec::new()), expect_from: None };
    assert_eq!(rig.import(line), Ok(ImportOutcome::Updated));
    rig.leases_nothing();
    assert_eq!(rig.deliveries(), [(DeliveryStatus::Cancelled, 0)]);
}

#[test]
fn a_device_is_missed_from_the_time_that_its_line_names() {
    let mut rig = Rig::linked();
    let half_an_hour_ago = Timestamp(rig.now().0 - HOUR.as_millis() as i64 / 2);
    let line = |expect_from| ImportDevice {
        device: NewDevice { id: "0xC".to_owned(), ..NewDevice::default() },
        clients: None,
        expect_from: Some(expect_from),
    };
    assert_eq!(rig.import(line(half_an_hour_ago)), Ok(ImportOutcome::Created));
    rig.pass_slowly(HOUR / 2 - SECOND);
    assert_eq!(rig.connection("0xC"), Connection::NeverSeen);
    let later = rig.now().after(HOUR);
    assert_eq!(rig.import(line(later)), Ok(ImportOutcome::Updated));
    rig.pass_slowly(2 * SECOND);
    assert_eq!(rig.connection("0xC"), Connection::NeverSeen, "an import may give it more time");
    rig.pass_slowly(2 * HOUR);
    assert_eq!(rig.connection("0xC"), Connection::Lost);
}
