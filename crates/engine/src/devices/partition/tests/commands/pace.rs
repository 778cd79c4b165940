//! Devices that say themselves how commands go to them.

use fleet::{DevicePatch, ImportDevice, NewDevice, PaceChange, Patch};

use super::*;

const GAP: Duration = Duration::from_secs(2);

fn window(window: u64) -> PaceChange {
    PaceChange { in_flight: Patch::Set(window), ..PaceChange::default() }
}

fn gap(gap: Duration) -> PaceChange {
    PaceChange { gap: Patch::Set(gap), ..PaceChange::default() }
}

impl Bench {
    fn pace(&mut self, commands: Patch<PaceChange>) {
        self.rig.patch(DEVICE, DevicePatch { commands, ..DevicePatch::default() });
    }

    fn import_pace(&mut self, commands: Option<PaceChange>) {
        let device = NewDevice { id: DEVICE.to_owned(), commands, ..NewDevice::default() };
        self.rig.import(ImportDevice { device, ..ImportDevice::default() }).expect("imported");
    }

    fn send_many(&mut self, count: usize) -> Vec<EntityId> {
        (0..count).map(|_| self.send(plain())).collect()
    }
}

#[test]
fn a_wider_window_lets_out_at_once_what_waits_and_a_narrower_one_takes_nothing_back() {
    let mut bench = Bench::new();
    bench.connect(1);
    let ids = bench.send_many(5);
    assert_eq!(bench.carried(), ids[..1]);
    bench.pace(Patch::Set(window(3)));
    assert_eq!(bench.carried(), ids[1..3]);
    bench.pace(Patch::Clear);
    bench.rig.say(DEVICE, answer(ids[0], true));
    bench.rig.say(DEVICE, answer(ids[1], true));
    assert!(bench.carried().is_empty(), "one is still unanswered");
    bench.rig.say(DEVICE, answer(ids[2], true));
    assert_eq!(bench.carried(), ids[3..4]);
}

#[test]
fn a_gap_begins_with_what_is_unanswered_and_goes_at_once_when_it_is_cleared() {
    let mut bench = Bench::new();
    bench.connect(1);
    let ids = bench.send_many(3);
    bench.pace(Patch::Set(gap(GAP)));
    bench.carried();
    bench.rig.say(DEVICE, answer(ids[0], true));
    assert!(bench.carried().is_empty(), "the gap since the first one");
    bench.rig.pass(GAP);
    assert_eq!(bench.carried(), ids[1..2]);
    bench.rig.say(DEVICE, answer(ids[1], true));
    assert!(bench.carried().is_empty());
    bench.pace(Patch::Clear);
    assert_eq!(bench.carried(), ids[2..]);
}

#[test]
fn a_pace_survives_the_process_and_goes_with_its_device() {
    let mut bench = Bench::new();
    bench.pace(Patch::Set(PaceChange { gap: Patch::Set(GAP), ..window(2) }));
    let ids = bench.send_many(2);
    bench.rig.restart();
    bench.connect(1);
    assert_eq!(bench.carried(), ids[..1]);
    bench.rig.pass(GAP);
    assert_eq!(bench.carried(), ids[1..], "it is not answered, and the window has room");
    bench.rig.delete(DEVICE).expect("deleted");
    bench.rig.create(DEVICE).expect("registered anew");
    let ids = bench.send_many(2);
    assert_eq!(bench.carried(), ids[..1]);
    bench.rig.pass(GAP);
    assert!(bench.carried().is_empty(), "the settings hold for it");
}

#[test]
fn a_line_of_an_import_names_the_whole_pace_or_leaves_it() {
    let mut bench = Bench::new();
    bench.connect(1);
    bench.import_pace(Some(PaceChange { gap: Patch::Set(GAP), ..window(2) }));
    bench.import_pace(None);
    let ids = bench.send_many(4);
    assert_eq!(bench.carried(), ids[..1], "the gap holds");
    bench.import_pace(Some(window(3)));
    assert_eq!(bench.carried(), ids[1..3], "it has no gap any more");
}

#[test]
fn a_device_that_polled_has_its_own_window_again_once_a_wildcard_reaches_it() {
    let mut bench = Bench::new();
    bench.pace(Patch::Set(window(3)));
    let (reply, mut polled) = Reply::new();
    bench.rig.step(vec![CommandInput::Poll { device: device(), number: Some(1), reply }.into()]);
    let everybody = Reach::from(KindSet::Any);
    bench.presence(PresenceChange::ReachesWidely(1, Arc::from([everybody])));
    let ids = bench.send_many(4);
    let given = polled.try_recv().expect("answered").expect("known").expect("a command");
    assert_eq!(given.id, ids[0]);
    assert_eq!(bench.carried(), ids[..3]);
}
