//! What a task and a campaign may be: which fields go together, and their ranges. Every edge checks
//! them here, so that they are refused alike.

use std::time::Duration;

use ::campaigns::slots::SLOTS_OF_PERIOD;
use base::Problem;
use base::limits::{COMMAND_PAYLOAD_BYTES_MAX, TEXT_CHARS_MAX};
use fleet::selection::SelectionKey;
use records::CampaignPace;

use super::{COUNT_MAX, NAMED_MAX, NewCampaign, NewPickTerms, NewTask};
use crate::chosen_id::{check_chosen_id, shown};

/// How long a device may have for its answer.
pub const ANSWER_TIMEOUT_RANGE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(3_600));
/// How long devices of a task that drop out may be replaced.
pub const DEADLINE_RANGE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(3_600));
/// How far slots may lie apart.
pub const EVERY_RANGE: (Duration, Duration) = (Duration::from_secs(1), INTERVAL_MAX);
/// How long a period may be whose slots share its count.
pub const OVER_RANGE: (Duration, Duration) = (Duration::from_secs(60), INTERVAL_MAX);
const INTERVAL_MAX: Duration = Duration::from_secs(366 * 24 * 3_600);
/// Bytes of the payloads of a task's, or of a slot's, commands: each device has its own copy.
const PAYLOADS_BYTES_MAX: u64 = 1 << 30;

impl NewTask {
    /// Whether its fields go together, and are within their ranges.
    ///
    /// # Errors
    /// `missing_field`, `conflicting_fields`, `invalid_number`, `invalid_duration`,
    /// `payload_too_large` or `too_many_devices`.
    pub fn check(&self) -> Result<(), Problem> {
        self.terms.check()?;
        self.terms.check_payloads(self.terms.count)?;
        check_span("deadline", self.deadline, DEADLINE_RANGE)
    }
}

impl NewPickTerms {
    fn check(&self) -> Result<(), Problem> {
        let bytes = self.payload.len();
        if bytes > COMMAND_PAYLOAD_BYTES_MAX {
            let detail = format!(
                "payload has {bytes} bytes as compact JSON; a command's may have {COMMAND_PAYLOAD_BYTES_MAX}"
            );
            return Err(Problem::not_allowed("payload_too_large", detail));
        }
        if self.count == 0 || self.count > COUNT_MAX {
            let detail = format!("count is {}; it must be 1 to {COUNT_MAX}", self.count);
            return Err(Problem::not_allowed("invalid_number", detail));
        }
        if let Some(devices) = self.devices.as_ref().filter(|devices| devices.len() > NAMED_MAX) {
            let detail = format!("devices has {} items; it may have {NAMED_MAX}", devices.len());
            return Err(Problem::not_allowed("too_many_devices", detail));
        }
        if self.devices.as_ref().is_some_and(Vec::is_empty) {
            let detail = "devices is empty; name a device, or leave devices out";
            return Err(Problem::not_allowed("missing_field", detail));
        }
        if let Some(key) = self.spread_by.as_deref().filter(|key| SelectionKey::read(key).is_none()) {
            let detail = format!("spread_by is {}, which can be no label and is no built-in key", shown(key));
            return Err(Problem::not_allowed("invalid_name", detail));
        }
        check_span("answer_timeout", self.answer_timeout, ANSWER_TIMEOUT_RANGE)
    }

    fn check_payloads(&self, devices: u32) -> Result<(), Problem> {
        let bytes = u64::from(devices) * self.payload.len() as u64;
        if bytes <= PAYLOADS_BYTES_MAX {
            return Ok(());
        }
        let detail = format!(
            "{devices} devices at a time with this payload are {bytes} bytes, and may be \
             {PAYLOADS_BYTES_MAX}: ask fewer, or send a shorter payload"
        );
        Err(Problem::not_allowed("payload_too_large", detail))
    }
}

impl NewCampaign {
    /// Whether its fields go together, and are within their ranges.
    ///
    /// # Errors
    /// What [`NewTask::check`] refuses; `invalid_id`, `invalid_name` or `invalid_time`.
    pub fn check(&self) -> Result<(), Problem> {
        self.id.as_deref().map_or(Ok(()), check_campaign_id)?;
        self.terms.check()?;
        let of_slot = match self.pace {
            CampaignPace::Every(_) => self.terms.count,
            CampaignPace::Over(_) => self.terms.count.div_ceil(SLOTS_OF_PERIOD as u32),
        };
        self.terms.check_payloads(of_slot)?;
        if self.name.as_deref().is_some_and(|name| name.chars().count() > TEXT_CHARS_MAX) {
            let detail = format!("name has more than {TEXT_CHARS_MAX} characters");
            return Err(Problem::not_allowed("invalid_name", detail));
        }
        let interval = match self.pace {
            CampaignPace::Every(ms) => {
                check_span("every", Duration::from_millis(ms), EVERY_RANGE)?;
                ms
            }
            CampaignPace::Over(ms) => {
                check_span("over", Duration::from_millis(ms), OVER_RANGE)?;
                ms
            }
        };
        if self.phase.is_some_and(|phase| phase >= Duration::from_millis(interval)) {
            let detail = "phase must be shorter than every or over: it shifts slots within that";
            return Err(Problem::not_allowed("invalid_duration", detail));
        }
        if self.from.zip(self.until).is_some_and(|(from, until)| from >= until) {
            let detail = "from must be before until";
            return Err(Problem::not_allowed("invalid_time", detail));
        }
        Ok(())
    }
}

/// Whether a caller may choose this id for a campaign.
///
/// # Errors
/// `invalid_id`.
pub fn check_campaign_id(id: &str) -> Result<(), Problem> {
    check_chosen_id("campaign", id)
}

fn check_span(name: &str, span: Duration, (least, most): (Duration, Duration)) -> Result<(), Problem> {
    if (least..=most).contains(&span) {
        return Ok(());
    }
    let text = base::duration::format;
    let detail = format!("{name} must be {:?} to {:?}", text(least), text(most));
    Err(Problem::not_allowed("invalid_duration", detail))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use base::Timestamp;
    use records::MissedSlots;

    use super::*;

    fn terms() -> NewPickTerms {
        NewPickTerms::new(Arc::from(&b"{}"[..]), 10)
    }

    fn of_bytes(payload: usize, count: u32) -> NewPickTerms {
        NewPickTerms::new(vec![b'0'; payload].into(), count)
    }

    fn task(terms: NewPickTerms) -> NewTask {
        NewTask { request: 0, terms, deadline: NewTask::DEADLINE }
    }

    fn campaign(pace: CampaignPace) -> NewCampaign {
        NewCampaign {
            request: 0,
            id: None,
            name: None,
            terms: terms(),
            pace,
            phase: None,
            from: None,
            until: None,
            missed: MissedSlots::Skip,
            is_panel: false,
        }
    }

    #[test]
    fn a_task_is_within_its_ranges() {
        let seconds = Duration::from_secs;
        let named = |count: usize| {
            Some((0..count).filter_map(|n| base::DeviceId::new(&format!("d{n}"))).collect::<Vec<_>>())
        };
        for (task, expect) in [
            (task(terms()), Ok(())),
            (task(NewPickTerms { count: 0, ..terms() }), Err("invalid_number")),
            (task(NewPickTerms { count: COUNT_MAX, ..terms() }), Ok(())),
            (task(NewPickTerms { count: COUNT_MAX + 1, ..terms() }), Err("invalid_number")),
            (task(of_bytes(16_384, 65_536)), Ok(())),
            (task(of_bytes(16_384, 65_537)), Err("payload_too_large")),
            (task(NewPickTerms { answer_timeout: seconds(0), ..terms() }), Err("invalid_duration")),
            (task(NewPickTerms { answer_timeout: seconds(3_600), ..terms() }), Ok(())),
            (task(NewPickTerms { answer_timeout: seconds(3_601), ..terms() }), Err("invalid_duration")),
            (task(NewPickTerms { devices: named(NAMED_MAX), ..terms() }), Ok(())),
            (task(NewPickTerms { devices: named(NAMED_MAX + 1), ..terms() }), Err("too_many_devices")),
            (task(NewPickTerms { devices: named(0), ..terms() }), Err("missing_field")),
            (task(NewPickTerms { spread_by: Some("".into()), ..terms() }), Err("invalid_name")),
            (task(NewPickTerms { spread_by: Some("Z".into()), ..terms() }), Err("invalid_name")),
            (task(NewPickTerms { spread_by: Some("kind".into()), ..terms() }), Ok(())),
            (NewTask { deadline: seconds(3_601), ..task(terms()) }, Err("invalid_duration")),
        ] {
            let asked = (task.terms.count, task.terms.answer_timeout, task.deadline);
            assert_eq!(task.check().map_err(|problem| problem.code), expect, "{asked:?}");
        }
    }

    #[test]
    fn a_campaign_is_within_its_ranges() {
        let (minute, second) = (CampaignPace::Every(60_000), Duration::from_secs(1));
        let at = |at| Some(Timestamp(at));
        for (campaign, expect) in [
            (campaign(minute), Ok(())),
            (campaign(CampaignPace::Every(999)), Err("invalid_duration")),
            (campaign(CampaignPace::Over(59_999)), Err("invalid_duration")),
            (campaign(CampaignPace::Over(60_000)), Ok(())),
            (NewCampaign { phase: Some(second * 60), ..campaign(minute) }, Err("invalid_duration")),
            (NewCampaign { phase: Some(second * 59), ..campaign(minute) }, Ok(())),
            (NewCampaign { from: at(2), until: at(2), ..campaign(minute) }, Err("invalid_time")),
            (NewCampaign { terms: of_bytes(16_384, 65_537), ..campaign(minute) }, Err("payload_too_large")),
            (
                NewCampaign { terms: of_bytes(65_536, 100_000), ..campaign(CampaignPace::Over(60_000)) },
                Ok(()),
            ),
            (NewCampaign { id: Some("a/b".into()), ..campaign(minute) }, Err("invalid_id")),
            (NewCampaign { name: Some("é".repeat(256).into()), ..campaign(minute) }, Ok(())),
            (NewCampaign { name: Some("e".repeat(257).into()), ..campaign(minute) }, Err("invalid_name")),
        ] {
            let name = format!("{:?} {:?} {:?}", campaign.pace, campaign.phase, campaign.terms.count);
            assert_eq!(campaign.check().map_err(|problem| problem.code), expect, "{name}");
        }
    }
}
