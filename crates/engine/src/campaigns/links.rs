//! What the machine of campaigns and the partitions of devices have for each other, on its way.
//! Orders go to devices' partitions. Hints tell what became of picks, and who came and went.
//!
//! Everything here may be lost with the process. After a start the machine has every open pick
//! ensured, and so learns what it has missed.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use base::locks::locked;
use base::{DeviceId, EntityId, Incarnation, Timestamp};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use records::{CampaignSlot, CommandStatus, DevicePlace, LateAnswer, PickOutcome, PickTerms};
use tokio::sync::Notify;

use super::search::PickSearch;
use crate::FleetIndexes;
use crate::device_orders::OrderLinks;
use crate::kernel::hashed::HashMap;

pub use crate::device_orders::{OrderKind, OrderMessages};

/// Hints of one kind that wait at most; with more of them every open pick is asked for.
const HINTS_MAX: usize = 1 << 16;
/// Bytes of results that wait in hints at most; with more of them every open pick is asked for.
const HINT_BYTES_MAX: usize = 64 << 20;

/// What a device's partition is to do for a pick.
#[derive(Clone, Debug)]
pub struct PickOrder {
    /// The task.
    pub task: Incarnation,
    /// The pick, among those of its task.
    pub number: u32,
    /// The task's id.
    pub id: EntityId,
    /// The device.
    pub device: DeviceId,
    /// Where the device is kept. A device of that id in another place is another device.
    pub place: DevicePlace,
    /// What it is told, and who is told of a campaign's result.
    pub terms: Arc<PickTerms>,
    /// The campaign's id and the slot, where the task is one.
    pub slot: Option<(Arc<str>, CampaignSlot)>,
    /// When it was picked: when its command is given.
    pub picked_at: Timestamp,
    /// Its command, where it is known.
    pub command: Option<EntityId>,
    /// What is to be done. To give needs a session of the device; to ensure does not.
    pub what: OrderKind,
    /// What the result says where the command is taken back before it went out.
    pub why: PickOutcome,
}

/// What became of an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PickReport {
    /// The task.
    pub task: Incarnation,
    /// The pick, among those of its task.
    pub number: u32,
    /// What became of it.
    pub outcome: PickOrderOutcome,
}

/// What became of an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PickOrderOutcome {
    /// The command stands here.
    Stands(PickStanding),
    /// The command was called off before it went out, or there never was one.
    TakenBack,
    /// The device has no session any more: it was given no command.
    Away,
    /// Too many results wait for a receiver that takes none: it was given no command. Try later.
    Busy,
    /// There is no such device, or it takes no such command.
    Nobody,
}

/// Where the command of a pick stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PickStanding {
    /// The command.
    pub command: EntityId,
    /// Where it stands.
    pub status: CommandStatus,
    /// Whether the device has a session.
    pub is_connected: bool,
    /// Whether it ever went out.
    pub was_sent: bool,
    /// Whether it ended with an answer of the device, and not for want of one.
    pub was_answered: bool,
    /// What the device said: JSON text.
    pub result: Option<Arc<str>>,
    /// What the device said after the end.
    pub late: Option<LateAnswer>,
}

impl PickStanding {
    /// Bytes of what the device said.
    fn result_bytes(&self) -> usize {
        let late = self.late.as_ref().and_then(|late| late.result.as_deref());
        self.result.as_deref().map_or(0, str::len) + late.map_or(0, str::len)
    }
}

/// The command of a pick moved on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PickMove {
    /// The task.
    pub task: Incarnation,
    /// The pick, among those of its task.
    pub number: u32,
    /// Where its command stands now.
    pub standing: PickStanding,
}

/// Hints for the machine of campaigns.
#[derive(Debug, Default)]
pub(super) struct PickHints {
    pub(super) moves: HashMap<(Incarnation, u32), PickMove>,
    /// Bytes of results in the moves.
    move_bytes: usize,
    pub(super) went_away: BTreeSet<DevicePlace>,
    pub(super) came: BTreeSet<DevicePlace>,
    pub(super) answered: BTreeSet<DevicePlace>,
    pub(super) gone: BTreeSet<DevicePlace>,
    /// Hints may have been lost.
    pub(super) ask_again: bool,
}

impl PickHints {
    fn is_empty(&self) -> bool {
        let places = self.went_away.len() + self.came.len() + self.answered.len() + self.gone.len();
        self.moves.is_empty() && places == 0 && !self.ask_again
    }

    /// Notes where a command stands, in place of where it stood before.
    fn note_move(&mut self, moved: PickMove) {
        let key = (moved.task, moved.number);
        let replaced = self.moves.get(&key).map(|before| before.standing.result_bytes());
        let bytes = self.move_bytes - replaced.unwrap_or(0) + moved.standing.result_bytes();
        let has_place = replaced.is_some() || self.moves.len() < HINTS_MAX;
        if has_place && bytes <= HINT_BYTES_MAX {
            self.move_bytes = bytes;
            self.moves.insert(key, moved);
        } else {
            self.ask_again = true;
        }
    }
}

/// What the machine of campaigns and the partitions of devices have for each other.
#[derive(Debug, Default)]
pub(crate) struct PickLinks {
    waiting: OrderLinks<PickOrder, PickHints>,
    orders_waiting: Gauge,
    results_dropped: Counter,
    searches: Mutex<Vec<PickSearch>>,
    pub(super) to_search: Notify,
    /// Some task goes on: sessions that end matter.
    has_open: AtomicBool,
    /// Some task picks devices as they come, or some device is benched.
    wants_who_come: AtomicBool,
}

impl PickLinks {
    pub(crate) fn order(&self, order: PickOrder) {
        self.orders_waiting.inc();
        self.waiting.order(order);
    }

    /// Orders that were taken are to be carried again, in front of those that came since.
    pub(super) fn order_again(&self, again: Vec<PickOrder>) {
        self.orders_waiting.inc_by(i64::try_from(again.len()).unwrap_or(i64::MAX));
        self.waiting.order_again(again);
    }

    pub(super) fn to_carry(&self) -> &Notify {
        self.waiting.to_carry()
    }

    pub(crate) fn search(&self, search: PickSearch) {
        locked(&self.searches).push(search);
        self.to_search.notify_one();
    }

    /// The command of a pick moved on.
    pub(crate) fn moved(&self, moved: PickMove) {
        self.waiting.hint(|hints| hints.note_move(moved));
    }

    /// The result of a pick is not told to its campaign's receiver.
    pub(crate) fn result_dropped(&self) {
        self.results_dropped.inc();
    }

    /// The last session of a device has ended.
    pub(crate) fn went_away(&self, place: DevicePlace) {
        if self.has_open.load(Ordering::SeqCst) {
            self.waiting.hint(|hints| {
                hints.came.remove(&place);
                hints.ask_again |= !has_noted(&mut hints.went_away, place);
            });
        }
    }

    /// A device has a session.
    pub(crate) fn came(&self, place: DevicePlace) {
        if self.wants_who_come.load(Ordering::SeqCst) {
            self.waiting.hint(|hints| {
                hints.went_away.remove(&place);
                hints.ask_again |= !has_noted(&mut hints.came, place);
            });
        }
    }

    /// A device answered a command, of a pick or not. Only of one that is benched this is noted. If
    /// very many are, some stay benched until their next answer.
    pub(crate) fn answered(&self, place: DevicePlace, fleet: &FleetIndexes) {
        if self.wants_who_come.load(Ordering::SeqCst) && fleet.is_mute(place) {
            self.waiting.hint(|hints| {
                let _has_room = has_noted(&mut hints.answered, place);
            });
        }
    }

    /// A device was deleted. With very many, the shares of some go after the next start.
    pub(crate) fn gone(&self, place: DevicePlace) {
        self.waiting.hint(|hints| hints.ask_again |= !has_noted(&mut hints.gone, place));
    }

    /// A partition of devices was loaded: what it had to tell before may be lost.
    pub(crate) fn ask_again(&self) {
        self.waiting.hint(|hints| hints.ask_again = true);
    }

    /// Whether sessions that end matter, and whether those that begin do.
    pub(super) fn want(&self, has_open: bool, wants_who_come: bool) {
        self.has_open.store(has_open, Ordering::SeqCst);
        self.wants_who_come.store(wants_who_come, Ordering::SeqCst);
    }

    pub(super) fn take_orders(&self) -> Vec<PickOrder> {
        let orders = self.waiting.take_orders();
        self.orders_waiting.dec_by(i64::try_from(orders.len()).unwrap_or(i64::MAX));
        orders
    }

    pub(super) fn take_searches(&self) -> Vec<PickSearch> {
        std::mem::take(&mut *locked(&self.searches))
    }

    pub(super) fn take_hints(&self) -> Option<PickHints> {
        let hints = self.waiting.take_hints();
        (!hints.is_empty()).then_some(hints)
    }

    pub(crate) fn register(&self, registry: &mut Registry) {
        let help = "Orders of picks that wait to be carried to partitions of devices";
        registry.register("fieldpost_pick_orders_waiting", help, self.orders_waiting.clone());
        let help = "Results of picks that were not told: too many wait for their receivers";
        registry.register("fieldpost_pick_results_dropped", help, self.results_dropped.clone());
    }
}

/// Notes a device among others, if there is room for one more.
fn has_noted(places: &mut BTreeSet<DevicePlace>, place: DevicePlace) -> bool {
    let has_room = places.len() < HINTS_MAX;
    if has_room {
        places.insert(place);
    }
    has_room
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_many_bytes_that_wait_are_asked_for_again() {
        let links = PickLinks::default();
        let result: Arc<str> = "x".repeat(64 << 10).into();
        let moved = |number, result: &Arc<str>| {
            let standing = PickStanding {
                is_connected: true,
                command: EntityId::from_bytes(&[1; EntityId::BYTES]),
                status: CommandStatus::Acknowledged,
                was_sent: true,
                was_answered: true,
                result: Some(Arc::clone(result)),
                late: None,
            };
            links.moved(PickMove { task: Incarnation(1), number, standing });
        };
        (0..1_024).for_each(|number| moved(number, &result));
        moved(0, &result);
        moved(1_024, &"".into());
        links.waiting.hint(|hints| assert!(!hints.ask_again, "one that is told twice counts once"));
        moved(1_025, &result);
        let hints = links.take_hints().expect("some wait");
        assert_eq!((hints.moves.len(), hints.ask_again), (1_025, true));
        moved(1_025, &result);
        assert!(links.take_hints().is_some_and(|hints| !hints.ask_again), "there is room again");
    }
}
