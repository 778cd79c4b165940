//! A client that is away while its session lasts. Kept are what it subscribed to, the QoS 2
//! publishes that it has not released, and a will that waits. Sessions live as long as the server
//! runs, not longer.
//!
//! A session waits here in its client's slot, so that the client finds it the way it would find an
//! older connection.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use net::metrics::Counted;
use net::shares::Share;
use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep_until};

use super::MqttShared;
use super::ending::MqttEnding;
use super::limits::{ABSENT_SESSION_BYTES, ABSENT_UNIT_BYTES};
use super::qos2::Qos2Exchanges;
use super::rights::Rights;
use super::sessions::SessionSlot;
use super::subscriptions::Subscriptions;
use super::will::{Will, WillOwner};

/// What of a session outlives its connection.
#[derive(Debug, Default)]
pub(super) struct SessionState {
    pub(super) subscriptions: Subscriptions,
    pub(super) qos2: Qos2Exchanges,
}

impl SessionState {
    /// What it takes here, in bytes.
    fn bytes(&self) -> usize {
        ABSENT_SESSION_BYTES + self.subscriptions.bytes() + self.qos2.bytes()
    }
}

/// Room for the sessions of absent clients.
#[derive(Debug)]
pub(super) struct Room {
    units: Share,
    units_max: u32,
    taken_bytes: Gauge,
}

/// What a session has of the room; free again when it is dropped.
#[derive(Debug)]
pub(super) struct SessionPermit {
    units: OwnedSemaphorePermit,
    taken_bytes: Gauge,
}

impl Room {
    /// Room for `bytes_max`; how much of it is taken is shown by the gauge.
    pub(super) fn new(bytes_max: usize, taken_bytes: Gauge) -> Self {
        let units = (bytes_max / ABSENT_UNIT_BYTES).min(Semaphore::MAX_PERMITS);
        let units_max = u32::try_from(units).unwrap_or(u32::MAX);
        Self { units: Share::new(units_max as usize), units_max, taken_bytes }
    }

    /// Room for this session, if there is some.
    pub(super) fn take(&self, state: &SessionState) -> Option<SessionPermit> {
        let units = u32::try_from(state.bytes().div_ceil(ABSENT_UNIT_BYTES)).ok()?;
        let units = self.units.try_take(units)?;
        let permit = SessionPermit { units, taken_bytes: self.taken_bytes.clone() };
        permit.taken_bytes.inc_by(permit.bytes());
        Some(permit)
    }

    /// Resolves when nobody's session waits any more.
    pub(super) async fn all_left(&self) {
        drop(self.units.take(self.units_max).await);
    }
}

impl SessionPermit {
    fn bytes(&self) -> i64 {
        (self.units.num_permits() * ABSENT_UNIT_BYTES) as i64
    }
}

impl Drop for SessionPermit {
    fn drop(&mut self) {
        self.taken_bytes.dec_by(self.bytes());
    }
}

/// A session whose client is away.
pub(super) struct OfflineSession {
    pub(super) shared: Arc<MqttShared>,
    pub(super) slot: SessionSlot,
    pub(super) access: Rights,
    /// Where its client was.
    pub(super) peer: Option<SocketAddr>,
    pub(super) state: SessionState,
    /// A will, and when it is due.
    pub(super) will: Option<(Box<Will>, Instant)>,
    /// When the session ends.
    pub(super) until: Instant,
    pub(super) permit: SessionPermit,
}

impl OfflineSession {
    /// Waits until the client is back, or its session ends, or the listener stops.
    pub(super) async fn run(mut self) {
        let _counted = Counted::new(&self.shared.metrics.absent_sessions);
        let ending = loop {
            let due = self.will.as_ref().map_or(self.until, |(_, due)| *due);
            tokio::select! {
                biased;
                ending = poll_fn(|cx| self.slot.poll_order(cx)) => break Some(ending),
                () = sleep_until(due) => {}
            }
            if self.will.is_none() {
                break None;
            }
            self.apply_will().await;
        };
        let Self { slot, state, permit, .. } = match ending {
            Some(MqttEnding::TakenOver { clean_start: true } | MqttEnding::OverLoginLimit) => {
                // Its session ends here, and so does the wait of its will.
                self.apply_will().await;
                return;
            }
            Some(MqttEnding::TakenOver { clean_start: false }) => self,
            _ => return,
        };
        slot.hand_over(state);
        drop(permit);
    }

    async fn apply_will(&mut self) {
        let Some((will, _)) = self.will.take() else { return };
        let client = self.slot.client_id();
        let of = WillOwner { access: &self.access, client, peer: self.peer };
        if will.apply(of, &self.shared).await.is_err() {
            tracing::debug!(client, "a will was not applied: the server is not accepting");
        }
    }
}

/// How long a session of this many seconds lasts after its connection; at most as long as the
/// listener allows.
pub(super) fn lasts(asked_secs: u32, max: Duration) -> Duration {
    Duration::from_secs(asked_secs.into()).min(max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_for_so_many_sessions_and_no_more() {
        let (gauge, state) = (Gauge::default(), SessionState::default());
        let room = Room::new(2 * ABSENT_SESSION_BYTES, gauge.clone());
        let mut permits: Vec<_> = (0..2).map(|_| room.take(&state)).collect();
        assert!(permits.iter().all(Option::is_some) && room.take(&state).is_none());
        assert_eq!(gauge.get(), 2 * ABSENT_SESSION_BYTES as i64);
        permits.pop();
        assert_eq!(gauge.get(), ABSENT_SESSION_BYTES as i64);
        assert!(room.take(&state).is_some());
    }

    #[test]
    fn what_a_session_keeps_is_weighed() {
        let mut state = SessionState::default();
        state.qos2.begin(1, 0, 9);
        assert_eq!(state.bytes(), ABSENT_SESSION_BYTES + state.qos2.bytes());
        assert!(state.qos2.bytes() > 0);
    }
}
