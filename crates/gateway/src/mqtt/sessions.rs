//! Who is connected under which client id: at most one connection each. This is where commands will find their way to a
//! device.
//!
//! A newcomer closes the older connection and waits until that one has handed in its last report and its will, so that
//! what the client said first stays first.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use tokio::sync::oneshot;

use super::ending::Ending;

/// The connections by client id.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    by_client: HashMap<Arc<str>, Entry>,
    entered: u64,
    stopping: bool,
}

#[derive(Debug)]
struct Entry {
    number: u64,
    end: oneshot::Sender<Order>,
}

/// Tells a connection to end.
#[derive(Debug)]
enum Order {
    /// Another one has its client id and waits until the sender is dropped.
    TakenOver(#[expect(dead_code, reason = "held until the connection has ended")] oneshot::Sender<()>),
    Stop,
}

/// A connection's place in the table; leaves it when dropped.
#[derive(Debug)]
pub(super) struct Seat {
    sessions: Arc<Sessions>,
    client_id: Arc<str>,
    number: u64,
    orders: oneshot::Receiver<Order>,
    order: Option<Order>,
}

impl Sessions {
    /// Enters a connection. Resolves when an older one with the same client id has ended; `None` if the listener stops.
    pub(super) async fn enter(self: &Arc<Self>, client_id: &str) -> Option<Seat> {
        let (seat, older) = self.take_seat(client_id)?;
        if let Some(entry) = older {
            let (ended, has_ended) = oneshot::channel();
            // If it has ended already, the order comes back and its sender is dropped with it.
            drop(entry.end.send(Order::TakenOver(ended)));
            // Nothing is ever sent: the end of the older one drops the sender.
            let _: Result<(), oneshot::error::RecvError> = has_ended.await;
        }
        Some(seat)
    }

    fn take_seat(self: &Arc<Self>, client_id: &str) -> Option<(Seat, Option<Entry>)> {
        let (end, orders) = oneshot::channel();
        let mut table = self.table();
        if table.stopping {
            return None;
        }
        table.entered += 1;
        let number = table.entered;
        let client_id: Arc<str> = Arc::from(client_id);
        let older = table.by_client.insert(Arc::clone(&client_id), Entry { number, end });
        Some((Seat { sessions: Arc::clone(self), client_id, number, orders, order: None }, older))
    }

    /// Tells every connection to end and lets no other in.
    pub(super) fn stop(&self) {
        let all = {
            let mut table = self.table();
            table.stopping = true;
            std::mem::take(&mut table.by_client)
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
        &self.client_id
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
            Some(Order::TakenOver(_)) => Poll::Ready(Ending::TakenOver),
            Some(Order::Stop) | None => Poll::Ready(Ending::Stopping),
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut table = self.sessions.table();
        if table.by_client.get(&self.client_id).is_some_and(|entry| entry.number == self.number) {
            table.by_client.remove(&self.client_id);
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
        let mut first = sessions.enter("a").await.expect("a seat");
        let newcomer = tokio::spawn({
            let sessions = Arc::clone(&sessions);
            async move { sessions.enter("a").await }
        });
        assert_eq!(poll_fn(|cx| first.poll_order(cx)).await, Ending::TakenOver);
        assert!(!newcomer.is_finished());
        drop(first);
        assert!(newcomer.await.expect("no panic").is_some());
    }

    #[tokio::test]
    async fn leaving_late_does_not_remove_the_newcomer() {
        let sessions = Arc::new(Sessions::default());
        let older = sessions.take_seat("a").expect("a seat").0;
        let (newer, _entry) = sessions.take_seat("a").expect("a seat");
        drop(older);
        assert_eq!(sessions.table().by_client.len(), 1);
        drop(newer);
        assert!(sessions.table().by_client.is_empty());
    }

    #[tokio::test]
    async fn stopping_ends_all_and_lets_nobody_in() {
        let sessions = Arc::new(Sessions::default());
        let mut seat = sessions.enter("a").await.expect("a seat");
        sessions.stop();
        assert_eq!(poll_fn(|cx| seat.poll_order(cx)).await, Ending::Stopping);
        assert!(sessions.enter("b").await.is_none());
    }
}
