//! What must hold between the edge and the centre, at any moment and at rest.

use std::collections::BTreeMap;

use base::locks::locked;
use base::{DeviceId, Timestamp, Value};
use fleet::check_value;
use store::{Page, StoreError, View};

use super::World;
use super::reporters::Reporter;
use crate::harness::violation::{Checked, Invariant};
use crate::nodes::fault_injection::ANSWERED_WHEN_TAKEN;
use crate::nodes::reports::{CENTRE, DEVICES, EDGE, copy_key};
use crate::streams::world::as_node::StreamsNode;

/// Devices that a node may have at most.
const DEVICES_MAX: usize = 100;
/// Readings of a device that are looked at.
const READINGS_MAX: usize = 1_000_000;

/// The readings of a device, in the order in which they were received.
type History = Vec<(Timestamp, Value)>;
/// Those of all devices of a node.
type Histories = BTreeMap<DeviceId, History>;

fn histories(view: &dyn View) -> Result<Histories, StoreError> {
    let mut all = Histories::new();
    for profile in view.devices(None, DEVICES_MAX)? {
        let page = Page {
            from: Timestamp(0),
            to: Timestamp::MAX,
            ascending: true,
            after: None,
            limit: READINGS_MAX,
        };
        let mut readings = view.readings(profile.slot, page)?;
        readings.sort_by_key(|reading| reading.number);
        let readings = readings.into_iter().map(|reading| (reading.ts, reading.value));
        all.insert(profile.id, readings.collect());
    }
    Ok(all)
}

/// Whether all of these are there, in this order.
fn has_in_order<'a>(history: &History, values: impl IntoIterator<Item = &'a Value>) -> bool {
    let mut there = history.iter();
    values.into_iter().all(|value| there.any(|(_, found)| found == value))
}

impl Reporter {
    fn is_taken_there(&self, value: &Value) -> bool {
        check_value(&self.kind_there, value).is_ok()
    }

    /// What the centre is to have of these readings.
    fn brought(&self, history: &History) -> History {
        history.iter().filter(|(_, value)| self.is_taken_there(value)).cloned().collect()
    }

    /// What was acknowledged is at the edge, and if the copy has no lag at the centre too. The
    /// centre has what the edge has, up to somewhere.
    fn check(&self, (here, there): (&History, &History), lag: Option<u64>) -> Checked {
        let device = &self.device;
        Invariant::DURABLE_BEFORE_ACKNOWLEDGED.check(has_in_order(here, &self.accepted), || {
            format!("{device} was acknowledged {:?}; the edge has {here:?}", self.accepted)
        })?;
        let brought = self.brought(here);
        Invariant::REPORTS_ONCE.check(brought.starts_with(there), || {
            format!("of {device} the edge has {brought:?} to bring; the centre has {there:?}")
        })?;
        let accepted = self.accepted.iter().filter(|value| self.is_taken_there(value));
        let is_true = lag != Some(0) || has_in_order(there, accepted);
        Invariant::LAG_IS_TRUE.check(is_true, || {
            format!("without lag; {device} was acknowledged {:?}; the centre has {there:?}", self.accepted)
        })
    }
}

impl World {
    /// The readings of a node that is up. Nothing from a disk that fails.
    fn read(&mut self, number: usize) -> Option<Histories> {
        let context = self.nodes[number].users().context()?;
        let view = context.kernel.store.view(DEVICES).ok()?;
        let found = histories(&*view).ok();
        self.nodes[number].users_mut().was_read();
        found
    }

    /// The lag of the copy, while the edge is up.
    fn lag(&mut self) -> Option<u64> {
        let lag = self.nodes[EDGE].users().context()?.lag_of_copy(&copy_key()).ok();
        self.nodes[EDGE].users_mut().was_read();
        lag
    }

    /// Holds both nodes against each other, if both are up.
    pub(super) fn check_reports(&mut self) -> Checked {
        let lag = self.lag();
        let (Some(here), Some(there)) = (self.read(EDGE), self.read(CENTRE)) else { return Ok(()) };
        self.counts.level += u64::from(lag == Some(0) && !here.values().all(Vec::is_empty));
        let none = History::new();
        for reporter in &self.reporters {
            let [here, there] = [&here, &there].map(|all| all.get(&reporter.device).unwrap_or(&none));
            reporter.check((here, there), lag)?;
        }
        Ok(())
    }

    /// All faults have stopped, and the copy had time: everything is at the centre.
    pub(super) fn check_at_rest(&mut self) -> Checked {
        for node in &mut self.nodes {
            node.audit()?;
        }
        self.check_reports()?;
        let lag = self.lag();
        let status = locked(&self.status).clone();
        let is_idle = lag == Some(0) && status.error.is_none();
        Invariant::COPIES_COME_TO_REST.check(is_idle, || format!("the lag is {lag:?}: {status:?}"))?;
        let mut read = [Histories::new(), Histories::new()];
        for (number, histories) in read.iter_mut().enumerate() {
            *histories = self.read(number).ok_or_else(|| {
                Invariant::DURABLE_BEFORE_ACKNOWLEDGED.broken(format!("node {number} cannot be read"))
            })?;
        }
        let [here, there] = read;
        let (none, mut refused) = (History::new(), 0);
        for reporter in &self.reporters {
            let [here, there] = [&here, &there].map(|all| all.get(&reporter.device).unwrap_or(&none));
            let brought = reporter.brought(here);
            Invariant::REPORTS_ONCE.same(
                format_args!("readings of {} at the centre", reporter.device),
                there,
                &brought,
            )?;
            self.counts.brought += brought.len() as u64;
            refused += (here.len() - brought.len()) as u64;
        }
        self.counts.refused_there += refused;
        self.check_refused(refused)
    }

    /// The copy has counted what the centre refused.
    fn check_refused(&self, refused: u64) -> Checked {
        // A centre that answers too early does not know it.
        if self.machine.injects(ANSWERED_WHEN_TAKEN) {
            return Ok(());
        }
        let Some(context) = self.nodes[EDGE].users().context() else { return Ok(()) };
        let row = context.streams.copy_row(&*context.kernel.store, &copy_key());
        let said = row.ok().and_then(|row| Some(row.reports?.refused));
        Invariant::REFUSED_IS_SAID.same("reports that the centre refused", &said, &Some(refused))
    }
}
