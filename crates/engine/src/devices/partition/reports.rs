//! Reports: whose they are, whether they are allowed, and what `watch` makes of them.

use base::{DeviceId, Kind, Problem, Timestamp, WayIn};
use fleet::NewDevice;
use records::{DeviceSlot, Metric, Op};
use store::StoreError;
use watch::SignOfLife;

use super::commands::DeviceAnswer;
use super::{DevicePartition, DeviceStep};
use crate::devices::effect::DeviceEffect;
use crate::devices::input::Addressed;
use crate::devices::intake::{Report, ReportContent, ReportId, SlicePart};
use crate::kernel::reply::answered;
use crate::refusals::unknown_device;
use crate::settings::UnknownDevice;

/// A partition's part of a slice that is not applied to its end.
#[derive(Debug)]
pub(super) struct Unfinished {
    pub(super) way: WayIn,
    pub(super) reports: std::vec::IntoIter<Addressed>,
    pub(super) part: SlicePart,
}

impl DevicePartition {
    /// Applies reports as long as the batch has room; what is left waits for the next step.
    pub(super) fn reports(
        &mut self,
        mut unfinished: Unfinished,
        step: &mut DeviceStep<'_>,
    ) -> Result<(), StoreError> {
        while step.has_room() {
            let Some(Addressed { index, hash, report }) = unfinished.reports.next() else {
                step.emit(DeviceEffect::Accepted(unfinished.part));
                return Ok(());
            };
            if let Err((device, problem)) = self.report(unfinished.way, hash, report, step)? {
                unfinished.part.reject(index, device, problem);
            }
        }
        self.backlog = Some(unfinished);
        Ok(())
    }

    /// Applies a report, or says whose it is and why it is refused.
    fn report(
        &mut self,
        way: WayIn,
        hash: u64,
        report: Report,
        step: &mut DeviceStep<'_>,
    ) -> Result<Result<(), (DeviceId, Problem)>, StoreError> {
        let slot = match self.devices.slot_of_hashed(&report.device, hash) {
            Some(slot) => slot,
            None => match self.unknown(&report, step) {
                Ok(slot) => slot,
                Err(problem) => return Ok(Err((report.device, problem))),
            },
        };
        let (sign, refusal) = match self.refusal(slot, &report) {
            Some(problem) => (SignOfLife::Alive, Some(problem)),
            None => match report.content {
                ReportContent::Value { .. } if self.is_repeated(slot, report.id) => (SignOfLife::Alive, None),
                ReportContent::Value { value, ts } => {
                    self.accepted(slot, report.id, ts, step);
                    self.gather((slot, &report.device), (&value, ts), step)?;
                    (SignOfLife::Report { value, ts }, None)
                }
                ReportContent::Alive => (SignOfLife::Alive, None),
                ReportContent::Answer { command, ok, result } => {
                    let answer = DeviceAnswer::Final { ok, result };
                    (SignOfLife::Alive, self.command_answered(slot, command, answer, step)?.err())
                }
                ReportContent::Progress { command, progress } => {
                    let answer = DeviceAnswer::Progress(progress);
                    (SignOfLife::Alive, self.command_answered(slot, command, answer, step)?.err())
                }
                ReportContent::Confirmed { key, value } => {
                    let confirmed = answered(self.confirmed(slot, &key, value, step))?;
                    (SignOfLife::Alive, confirmed.err())
                }
                ReportContent::Refused(problem) => (SignOfLife::Alive, Some(*problem)),
            },
        };
        self.watch.sign(step.now, slot, way, sign, &mut step.batch, &mut step.own.noticed);
        self.tell_noticed(step);
        Ok(refusal.map_or(Ok(()), |problem| Err((report.device, problem))))
    }

    /// Whether one of the device's latest reports had this id.
    fn is_repeated(&self, slot: DeviceSlot, id: Option<ReportId>) -> bool {
        id.zip(self.devices.report_ids(slot)).is_some_and(|(id, known)| known.contains(id.0))
    }

    /// A report becomes a reading: it is counted, and its id remembered.
    fn accepted(
        &mut self,
        slot: DeviceSlot,
        id: Option<ReportId>,
        ts: Option<Timestamp>,
        step: &mut DeviceStep<'_>,
    ) {
        let Some(device) = self.devices.get(slot) else { return };
        step.own.counted.add(device.group, Metric::Reports, ts.unwrap_or(step.now));
        if let Some(ReportId(id)) = id {
            step.batch.ops.push(Op::PutReportIds(slot, self.devices.add_report_id(slot, id)));
        }
    }

    /// Why a registered device's report is refused, if it is.
    fn refusal(&self, slot: DeviceSlot, report: &Report) -> Option<Problem> {
        let device = self.devices.get(slot)?;
        let kind = self.devices.kind(device);
        match (&report.kind, &report.content) {
            (Some(claimed), _) if claimed != kind => Some(Problem::not_allowed(
                "wrong_kind",
                format!("device {} is of kind {kind}; the report says {claimed}", report.device),
            )),
            (_, ReportContent::Value { value, .. }) => fleet::check_value(kind, value).err(),
            _ => None,
        }
    }

    /// A report of a device that is not registered: refused, or the device is registered by it. An
    /// id that no device could be registered with says so: whoever is told "unknown" would look for
    /// a registration.
    fn unknown(&mut self, report: &Report, step: &mut DeviceStep<'_>) -> Result<DeviceSlot, Problem> {
        fleet::device_id(report.device.as_str(), self.settings.device_ids)?;
        let reports_a_value = matches!(report.content, ReportContent::Value { .. } | ReportContent::Alive);
        let registers = self.settings.unknown == UnknownDevice::Register;
        if let (true, ReportContent::Refused(problem)) = (registers, &report.content) {
            // Without this it would have registered the device.
            return Err((**problem).clone());
        }
        if registers && reports_a_value {
            let kind = report.kind.clone().unwrap_or_else(Kind::lock);
            if let ReportContent::Value { value, .. } = &report.content {
                fleet::check_value(&kind, value)?;
            }
            let device = NewDevice {
                id: report.device.to_string(),
                kind: Some(kind.to_string()),
                ..NewDevice::default()
            };
            let checked = device.check(&self.settings.registry_rules())?;
            return Ok(self.create_device(checked, step)?.profile.slot);
        }
        Err(unknown_device(&report.device))
    }
}
