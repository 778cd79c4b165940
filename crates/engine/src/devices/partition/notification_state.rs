//! What a client has not been told of a device: how events gather, what a notification tells, what
//! is left afterwards.
//!
//! Pure functions over [`NotificationState`]; when to send, and what becomes of a delivery, is
//! decided elsewhere.

use base::limits::NOTIFICATION_TYPES_MAX;
use base::{Incarnation, Timestamp, Value};
use records::{Connection, DeviceSlot, DeviceState, EventKind, Flight, NotificationState, PendingDelivery};

/// The state of a device and client of which the client was told everything.
pub(super) fn new(slot: DeviceSlot, client: Incarnation) -> NotificationState {
    NotificationState {
        slot,
        client,
        untold: Vec::new(),
        previous: None,
        skipped: 0,
        pending: None,
        in_flight: None,
        failed: None,
    }
}

/// An event happened; `previous` is the value before it.
pub(super) fn add_event(state: &mut NotificationState, kind: EventKind, previous: Option<&Value>) {
    if state.untold.is_empty() {
        state.previous = previous.cloned();
    }
    if state.untold.len() == NOTIFICATION_TYPES_MAX {
        state.untold.remove(0);
        if let Some(flight) = state.in_flight.as_mut().filter(|flight| !flight.is_cancelled()) {
            flight.tells = flight.tells.saturating_sub(1);
        }
    }
    state.untold.push(kind);
}

/// The kind of the device's newest event. Where all is told, it follows from the device's state.
/// Only a loss leaves a device lost, and only a change leaves another value than before.
pub(super) fn newest_kind(state: &NotificationState, device: &DeviceState) -> EventKind {
    match state.untold.last() {
        Some(kind) => *kind,
        None if device.connection == Connection::Lost => EventKind::Lost,
        None if device.value == state.previous => EventKind::Restored,
        None => EventKind::Changed,
    }
}

/// The pending notification is about to be sent: it tells everything untold, or the newest event
/// again. Nothing happens without one.
pub(super) fn start_attempt(
    state: &mut NotificationState,
    now: Timestamp,
    value: Option<&Value>,
) -> Option<PendingDelivery> {
    let waiting = state.pending.take()?;
    state.in_flight = Some(Flight {
        delivery: waiting.delivery,
        attempts: waiting.attempts + 1,
        since: now,
        tells: state.untold.len() as u8,
        skipped: state.skipped,
        value: value.cloned(),
    });
    Some(waiting)
}

/// The notification in flight was delivered: what it told is told. Whether anything is left untold.
pub(super) fn delivered(state: &mut NotificationState, flight: Flight) -> bool {
    state.untold.drain(..usize::from(flight.tells).min(state.untold.len()));
    state.previous = flight.value;
    state.skipped = state.skipped.saturating_sub(flight.skipped);
    !state.untold.is_empty() || state.pending.is_some()
}

/// What is left of a state that is cancelled: the attempt under way, which cannot be called back.
pub(super) fn cancelled(state: &NotificationState) -> Option<NotificationState> {
    let under_way = state.in_flight.as_ref()?;
    let flight = Flight {
        delivery: under_way.delivery,
        attempts: under_way.attempts,
        since: under_way.since,
        tells: Flight::CANCELLED,
        skipped: 0,
        value: None,
    };
    Some(NotificationState { in_flight: Some(flight), ..new(state.slot, state.client) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use EventKind::{Changed, Lost, Restored};
    use base::EntityId;

    fn number(n: u32) -> Option<Value> {
        Value::number(f64::from(n))
    }

    fn waiting(number: u32) -> Option<PendingDelivery> {
        Some(PendingDelivery {
            delivery: EntityId { routing: 0, at: Timestamp(0), number, tag: 0 },
            attempts: 0,
        })
    }

    fn new_state() -> NotificationState {
        super::new(DeviceSlot(1), Incarnation(1))
    }

    #[test]
    fn what_is_delivered_is_told_and_what_came_meanwhile_is_not() {
        let mut state = new_state();
        add_event(&mut state, Lost, number(1).as_ref());
        add_event(&mut state, Restored, number(1).as_ref());
        state.pending = waiting(1);
        start_attempt(&mut state, Timestamp(0), number(1).as_ref());
        add_event(&mut state, Changed, number(1).as_ref());
        state.pending = waiting(2);
        let flight = state.in_flight.take().expect("in flight");
        assert!(delivered(&mut state, flight));
        assert_eq!((state.untold, state.previous), (vec![Changed], number(1)));
    }

    #[test]
    fn a_failed_notification_is_told_by_the_next() {
        let mut state = new_state();
        add_event(&mut state, Changed, None);
        state.pending = waiting(1);
        start_attempt(&mut state, Timestamp(0), number(0).as_ref());
        state.in_flight = None;
        state.skipped += 1;
        add_event(&mut state, Changed, number(0).as_ref());
        assert_eq!((&state.untold[..], &state.previous, state.skipped), (&[Changed, Changed][..], &None, 1));
    }

    #[test]
    fn superseded_while_in_flight_is_skipped_by_the_next_only() {
        let mut state = new_state();
        add_event(&mut state, Changed, None);
        state.skipped = 3;
        state.pending = waiting(1);
        start_attempt(&mut state, Timestamp(0), None);
        add_event(&mut state, Lost, None);
        state.skipped += 1;
        let flight = state.in_flight.take().expect("in flight");
        delivered(&mut state, flight);
        assert_eq!(state.skipped, 1);
    }

    #[test]
    fn what_is_told_again_stays_told() {
        let mut state = NotificationState { previous: number(1), pending: waiting(1), ..new_state() };
        start_attempt(&mut state, Timestamp(0), number(2).as_ref());
        add_event(&mut state, Changed, number(2).as_ref());
        state.pending = waiting(2);
        assert_eq!((&state.untold[..], &state.previous), (&[Changed][..], &number(2)));
        let flight = state.in_flight.take().expect("in flight");
        assert!(delivered(&mut state, flight));
        assert_eq!((state.untold, state.previous), (vec![Changed], number(2)));
    }

    #[test]
    fn the_kind_of_what_is_told_again_follows_from_the_device() {
        for (kind, connection, value, previous) in [
            (Changed, Connection::Online, number(1), None),
            (Changed, Connection::Online, number(1), number(2)),
            (Lost, Connection::Lost, number(1), number(1)),
            (Lost, Connection::Lost, None, None),
            (Restored, Connection::Online, number(1), number(1)),
            (Restored, Connection::Online, None, None),
        ] {
            let device = DeviceState { value, connection, ..DeviceState::default() };
            let mut state = NotificationState { previous, ..new_state() };
            assert_eq!(newest_kind(&state, &device), kind, "{device:?} {state:?}");
            for untold in EventKind::ALL {
                add_event(&mut state, untold, None);
                assert_eq!(newest_kind(&state, &device), untold);
            }
        }
    }

    #[test]
    fn only_the_newest_kinds_are_kept() {
        let mut state = new_state();
        add_event(&mut state, Changed, number(7).as_ref());
        state.pending = waiting(1);
        start_attempt(&mut state, Timestamp(0), None);
        for _ in 0..NOTIFICATION_TYPES_MAX {
            add_event(&mut state, Lost, number(8).as_ref());
        }
        assert_eq!(state.untold, [Lost; NOTIFICATION_TYPES_MAX]);
        assert_eq!(state.previous, number(7));
        let flight = state.in_flight.take().expect("in flight");
        assert_eq!(flight.tells, 0);
    }
}
