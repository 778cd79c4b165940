//! Reports that copies of kind `reports` bring to other nodes. They are written in the batch of the
//! reports themselves, in rows that go once the stream of the copy has them.
//!
//! Each copy has a line of rows with running numbers, which say where a report is in its order.
//! A line that is empty keeps one row without reports, so that no number is given twice.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use base::{ClientId, DeviceId, Incarnation, Lineage, PartitionId, Timestamp, Value};
use fleet::Selection;
use fleet::selection::Selectable;
use records::{Connection, DevicePlace, DeviceSlot, GatheredReport, GatheredReports, Op};
use store::{StoreError, View};
use tokio::sync::watch;

use super::{DevicePartition, DeviceStep};
use crate::FleetIndexes;
use crate::devices::context::DeviceContext;
use crate::devices::effect::DeviceEffect;
use crate::devices::input::GatheredInput;
use crate::gathering::{CopyBacklog, GatheredBacklog, GatheringList, PartitionBacklog};

/// Reports of a row at most: two rows are no more than one append takes.
pub(super) const ROW_REPORTS_MAX: usize = 500;
/// A row that is larger is ended: so the weight of a batch shows what is gathered in it.
const ROW_BYTES_MAX: usize = 64 << 10;
/// Rows of copies that are gone that one step deletes.
const FORGOTTEN_AT_ONCE: usize = 500;

/// What a partition gathers, and what waits of it.
#[derive(Debug)]
pub(super) struct ReportOutbox {
    copies: watch::Receiver<GatheringList>,
    wanted: GatheringList,
    fleet: Arc<FleetIndexes>,
    /// What names the reports of new rows.
    lineage: Lineage,
    lines: BTreeMap<Incarnation, GatherLine>,
    backlog: GatheredBacklog,
}

/// The rows of a copy.
#[derive(Debug)]
struct GatherLine {
    /// The number of the next report.
    next: u64,
    rows: VecDeque<GatheredRow>,
}

#[derive(Clone, Copy, Debug)]
struct GatheredRow {
    first: u64,
    received_at: Timestamp,
    backlog: GatheredBacklog,
}

/// The rows that a step has begun, by copy.
#[derive(Debug, Default)]
pub(super) struct BegunRows {
    rows: BTreeMap<Incarnation, BegunRow>,
    /// Reports that the step has gathered.
    added: u64,
    /// Rows were written or deleted.
    is_changed: bool,
}

#[derive(Debug, Default)]
struct BegunRow {
    reports: Vec<GatheredReport>,
    bytes: usize,
}

impl Default for GatherLine {
    fn default() -> Self {
        Self { next: 1, rows: VecDeque::new() }
    }
}

impl GatheredRow {
    fn of(row: &GatheredReports) -> Self {
        let backlog = GatheredBacklog { reports: row.reports.len() as u64, bytes: row.bytes() };
        Self { first: row.first, received_at: row.received_at, backlog }
    }
}

impl GatherLine {
    fn push(&mut self, row: &GatheredReports) {
        // The row that kept the number is this one from now on.
        if self.rows.back().is_some_and(|last| last.first == row.first) {
            self.rows.pop_back();
        }
        self.next = row.next();
        self.rows.push_back(GatheredRow::of(row));
    }

    /// What waits: the rows follow one another without a gap.
    fn backlog(&self, gather: Incarnation) -> Option<CopyBacklog> {
        let oldest = self.rows.front().filter(|row| row.first < self.next)?;
        Some(CopyBacklog { gather, reports: self.next - oldest.first, oldest_at: oldest.received_at })
    }
}

impl ReportOutbox {
    pub(super) fn new(context: &DeviceContext, lineage: Lineage) -> Self {
        let mut copies = context.gatherings.follow();
        let wanted = Arc::clone(&copies.borrow_and_update());
        let fleet = Arc::clone(&context.fleet);
        Self { copies, wanted, fleet, lineage, lines: BTreeMap::new(), backlog: GatheredBacklog::default() }
    }

    /// Takes up what is stored.
    pub(super) fn load(&mut self, view: &dyn View) -> Result<(), StoreError> {
        view.each_gathered(&mut |row| {
            self.lines.entry(row.gather).or_default().push(row);
            let GatheredBacklog { reports, bytes } = GatheredRow::of(row).backlog;
            self.backlog.reports += reports;
            self.backlog.bytes += bytes;
        })
    }

    fn waiting(&self) -> PartitionBacklog {
        let by_copy = self.lines.iter().filter_map(|(gather, line)| line.backlog(*gather));
        PartitionBacklog { all: self.backlog, by_copy: by_copy.collect() }
    }

    /// Looks whether there are other copies than before.
    pub(super) fn refresh(&mut self) {
        // Without a sender nothing changes any more.
        if self.copies.has_changed().unwrap_or(false) {
            self.wanted = Arc::clone(&self.copies.borrow_and_update());
        }
    }

    fn wants(&self, gather: Incarnation) -> bool {
        self.wanted.iter().any(|wanted| wanted.gather == gather)
    }

    fn put(&mut self, row: GatheredReports, step: &mut DeviceStep<'_>) {
        let GatheredBacklog { reports, bytes } = GatheredRow::of(&row).backlog;
        self.backlog.reports += reports;
        self.backlog.bytes += bytes;
        step.own.gathered.added += reports;
        step.own.gathered.is_changed = true;
        self.lines.entry(row.gather).or_default().push(&row);
        step.push(Op::PutGatheredReports(Box::new(row)));
    }

    fn delete(&mut self, gather: Incarnation, row: GatheredRow, step: &mut DeviceStep<'_>) {
        self.backlog.reports -= row.backlog.reports;
        self.backlog.bytes -= row.backlog.bytes;
        step.own.gathered.is_changed = true;
        step.push(Op::DeleteGatheredReports(gather, row.first));
    }

    /// Ends the row that a step has begun for a copy.
    fn end_row(&mut self, gather: Incarnation, step: &mut DeviceStep<'_>) {
        let Some(BegunRow { reports, .. }) = step.own.gathered.rows.remove(&gather) else { return };
        let first = self.lines.entry(gather).or_default().next;
        let row = GatheredReports { gather, first, lineage: self.lineage, received_at: step.now, reports };
        self.put(row, step);
    }
}

impl DevicePartition {
    /// Gathers an accepted report for the copies that want it.
    pub(super) fn gather(
        &mut self,
        (slot, device): (DeviceSlot, &DeviceId),
        (value, ts): (&Value, Option<Timestamp>),
        step: &mut DeviceStep<'_>,
    ) -> Result<(), StoreError> {
        for wanted in &*Arc::clone(&self.outbox.wanted) {
            if let Some(selection) = &wanted.selection
                && !self.is_meant((slot, device), selection, step)?
            {
                continue;
            }
            let report = GatheredReport { device: device.clone(), ts, value: value.clone() };
            let begun = step.own.gathered.rows.entry(wanted.gather).or_default();
            begun.bytes += report.bytes();
            begun.reports.push(report);
            if begun.bytes >= ROW_BYTES_MAX || begun.reports.len() >= ROW_REPORTS_MAX {
                self.outbox.end_row(wanted.gather, step);
            }
        }
        Ok(())
    }

    /// Whether a selection means a device, as the index has it. One that was registered just now is
    /// not there yet.
    fn is_meant(
        &self,
        (slot, device): (DeviceSlot, &DeviceId),
        selection: &Selection,
        step: &DeviceStep<'_>,
    ) -> Result<bool, StoreError> {
        let (fleet, place) = (&self.outbox.fleet, DevicePlace { partition: self.id, slot });
        if fleet.device_id(place).is_some() {
            return Ok(fleet.matches(place, selection));
        }
        let Some(profile) = self.stored_profile(device, step)? else { return Ok(false) };
        let clients: Vec<_> = profile.clients.iter().map(|client| self.client_id(*client)).collect();
        let clients: Vec<&str> = clients.iter().map(ClientId::as_str).collect();
        Ok(selection.matches(Selectable {
            kind: profile.kind.as_str(),
            labels: &profile.labels,
            connection: Connection::Online,
            connected: false,
            answering: true,
            clients: &clients,
        }))
    }

    /// Writes what the step has gathered, and tells what waits, in front of the answers of the
    /// step. So whoever is told that a report is accepted finds it where it waits.
    pub(super) fn write_gathered(&mut self, step: &mut DeviceStep<'_>) {
        while let Some(gather) = step.own.gathered.rows.keys().next().copied() {
            self.outbox.end_row(gather, step);
        }
        if step.own.gathered.is_changed {
            let (backlog, added) = (self.outbox.waiting(), step.own.gathered.added);
            step.effects.insert(0, DeviceEffect::Gathered(self.id, backlog, added));
        }
    }

    pub(super) fn apply_to_gathered(
        &mut self,
        input: GatheredInput,
        step: &mut DeviceStep<'_>,
    ) -> DeviceEffect {
        match input {
            GatheredInput::Taken { gather, next, reply } => {
                self.gathered_taken(gather, next, step);
                DeviceEffect::Kept(reply)
            }
            GatheredInput::Forget { reply } => DeviceEffect::Swept(reply, self.forget_gathered(step)),
        }
    }

    /// The stream of a copy has the reports in front of number `next`: their rows go.
    fn gathered_taken(&mut self, gather: Incarnation, next: u64, step: &mut DeviceStep<'_>) {
        let mut taken = Vec::new();
        let Some(line) = self.outbox.lines.get_mut(&gather) else { return };
        while let Some(row) =
            line.rows.pop_front_if(|row| row.first < next && row.first + row.backlog.reports <= next)
        {
            taken.push(row);
        }
        let (first, is_empty) = (line.next, line.rows.is_empty());
        if is_empty && !taken.is_empty() {
            let (lineage, received_at) = (self.outbox.lineage, step.now);
            let row = GatheredReports { gather, first, lineage, received_at, reports: Vec::new() };
            self.outbox.put(row, step);
        }
        taken.into_iter().for_each(|row| self.outbox.delete(gather, row, step));
    }

    /// Deletes rows of copies that are gone; whether there are more.
    fn forget_gathered(&mut self, step: &mut DeviceStep<'_>) -> bool {
        let mut left = FORGOTTEN_AT_ONCE;
        let gone: Vec<_> =
            self.outbox.lines.keys().copied().filter(|gather| !self.outbox.wants(*gather)).collect();
        for gather in gone {
            while let Some(row) = self.outbox.lines.get_mut(&gather).and_then(|line| line.rows.pop_front()) {
                self.outbox.delete(gather, row, step);
                left -= 1;
                if left == 0 {
                    return true;
                }
            }
            self.outbox.lines.remove(&gather);
        }
        false
    }
}

/// A partition was loaded with this waiting.
pub(super) fn tell_loaded(partition: PartitionId, outbox: &ReportOutbox, context: &DeviceContext) {
    context.gatherings.set_backlog(partition, outbox.waiting(), 0);
}
