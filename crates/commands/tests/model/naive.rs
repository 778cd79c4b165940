//! Commands as a list that is searched from end to end, at every millisecond.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use commands::{AnswerOutcome, CommandRefusal};
use records::{CommandKey, CommandStatus, DeviceSlot};

/// A command: what it was given, and how far it has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) key: CommandKey,
    pub(crate) slot: DeviceSlot,
    pub(crate) priority: i8,
    pub(crate) not_before: Option<i64>,
    pub(crate) ttl: Option<u64>,
    pub(crate) ack_timeout: u64,
    pub(crate) run_timeout: u64,
    pub(crate) attempts_max: u32,
    pub(crate) name: Option<u8>,
    /// Whether somebody is to be told how it ends.
    pub(crate) is_told: bool,
    pub(crate) come: Come,
    /// Whether its end was its device's answer.
    pub(crate) answered: bool,
    /// Whether it need not wait for its deadline to go out again.
    pub(crate) again: bool,
}

/// How far a command has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Come {
    pub(crate) status: CommandStatus,
    pub(crate) held: bool,
    pub(crate) expires_at: Option<i64>,
    pub(crate) tries: u32,
    pub(crate) published_at: Option<i64>,
    pub(crate) finished_at: Option<i64>,
    pub(crate) progress: Option<(String, i64)>,
    pub(crate) result: Option<String>,
    pub(crate) late: Option<(bool, i64, Option<String>)>,
}

impl Known {
    fn not_before_it_was_given(&self, now: i64) -> i64 {
        now.max(self.key.at.0)
    }
}

impl Come {
    pub(crate) const GIVEN: Self = Self {
        status: CommandStatus::Scheduled,
        held: false,
        expires_at: None,
        tries: 0,
        published_at: None,
        finished_at: None,
        progress: None,
        result: None,
        late: None,
    };
}

/// What happened to a command of a device, in order.
pub(crate) type Happened = (DeviceSlot, CommandKey, Come, &'static str);

/// A device.
#[derive(Clone, Copy, Debug, Default)]
struct Device {
    window: usize,
    gap: i64,
    open: bool,
    published_at: Option<i64>,
}

pub(crate) struct Naive {
    pub(crate) now: i64,
    pub(crate) keep: i64,
    /// There is no room for outcomes.
    pub(crate) is_full: bool,
    pub(crate) commands: Vec<Known>,
    pub(crate) happened: Vec<Happened>,
    devices: BTreeMap<DeviceSlot, Device>,
    /// When rows are found whose commands went with their device.
    leftovers: Vec<i64>,
    /// When commands are looked at that may not end: once each.
    pub(crate) looks_in_vain: Vec<i64>,
}

impl Naive {
    pub(crate) fn new(now: i64, keep: i64) -> Self {
        let (commands, happened, devices) = (Vec::new(), Vec::new(), BTreeMap::new());
        let (leftovers, looks_in_vain) = (Vec::new(), Vec::new());
        Self { now, keep, is_full: false, commands, happened, devices, leftovers, looks_in_vain }
    }

    pub(crate) fn add_device(&mut self, slot: DeviceSlot, (window, gap): (u32, u64)) {
        let device = Device { window: window as usize, gap: gap as i64, open: false, published_at: None };
        self.devices.insert(slot, device);
    }

    /// A publish whose gap is over counts for a new gap only while it is unanswered.
    pub(crate) fn set_pace(&mut self, slot: DeviceSlot, (window, gap): (u32, u64)) {
        if self.gap_end(slot) <= self.now {
            self.device(slot).published_at = None;
        }
        if self.device(slot).open {
            self.remember_publishes(slot);
        }
        let device = self.device(slot);
        (device.window, device.gap) = (window as usize, gap as i64);
        self.go_on(slot);
    }

    pub(crate) fn send(&mut self, mut new: Known) {
        for key in self.rivals(&new) {
            self.end(key, CommandStatus::Superseded);
        }
        let later = new.not_before.filter(|at| *at > self.now);
        new.come.held = later.is_some();
        new.come.expires_at = new.ttl.map(|ttl| later.unwrap_or(self.now) + ttl as i64);
        let (key, slot) = (new.key, new.slot);
        self.commands.push(new);
        self.tell(key, "scheduled");
        self.go_on(slot);
    }

    pub(crate) fn open(&mut self, slot: DeviceSlot) {
        if self.device(slot).open {
            return;
        }
        self.remember_publishes(slot);
        self.device(slot).open = true;
        for known in self.commands.iter_mut().filter(|known| known.slot == slot) {
            known.again = known.come.status == CommandStatus::Published;
        }
        self.go_on(slot);
    }

    pub(crate) fn close(&mut self, slot: DeviceSlot) {
        self.device(slot).open = false;
        for known in self.commands.iter_mut().filter(|known| known.slot == slot) {
            known.again = false;
        }
    }

    pub(crate) fn forget_idle(&mut self, slot: DeviceSlot) -> bool {
        let is_busy = match self.device(slot).open {
            true => self.first(slot, is_unanswered).or(self.first(slot, waits)).is_some(),
            false => self.first(slot, |known| is_unanswered(known) && is_last(known)).is_some(),
        };
        if !is_busy {
            self.close(slot);
        }
        !is_busy
    }

    pub(crate) fn poll(&mut self, slot: DeviceSlot) -> Option<CommandKey> {
        if !self.device(slot).open {
            self.remember_publishes(slot);
        }
        loop {
            let is_free = self.gap_end(slot) <= self.now;
            let next = self.first(slot, waits).filter(|_| is_free);
            let key = self.first(slot, is_unanswered).or(next)?;
            let known = self.get(key).clone();
            if self.is_blocked(&known) && is_unanswered(&known) {
                return None;
            } else if self.is_over(&known) {
                self.end_or_hold(key);
            } else if is_unanswered(&known) && deadline(&known) > self.now {
                return Some(key);
            } else if is_unanswered(&known) && is_last(&known) {
                self.end(key, CommandStatus::Failed);
            } else if !is_free {
                return None;
            } else {
                self.publish(key);
                return Some(key);
            }
        }
    }

    pub(crate) fn answer(
        &mut self,
        slot: DeviceSlot,
        key: CommandKey,
        ok: bool,
        result: Option<String>,
    ) -> AnswerOutcome {
        let now = self.now;
        let Some(known) = self.sent(slot, key) else { return AnswerOutcome::Unknown };
        if known.come.finished_at.is_some() {
            let is_ok = known.come.status == CommandStatus::Acknowledged;
            let said = |result: &Option<String>| result.clone().filter(|said| said != "null");
            let is_same = known.answered && is_ok == ok && said(&known.come.result) == said(&result);
            if is_same || known.come.late.is_some() {
                return AnswerOutcome::Repeated;
            }
            known.come.late = Some((ok, known.not_before_it_was_given(now), result));
            self.tell(key, "late");
            return AnswerOutcome::Late;
        }
        known.answered = true;
        known.come.result = if ok { result } else { Some(result.unwrap_or("null".to_owned())) };
        self.end(key, if ok { CommandStatus::Acknowledged } else { CommandStatus::Failed });
        self.go_on(slot);
        AnswerOutcome::Moved
    }

    pub(crate) fn progress(&mut self, slot: DeviceSlot, key: CommandKey, progress: String) -> AnswerOutcome {
        let now = self.now;
        let Some(known) = self.sent(slot, key) else { return AnswerOutcome::Unknown };
        if known.come.finished_at.is_some() {
            return if known.answered { AnswerOutcome::Repeated } else { AnswerOutcome::Late };
        }
        (known.come.status, known.come.held, known.again) = (CommandStatus::Running, false, false);
        known.come.progress = Some((progress, known.not_before_it_was_given(now)));
        self.tell(key, "progressed");
        self.go_on(slot);
        AnswerOutcome::Moved
    }

    pub(crate) fn cancel(&mut self, key: CommandKey) -> Result<(), CommandRefusal> {
        let known = self.find(key).ok_or(CommandRefusal::Unknown)?;
        let (slot, come) = (known.slot, &known.come);
        if come.finished_at.is_some() {
            return Err(CommandRefusal::Stands(come.status));
        }
        self.end(key, CommandStatus::Cancelled);
        self.go_on(slot);
        Ok(())
    }

    pub(crate) fn retry(&mut self, key: CommandKey) -> Result<(), CommandRefusal> {
        let now = self.now;
        let known = self.find(key).ok_or(CommandRefusal::Unknown)?;
        match known.come.status {
            CommandStatus::Failed | CommandStatus::Expired | CommandStatus::Cancelled => {}
            status => return Err(CommandRefusal::Stands(status)),
        }
        let retried = known.clone();
        let rivals = self.rivals(&retried);
        if rivals.iter().any(|rival| *rival > key) {
            return Err(CommandRefusal::GivesWay);
        }
        for rival in rivals {
            self.end(rival, CommandStatus::Superseded);
        }
        let known = self.find(key).expect("it is there");
        let later = known.not_before.filter(|at| *at > now);
        let expires_at = known.ttl.map(|ttl| later.unwrap_or(now) + ttl as i64);
        let (held, published_at) = (later.is_some(), known.come.published_at);
        known.come = Come { held, expires_at, published_at, ..Come::GIVEN };
        known.answered = false;
        let slot = known.slot;
        self.tell(key, "scheduled");
        self.go_on(slot);
        Ok(())
    }

    /// Waiting commands of a device with the key of this one.
    fn rivals(&self, of: &Known) -> Vec<CommandKey> {
        let is_rival = |one: &Known| {
            one.slot == of.slot && one.name == of.name && one.come.status == CommandStatus::Scheduled
        };
        if of.name.is_some() { self.keys(is_rival) } else { Vec::new() }
    }

    /// The device is deleted, and all its commands with it.
    pub(crate) fn remove_device(&mut self, slot: DeviceSlot) {
        self.devices.remove(&slot);
        let gone = self.commands.extract_if(.., |known| known.slot == slot);
        let (mut dues, mut ends): (Vec<_>, Vec<_>) = (Vec::new(), Vec::new());
        for known in gone {
            match known.come.finished_at {
                Some(at) => ends.push(at + self.keep),
                None => dues.extend(due(&known)),
            }
        }
        self.leftovers.extend(dues.into_iter().chain(ends));
    }

    pub(crate) fn restart(&mut self) {
        let slots: Vec<_> = self.devices.keys().copied().collect();
        for slot in slots {
            self.close(slot);
            self.device(slot).published_at = None;
        }
    }

    /// What the present time brings.
    pub(crate) fn advance(&mut self) {
        let now = self.now;
        let mut dues: Vec<_> =
            self.commands.iter().filter_map(|known| Some((due(known)?, known.key))).collect();
        dues.sort_unstable();
        for (_, key) in dues.into_iter().filter(|(at, _)| *at <= now) {
            if self.is_put_off(self.get(key)) {
                continue;
            }
            if self.is_over(self.get(key)) {
                self.end(key, CommandStatus::Expired);
            } else if let Some(known) = self.find(key) {
                known.come.held = false;
                self.tell(key, "ready");
            }
        }
        let slots: Vec<_> = self.devices.keys().copied().collect();
        for slot in slots {
            self.go_on(slot);
        }
        let keep = self.keep;
        self.commands.retain(|known| known.come.finished_at.is_none_or(|at| at + keep > now));
        self.leftovers.retain(|at| *at > now);
    }

    /// When [`Naive::advance`] does something, if nothing is due now.
    pub(crate) fn next_wakeup(&mut self) -> Option<i64> {
        self.looks_in_vain.clear();
        let ends = self.commands.iter().filter_map(|known| known.come.finished_at).map(|at| at + self.keep);
        let dues = self.commands.iter().filter(|known| !self.is_put_off(known)).filter_map(due);
        let mut times: Vec<_> = ends.chain(dues).chain(self.leftovers.iter().copied()).collect();
        let (devices, commands) = (self.devices.clone(), self.commands.clone());
        for (slot, device) in devices {
            let gap_end = self.gap_end(slot);
            let unanswered: Vec<_> =
                commands.iter().filter(|known| known.slot == slot && is_unanswered(known)).collect();
            for known in &unanswered {
                let moves_at = match (is_last(known), device.open) {
                    (true, _) => Some(deadline(known)),
                    (false, true) => Some(if known.again { gap_end } else { deadline(known).max(gap_end) }),
                    (false, false) => None,
                };
                match self.is_blocked(known) {
                    true => self.looks_in_vain.extend(moves_at),
                    false => times.extend(moves_at),
                }
            }
            if device.open && unanswered.len() < device.window && self.first(slot, waits).is_some() {
                times.push(gap_end);
            }
        }
        times.into_iter().min()
    }

    /// Does what a device's commands can do now.
    fn go_on(&mut self, slot: DeviceSlot) {
        let now = self.now;
        loop {
            let overdue = |known: &Known| is_unanswered(known) && (known.again || deadline(known) <= now);
            let moves = |known: &Known| overdue(known) && !self.is_blocked(known);
            if let Some(key) =
                self.first(slot, |known| moves(known) && is_last(known) && deadline(known) <= now)
            {
                self.end_or_expire(key);
                continue;
            }
            let device = *self.device(slot);
            if !device.open || self.gap_end(slot) > now {
                return;
            }
            let unanswered = self.keys(|known| known.slot == slot && is_unanswered(known)).len();
            let moves = |known: &Known| overdue(known) && !self.is_blocked(known);
            let repeat = self.first(slot, |known| moves(known) && !is_last(known));
            let next = self.first(slot, waits).filter(|_| unanswered < device.window);
            let Some(key) = repeat.or(next) else { return };
            if self.is_over(self.get(key)) {
                self.end_or_hold(key);
            } else {
                self.publish(key);
            }
        }
    }

    /// A command expires as its turn comes, unless nobody can be told: then it leaves its line.
    fn end_or_hold(&mut self, key: CommandKey) {
        match self.is_put_off(self.get(key)) {
            true => self.find(key).expect("it is there").come.held = true,
            false => self.end(key, CommandStatus::Expired),
        }
    }

    fn end_or_expire(&mut self, key: CommandKey) {
        let is_over = self.is_over(self.get(key));
        self.end(key, if is_over { CommandStatus::Expired } else { CommandStatus::Failed });
    }

    fn publish(&mut self, key: CommandKey) {
        let now = self.now;
        let known = self.find(key).expect("it is there");
        known.come.status = CommandStatus::Published;
        known.come.tries += 1;
        let at = known.not_before_it_was_given(now);
        known.come.published_at = Some(at);
        known.again = false;
        let slot = known.slot;
        self.device(slot).published_at = Some(at);
        self.tell(key, "published");
    }

    fn end(&mut self, key: CommandKey, status: CommandStatus) {
        let now = self.now;
        let known = self.find(key).expect("it is there");
        (known.come.status, known.come.held, known.again) = (status, false, false);
        known.come.finished_at = Some(known.not_before_it_was_given(now));
        self.tell(key, "ended");
    }

    fn tell(&mut self, key: CommandKey, how: &'static str) {
        let known = self.get(key);
        self.happened.push((known.slot, key, known.come.clone(), how));
    }

    fn is_over(&self, known: &Known) -> bool {
        known.come.expires_at.is_some_and(|at| at <= self.now)
    }

    /// Its time is over, and nobody can be told now.
    fn is_put_off(&self, known: &Known) -> bool {
        known.is_told && self.is_full && self.is_over(known)
    }

    /// It would end by itself, and nobody can be told now.
    fn is_blocked(&self, known: &Known) -> bool {
        let fails = is_unanswered(known) && is_last(known) && deadline(known) <= self.now;
        self.is_put_off(known) || fails && known.is_told && self.is_full
    }

    fn gap_end(&mut self, slot: DeviceSlot) -> i64 {
        let device = self.device(slot);
        device.published_at.filter(|_| device.gap > 0).map_or(i64::MIN, |at| at + device.gap)
    }

    /// After a restart only what was not answered tells when something went out last.
    fn remember_publishes(&mut self, slot: DeviceSlot) {
        let unanswered = self.commands.iter().filter(|known| known.slot == slot && is_unanswered(known));
        let latest = unanswered.filter_map(|known| known.come.published_at).max();
        let device = self.device(slot);
        device.published_at = device.published_at.max(latest);
    }

    fn device(&mut self, slot: DeviceSlot) -> &mut Device {
        self.devices.get_mut(&slot).expect("the device is there")
    }

    fn find(&mut self, key: CommandKey) -> Option<&mut Known> {
        self.commands.iter_mut().find(|known| known.key == key)
    }

    fn get(&self, key: CommandKey) -> &Known {
        self.commands.iter().find(|known| known.key == key).expect("it is there")
    }

    fn sent(&mut self, slot: DeviceSlot, key: CommandKey) -> Option<&mut Known> {
        self.find(key).filter(|known| known.slot == slot && known.come.published_at.is_some())
    }

    fn keys(&self, is_meant: impl Fn(&Known) -> bool) -> Vec<CommandKey> {
        self.commands.iter().filter(|known| is_meant(known)).map(|known| known.key).collect()
    }

    /// The command of a device that goes before all others.
    fn first(&self, slot: DeviceSlot, is_meant: impl Fn(&Known) -> bool) -> Option<CommandKey> {
        let meant = self.commands.iter().filter(|known| known.slot == slot && is_meant(known));
        meant.min_by_key(|known| (Reverse(known.priority), known.key)).map(|known| known.key)
    }
}

fn is_unanswered(known: &Known) -> bool {
    matches!(known.come.status, CommandStatus::Published | CommandStatus::Running)
}

fn waits(known: &Known) -> bool {
    known.come.status == CommandStatus::Scheduled && !known.come.held
}

fn is_last(known: &Known) -> bool {
    known.come.tries >= known.attempts_max
}

fn deadline(known: &Known) -> i64 {
    match (known.come.status, &known.come.progress) {
        (CommandStatus::Running, Some((_, at))) => at + known.run_timeout as i64,
        _ => known.come.published_at.unwrap_or(0) + known.ack_timeout as i64,
    }
}

/// When a command's time comes, or is over.
fn due(known: &Known) -> Option<i64> {
    if known.come.finished_at.is_some() {
        return None;
    }
    let not_before = known.not_before.filter(|_| known.come.held);
    not_before.into_iter().chain(known.come.expires_at).min()
}
