//! What the registry and the partitions of devices have for each other, on its way. That is orders
//! for devices' partitions, what became of commands, and devices to look at.
//!
//! Everything here may be lost with the process. The registry asks again after a start for whatever
//! it does not know the end of.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use base::locks::locked;
use base::{DeviceId, EntityId, Incarnation, Timestamp};
use records::{CommandStatus, MemberPlace, Rollout, RolloutCursor};
use tokio::sync::Notify;

use super::changes::ChangedRollouts;
use super::per_members;
use crate::device_orders::{OrderKind, OrderLinks};
use crate::kernel::hashed::HashMap;

/// Hints of one kind that wait at most; with more of them everything is looked at.
const HINTS_MAX: usize = 1 << 16;
/// Devices of one [`Search::Among`], of a rollout that has one entry.
const AMONG_PER_SEARCH: usize = 1_000;

/// What a device's partition is to do for a rollout.
#[derive(Clone, Debug)]
pub struct RolloutOrder {
    /// The rollout.
    pub rollout: Arc<Rollout>,
    /// The device.
    pub place: MemberPlace,
    /// Its turn.
    pub turn: u32,
    /// When it was handed out.
    pub handed_at: Timestamp,
    /// The command, where it is known.
    pub command: Option<EntityId>,
    /// What is to be done.
    pub what: OrderKind,
}

/// What became of an order.
#[derive(Clone, Debug)]
pub struct OrderReport {
    /// The device.
    pub place: MemberPlace,
    /// Its turn.
    pub turn: u32,
    /// What became of it.
    pub outcome: OrderOutcome,
}

/// What became of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderOutcome {
    /// The command stands here.
    Stands(CommandAt),
    /// The command was called off before it went out.
    TakenBack,
    /// There is no such device, or it takes no such command.
    Nobody,
    /// The device's partition has no room for another outcome that is to be told: not now.
    Busy,
}

/// A command, and where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandAt {
    /// The command.
    pub id: EntityId,
    /// Where it stands.
    pub status: CommandStatus,
    /// Whether it ever went out.
    pub was_published: bool,
}

/// A command of a rollout moved on.
#[derive(Clone, Debug)]
pub struct CommandMove {
    /// The device.
    pub place: MemberPlace,
    /// Its turn.
    pub turn: u32,
    /// The command.
    pub command: CommandAt,
}

/// What is to be looked for outside of the registry.
#[derive(Clone, Debug)]
pub enum Search {
    /// The devices of a rollout, from here on.
    Devices(Arc<Rollout>, RolloutCursor),
    /// How these devices are now, and which of them a rollout means.
    Among(Arc<Rollout>, Vec<DeviceId>),
    /// Devices that wait and can be reached.
    Candidates {
        /// Of this rollout.
        rollout: Arc<Rollout>,
        /// Behind this one.
        after: Option<MemberPlace>,
        /// Up to this rank.
        boundary: Option<u64>,
        /// Those that wait are looked up, too: what was told of them may be lost.
        looks_up: bool,
    },
    /// The rank of the last of so many devices of a rollout, for this stage.
    Boundary(Arc<Rollout>, u32, u64),
}

/// Why a device is to be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceLook {
    /// It can be reached.
    Came,
    /// It was registered, changed or removed.
    Changed,
}

/// What the partitions of devices had to say since it was last taken.
#[derive(Debug, Default)]
pub(super) struct Hints {
    pub(super) moves: HashMap<MemberPlace, CommandMove>,
    pub(super) looks: HashMap<DeviceId, DeviceLook>,
    /// Moves, or devices to look for, were lost: they are to be asked for.
    pub(super) ask_again: bool,
    /// Devices may have come that were not noted.
    pub(super) look_again: bool,
}

impl Hints {
    fn is_empty(&self) -> bool {
        self.moves.is_empty() && self.looks.is_empty() && !self.ask_again && !self.look_again
    }
}

/// What is to be looked for.
#[derive(Debug, Default)]
struct Searches {
    /// Searches of which the registry has at most one of a kind under way for each rollout.
    single: Vec<Search>,
    /// Devices that rollouts may mean, each once.
    among: BTreeMap<Incarnation, (Arc<Rollout>, BTreeSet<DeviceId>)>,
    /// How many these are, of all rollouts together.
    devices: usize,
}

impl Searches {
    /// Whether there was room for it.
    fn add(&mut self, search: Search) -> bool {
        match search {
            Search::Among(rollout, devices) => {
                let begun = || (Arc::clone(&rollout), BTreeSet::new());
                let (_, pending) = self.among.entry(rollout.incarnation).or_insert_with(begun);
                for device in devices {
                    if self.devices >= HINTS_MAX {
                        return false;
                    }
                    self.devices += usize::from(pending.insert(device));
                }
            }
            single => self.single.push(single),
        }
        true
    }

    fn into_vec(self) -> Vec<Search> {
        let mut searches = self.single;
        for (rollout, devices) in self.among.into_values() {
            let devices: Vec<DeviceId> = devices.into_iter().collect();
            let among = |devices: &[DeviceId]| Search::Among(Arc::clone(&rollout), devices.to_vec());
            searches.extend(devices.chunks(per_members(AMONG_PER_SEARCH, &rollout.work)).map(among));
        }
        searches
    }
}

/// What the registry and the partitions of devices have for each other.
#[derive(Debug, Default)]
pub(crate) struct RolloutLinks {
    waiting: OrderLinks<RolloutOrder, Hints>,
    searches: Mutex<Searches>,
    pub(super) to_search: Notify,
    is_wanted: AtomicBool,
    pub(super) changed: ChangedRollouts,
}

impl RolloutLinks {
    pub(crate) fn order(&self, order: RolloutOrder) {
        self.waiting.order(order);
    }

    pub(super) fn to_carry(&self) -> &Notify {
        self.waiting.to_carry()
    }

    pub(crate) fn search(&self, search: Search) {
        let has_room = locked(&self.searches).add(search);
        if !has_room {
            // Every device is looked at in its place.
            self.ask_again();
        }
        self.to_search.notify_one();
    }

    /// Whether any rollout cares for devices that come and change.
    pub(crate) fn want(&self, is_wanted: bool) {
        self.is_wanted.store(is_wanted, Ordering::SeqCst);
    }

    /// A device can be reached, or changed.
    pub(crate) fn look_at(&self, device: &DeviceId, why: DeviceLook) {
        if !self.is_wanted.load(Ordering::SeqCst) {
            return;
        }
        self.waiting.hint(|hints| {
            if hints.looks.len() < HINTS_MAX {
                let look = hints.looks.entry(device.clone()).or_insert(why);
                if why == DeviceLook::Changed {
                    *look = why;
                }
            } else {
                (hints.look_again, hints.ask_again) = (true, true);
            }
        });
    }

    /// Many devices may be reached that could not be before.
    pub(crate) fn look_again(&self) {
        if self.is_wanted.load(Ordering::SeqCst) {
            self.waiting.hint(|hints| hints.look_again = true);
        }
    }

    pub(crate) fn moved(&self, moved: CommandMove) {
        self.waiting.hint(|hints| {
            if hints.moves.len() < HINTS_MAX {
                hints.moves.insert(moved.place.clone(), moved);
            } else {
                hints.ask_again = true;
            }
        });
    }

    /// A partition of devices was loaded: what it had to tell before may be lost.
    pub(crate) fn ask_again(&self) {
        self.waiting.hint(|hints| hints.ask_again = true);
    }

    pub(super) fn take_orders(&self) -> Vec<RolloutOrder> {
        self.waiting.take_orders()
    }

    pub(super) fn take_searches(&self) -> Vec<Search> {
        std::mem::take(&mut *locked(&self.searches)).into_vec()
    }

    pub(super) fn take_hints(&self) -> Option<Hints> {
        let hints = self.waiting.take_hints();
        (!hints.is_empty()).then_some(hints)
    }
}

/// A device that a rollout means, and its time zone.
pub type FoundDevice = (DeviceId, Option<Box<str>>);

/// A device that was looked up for a rollout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceNow {
    /// It is not registered.
    Gone,
    /// It is.
    Registered {
        /// Its time zone, where it has one.
        tz: Option<Box<str>>,
        /// The rollout means it.
        is_meant: bool,
        /// It can be reached.
        can_be_reached: bool,
    },
}

#[cfg(test)]
mod tests {
    use records::{RolloutEntry, RolloutWork};

    use super::*;

    fn rollout(number: u64) -> Arc<Rollout> {
        let work = RolloutWork::Entries(Vec::new());
        Arc::new(Rollout::of(&number.to_string(), Incarnation(number), work))
    }

    fn device(number: usize) -> DeviceId {
        DeviceId::new(&format!("d{number}")).expect("an id")
    }

    /// Rollouts, and how many devices each search is among.
    fn taken(links: &RolloutLinks) -> Vec<(u64, usize)> {
        let among = |search| match search {
            Search::Among(rollout, devices) => Some((rollout.incarnation.0, devices.len())),
            _ => None,
        };
        links.take_searches().into_iter().filter_map(among).collect()
    }

    #[test]
    fn a_device_that_comes_again_and_again_is_looked_for_once() {
        let links = RolloutLinks::default();
        for (of, number) in [(1, 1), (2, 1), (1, 2), (1, 1), (1, 2)] {
            links.search(Search::Among(rollout(of), vec![device(number)]));
        }
        assert_eq!(taken(&links), [(1, 2), (2, 1)]);
        assert_eq!(taken(&links), []);
    }

    #[test]
    fn a_search_finds_no_more_members_than_one_input_may_bring() {
        const ENTRIES: usize = 300;
        let links = RolloutLinks::default();
        let work = RolloutWork::Entries(vec![RolloutEntry { key: "mode".into(), value: None }; ENTRIES]);
        let rollout = Arc::new(Rollout::of("1", Incarnation(1), work));
        for number in 0..20 {
            links.search(Search::Among(Arc::clone(&rollout), vec![device(number)]));
        }
        let taken = taken(&links);
        assert!(taken.iter().all(|(_, devices)| devices * ENTRIES <= AMONG_PER_SEARCH), "{taken:?}");
        assert_eq!(taken.iter().map(|(_, devices)| devices).sum::<usize>(), 20);
    }

    #[test]
    fn with_too_many_devices_to_look_for_everything_is_looked_at() {
        let links = RolloutLinks::default();
        let rollout = rollout(1);
        let search = |number| links.search(Search::Among(Arc::clone(&rollout), vec![device(number)]));
        (0..HINTS_MAX).for_each(search);
        assert!(links.take_hints().is_none(), "there was room for all");
        search(HINTS_MAX);
        assert!(links.take_hints().is_some_and(|hints| hints.ask_again));
        let taken = taken(&links);
        assert!(taken.iter().all(|(_, devices)| *devices <= AMONG_PER_SEARCH));
        assert_eq!(taken.iter().map(|(_, devices)| devices).sum::<usize>(), HINTS_MAX);
    }
}
