//! Reports: whose they are, whether they are allowed, and what they say.
//!
//! A step may end in the middle of a slice. How far it came is in the evidence: one sign of life
//! for each report that was taken.

use std::collections::VecDeque;

use base::WayIn;
use engine::intake::ReportId;
use engine::settings::UnknownDevice;
use engine::{NewDevice, Report, ReportContent};
use records::{EventKind, Metric};

use super::Expected;
use super::device::KnownId;
use super::evidence::Evidence;
use super::partition::Partition;
use crate::harness::calls::CallId;
use crate::harness::violation::Checked;

/// So many of a device's latest ids are known.
const IDS_KNOWN: usize = 8;

/// A slice, or what is left of it.
#[derive(Clone)]
pub(crate) struct Unfinished {
    call: CallId,
    way: WayIn,
    left: VecDeque<(u32, Report)>,
    refused: Vec<(u32, &'static str)>,
}

impl Unfinished {
    pub(super) fn new(call: CallId, way: WayIn, reports: &[(u32, Report)]) -> Self {
        Self { call, way, left: reports.iter().cloned().collect(), refused: Vec::new() }
    }
}

impl Partition {
    /// Whether a slice was taken that is not applied to its end.
    pub(crate) fn has_unfinished(&self) -> bool {
        self.unfinished.is_some()
    }

    /// Takes reports as far as the step did; the answer once all are taken.
    pub(super) fn reports(
        &mut self,
        mut slice: Unfinished,
        evidence: &mut Evidence,
    ) -> Checked<Option<(CallId, Expected)>> {
        while let Some((index, report)) = slice.left.pop_front() {
            let code = match self.refused_from(&report) {
                Some(code) => Some(code),
                None if evidence.signs == 0 => {
                    slice.left.push_front((index, report));
                    self.unfinished = Some(slice);
                    return Ok(None);
                }
                None => {
                    evidence.signs -= 1;
                    self.report((slice.call, slice.way), &report, evidence)?
                }
            };
            slice.refused.extend(code.map(|code| (index, code)));
        }
        Ok(Some((slice.call, Expected::Refused(slice.refused))))
    }

    /// Why a report is refused that is nobody's sign of life.
    fn refused_from(&self, report: &Report) -> Option<&'static str> {
        if self.devices.contains_key(&report.device) {
            return None;
        }
        match &report.content {
            _ if self.settings.unknown == UnknownDevice::Reject => Some("unknown_device"),
            ReportContent::Refused(problem) => Some(problem.code),
            content => refused_value(&kind_of_unknown(report), content),
        }
    }

    /// A report of a device that is registered, or is so by it; why it is refused, if it is.
    fn report(
        &mut self,
        (call, way): (CallId, WayIn),
        report: &Report,
        evidence: &mut Evidence,
    ) -> Checked<Option<&'static str>> {
        if !self.devices.contains_key(&report.device) {
            let kind = Some(kind_of_unknown(report));
            let device = NewDevice { id: report.device.to_string(), kind, ..NewDevice::default() };
            if let Err(code) = self.create(&device, evidence)? {
                return Ok(Some(code));
            }
        }
        let (now, mark) = (self.now, self.listening.mark(way.index()));
        let device = self.devices.get_mut(&report.device).expect("it is there");
        let wrong_kind = report.kind.as_ref().is_some_and(|kind| kind.as_str() != device.kind);
        let refusal = match &report.content {
            _ if wrong_kind => Some("wrong_kind"),
            ReportContent::Refused(problem) => Some(problem.code),
            content => refused_value(&device.kind, content),
        };
        if device.greet(now, way, mark) {
            self.happened(&report.device, EventKind::Restored, evidence)?;
        }
        if let (None, ReportContent::Value { value, ts }) = (refusal, &report.content)
            && !self.is_repeated(call, report)
        {
            self.count(&report.device, Metric::Reports, ts.unwrap_or(now));
            let device = self.devices.get_mut(&report.device).expect("it is there");
            if let Some(previous) = device.take(now, value, *ts) {
                self.changed(&report.device, previous.as_ref(), evidence)?;
            }
        }
        Ok(refusal)
    }

    /// Whether the report's id is one of the latest of its device; if not, it is from now on.
    fn is_repeated(&mut self, call: CallId, report: &Report) -> bool {
        let Some(ReportId(id)) = report.id else { return false };
        let process = self.process;
        let device = self.devices.get_mut(&report.device).expect("it is there");
        if let Some(known) = device.report_ids.iter().find(|known| known.id == id) {
            let count = match known {
                known if known.process != process => &mut self.counts.repeats_after_restart,
                known if known.call != call => &mut self.counts.repeats_later,
                _ => &mut self.counts.repeats_in_slice,
            };
            *count += 1;
            return true;
        }
        self.counts.ids_forgotten += u64::from(!device.ids_ever.insert(id));
        device.report_ids.push_back(KnownId { id, call, process });
        if device.report_ids.len() > IDS_KNOWN {
            device.report_ids.pop_front();
        }
        false
    }
}

/// The kind that a device gets which is registered by its report.
fn kind_of_unknown(report: &Report) -> String {
    report.kind.as_ref().map_or_else(|| "lock".to_owned(), ToString::to_string)
}

/// Why a value is refused, if it is.
fn refused_value(kind: &str, content: &ReportContent) -> Option<&'static str> {
    match content {
        ReportContent::Value { value, .. }
            if kind == "lock" && !matches!(value.to_json().as_str(), "0" | "1") =>
        {
            Some("value_not_allowed")
        }
        _ => None,
    }
}
