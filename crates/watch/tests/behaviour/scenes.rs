//! The rules of reports and silence, one row each.
//!
//! A row is a script and what must be noticed. Each step of a script is a time since the start and
//! what happens then to the one device `dev0`. In between the watch is woken exactly when it asks
//! for it.

use std::time::Duration;

use base::time::millis;
use base::{Timestamp, Value, WayIn, duration};
use records::{
    AttendedReadings, Batch, Connection, DeviceSlot, DeviceState, EventKind, Op, Sign, SignReading,
};
use watch::{Noticed, SignOfLife, SilenceSettings, Watch, WatchProgress};

use crate::stored_devices::{self, StoredDevices};

const START: Timestamp = Timestamp(1_795_000_000_000);
const DEV: DeviceSlot = DeviceSlot(0);
const MQTT_AND_HTTP: [bool; 3] = [true, true, false];

fn settings() -> SilenceSettings {
    SilenceSettings {
        report_interval: Duration::from_secs(3_600),
        loss_grace: Duration::ZERO,
        restart_grace: Duration::ZERO,
        configured: MQTT_AND_HTTP,
    }
}

/// A watch on one device, woken when it asks for it.
struct Scene {
    settings: SilenceSettings,
    watch: Watch,
    stored: StoredDevices,
    now: Timestamp,
    log: Vec<String>,
}

impl Scene {
    fn new(settings: SilenceSettings) -> Self {
        let clocks = AttendedReadings::default();
        let watch = Watch::new(settings, clocks, START);
        let mut scene =
            Self { settings, watch, stored: StoredDevices::new(clocks), now: START, log: Vec::new() };
        scene.attend_all(true);
        scene.register();
        scene
    }

    fn attend_all(&mut self, attended: bool) {
        for way in WayIn::ALL.into_iter().filter(|way| self.settings.configured[way.index()]) {
            self.watch.attend(self.now, way, attended);
        }
    }

    fn register(&mut self) {
        let clocks = self.watch.readings_of_clocks(self.now);
        let profile = stored_devices::profile(DEV.0, None, clocks);
        self.watch.register(&profile);
        self.stored.put_device(&profile, clocks);
    }

    /// Runs a script such as `0s mqtt 1 | 1h30m http alive`, and gives what was noticed.
    fn run(&mut self, script: &str) -> String {
        for step in script.split('|').map(str::trim) {
            let (at, what) = step.split_once(' ').expect("a time and what happens");
            let at = START.after(duration::parse(at).expect("a time since the start"));
            let what = what.trim();
            if what != "awake" {
                self.pass_until(at);
            }
            self.now = at;
            self.step(what);
        }
        std::mem::take(&mut self.log).join(" | ")
    }

    /// Time passes, as the engine lets it pass.
    fn pass_until(&mut self, until: Timestamp) {
        while let Some(at) = self.watch.next_wakeup(self.now).filter(|at| *at <= until) {
            assert!(at > self.now, "woken at {at} for nothing");
            self.now = at;
            self.wake();
        }
    }

    fn wake(&mut self) {
        let (mut batch, mut noticed) = (stored_devices::batch(), Vec::new());
        assert_eq!(self.watch.advance(self.now, 1_000, &mut batch, &mut noticed), WatchProgress::Done);
        self.commit(&batch, &noticed);
    }

    fn step(&mut self, what: &str) {
        let way = |name: &str| WayIn::ALL.into_iter().find(|way| way.as_str() == name).expect("a way in");
        let words: Vec<_> = what.split_whitespace().collect();
        match words[..] {
            ["end"] => {}
            ["awake"] => self.wake(),
            ["restart"] => self.restart(),
            ["forget"] => {
                self.watch.forget(DEV);
                assert_eq!(self.watch.state(DEV), None);
            }
            ["interval", text] => {
                let interval = duration::parse(text).expect("an interval");
                self.watch.set_interval(DEV, Some(millis(interval).unsigned_abs()));
                self.wake();
            }
            [name, "down"] => self.watch.attend(self.now, way(name), false),
            [name, "up"] => self.watch.attend(self.now, way(name), true),
            [name, "alive"] => drop(self.sign(way(name), SignOfLife::Alive)),
            [name, value] => drop(self.sign(way(name), report(value, None))),
            [name, value, ts] => drop(self.sign(way(name), report(value, Some(ts)))),
            _ => panic!("what is {what:?}?"),
        }
    }

    fn sign(&mut self, way: WayIn, sign: SignOfLife) -> Vec<Op> {
        let (mut batch, mut noticed) = (stored_devices::batch(), Vec::new());
        self.watch.sign(self.now, DEV, way, sign, &mut batch, &mut noticed);
        self.commit(&batch, &noticed);
        batch.ops
    }

    /// As after a crash: what is kept is all there is.
    fn restart(&mut self) {
        self.watch = self.stored.restart(self.settings, self.now);
        self.attend_all(true);
    }

    fn commit(&mut self, batch: &Batch, noticed: &[Noticed]) {
        self.stored.apply(batch, self.now, self.watch.readings_of_clocks(self.now));
        let now = duration::format(self.now.since(START));
        self.log.extend(noticed.iter().map(|noticed| line(&now, noticed)));
    }
}

fn line(at: &str, noticed: &Noticed) -> String {
    let kind = noticed.kind.as_str().trim_start_matches("device.");
    let shown = |value: &Option<Value>| value.as_ref().map_or("none".to_owned(), Value::to_json);
    let (value, previous) = (shown(&noticed.value), shown(&noticed.previous));
    match noticed.kind {
        EventKind::Changed => format!("{at} {kind} {} {previous}>{value}", noticed.sequence),
        EventKind::Lost | EventKind::Restored => {
            assert_eq!(value, previous, "{kind} changes no value");
            format!("{at} {kind} {} {value}", noticed.sequence)
        }
    }
}

fn value(text: &str) -> Value {
    text.parse().ok().and_then(Value::number).unwrap_or_else(|| Value::from_canonical(text))
}

fn report(text: &str, ts: Option<&str>) -> SignOfLife {
    let ts = ts.map(|ts| START.after(duration::parse(ts.trim_start_matches("ts=")).expect("a ts")));
    SignOfLife::Report { value: value(text), ts }
}

fn check_with(settings: SilenceSettings, script: &str, expect: &str) {
    assert_eq!(Scene::new(settings).run(script), expect, "{script}");
}

fn check(script: &str, expect: &str) {
    check_with(settings(), script, expect);
}

#[test]
fn a_change_is_noticed_once_and_the_first_report_is_one() {
    check("1s mqtt 0 | 2s mqtt 0", "1s changed 1 none>0");
    check(
        "1s mqtt 0 | 2s mqtt 1 | 3s http 1 | 4s http 0",
        "1s changed 1 none>0 | 2s changed 2 0>1 | 4s changed 3 1>0",
    );
    check(
        "1s mqtt {\"a\":1} | 2s mqtt {\"a\":1} | 3s mqtt null",
        "1s changed 1 none>{\"a\":1} | 3s changed 2 {\"a\":1}>null",
    );
}

#[test]
fn silence_is_noticed_at_its_deadline_and_told_once() {
    check("0s mqtt 0 | 9h end", "0s changed 1 none>0 | 1h lost 2 0");
    check("0s mqtt 0 | 50m mqtt 0 | 1h49m59s mqtt 0 | 2h49m58s end", "0s changed 1 none>0");
    check("0s mqtt 0 | 50m mqtt 0 | 9h end", "0s changed 1 none>0 | 1h50m lost 2 0");
    let grace = SilenceSettings { loss_grace: Duration::from_secs(90), ..settings() };
    check_with(grace, "0s mqtt 0 | 9h end", "0s changed 1 none>0 | 1h1m30s lost 2 0");
}

#[test]
fn a_loss_is_noticed_within_a_tick_and_never_early() {
    check("7ms mqtt 0 | 9h end", "7ms changed 1 none>0 | 1h100ms lost 2 0");
    let short = SilenceSettings { report_interval: Duration::from_secs(1), ..settings() };
    check_with(short, "50ms mqtt 0 | 9h end", "50ms changed 1 none>0 | 1s100ms lost 2 0");
}

#[test]
fn a_sign_that_comes_before_the_loss_is_noticed_is_in_time() {
    check("7ms mqtt 0 | 1h50ms mqtt 0 | 2h end", "7ms changed 1 none>0");
}

#[test]
fn any_sign_restores_and_a_heartbeat_changes_nothing() {
    check("0s mqtt 0 | 2h mqtt alive | 2h1s end", "0s changed 1 none>0 | 1h lost 2 0 | 2h restored 3 0");
    check("0s mqtt 0 | 2h mqtt 0", "0s changed 1 none>0 | 1h lost 2 0 | 2h restored 3 0");
    check(
        "0s mqtt 0 | 2h mqtt 1 | 4h end",
        "0s changed 1 none>0 | 1h lost 2 0 | 2h restored 3 0 | 2h changed 4 0>1 | 3h lost 5 1",
    );
    check("0s mqtt 0 ts=9s | 2h mqtt 1 ts=5s", "0s changed 1 none>0 | 1h lost 2 0 | 2h restored 3 0");
    check("0s mqtt 0 | 50m mqtt alive | 1h49m end", "0s changed 1 none>0");
}

#[test]
fn a_device_never_seen_is_missed_from_its_registration_on() {
    check("9h end", "1h lost 1 none");
    check("10m mqtt alive | 20m mqtt 1 | 30m end", "20m changed 1 none>1");
    check("2h mqtt alive | 2h1m mqtt 0", "1h lost 1 none | 2h restored 2 none | 2h1m changed 3 none>0");
    check("2h mqtt 0", "1h lost 1 none | 2h restored 2 none | 2h changed 3 none>0");
}

#[test]
fn a_late_report_goes_to_history_only() {
    check("10s mqtt 0 ts=10s | 11s mqtt 1 ts=9s | 12s mqtt 0", "10s changed 1 none>0");
    check("10s mqtt 0 ts=10s | 11s mqtt 1 ts=10s", "10s changed 1 none>0 | 11s changed 2 0>1");
    check(
        "10s mqtt 0 ts=10s | 20s mqtt 1 | 21s mqtt 0 ts=11s",
        "10s changed 1 none>0 | 20s changed 2 0>1 | 21s changed 3 1>0",
    );
    check("10s mqtt 0 | 11s mqtt 1 ts=1s", "10s changed 1 none>0 | 11s changed 2 0>1");
    check("10s mqtt 0 ts=10s | 11s mqtt 0 ts=20s | 12s mqtt 1 ts=15s", "10s changed 1 none>0");
    check("10s mqtt 0 ts=10s | 11s mqtt 0 ts=20s | 12s restart | 13s mqtt 1 ts=15s", "10s changed 1 none>0");
    check("10s mqtt 0 ts=10s | 50m mqtt 1 ts=9s | 1h49m end", "10s changed 1 none>0");
}

#[test]
fn time_in_which_its_way_is_down_does_not_count_against_a_device() {
    check("0s mqtt 0 | 10m mqtt down | 5h mqtt up | 9h end", "0s changed 1 none>0 | 5h50m lost 2 0");
    check("0s mqtt 0 | 10m http down | 9h end", "0s changed 1 none>0 | 1h lost 2 0");
    check("0s mqtt 0 | 10m http 0 | 20m mqtt down | 9h end", "0s changed 1 none>0 | 1h10m lost 2 0");
    check("0s mqtt 0 | 10m mqtt down | 20m http 0 | 9h end", "0s changed 1 none>0 | 1h20m lost 2 0");
}

#[test]
fn a_device_never_seen_waits_while_any_configured_way_is_down() {
    check("10m http down | 2h http up | 9h end", "2h50m lost 1 none");
    check("10m http down | 20m mqtt down | 2h http up | 3h mqtt up | 9h end", "3h50m lost 1 none");
    check("10m amqp down | 9h end", "1h lost 1 none");
    let nothing_configured = SilenceSettings { configured: [false; 3], ..settings() };
    check_with(nothing_configured, "9h end", "");
}

#[test]
fn a_device_of_a_way_that_is_no_longer_configured_waits_for_all_that_are() {
    let mut scene = Scene::new(settings());
    scene.run("0s http 0");
    scene.settings.configured = [true, false, false];
    assert_eq!(scene.run("10m restart | 20m mqtt down | 30m mqtt up | 9h end"), "1h20m lost 2 0");
}

#[test]
fn a_restart_waits_for_its_grace_and_goes_on_where_it_was() {
    let graced = SilenceSettings { restart_grace: Duration::from_secs(120), ..settings() };
    check_with(graced, "9h end", "1h2m lost 1 none");
    check_with(graced, "0s mqtt 0 | 9h end", "0s changed 1 none>0 | 1h2m lost 2 0");
    check_with(
        graced,
        "0s mqtt 0 | 10m mqtt 0 | 12m restart | 9h end",
        "0s changed 1 none>0 | 1h14m lost 2 0",
    );
    check_with(
        graced,
        "0s mqtt 0 | 1h3m restart | 1h4m mqtt alive | 1h5m restart | 9h end",
        "0s changed 1 none>0 | 1h2m lost 2 0 | 1h4m restored 3 0 | 2h7m lost 4 0",
    );
    check_with(graced, "0s mqtt 0 | 1h3m restart | 9h end", "0s changed 1 none>0 | 1h2m lost 2 0");
}

#[test]
fn a_silence_that_passed_before_a_crash_is_told_when_the_clock_runs() {
    let graced = SilenceSettings { restart_grace: Duration::from_secs(120), ..settings() };
    let mut scene = Scene::new(graced);
    scene.run("3m mqtt 0 | 1h2m59s end");
    // The clocks of a later batch are kept, but the crash came before the loss was noticed.
    scene.stored.clocks = scene.watch.readings_of_clocks(scene.now.after(Duration::from_secs(4)));
    assert_eq!(scene.run("1h2m59s restart | 9h end"), "1h4m59s lost 2 0");
}

#[test]
fn a_machine_that_slept_loses_nobody_by_it() {
    check("0s mqtt 0 | 10m end | 8h awake | 9h end", "0s changed 1 none>0 | 8h49m55s lost 2 0");
    check("0s mqtt 0 | 59m58s end | 8h awake | 9h end", "0s changed 1 none>0 | 8h lost 2 0");
    check("0s mqtt 0 | 10m end | 10m5s awake | 9h end", "0s changed 1 none>0 | 1h lost 2 0");
}

#[test]
fn another_interval_counts_from_the_latest_sign() {
    check("0s mqtt 0 | 10m interval 20m | 9h end", "0s changed 1 none>0 | 20m lost 2 0");
    check("0s mqtt 0 | 10m interval 5m | 9h end", "0s changed 1 none>0 | 10m lost 2 0");
    check("0s mqtt 0 | 10m interval 2h | 9h end", "0s changed 1 none>0 | 2h lost 2 0");
    check(
        "0s mqtt 0 | 2h interval 6h | 5h mqtt 0 | 6h end",
        "0s changed 1 none>0 | 1h lost 2 0 | 5h restored 3 0",
    );
}

#[test]
fn a_device_that_is_gone_is_not_missed() {
    check("0s mqtt 0 | 10m forget | 9h end", "0s changed 1 none>0");
}

#[test]
fn an_equal_report_is_one_sign_and_nothing_else() {
    let mut scene = Scene::new(settings());
    let sign = |readings, reading| {
        Op::Sign(Sign { slot: DEV, way: WayIn::Mqtt, readings, newest_ts: None, reading })
    };
    let reading = |changed| Some(SignReading { ts: None, value: value("1"), changed });
    let state = |connection, seen: Option<&str>, sequence| {
        let changed_at = seen.map(|_| START);
        Op::PutState(DEV, DeviceState { value: seen.map(value), changed_at, connection, sequence })
    };
    let online = |seen, sequence| state(Connection::Online, seen, sequence);
    assert_eq!(scene.sign(WayIn::Mqtt, SignOfLife::Alive), [sign(0, None), online(None, 0)]);
    assert_eq!(scene.sign(WayIn::Mqtt, report("1", None)), [sign(1, reading(true)), online(Some("1"), 1)]);
    assert_eq!(scene.sign(WayIn::Mqtt, report("1", None)), [sign(2, reading(false))]);
    assert_eq!(scene.sign(WayIn::Mqtt, SignOfLife::Alive), [sign(2, None)]);
}

#[test]
fn a_newer_ts_is_kept_although_the_value_is_the_same() {
    let mut scene = Scene::new(settings());
    scene.sign(WayIn::Mqtt, report("1", Some("1s")));
    let ops = scene.sign(WayIn::Mqtt, report("1", Some("2s")));
    assert_eq!(ops.len(), 1);
    assert_eq!(
        scene.stored.seen(DEV).and_then(|seen| seen.newest_ts),
        Some(START.after(Duration::from_secs(2)))
    );
    assert_eq!(scene.sign(WayIn::Mqtt, report("1", Some("2s"))).len(), 1);
    assert_eq!(scene.sign(WayIn::Mqtt, report("0", Some("1s"))).len(), 1);
}

#[test]
fn a_value_has_the_time_of_the_reading_that_changed_it() {
    for (script, expect) in [
        ("10s mqtt 0 | 20s mqtt 0", "10s"),
        ("10s mqtt 0 ts=3s | 20s mqtt 0 ts=4s", "3s"),
        ("10s mqtt 0 ts=3s | 20s mqtt 1 ts=4s", "4s"),
        ("10s mqtt 0 ts=3s | 20s mqtt 1", "20s"),
        ("10s mqtt 0 ts=3s | 20s mqtt 1 ts=2s", "3s"),
    ] {
        let mut scene = Scene::new(settings());
        scene.run(script);
        let changed_at = scene.watch.state(DEV).and_then(|state| state.changed_at);
        assert_eq!(
            changed_at.map(|at| duration::format(at.since(START))).as_deref(),
            Some(expect),
            "{script}"
        );
    }
}

#[test]
fn the_latest_sign_is_the_time_of_its_receipt() {
    let mut scene = Scene::new(settings());
    assert_eq!(scene.watch.last_seen(DEV), None);
    scene.run("10s mqtt 0 ts=3s | 20s http alive");
    assert_eq!(scene.watch.last_seen(DEV), Some(START.after(Duration::from_secs(20))));
    assert_eq!(scene.watch.seen(DEV), scene.stored.seen(DEV));
}

#[test]
fn no_wakeup_is_asked_for_while_nobody_waits() {
    let mut scene = Scene::new(settings());
    assert_eq!(scene.watch.next_wakeup(START), Some(START.after(watch::PULSE)));
    scene.attend_all(false);
    assert_eq!(scene.watch.next_wakeup(START), None);
    scene.attend_all(true);
    assert_eq!(scene.run("2h end"), "1h lost 1 none");
    assert_eq!(scene.watch.next_wakeup(scene.now), None);
}

#[test]
fn partitions_that_began_at_different_times_wake_together() {
    let mut scene = Scene::new(settings());
    scene.run("1300ms end");
    assert_eq!(scene.watch.next_wakeup(scene.now), Some(START.after(watch::PULSE)));
}

#[test]
fn the_end_of_the_restart_grace_is_waited_for_without_pulses() {
    let scene = Scene::new(SilenceSettings { restart_grace: Duration::from_secs(120), ..settings() });
    assert_eq!(scene.watch.next_wakeup(START), Some(START.after(Duration::from_secs(122))));
}

#[test]
fn silence_is_noticed_in_steps_of_the_limit() {
    let mut scene = Scene::new(SilenceSettings { report_interval: Duration::from_secs(1), ..settings() });
    scene.watch.forget(DEV);
    for slot in 1..=1_000 {
        scene.watch.register(&stored_devices::profile(slot, None, AttendedReadings::default()));
    }
    let (mut batch, mut noticed) = (stored_devices::batch(), Vec::new());
    let at = START.after(Duration::from_secs(1));
    for round in 1..=10 {
        let progress = scene.watch.advance(at, 100, &mut batch, &mut noticed);
        assert_eq!(progress, if round < 10 { WatchProgress::More } else { WatchProgress::Done });
        assert_eq!((batch.ops.len(), noticed.len()), (round * 100, round * 100));
    }
    let mut slots: Vec<_> = noticed.iter().map(|noticed| noticed.slot.0).collect();
    slots.sort_unstable();
    assert!(slots.into_iter().eq(1..=1_000));
}
