//! Whose notifications are leased next: the rule, without clock, task or socket.
//!
//! A lane is the due work of one client in one partition. [`Lanes`] knows which lanes have some and
//! how many sends each client has in flight. It goes round the clients, one lease at a time. It
//! keeps two limits: sends in flight for each client, and for all. It never sees a notification.
//! Its driver asks for the [`LaneLease`]s, carries them out and tells how they went; the simulation
//! drives it the same way. A client without due work and with nothing in flight is forgotten, but
//! for the failures that its [breaker](crate::breaker) counts.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use base::{Incarnation, PartitionId, Timestamp};
use engine::lanes::Lane;
use engine::records::Client;

use crate::breaker::{AttemptReport, BreakerEvent, BreakerState, Breakers, CloseReason};
use crate::by_client::ByClient;

#[cfg(test)]
mod tests;

/// Most sends in flight for all clients together; each holds a connection and a body.
pub const IN_FLIGHT_MAX: usize = 2_048;

/// How many sends may be in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendLimits {
    /// For one client; at least 1.
    pub per_client: usize,
    /// For all clients together; at least 1.
    pub total: usize,
    /// Between the beginnings of two attempts at a client whose breaker is open.
    pub breaker_pause: Duration,
}

/// How a client stands at this moment.
#[derive(Clone, Debug)]
pub enum ClientStatus {
    /// It may be sent to, as this record of the directory says.
    Enabled(Arc<Client>),
    /// Its notifications wait; nothing is leased until [`Lanes::clients_changed`].
    Disabled,
    /// It was deleted; its lanes are forgotten.
    Gone,
}

/// A decision: lease up to `max` notifications of this lane. It holds `max` places in flight until
/// [`Lanes::leased`] takes it back.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a lease that is not given back holds its places for ever"]
pub struct LaneLease {
    /// The lane's partition.
    pub partition: PartitionId,
    /// The lane's client.
    pub client: Incarnation,
    /// How many; at least 1.
    pub max: usize,
}

/// The lanes with due work.
#[derive(Debug)]
pub struct Lanes {
    limits: SendLimits,
    clients: ByClient<ClientLanes>,
    /// Clients to be asked next, in turn; each at most once, each with a ready lane.
    round: VecDeque<Incarnation>,
    /// Clients with ready lanes that were found disabled.
    aside: Vec<Incarnation>,
    /// Clients with ready lanes whose breaker is open, by when they may be asked again.
    held: BTreeSet<(Timestamp, Incarnation)>,
    breakers: Breakers,
    /// What the breakers did and nobody took in yet; at most one for each attempt, change or sweep.
    events: Vec<BreakerEvent>,
    in_flight: usize,
    ready: usize,
}

/// What is known of one client.
#[derive(Debug, Default)]
struct ClientLanes {
    /// Its lanes that have due work, in turn; each at most once, and none that is being leased.
    ready: VecDeque<PartitionId>,
    leasing: Vec<Leasing>,
    in_flight: usize,
    place: WaitPosition,
}

/// A lane whose lease is under way.
#[derive(Debug)]
struct Leasing {
    partition: PartitionId,
    /// It was named meanwhile: there may be work that the lease did not see.
    named_again: bool,
}

/// Where a client waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum WaitPosition {
    /// Nowhere: it has no ready lane, or as many sends in flight as it may have; one of them will
    /// end.
    #[default]
    Resting,
    /// In `round`.
    Round,
    /// In `aside`.
    Aside,
    /// In `held`.
    Held,
}

impl Lanes {
    /// No lanes yet.
    #[must_use]
    pub fn new(limits: SendLimits) -> Self {
        assert!(limits.per_client > 0 && limits.total > 0, "a limit of 0 would never send");
        Self {
            limits,
            clients: ByClient::default(),
            round: VecDeque::new(),
            aside: Vec::new(),
            held: BTreeSet::new(),
            breakers: Breakers::new(limits.breaker_pause),
            events: Vec::new(),
            in_flight: 0,
            ready: 0,
        }
    }

    /// These lanes have due work.
    pub fn mark_due(&mut self, lanes: impl IntoIterator<Item = Lane>) {
        for (partition, client) in lanes {
            let known = self.clients.entry(client).or_default();
            if let Some(leasing) = known.leasing.iter_mut().find(|lane| lane.partition == partition) {
                leasing.named_again = true;
            } else if !known.ready.contains(&partition) {
                known.ready.push_back(partition);
                self.ready += 1;
                self.ask_again(client);
            }
        }
    }

    /// Some client was enabled, changed or deleted: those set aside or held are asked again.
    pub fn clients_changed(&mut self) {
        for client in std::mem::take(&mut self.aside) {
            self.back_to_round(client);
        }
        for (_, client) in std::mem::take(&mut self.held) {
            self.back_to_round(client);
        }
    }

    /// The next lease, or `None` until something changes, or [`Lanes::next_wakeup`]. Asks
    /// `status_of` of each client just before it is chosen.
    pub fn next(
        &mut self,
        now: Timestamp,
        mut status_of: impl FnMut(Incarnation) -> ClientStatus,
    ) -> Option<LaneLease> {
        while let Some((_, client)) = self.held.first().copied().filter(|(at, _)| *at <= now) {
            self.held.pop_first();
            self.back_to_round(client);
        }
        while self.in_flight < self.limits.total {
            let client = self.round.pop_front()?;
            self.at(client).place = WaitPosition::Resting;
            match self.know(client, status_of(client)) {
                ClientStatus::Enabled(known) => {
                    if let Some(lease) = self.lease_of(now, &known) {
                        return Some(lease);
                    }
                }
                ClientStatus::Disabled => {
                    self.at(client).place = WaitPosition::Aside;
                    self.aside.push(client);
                }
                ClientStatus::Gone => self.forget_ready(client),
            }
        }
        None
    }

    /// When a client whose breaker is open may be asked again.
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Timestamp> {
        self.held.first().map(|(at, _)| *at)
    }

    /// The lease was carried out and gave `got` notifications; each of them is in flight until
    /// [`Lanes::finished`]. Fewer than asked for: the lane is empty until it is named again.
    #[expect(clippy::needless_pass_by_value, reason = "a lease is given back once")]
    pub fn leased(&mut self, lease: LaneLease, got: usize) {
        let LaneLease { partition, client, max } = lease;
        assert!(got <= max, "a partition leases no more than it is asked for");
        let known = self.at(client);
        let at = known.leasing.iter().position(|lane| lane.partition == partition);
        let leasing = known.leasing.swap_remove(at.expect("a lease is given back once"));
        let ready = got == max || leasing.named_again;
        if ready {
            known.ready.push_back(partition);
        }
        known.in_flight -= max - got;
        self.ready += usize::from(ready);
        self.in_flight -= max - got;
        self.settle(client);
    }

    /// One of the client's notifications in flight has ended; nothing was `tried` if none was sent.
    /// What an attempt tells of another version of the client than the present one is of no use any
    /// more.
    pub fn finished(
        &mut self,
        client: Incarnation,
        tried: Option<AttemptReport>,
        status_of: impl FnOnce(Incarnation) -> ClientStatus,
    ) {
        if let Some(tried) = tried.filter(|tried| self.breakers.may_change(tried))
            && let ClientStatus::Enabled(known) = self.know(client, status_of(client))
            && Arc::ptr_eq(&known, &tried.to)
        {
            let event = self.breakers.report(tried);
            self.events.extend(event);
        }
        self.at(client).in_flight -= 1;
        self.in_flight -= 1;
        self.settle(client);
    }

    /// Forgets the breakers of clients that have changed, whether anything is due for them or not.
    /// For now and then.
    pub fn sweep(&mut self, mut status_of: impl FnMut(Incarnation) -> ClientStatus) {
        for client in self.breakers.clients() {
            self.know(client, status_of(client));
        }
    }

    /// What breakers did since this was last asked.
    pub fn take_breaker_events(&mut self) -> impl Iterator<Item = BreakerEvent> {
        self.events.drain(..)
    }

    /// Breakers that are open.
    #[must_use]
    pub fn breakers_open(&self) -> usize {
        self.breakers.open()
    }

    /// Sends in flight, and places held by leases under way.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Lanes known to have due work.
    #[must_use]
    pub fn due(&self) -> usize {
        self.ready
    }

    /// Clients that are remembered.
    #[must_use]
    pub fn clients(&self) -> usize {
        self.clients.len()
    }

    fn at(&mut self, client: Incarnation) -> &mut ClientLanes {
        self.clients.get_mut(&client).expect("a client in turn or in flight is remembered")
    }

    /// A client stands so: its breaker is one of that version of it, or none.
    fn know(&mut self, client: Incarnation, status: ClientStatus) -> ClientStatus {
        let event = match &status {
            ClientStatus::Enabled(known) => self.breakers.know(known),
            ClientStatus::Disabled | ClientStatus::Gone => self.breakers.close(client, CloseReason::Changed),
        };
        self.events.extend(event);
        status
    }

    /// A lease of the client's first lane, if the client may have more in flight. What it may have
    /// is spread over its ready lanes, so that they are leased side by side; each lease is a commit
    /// away.
    fn lease_of(&mut self, now: Timestamp, known: &Arc<Client>) -> Option<LaneLease> {
        let client = known.incarnation;
        let share = match self.breakers.state(known) {
            BreakerState::Closed => self.share(),
            // With one in flight it rests until that has ended.
            BreakerState::Open { next_at } if next_at > now && self.at(client).in_flight == 0 => {
                self.at(client).place = WaitPosition::Held;
                self.held.insert((next_at, client));
                return None;
            }
            BreakerState::Open { .. } => 1,
        };
        let known = self.at(client);
        let room = share.saturating_sub(known.in_flight);
        if room == 0 {
            return None;
        }
        let max = room.div_ceil(known.ready.len());
        let partition = known.ready.pop_front().expect("a client in turn has a ready lane");
        known.leasing.push(Leasing { partition, named_again: false });
        known.in_flight += max;
        self.in_flight += max;
        self.ready -= 1;
        self.ask_again(client);
        Some(LaneLease { partition, client, max })
    }

    /// How many one client may have in flight now. It is all that the limit allows while little is
    /// in flight, and less as places grow scarce, but always one. So clients whose receivers hang
    /// share an ever smaller rest, and one that comes new finds room.
    fn share(&self) -> usize {
        let SendLimits { per_client, total, .. } = self.limits;
        let free = total - self.in_flight;
        (per_client * free).div_ceil(total).min(free)
    }

    fn forget_ready(&mut self, client: Incarnation) {
        let forgotten = std::mem::take(&mut self.at(client).ready).len();
        self.ready -= forgotten;
        self.settle(client);
    }

    /// Puts the client back into the round if it has anything to lease. Whether it may is asked
    /// when its turn comes.
    fn ask_again(&mut self, client: Incarnation) {
        let known = self.at(client);
        if known.place == WaitPosition::Resting && !known.ready.is_empty() {
            known.place = WaitPosition::Round;
            self.round.push_back(client);
        }
    }

    fn back_to_round(&mut self, client: Incarnation) {
        self.at(client).place = WaitPosition::Round;
        self.round.push_back(client);
    }

    fn settle(&mut self, client: Incarnation) {
        self.ask_again(client);
        let known = self.at(client);
        if known.in_flight == 0 && known.ready.is_empty() && known.leasing.is_empty() {
            self.clients.remove(&client);
        }
    }
}
