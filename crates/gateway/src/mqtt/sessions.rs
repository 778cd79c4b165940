//! Who is here under which client id: at most one connection each, or a session whose client is
//! away.
//!
//! A newcomer closes the older connection and waits until that one has handed in its last report
//! and its will. So what the client said first stays first. Then it gets the session, if that goes
//! on. Client ids of different logins are different clients, so that no login can push out
//! another's devices. A login has a limit of connections and waiting sessions; beyond it, its
//! oldest one ends. A connection that gave up its slot has a place until it is over; a login has
//! few places more than slots. Among all connections a newcomer may share the place of the one that
//! it takes over.

use std::collections::{BTreeMap, HashMap};
use std::pin::Pin;
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll};

use base::locks::locked;
use net::listen::{Capacity, CapacityPermit};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::ending::MqttEnding;
use super::limits::{ENDING_WAIT, PLACE_SHARERS_MAX, connections_with_ending_max};
use super::offline_session::SessionState;

/// The connections and absent clients by login and client id.
#[derive(Debug, Default)]
pub(super) struct MqttSessions {
    table: Mutex<MqttSessionTable>,
}

/// A login's number and a client id.
type Name = (u32, Arc<str>);

#[derive(Debug, Default)]
struct MqttSessionTable {
    by_name: HashMap<Name, SessionEntry>,
    /// The slots of each login, oldest first, without those that must leave.
    by_login: HashMap<u32, BTreeMap<u64, Arc<str>>>,
    /// The places of each login that was ever here.
    places: HashMap<u32, Arc<Capacity>>,
    /// Who waits for the end of a connection that was told to leave before: the senders are dropped
    /// at its end.
    waiting: HashMap<u64, oneshot::Sender<SessionState>>,
    entered: u64,
    stopping: bool,
}

#[derive(Debug)]
struct SessionEntry {
    number: u64,
    /// `None` once it was told to leave.
    end: Option<oneshot::Sender<SessionOrder>>,
    /// Its place among all connections. An absent client has none.
    place: Weak<CapacityPermit>,
}

/// A connection that has its slot.
#[derive(Debug)]
pub(super) struct Entered {
    pub(super) slot: SessionSlot,
    /// The session that it goes on with.
    pub(super) state: Option<SessionState>,
    /// An older one of its login was told to leave.
    pub(super) another_leaves: bool,
}

/// Tells a connection to end, or an absent client's session to stop waiting.
#[derive(Debug)]
enum SessionOrder {
    /// Another one has its client id, and waits until the sender is used or dropped.
    TakenOver {
        clean_start: bool,
        successor: oneshot::Sender<SessionState>,
    },
    /// Its login has another one in its place.
    OverLoginLimit,
    Stop,
}

/// A client's place in the table; leaves it when dropped.
#[derive(Debug)]
pub(super) struct SessionSlot {
    sessions: Arc<MqttSessions>,
    name: Name,
    number: u64,
    orders: oneshot::Receiver<SessionOrder>,
    order: Option<SessionOrder>,
}

impl MqttSessions {
    /// A place for a connection of a login that may have so many slots, from before it enters until
    /// it is over. `None` if too many of that login are still ending, or wait for those.
    pub(super) async fn login_place(&self, login: u32, slots_max: usize) -> Option<CapacityPermit> {
        let places = {
            let mut table = locked(&self.table);
            let places_max = connections_with_ending_max(slots_max);
            Arc::clone(table.places.entry(login).or_insert_with(|| Arc::new(Capacity::new(places_max))))
        };
        let place = async {
            loop {
                let leaving = places.somebody_leaves();
                if let Some(place) = places.take() {
                    return place;
                }
                leaving.await;
            }
        };
        timeout(ENDING_WAIT, place).await.ok()
    }

    /// The place of a client's connection among all of its listener, for a newcomer that takes it
    /// over. They have it until all of them are over. `None` if the client has no connection, or as
    /// many have the place as may.
    pub(super) fn listener_place_of(&self, login: u32, client_id: &str) -> Option<Arc<CapacityPermit>> {
        let name: Name = (login, Arc::from(client_id));
        let place = locked(&self.table).by_name.get(&name)?.place.upgrade()?;
        (Arc::strong_count(&place) <= PLACE_SHARERS_MAX).then_some(place)
    }

    /// Registers a connection of a login that may have `slots_max`, with its place among all.
    /// Resolves once an older connection with the same client id has ended, with its session unless
    /// `clean_start` is set. `None` if the listener stops.
    pub(super) async fn enter(
        self: &Arc<Self>,
        login: u32,
        client_id: &str,
        clean_start: bool,
        slots_max: usize,
        place: Weak<CapacityPermit>,
    ) -> Option<Entered> {
        let (slot, inherited, another_leaves) =
            self.take_slot(login, client_id, clean_start, slots_max, place)?;
        let state = match inherited {
            // An older one without a session to leave behind drops the sender at its end.
            Some(inherited) => inherited.await.ok().filter(|_| !clean_start),
            None => None,
        };
        Some(Entered { slot, state, another_leaves })
    }

    fn take_slot(
        self: &Arc<Self>,
        login: u32,
        client_id: &str,
        clean_start: bool,
        slots_max: usize,
        place: Weak<CapacityPermit>,
    ) -> Option<(SessionSlot, Option<oneshot::Receiver<SessionState>>, bool)> {
        let (end, orders) = oneshot::channel();
        let mut table = locked(&self.table);
        if table.stopping {
            return None;
        }
        table.entered += 1;
        let number = table.entered;
        let name: Name = (login, Arc::from(client_id));
        let older = table.by_name.insert(name.clone(), SessionEntry { number, end: Some(end), place });
        let inherited = older.map(|older| table.take_over(login, older, clean_start));
        let another_leaves = table.count_in(number, &name, slots_max);
        Some((
            SessionSlot { sessions: Arc::clone(self), name, number, orders, order: None },
            inherited,
            another_leaves,
        ))
    }

    /// Tells every connection to end and lets no other in.
    pub(super) fn stop(&self) {
        let all = {
            let mut table = locked(&self.table);
            table.stopping = true;
            std::mem::take(&mut table.by_name)
        };
        for end in all.into_values().filter_map(|entry| entry.end) {
            // A connection that has ended by itself needs no order.
            drop(end.send(SessionOrder::Stop));
        }
    }
}

impl MqttSessionTable {
    /// Has the older connection end: what it leaves behind.
    fn take_over(
        &mut self,
        login: u32,
        older: SessionEntry,
        clean_start: bool,
    ) -> oneshot::Receiver<SessionState> {
        let (successor, inherited) = oneshot::channel();
        match older.end {
            // If it has ended already, the order comes back and its sender is dropped with it.
            Some(end) => drop(end.send(SessionOrder::TakenOver { clean_start, successor })),
            None => drop(self.waiting.insert(older.number, successor)),
        }
        self.count_out(older.number, login);
        inherited
    }

    /// Counts a new slot; where its login has more than it may, its oldest one is told to leave.
    fn count_in(&mut self, number: u64, (login, client_id): &Name, slots_max: usize) -> bool {
        if slots_max == usize::MAX {
            return false;
        }
        let of_login = self.by_login.entry(*login).or_default();
        of_login.insert(number, Arc::clone(client_id));
        if of_login.len() <= slots_max.max(1) {
            return false;
        }
        let Some((_, oldest)) = of_login.pop_first() else { return false };
        let entry = self.by_name.get_mut(&(*login, oldest));
        if let Some(end) = entry.and_then(|entry| entry.end.take()) {
            // One that has ended by itself needs no order.
            drop(end.send(SessionOrder::OverLoginLimit));
        }
        true
    }

    fn count_out(&mut self, number: u64, login: u32) {
        let Some(of_login) = self.by_login.get_mut(&login) else { return };
        of_login.remove(&number);
        if of_login.is_empty() {
            self.by_login.remove(&login);
        }
    }
}

impl SessionSlot {
    /// No other connection of this listener had it.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn client_id(&self) -> &str {
        &self.name.1
    }

    /// Ready when the connection must end.
    pub(super) fn poll_order(&mut self, cx: &mut Context<'_>) -> Poll<MqttEnding> {
        if self.order.is_none() {
            match Pin::new(&mut self.orders).poll(cx) {
                Poll::Pending => return Poll::Pending,
                // The table drops an entry's sender only after it has sent an order, or when its
                // slot is left.
                Poll::Ready(order) => self.order = Some(order.unwrap_or(SessionOrder::Stop)),
            }
        }
        match self.order {
            Some(SessionOrder::TakenOver { clean_start, .. }) => {
                Poll::Ready(MqttEnding::TakenOver { clean_start })
            }
            Some(SessionOrder::OverLoginLimit) => Poll::Ready(MqttEnding::OverLoginLimit),
            Some(SessionOrder::Stop) | None => Poll::Ready(MqttEnding::Stopping),
        }
    }

    /// Leaves the session to whoever took the slot over. One that gave up waiting has no use for
    /// it: nothing is left then.
    pub(super) fn hand_over(mut self, state: SessionState) {
        if let Some(SessionOrder::TakenOver { successor, .. }) = self.order.take() {
            drop(successor.send(state));
        }
    }
}

impl Drop for SessionSlot {
    fn drop(&mut self) {
        let mut table = locked(&self.sessions.table);
        if table.by_name.get(&self.name).is_some_and(|entry| entry.number == self.number) {
            table.by_name.remove(&self.name);
        }
        table.count_out(self.number, self.name.0);
        table.waiting.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    const MANY: usize = 100;

    async fn entered(sessions: &Arc<MqttSessions>, login: u32, client_id: &str) -> SessionSlot {
        sessions.enter(login, client_id, true, MANY, Weak::new()).await.expect("a slot").slot
    }

    #[tokio::test]
    async fn a_newcomer_waits_for_the_end_of_the_older_connection() {
        let sessions = Arc::new(MqttSessions::default());
        let mut first = entered(&sessions, 0, "a").await;
        let newcomer = tokio::spawn({
            let sessions = Arc::clone(&sessions);
            async move { sessions.enter(0, "a", false, MANY, Weak::new()).await }
        });
        assert_eq!(poll_fn(|cx| first.poll_order(cx)).await, MqttEnding::TakenOver { clean_start: false });
        assert!(!newcomer.is_finished());
        drop(first);
        assert!(newcomer.await.expect("no panic").expect("a slot").state.is_none());
    }

    #[tokio::test]
    async fn few_connections_of_a_client_share_a_place() {
        let sessions = Arc::new(MqttSessions::default());
        let place = Arc::new(Arc::new(Capacity::new(1)).take().expect("it is free"));
        let _slot = sessions.take_slot(0, "a", true, MANY, Arc::downgrade(&place)).expect("a slot").0;
        let share = || sessions.listener_place_of(0, "a");
        let sharers: Vec<_> = std::iter::from_fn(share).take(MANY).collect();
        assert_eq!(1 + sharers.len(), PLACE_SHARERS_MAX);
        drop(sharers);
        assert!(share().is_some(), "those that are over make way");
    }

    #[tokio::test]
    async fn leaving_late_does_not_remove_the_newcomer() {
        let sessions = Arc::new(MqttSessions::default());
        let older = sessions.take_slot(0, "a", true, MANY, Weak::new()).expect("a slot").0;
        let newer = sessions.take_slot(0, "a", true, MANY, Weak::new()).expect("a slot").0;
        drop(older);
        assert_eq!(locked(&sessions.table).by_name.len(), 1);
        drop(newer);
        let table = locked(&sessions.table);
        assert!(table.by_name.is_empty() && table.by_login.is_empty() && table.waiting.is_empty());
    }

    #[tokio::test]
    async fn stopping_ends_all_and_lets_nobody_in() {
        let sessions = Arc::new(MqttSessions::default());
        let mut slot = entered(&sessions, 0, "a").await;
        sessions.stop();
        assert_eq!(poll_fn(|cx| slot.poll_order(cx)).await, MqttEnding::Stopping);
        assert!(sessions.enter(0, "b", true, MANY, Weak::new()).await.is_none());
    }

    async fn handed_over(clean_start: bool) -> Option<SessionState> {
        let sessions = Arc::new(MqttSessions::default());
        let mut first = entered(&sessions, 0, "a").await;
        let newcomer = tokio::spawn({
            let sessions = Arc::clone(&sessions);
            async move { sessions.enter(0, "a", clean_start, MANY, Weak::new()).await }
        });
        poll_fn(|cx| first.poll_order(cx)).await;
        first.hand_over(SessionState::default());
        newcomer.await.expect("no panic").expect("a slot").state
    }

    #[tokio::test]
    async fn a_session_goes_to_who_asks_for_it() {
        assert!(handed_over(false).await.is_some());
        assert!(handed_over(true).await.is_none());
    }

    #[tokio::test]
    async fn logins_do_not_share_client_ids() {
        let sessions = Arc::new(MqttSessions::default());
        let _one = entered(&sessions, 1, "a").await;
        let (_other, inherited, _) = sessions.take_slot(2, "a", true, MANY, Weak::new()).expect("a slot");
        assert!(inherited.is_none());
    }

    #[tokio::test]
    async fn the_oldest_of_a_login_leaves_when_it_has_too_many() {
        let sessions = Arc::new(MqttSessions::default());
        let mut other = entered(&sessions, 2, "x").await;
        let mut slots = Vec::new();
        for client_id in ["a", "b", "a", "c", "d"] {
            let entered = sessions.take_slot(1, client_id, true, 2, Weak::new()).expect("a slot");
            slots.push((entered.0, entered.2));
        }
        let left: Vec<_> = slots.iter().map(|(_, another_leaves)| *another_leaves).collect();
        assert_eq!(left, [false, false, false, true, true], "a client id that comes again is one slot");
        let mut told = Vec::new();
        for (slot, _) in &mut slots {
            told.push(poll_fn(|cx| Poll::Ready(slot.poll_order(cx))).await);
        }
        let taken_over = Poll::Ready(MqttEnding::TakenOver { clean_start: true });
        let outnumbered = Poll::Ready(MqttEnding::OverLoginLimit);
        assert_eq!(told, [taken_over, outnumbered, outnumbered, Poll::Pending, Poll::Pending]);
        assert_eq!(poll_fn(|cx| Poll::Ready(other.poll_order(cx))).await, Poll::Pending);
    }

    #[tokio::test]
    async fn a_login_that_comes_and_goes_quickly_leaves_places_to_others() {
        const PLACES: usize = 693;
        const OF_ONE: usize = PLACES - PLACES / 4;
        tokio::time::pause();
        let sessions = MqttSessions::default();
        let mut of_one = Vec::new();
        while let Some(place) = sessions.login_place(1, OF_ONE).await {
            of_one.push(place);
        }
        assert_eq!(of_one.len(), 586, "520 slots, and those that are ending");
        assert!(sessions.login_place(2, 16).await.is_some());
        let (place, ()) = tokio::join!(sessions.login_place(1, OF_ONE), async { drop(of_one.pop()) });
        assert!(place.is_some(), "one is over meanwhile");
    }

    #[tokio::test]
    async fn a_client_that_had_to_leave_comes_back_behind_its_own_end() {
        let sessions = Arc::new(MqttSessions::default());
        let leaving = sessions.take_slot(1, "a", true, 1, Weak::new()).expect("a slot").0;
        let _newer = sessions.take_slot(1, "b", true, 1, Weak::new()).expect("a slot").0;
        let again = tokio::spawn({
            let sessions = Arc::clone(&sessions);
            async move { sessions.enter(1, "a", true, 1, Weak::new()).await }
        });
        tokio::task::yield_now().await;
        assert!(!again.is_finished());
        drop(leaving);
        assert!(again.await.expect("no panic").is_some());
    }
}
