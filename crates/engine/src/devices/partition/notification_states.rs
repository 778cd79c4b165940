//! Per client and device: events not yet delivered, and a running count of pending notifications.
//!
//! Every change of a state updates the count, so that reading it costs nothing.

use std::collections::BTreeSet;
use std::ops::{Deref, DerefMut};

use base::Incarnation;
use records::{DeviceSlot, Flight, NotificationState};

use super::notification_state;
use crate::kernel::hashed::HashMap;

/// Up to so many states the count is checked where invariants are, as in the simulation.
const COUNTED_MAX: usize = 100;

type Place = (DeviceSlot, Incarnation);

/// The notification states of a partition, by device and client.
#[derive(Debug, Default)]
pub(super) struct NotificationStates {
    by_place: HashMap<Place, NotificationState>,
    pending: u64,
    /// Devices and clients whose cancelled notification still has an attempt under way.
    cancelled: BTreeSet<Place>,
}

/// A state that is being changed.
pub(super) struct NotificationStateMut<'a> {
    state: &'a mut NotificationState,
    all_pending: &'a mut u64,
    /// Of this state, when it was taken.
    pending: u64,
}

/// Deliveries of a device and client that are `pending`: one may wait while another is under way.
fn pending(state: &NotificationState) -> u64 {
    u64::from(state.pending.is_some()) + u64::from(state.in_flight.is_some())
}

impl NotificationStates {
    pub(super) fn get(&self, place: &Place) -> Option<&NotificationState> {
        self.by_place.get(place)
    }

    pub(super) fn get_mut(&mut self, place: &Place) -> Option<NotificationStateMut<'_>> {
        let state = self.by_place.get_mut(place)?;
        Some(NotificationStateMut { pending: pending(state), state, all_pending: &mut self.pending })
    }

    /// The state of a device and client: where there is none, one of a client that was told
    /// everything.
    pub(super) fn get_or_new(&mut self, place: Place) -> NotificationStateMut<'_> {
        let new = || notification_state::new(place.0, place.1);
        let state = self.by_place.entry(place).or_insert_with(new);
        NotificationStateMut { pending: pending(state), state, all_pending: &mut self.pending }
    }

    pub(super) fn insert(&mut self, place: Place, state: NotificationState) {
        self.pending += pending(&state);
        if state.in_flight.as_ref().is_some_and(Flight::is_cancelled) {
            self.cancelled.insert(place);
        }
        let before = self.by_place.insert(place, state);
        self.pending -= before.as_ref().map_or(0, pending);
    }

    pub(super) fn remove(&mut self, place: &Place) -> Option<NotificationState> {
        let state = self.by_place.remove(place)?;
        self.cancelled.remove(place);
        self.pending -= pending(&state);
        Some(state)
    }

    /// The clients whose cancelled notification of a device still has an attempt under way.
    pub(super) fn clients_with_cancelled_attempt(&self, slot: DeviceSlot) -> Vec<Incarnation> {
        let of_slot = (slot, Incarnation(0))..=(slot, Incarnation(u64::MAX));
        self.cancelled.range(of_slot).map(|(_, client)| *client).collect()
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &NotificationState> {
        self.by_place.values()
    }

    /// Deliveries that are `pending`: they wait for an attempt, or one is under way.
    pub(super) fn pending(&self) -> u64 {
        let counted = || self.values().map(pending).sum::<u64>();
        debug_assert!(
            self.by_place.len() > COUNTED_MAX || self.pending == counted(),
            "the count has kept up"
        );
        self.pending
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.by_place.len()
    }
}

impl Deref for NotificationStateMut<'_> {
    type Target = NotificationState;

    fn deref(&self) -> &NotificationState {
        self.state
    }
}

impl DerefMut for NotificationStateMut<'_> {
    fn deref_mut(&mut self) -> &mut NotificationState {
        self.state
    }
}

impl Drop for NotificationStateMut<'_> {
    fn drop(&mut self) {
        *self.all_pending = *self.all_pending + pending(self.state) - self.pending;
    }
}

impl FromIterator<NotificationState> for NotificationStates {
    fn from_iter<I: IntoIterator<Item = NotificationState>>(states: I) -> Self {
        let mut all = Self::default();
        states.into_iter().for_each(|state| all.insert((state.slot, state.client), state));
        all
    }
}
