//! What is looked for outside of the machine: which devices a task may pick.
//!
//! The fleet's index says which devices match and are connected, without looking at each. Devices
//! that are named, and those of another task, are read from the store.

use std::sync::Arc;
use std::time::Instant;

use ::campaigns::{DeviceSet, device_set};
use base::{DeviceId, EntityId, Incarnation, PartitionId, Problem};
use fleet::Selection;
use fleet::selection::SelectionKey;
use records::{DevicePlace, PickTerms, TaskRelation};
use store::StoreError;
use tokio::task::spawn_blocking;

use super::NewPickTerms;
use super::input::PickUpdate;
use crate::context::EngineContext;
use crate::device_orders::partition_of;
use crate::queries::unreadable;

/// Searches of callers that go on at the same time; others wait for their turn.
pub(super) const SEARCHES_AT_ONCE: usize = 4;
/// Callers whose searches go on or wait for their turn; one more is refused.
pub(super) const SEARCHERS_MAX: usize = 256;
/// Values that picks are spread over: of each the devices are a set of their own.
const VALUES_MAX: usize = 10_000;

/// The devices that a task may pick.
#[derive(Clone, Debug, Default)]
pub struct FoundDevices {
    /// In one set each those that have one value of what the task is spread over; all in one where
    /// it is spread over nothing.
    pub strata: Vec<DeviceSet>,
}

/// A search for the devices that a task may pick.
#[derive(Clone, Debug)]
pub struct PickSearch {
    /// The task.
    pub task: Incarnation,
    /// Which devices.
    pub terms: Arc<PickTerms>,
}

/// Which devices are looked for.
pub(super) struct WantedDevices {
    selection: Selection,
    exclude: Option<Selection>,
    devices: Option<Vec<DeviceId>>,
    relation: Option<TaskRelation>,
    spread_by: Option<SelectionKey>,
}

impl WantedDevices {
    /// Those that a caller asks for.
    pub(super) fn asked(terms: &NewPickTerms) -> Self {
        Self {
            selection: terms.selection.clone().unwrap_or_default(),
            exclude: terms.exclude.clone(),
            devices: terms.devices.clone(),
            relation: terms.relation,
            spread_by: terms.spread_by.as_deref().and_then(SelectionKey::read),
        }
    }

    /// Those that were asked for.
    ///
    /// # Errors
    /// When a selector cannot be read.
    pub(super) fn kept(terms: &PickTerms) -> Result<Self, Problem> {
        let read = |text: &Option<Box<str>>| text.as_deref().map(Selection::parse).transpose();
        Ok(Self {
            selection: read(&terms.selector)?.unwrap_or_default(),
            exclude: read(&terms.exclude)?,
            devices: terms.devices.clone(),
            relation: terms.relation,
            spread_by: terms.spread_by.as_deref().and_then(SelectionKey::read),
        })
    }

    /// Looks for them, and says whether they were to be spread over more values than can be: then
    /// all are in one set. Of a related task that is kept no longer, no device is known.
    pub(super) fn look(&self, context: &EngineContext) -> Result<(FoundDevices, bool), StoreError> {
        let fleet = &context.devices.fleet;
        let mut found = fleet.evaluate(&self.selection.clone().and(connected()));
        if let Some(exclude) = &self.exclude {
            found.take_out(&fleet.evaluate(exclude));
        }
        if let Some(devices) = &self.devices {
            let mut named = fleet::index::DeviceSet::default();
            for id in devices {
                let partition = partition_of(context, id);
                if let Some(profile) = context.kernel.store.view(partition)?.device(id)? {
                    named.insert(DevicePlace { partition, slot: profile.slot });
                }
            }
            found.keep(&named);
        }
        if let Some(relation) = self.relation {
            let (TaskRelation::SameAs(id) | TaskRelation::NotAs(id)) = relation;
            let picked = picked_by(context, &id)?;
            match relation {
                TaskRelation::SameAs(_) => found.keep(&picked),
                TaskRelation::NotAs(_) => found.take_out(&picked),
            }
        }
        let split = self.spread_by.as_ref().map(|key| fleet.split_by(&found, key, VALUES_MAX));
        let has_too_many = matches!(split, Some(None));
        let strata = match split.flatten() {
            None => vec![plain(&found)],
            Some(values) => values.iter().map(|(_, set)| plain(set)).collect(),
        };
        Ok((FoundDevices { strata }, has_too_many))
    }
}

/// The devices of all strata.
pub(super) fn all_of(strata: &[DeviceSet]) -> DeviceSet {
    let mut all = DeviceSet::new();
    strata.iter().for_each(|stratum| device_set::unite(&mut all, stratum.clone()));
    all
}

/// Devices with a session of their own.
fn connected() -> Selection {
    Selection::parse("connected=true").expect("connected is a built-in key")
}

/// The same set, as the rules have it.
pub(super) fn plain(set: &fleet::index::DeviceSet) -> DeviceSet {
    set.partitions().map(|(partition, slots)| (partition, slots.clone())).collect()
}

/// The devices that a task picked; none if it is not there.
fn picked_by(context: &EngineContext, id: &EntityId) -> Result<fleet::index::DeviceSet, StoreError> {
    let view = context.kernel.store.view(PartitionId::CAMPAIGNS)?;
    let mut picked = fleet::index::DeviceSet::default();
    if let Some(task) = view.task_of(id)? {
        view.each_pick(task.incarnation, usize::MAX, &mut |pick| picked.insert(pick.place))?;
    }
    Ok(picked)
}

/// Looks for the devices that a caller asks for.
pub(super) async fn look_now(
    context: &EngineContext,
    wanted: WantedDevices,
) -> Result<FoundDevices, Problem> {
    let Ok(_place) = context.campaigns.searchers.try_acquire() else {
        let detail = "too many searches for devices wait for their turn; try again in a moment";
        return Err(Problem::new(503, "busy", detail));
    };
    let Ok(_turn) = context.campaigns.searches.acquire().await else {
        return Err(Problem::unavailable("the server is not accepting now"));
    };
    let looking = context.clone();
    let found = spawn_blocking(move || timed(&looking, || wanted.look(&looking))).await;
    let found = found.map_err(|_| Problem::unavailable("the search for devices failed"))?;
    let (found, has_too_many_values) = found.map_err(unreadable)?;
    if has_too_many_values {
        let detail = format!(
            "the devices have over {VALUES_MAX} values of what spread_by names; spread them over \
             another label, or select fewer"
        );
        return Err(Problem::not_allowed("too_many_values", detail));
    }
    Ok(found)
}

impl EngineContext {
    /// Looks for the devices that a task may pick. What it finds is for the machine.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn search_for_picks(&self, search: &PickSearch) -> Result<PickUpdate, StoreError> {
        let wanted = match WantedDevices::kept(&search.terms) {
            Ok(wanted) => wanted,
            Err(problem) => {
                let error = problem.detail;
                tracing::error!(%error, "a task picks nobody: its stored selector cannot be read");
                return Ok(PickUpdate::Unreadable(search.task));
            }
        };
        let (found, has_too_many_values) = timed(self, || wanted.look(self))?;
        if has_too_many_values && let Some(left_out) = self.campaigns.log.take((), Instant::now()) {
            tracing::warn!(
                left_out,
                VALUES_MAX,
                "picks are not spread: the devices have too many values of what spread_by names"
            );
        }
        Ok(PickUpdate::Found(search.task, found))
    }
}

fn timed<T>(context: &EngineContext, look: impl FnOnce() -> T) -> T {
    let begun = Instant::now();
    let found = look();
    context.campaigns.counts.searched(begun.elapsed());
    found
}
