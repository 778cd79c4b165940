//! Who is here under which client id: at most one connection each, or a session whose client is away. This is where commands will
//! find their way to a device.
//!
//! A newcomer closes the older connection and waits until that one has handed in its last report and its will, so that
//! what the client said first stays first. Then it gets the session, if that goes on. Client ids of different logins are
//! different clients, so that no login can push out another's devices.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use tokio::sync::oneshot;

use super::absence::Kept;
use super::ending::Ending;

/// The connections and absent clients by login and client id.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    table: Mutex<Table>,
}

/// A login's number and a client id.
type Name = (u32, Arc<str>);

#[derive(Debug, Default)]
struct Table {
    by_name: HashMap<Name, Entry>,
    entered: u64,
    stopping: bool,
}

#[derive(Debug)]
struct Entry {
    number: u64,
    end: oneshot::Sender<Order>,
}

/// Tells a connection to end, or an absent client's session to stop waiting.
#[derive(Debug)]
enum Order {
    /// Another one has its client id, and waits until the sender is used or dropped.
    TakenOver {
        clean_start: bool,
        heir: oneshot::Sender<Kept>,
    },
    Stop,
}

/// A client's place in the table; leaves it when dropped.
#[derive(Debug)]
pub(super) struct Seat {
    sessions: Arc<Sessions>,
    name: Name,
    number: u64,
    orders: oneshot::Receiver<Order>,
    order: Option<Order>,
}

impl Sessions {
    /// Enters a connection. Resolves when an older one with the same client id has ended, with the session that it left
    /// behind; `None` if the listener stops. With `clean_start` no session is left behind.
    pub(super) async fn enter(
        self: &Arc<Self>,
        login: u32,
        client_id: &str,
        clean_start: bool,
    ) -> Option<(Seat, Option<Kept>)> {
        let (seat, older) = self.take_seat(login, client_id)?;
        let Some(entry) = older else { return Some((seat, None)) };
        let (heir, inherited) = oneshot::channel();
        // If it has ended already, the order comes back and its sender is dropped with it.
        drop(entry.end.send(Order::TakenOver { clean_start, heir }));
        // An older one without a session to leave behind drops the sender at its end.
        let kept = inherited.await.ok().filter(|_| !clean_start);
        Some((seat, kept))
    }

    fn take_seat(self: &Arc<Self>, login: u32, client_id: &str) -> Option<(Seat, Option<Entry>)> {
        let (end, orders) = oneshot::channel();
        let mut table = self.table();
        if table.stopping {
            return None;
        }
        table.entered += 1;
        let number = table.entered;
        let name: Name = (login, Arc::from(client_id));
        let older = table.by_name.insert(name.clone(), Entry { number, end });
        Some((Seat { sessions: Arc::clone(self), name, number, orders, order: None }, older))
    }

    /// Tells every connection to end and lets no other in.
    pub(super) fn stop(&self) {
        let all = {
            let mut table = self.table();
            table.stopping = true;
            std::mem::take(&mut table.by_name)
        };
        for entry in all.into_values() {
            // A connection that has ended by itself needs no order.
            drop(entry.end.send(Order::Stop));
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seat {
    pub(super) fn client_id(&self) -> &str {
        &self.name.1
    }

    /// Ready when the connection must end.
    pub(super) fn poll_order(&mut self, cx: &mut Context<'_>) -> Poll<Ending> {
        if self.order.is_none() {
            match Pin::new(&mut self.orders).poll(cx) {
                Poll::Pending => return Poll::Pending,
                // The table drops an entry's sender only after it has sent an order, or when its seat is left.
                Poll::Ready(order) => self.order = Some(order.unwrap_or(Order::Stop)),
            }
        }
        match self.order {
            Some(Order::TakenOver { clean_start, .. }) => Poll::Ready(Ending::TakenOver { clean_start }),
            Some(Order::Stop) | None => Poll::Ready(Ending::Stopping),
        }
    }

    /// Leaves the session to whoever took the seat over. One that gave up waiting has no use for it: nothing is left then.
    pub(super) fn hand_over(mut self, kept: Kept) {
        if let Some(Order::TakenOver { heir, .. }) = self.order.take() {
            drop(heir.send(kept));
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut table = self.sessions.table();
        if table.by_name.get(&self.name).is_some_and(|entry| entry.number == self.number) {
            table.by_name.remove(&self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    #[tokio::test]
    async fn a_newcomer_waits_for_the_end_of_the_older_connection() {
        let sessions = Arc::new(Sessions::default());
        let mut first = sessions.enter(0, "a", true).await.expect("a seat").0;
        let newcomer = tokio::spawn({
            let sessions = Arc::clone(&sessions);
            async move { sessions.enter(0, "a", false).await }
        });
        assert_eq!(poll_fn(|cx| first.poll_order(cx)).await, Ending::TakenOver { clean_start: false });
        assert!(!newcomer.is_finished());
        drop(first);
        let (_seat, kept) = newcomer.await.expect("no panic").expect("a seat");
        assert!(kept.is_none());
    }

    #[tokio::test]
    async fn leaving_late_does_not_remove_the_newcomer() {
        let sessions = Arc::new(Sessions::default());
        let older = sessions.take_seat(0, "a").expect("a seat").0;
        let (newer, _entry) = sessions.take_seat(0, "a").expect("a seat");
        drop(older);
        assert_eq!(sessions.table().by_name.len(), 1);
        drop(newer);
        assert!(sessions.table().by_name.is_empty());
    }

    #[tokio::test]
    async fn stopping_ends_all_and_lets_nobody_in() {
        let sessions = Arc::new(Sessions::default());
        let mut seat = sessions.enter(0, "a", true).await.expect("a seat").0;
        sessions.stop();
        assert_eq!(poll_fn(|cx| seat.poll_order(cx)).await, Ending::Stopping);
        assert!(sessions.enter(0, "b", true).await.is_none());
    }

    async fn handed_over(clean_start: bool) -> Option<Kept> {
        let sessions = Arc::new(Sessions::default());
        let mut first = sessions.enter(0, "a", false).await.expect("a seat").0;
        let newcomer = tokio::spawn({
            let sessions = Arc::clone(&sessions);
            async move { sessions.enter(0, "a", clean_start).await }
        });
        poll_fn(|cx| first.poll_order(cx)).await;
        first.hand_over(Kept::default());
        newcomer.await.expect("no panic").expect("a seat").1
    }

    #[tokio::test]
    async fn a_session_goes_to_who_asks_for_it() {
        assert!(handed_over(false).await.is_some());
        assert!(handed_over(true).await.is_none());
    }

    #[tokio::test]
    async fn logins_do_not_share_client_ids() {
        let sessions = Arc::new(Sessions::default());
        let _one = sessions.enter(1, "a", false).await.expect("a seat");
        let (_other, older) = sessions.take_seat(2, "a").expect("a seat");
        assert!(older.is_none());
    }
}
