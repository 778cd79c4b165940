//! Who can be reached when labels change, and after a partition was loaded again.

use super::*;
use base::PartitionId;

fn site(value: &str) -> LoginDevices {
    LoginDevices::Label("site".into(), value.into())
}

impl Bench {
    /// What the edge tells reaches the table of sessions, and is lost on its way to the partition.
    fn tell_in_vain(&self, change: &PresenceChange) {
        self.rig.context.devices.note_presence(PartitionId(0), change);
    }

    fn is_shown_connected(&self) -> bool {
        let slot = self.rig.view().device(&device()).expect("readable").expect("there").slot;
        self.rig.context.devices.fleet.is_connected(PartitionId(0), slot)
    }

    /// The partition is loaded again, in the same process.
    fn reload(&mut self) {
        self.rig.reload();
        let context = &self.rig.context.devices;
        self.rig.partition.go_on_with_sessions(context);
        self.rig.step(Vec::new());
    }
}

#[test]
fn a_label_that_is_taken_away_closes_the_lane_of_a_login_that_had_it() {
    for is_wide in [false, true] {
        let mut bench = Bench::new();
        bench.rig.label(DEVICE, "site", "12");
        let reach = Reach { kind: KindSet::Any, login: site("12") };
        bench.presence(match is_wide {
            true => PresenceChange::ReachesWidely(1, Arc::from([reach])),
            false => PresenceChange::Reaches(device(), 1, Some(reach)),
        });
        let id = bench.send(plain());
        assert_eq!(bench.carried(), [id]);
        bench.rig.label(DEVICE, "site", "13");
        bench.rig.pass(10 * ACK_TIMEOUT);
        assert!(bench.carried().is_empty(), "the login speaks for it no longer");
        assert_eq!(bench.status(id), (CommandStatus::Published, 1), "no try is lost");
        bench.rig.label(DEVICE, "site", "12");
        assert_eq!(bench.carried(), [id]);
    }
}

/// The session of a login of site 12.
fn of_site(number: u64) -> Session {
    Session { label: Some(Arc::new(("site".into(), "12".into()))), ..session(number) }
}

#[test]
fn a_barred_session_is_told_of_once_also_after_its_partition_was_loaded_again() {
    for ends in [true, false] {
        let mut bench = Bench::new();
        bench.rig.label(DEVICE, "site", "12");
        let began = PresenceChange::Connected(device(), KindSet::Any, of_site(1), bench.rig.now());
        bench.tell_in_vain(&began);
        bench.presence(began);
        bench.rig.label(DEVICE, "site", "13");
        bench.rig.reload();
        // The partition has not looked at the sessions yet.
        bench.rig.partition.go_on_with_sessions(&bench.rig.context.devices);
        if ends {
            bench.presence(PresenceChange::Disconnected(device(), 1, DisconnectReason::KeepAlive));
        } else {
            bench.rig.label(DEVICE, "site", "14");
        }
        assert_eq!(bench.timeline(), ["linked true", "connected", "kicked"], "ends: {ends}");
    }
}

#[test]
fn each_session_that_comes_back_with_its_label_is_told_of() {
    let mut bench = Bench::new();
    bench.rig.label(DEVICE, "site", "12");
    let now = bench.rig.now();
    for session in [of_site(1), of_site(2), session(3)] {
        bench.presence(PresenceChange::Connected(device(), KindSet::Any, session, now));
    }
    bench.rig.label(DEVICE, "site", "13");
    assert!(bench.is_shown_connected(), "a login without a label still speaks for it");
    bench.rig.label(DEVICE, "site", "12");
    let told = bench.timeline();
    let began = told.iter().filter(|what| *what == "connected").count();
    let kicked = told.iter().filter(|what| *what == "kicked").count();
    assert_eq!((began, kicked), (5, 2), "{told:?}");
}

#[test]
fn a_session_is_the_devices_own_while_the_device_has_the_label_of_its_login() {
    let mut bench = Bench::new();
    bench.rig.label(DEVICE, "site", "12");
    let now = bench.rig.now();
    bench.presence(PresenceChange::Connected(device(), KindSet::Any, of_site(1), now));
    assert!(bench.is_shown_connected());
    bench.rig.label(DEVICE, "site", "13");
    assert!(!bench.is_shown_connected());
    bench.presence(PresenceChange::Connected(device(), KindSet::Any, of_site(2), now));
    assert!(!bench.is_shown_connected(), "the label was asked for before it changed");
    bench.tell_in_vain(&PresenceChange::Connected(device(), KindSet::Any, of_site(3), now));
    bench.reload();
    assert!(!bench.is_shown_connected(), "also once its partition was loaded again");
    assert_eq!(bench.timeline(), ["linked true", "connected", "kicked"]);
    bench.rig.label(DEVICE, "site", "12");
    assert!(bench.is_shown_connected());
    bench.presence(PresenceChange::Disconnected(device(), 3, DisconnectReason::KeepAlive));
    assert!(!bench.is_shown_connected());
    assert_eq!(bench.timeline(), ["linked true", "connected", "kicked", "connected", "keep_alive"]);
}

#[test]
fn a_session_that_named_the_topic_of_another_kind_is_not_the_devices_own() {
    let mut bench = Bench::new();
    let (face, now) = (base::Kind::new("face").expect("a kind"), bench.rig.now());
    bench.presence(PresenceChange::Connected(device(), KindSet::Only(face.clone()), session(1), now));
    assert!(!bench.is_shown_connected());
    bench.rig.label(DEVICE, "site", "12");
    bench.presence(PresenceChange::Disconnected(device(), 1, DisconnectReason::KeepAlive));
    assert_eq!(bench.timeline(), ["linked true"]);
    bench.presence(PresenceChange::Connected(device(), KindSet::Only(face.clone()), session(2), now));
    let both = KindSet::among([face.clone(), base::Kind::lock()]);
    bench.presence(PresenceChange::Connected(device(), both, session(2), now));
    assert!(bench.is_shown_connected(), "it named the topic of the device's kind too");
    // Of a device that is registered later, the kind is known then.
    let later = |id: &str| DeviceId::new(id).expect("an id");
    for id in ["lock1", "face1"] {
        bench.presence(PresenceChange::Connected(later(id), KindSet::Only(face.clone()), session(3), now));
    }
    bench.rig.create("lock1").expect("registered");
    bench.rig.create_kind("face1", "face");
    let is_connected = |id| bench.rig.partition.is_connected(&later(id));
    assert_eq!(["lock1", "face1"].map(is_connected), [false, true]);
}

#[test]
fn a_session_that_ended_while_its_partition_was_loaded_again_is_over() {
    let mut bench = Bench::new();
    bench.connect(1);
    assert!(bench.is_shown_connected());
    bench.tell_in_vain(&PresenceChange::Disconnected(device(), 1, DisconnectReason::KeepAlive));
    bench.reload();
    assert!(!bench.is_shown_connected());
    assert_eq!(bench.timeline(), ["linked true", "connected", "connection_lost"]);
    bench.connect(2);
    assert_eq!(bench.timeline().last().map(String::as_str), Some("connected"), "it ended once");
}

#[test]
fn a_session_that_began_while_its_partition_was_loaded_again_is_there_once() {
    let mut bench = Bench::new();
    let began = PresenceChange::Connected(device(), KindSet::Any, session(1), bench.rig.now());
    bench.tell_in_vain(&began);
    bench.reload();
    assert!(bench.is_shown_connected());
    bench.presence(began);
    assert_eq!(bench.timeline(), ["linked true", "connected"]);
}

#[test]
fn a_session_that_lives_on_is_not_told_of_again() {
    let mut bench = Bench::new();
    let began = PresenceChange::Connected(device(), KindSet::Any, session(1), bench.rig.now());
    bench.tell_in_vain(&began);
    bench.presence(began);
    bench.reload();
    assert!(bench.is_shown_connected());
    assert_eq!(bench.timeline(), ["linked true", "connected"]);
}

#[test]
fn a_step_opens_no_more_lanes_than_it_has_room_for() {
    let mut bench = Bench::new();
    let payload: Arc<[u8]> = Arc::from(vec![b'1'; 1 << 20]);
    for number in 0..40 {
        let id = format!("d{number}");
        bench.rig.create(&id).expect("registered");
        let device = DeviceId::new(&id).expect("an id");
        let command = Box::new(NewCommand { payload: Arc::clone(&payload), ..plain() });
        bench.rig.ask(|reply| CommandInput::Send { device, command, reply }.into()).expect("taken");
    }
    let (reply, _told) = Reply::new();
    let change = PresenceChange::ReachesWidely(1, Arc::from([Reach::from(KindSet::Any)]));
    let mut inputs = vec![CommandInput::Presence { change, reply }.into()];
    let mut carried = Vec::new();
    loop {
        let (_, more) = bench.rig.one_step(std::mem::take(&mut inputs));
        carried.push(bench.carried().len());
        if !more {
            break;
        }
    }
    assert_eq!(carried.iter().sum::<usize>(), 40);
    assert!(carried.iter().all(|of_step| *of_step < 10), "{carried:?}");
}
