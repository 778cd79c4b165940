//! Runs operations against the rules and the model and compares all there is.

use std::sync::Arc;
use std::time::Duration;

use base::{DeviceId, EntityId, Timestamp};
use commands::{AdvanceResult, CommandLanes, CommandStore, How, LaneChange, Moved, PublishPace};
use records::{Command, CommandCause, CommandKey, CommandState, CommandTerms, DeviceSlot, OutcomeReceiver};

use crate::naive::{Come, Happened, Known, Naive};
use crate::operation::{Operation, Send};
use crate::store::Stored;

/// For how long commands that have ended are kept, in milliseconds.
const KEEP: i64 = 60;

pub(crate) struct World {
    rules: CommandLanes,
    model: Naive,
    now: i64,
    /// Every command that was ever given, the first a fiction.
    keys: Vec<CommandKey>,
    slots: Vec<DeviceSlot>,
    paces: Vec<(u32, u64)>,
    next_slot: u32,
    pub(crate) stored: Stored,
    pub(crate) moved: Vec<Moved>,
}

impl World {
    /// Devices with these windows and gaps, the latter in milliseconds.
    pub(crate) fn new(paces: Vec<(u32, u64)>) -> Self {
        let (stored, now) = (Stored::default(), 1_000);
        let mut world = Self {
            rules: load(&stored),
            model: Naive::new(now, KEEP),
            now,
            keys: vec![CommandKey { at: Timestamp(1), number: 1 }],
            slots: Vec::new(),
            next_slot: 0,
            stored,
            moved: Vec::new(),
            paces,
        };
        for device in 0..world.paces.len() {
            let slot = world.new_slot(device);
            world.slots.push(slot);
        }
        world
    }

    pub(crate) fn run(&mut self, steps: &[Operation]) {
        for step in steps {
            self.apply(step);
            self.check(step);
        }
    }

    pub(crate) fn apply(&mut self, step: &Operation) {
        self.moved.clear();
        match *step {
            Operation::Send(ref new) => self.send(new),
            Operation::Open { device } => self.open(device),
            Operation::Close { device } => self.close(device),
            Operation::ForgetIdle { device } => self.forget_idle(device),
            Operation::SetPace { device, pace } => self.set_pace(device, pace),
            Operation::Poll { device } => self.poll(device),
            Operation::Answer { picked, foreign, ok, result } => self.answer(picked, foreign, ok, result),
            Operation::Progress { picked, foreign, progress } => self.progress(picked, foreign, progress),
            Operation::Cancel { picked } => {
                let (now, (_, key)) = (Timestamp(self.now), self.picked(picked, false));
                let done = self.rules.cancel(now, key, &mut self.stored, &mut self.moved);
                assert_eq!(ok(done), self.model.cancel(key));
            }
            Operation::Retry { picked } => {
                let (now, (_, key)) = (Timestamp(self.now), self.picked(picked, false));
                let done = self.rules.retry(now, key, &mut self.stored, &mut self.moved);
                assert_eq!(ok(done), self.model.retry(key));
            }
            Operation::Replace { device } => self.replace(device),
            Operation::Pass { time } => self.pass(time),
            Operation::Skip { time } => self.set_time(self.now + time),
            Operation::Advance { max } => {
                // Beside a flood of those whose time has come, lanes go on before all of them did;
                // the model knows no such order.
                self.advance(max.max(2 * self.stored.count_due(Timestamp(self.now))));
                self.model.advance();
            }
            Operation::ToggleRoom => {
                self.stored.is_full = !self.stored.is_full;
                self.model.is_full = self.stored.is_full;
            }
            Operation::Restart => {
                self.rules = load(&self.stored);
                self.model.restart();
            }
        }
    }

    fn open(&mut self, device: usize) {
        let (now, slot, pace) = (Timestamp(self.now), self.slots[device], pace(self.paces[device]));
        ok(self.rules.change(now, slot, LaneChange::Open(pace), &mut self.stored, &mut self.moved));
        self.model.open(slot);
        assert!(self.rules.is_open(slot));
    }

    fn close(&mut self, device: usize) {
        let slot = self.slots[device];
        self.rules.close(slot);
        self.model.close(slot);
        assert!(!self.rules.is_open(slot));
    }

    fn set_pace(&mut self, device: usize, paced: (u32, u64)) {
        self.paces[device] = paced;
        let (now, slot) = (Timestamp(self.now), self.slots[device]);
        let change = LaneChange::SetPace(pace(paced));
        ok(self.rules.change(now, slot, change, &mut self.stored, &mut self.moved));
        self.model.set_pace(slot, paced);
    }

    fn forget_idle(&mut self, device: usize) {
        let slot = self.slots[device];
        let is_idle = self.rules.forget_idle(slot);
        assert_eq!(is_idle, self.model.forget_idle(slot));
        assert!(!(is_idle && self.rules.is_open(slot)));
    }

    fn poll(&mut self, device: usize) {
        let (now, slot, pace) = (Timestamp(self.now), self.slots[device], pace(self.paces[device]));
        let given = ok(self.rules.poll(now, slot, pace, &mut self.stored, &mut self.moved));
        assert_eq!(given.map(|command| command.id.into()), self.model.poll(slot));
    }

    fn answer(&mut self, picked: usize, foreign: bool, is_ok: bool, result: Option<u8>) {
        let (now, (slot, key)) = (Timestamp(self.now), self.picked(picked, foreign));
        let text = result.map(|result| result.to_string());
        let said = text.clone().map(String::into_boxed_str);
        let outcome = self.rules.answer(now, slot, key, is_ok, said, &mut self.stored, &mut self.moved);
        assert_eq!(ok(outcome), self.model.answer(slot, key, is_ok, text));
    }

    fn progress(&mut self, picked: usize, foreign: bool, progress: u8) {
        let (now, (slot, key)) = (Timestamp(self.now), self.picked(picked, foreign));
        let text = progress.to_string();
        let said = text.clone().into_boxed_str();
        let outcome = self.rules.progress(now, slot, key, said, &mut self.stored, &mut self.moved);
        assert_eq!(ok(outcome), self.model.progress(slot, key, text));
    }

    fn send(&mut self, new: &Send) {
        let slot = self.slots[new.device];
        let number = self.keys.len() as u32;
        // Stamps may be ahead of the clock, and never go back.
        let ahead = self.now + i64::from(number % 3);
        let at = self.keys.last().map_or(ahead, |last| ahead.max(last.at.0));
        let id = EntityId { routing: 7, at: Timestamp(at), number, tag: 7 };
        let not_before = new.not_before.map(|time| self.now + time);
        let command = Command {
            id,
            slot,
            device: DeviceId::new("0xA").expect("an id"),
            payload: Arc::from(vec![b'1'; new.payload_bytes]),
            origin: None,
            key: new.key.map(|key| key.to_string().into()),
            terms: CommandTerms {
                priority: new.priority,
                not_before: not_before.map(Timestamp),
                ttl_ms: new.ttl,
                ack_timeout_ms: new.ack_timeout,
                run_timeout_ms: new.run_timeout,
                attempts_max: new.attempts_max,
            },
            cause: CommandCause::Call,
            notify: new
                .is_told
                .then(|| Box::new(OutcomeReceiver::Queue { namespace: "a".into(), queue: "b".into() })),
        };
        self.keys.push(id.into());
        ok(self.rules.send(Timestamp(self.now), Arc::new(command), &mut self.stored, &mut self.moved));
        self.model.send(Known {
            key: id.into(),
            slot,
            priority: new.priority,
            not_before,
            ttl: new.ttl,
            ack_timeout: new.ack_timeout,
            run_timeout: new.run_timeout,
            attempts_max: new.attempts_max,
            name: new.key,
            is_told: new.is_told,
            come: Come::GIVEN,
            answered: false,
            again: false,
        });
    }

    fn replace(&mut self, device: usize) {
        let slot = self.slots[device];
        self.rules.forget(slot);
        self.stored.sweep(slot);
        self.model.remove_device(slot);
        self.slots[device] = self.new_slot(device);
    }

    fn new_slot(&mut self, device: usize) -> DeviceSlot {
        let slot = DeviceSlot(self.next_slot);
        self.next_slot += 1;
        self.model.add_device(slot, self.paces[device]);
        slot
    }

    /// The model looks at every millisecond, the rules only when they said that they want to.
    fn pass(&mut self, time: i64) {
        for _ in 0..time {
            self.set_time(self.now + 1);
            if self.next_wakeup().is_some_and(|at| at.0 <= self.now) {
                self.advance(1_000);
            }
            self.model.advance();
        }
    }

    pub(crate) fn next_wakeup(&self) -> Option<Timestamp> {
        self.rules.next_wakeup(|| self.stored.has_room_again())
    }

    fn set_time(&mut self, now: i64) {
        (self.now, self.model.now) = (now, now);
    }

    pub(crate) fn advance(&mut self, max: usize) {
        for _ in 0..10_000 {
            let before = self.moved.len();
            let now = Timestamp(self.now);
            let progress = ok(self.rules.advance(now, max, &mut self.stored, &mut self.moved));
            assert!(self.moved.len() - before <= max, "no more than asked for");
            if progress == AdvanceResult::Done {
                return;
            }
        }
        panic!("time comes to an end");
    }

    fn check(&mut self, step: &Operation) {
        let mut moved: Vec<_> = self.moved.iter().map(happened).collect();
        let mut expect = std::mem::take(&mut self.model.happened);
        // Among devices there is no order.
        moved.sort_by_key(|(slot, ..)| *slot);
        expect.sort_by_key(|(slot, ..)| *slot);
        assert_eq!(moved, expect, "the same happens in the same order");
        self.stored.check_places();
        let states: Vec<_> = self.stored.states.iter().map(|(key, state)| (*key, come(state))).collect();
        let mut expect: Vec<_> =
            self.model.commands.iter().map(|known| (known.key, known.come.clone())).collect();
        expect.sort_by_key(|(key, _)| *key);
        assert_eq!(states, expect, "the store holds what the model holds");
        if matches!(step, Operation::Pass { .. } | Operation::Advance { .. }) {
            self.check_next_wakeup();
        }
    }

    /// Asked when time has moved on.
    fn check_next_wakeup(&mut self) {
        let (next, expect) = (self.next_wakeup().map(|at| at.0), self.model.next_wakeup());
        let was_left_behind = next.is_some_and(|next| {
            let end = Timestamp(next - KEEP);
            let is_past = self.stored.past_dues.contains(&Timestamp(next))
                || self.stored.past_ends.contains(&end)
                || self.model.looks_in_vain.contains(&next);
            is_past && expect.is_none_or(|expect| next < expect)
        });
        assert!(next == expect || was_left_behind, "{next:?} in place of {expect:?}");
        assert!(next.is_none_or(|next| next > self.now), "what is due was done");
    }

    /// Mostly one of the latest commands, sometimes any; mostly with its device.
    fn picked(&self, picked: usize, foreign: bool) -> (DeviceSlot, CommandKey) {
        let within = if picked.is_multiple_of(4) { self.keys.len() } else { self.keys.len().min(8) };
        let key = self.keys[self.keys.len() - 1 - picked / 4 % within];
        let of = self.stored.command(key).expect("reading is safe").map(|command| command.slot);
        let other = self.slots[picked % self.slots.len()];
        (of.filter(|_| !foreign).unwrap_or(other), key)
    }
}

fn load(stored: &Stored) -> CommandLanes {
    let keep = Duration::from_millis(KEEP as u64);
    ok(CommandLanes::load(keep, stored.unanswered().into_iter().map(Ok), stored))
}

fn pace((in_flight, gap): (u32, u64)) -> PublishPace {
    PublishPace { in_flight, gap: Duration::from_millis(gap) }
}

fn ok<T>(result: Result<T, std::convert::Infallible>) -> T {
    match result {
        Ok(done) => done,
    }
}

fn happened(moved: &Moved) -> Happened {
    (moved.command.slot, moved.command.id.into(), come(&moved.state), word(moved.how))
}

fn come(state: &CommandState) -> Come {
    let ms = |at: Timestamp| at.0;
    let text = |text: &Option<Box<str>>| text.as_deref().map(str::to_owned);
    assert_eq!(state.progress.is_some(), state.progress_at.is_some());
    Come {
        status: state.status,
        held: state.is_held,
        expires_at: state.expires_at.map(ms),
        tries: state.tries,
        published_at: state.published_at.map(ms),
        finished_at: state.finished_at.map(ms),
        progress: text(&state.progress).zip(state.progress_at.map(ms)),
        result: text(&state.result),
        late: state.late.as_ref().map(|late| (late.ok, late.at.0, text(&late.result))),
    }
}

/// What the rules call a step of a command.
fn word(how: How) -> &'static str {
    match how {
        How::Scheduled => "scheduled",
        How::Ready => "ready",
        How::Published => "published",
        How::Progressed => "progressed",
        How::Ended => "ended",
        How::Late => "late",
    }
}
