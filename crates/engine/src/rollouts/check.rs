//! What a rollout may be: which fields go together, and their ranges. Every edge checks rollouts
//! here, so that they are refused alike.

use std::time::Duration;

use base::{DeviceId, Problem};
use records::{RolloutCommand, RolloutStage, RolloutWindow, RolloutWork};
use rollouts::MEMBERS_MAX;

use super::NewRollout;
use crate::chosen_id::{check_chosen_id, shown};
use crate::{NewCommand, calendar};

/// Devices that a rollout names at most.
pub const DEVICES_MAX: usize = 1_000_000;
/// Stages of a rollout.
const STAGES_MAX: usize = 100;

impl NewRollout {
    /// Whether all of its members, as far as they are known, are few enough. `registered` is how
    /// many devices there are.
    ///
    /// # Errors
    /// `too_many_devices`.
    pub(super) fn check_members(&self, registered: u64) -> Result<(), Problem> {
        let is_everybody = self.selection.as_ref().is_none_or(|some| some.requirements().is_empty());
        let devices = match &self.devices {
            Some(named) => registered.min(named.len() as u64),
            None if is_everybody => registered,
            None => return Ok(()),
        };
        let entries = match &self.work {
            RolloutWork::Command(_) => 1,
            RolloutWork::Entries(entries) => entries.len() as u64,
        };
        if devices.saturating_mul(entries) <= MEMBERS_MAX {
            return Ok(());
        }
        let detail = format!(
            "{devices} devices with {entries} entries each are too many: together there may be \
             {MEMBERS_MAX}; select fewer devices at a time"
        );
        Err(Problem::not_allowed("too_many_devices", detail))
    }

    /// Whether its fields go together, and are within their ranges. Its command was checked before.
    ///
    /// # Errors
    /// `missing_field`, `conflicting_fields`, `invalid_number`, `invalid_stages` or
    /// `invalid_schedule`.
    pub fn check(&self) -> Result<(), Problem> {
        if self.selection.is_none() && self.devices.is_none() {
            let detail = "a rollout needs selector, place or devices; the selector \"\" means every device";
            return Err(Problem::not_allowed("missing_field", detail));
        }
        if self.include_later && self.devices.is_some() {
            let detail =
                "include_later stands beside devices; devices that are named cannot come to be meant";
            return Err(Problem::not_allowed("conflicting_fields", detail));
        }
        if self.devices.as_ref().is_some_and(Vec::is_empty) {
            let detail = "devices is empty; name a device, or leave devices out beside selector or place";
            return Err(Problem::not_allowed("missing_field", detail));
        }
        let after = self.stop.map(|stop| stop.after);
        for (name, count) in [("rate", self.rate), ("in_flight", self.in_flight), ("after", after)] {
            if count == Some(0) {
                let detail = format!("{name} is 0; it must be 1 to {}", u32::MAX);
                return Err(Problem::not_allowed("invalid_number", detail));
            }
        }
        check_stages(&self.stages)?;
        self.window.as_ref().map_or(Ok(()), check_window)
    }
}

fn check_stages(stages: &[RolloutStage]) -> Result<(), Problem> {
    if stages.len() > STAGES_MAX {
        let detail = format!("stages has {} items; it may have {STAGES_MAX}", stages.len());
        return Err(Problem::not_allowed("invalid_stages", detail));
    }
    if stages.windows(2).any(|pair| pair[0].share_ppm >= pair[1].share_ppm) {
        let detail = "the shares of stages are cumulative: each has to be larger than the one before";
        return Err(Problem::not_allowed("invalid_stages", detail));
    }
    Ok(())
}

fn check_window(window: &RolloutWindow) -> Result<(), Problem> {
    let checked = calendar::check(&window.cron, window.tz.as_deref());
    checked.map_err(|wrong| Problem::not_allowed("invalid_schedule", wrong))
}

/// Whether a caller may choose this id for a rollout.
///
/// # Errors
/// `invalid_id`.
pub fn check_rollout_id(id: &str) -> Result<(), Problem> {
    check_chosen_id("rollout", id)
}

/// The devices that a rollout names.
///
/// # Errors
/// `too_many_devices` or `invalid_id`.
pub fn named_devices(ids: &[String]) -> Result<Vec<DeviceId>, Problem> {
    if ids.len() > DEVICES_MAX {
        let detail = format!("devices has {} items; it may have {DEVICES_MAX}", ids.len());
        return Err(Problem::not_allowed("too_many_devices", detail));
    }
    let id = |text: &String| {
        let wrong = || {
            let detail = format!("devices has {}, which cannot be a device's id", shown(text));
            Problem::not_allowed("invalid_id", detail)
        };
        DeviceId::new(text).ok_or_else(wrong)
    };
    ids.iter().map(id).collect()
}

/// A share of all devices in millionths; `least` is the smallest that makes sense.
///
/// # Errors
/// `invalid_number` for less than that, for more than 1, and for what is no number.
pub fn share_ppm(field: &str, share: f64, least: f64) -> Result<u32, Problem> {
    if (least..=1.0).contains(&share) {
        return Ok((share * 1e6).round() as u32);
    }
    let range = if least > 0.0 { "above 0, up to 1" } else { "0 to 1" };
    let detail = format!("{field} is {share:?}; it must be {range}, such as 0.01");
    Err(Problem::not_allowed("invalid_number", detail))
}

/// The same command, for the devices of a rollout.
impl From<NewCommand> for RolloutCommand {
    fn from(command: NewCommand) -> Self {
        let ms = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        Self {
            payload: command.payload,
            ttl_ms: command.ttl.map(ms),
            not_before: command.not_before,
            ack_timeout_ms: command.ack_timeout.map(ms),
            run_timeout_ms: command.run_timeout.map(ms),
            attempts_max: command.attempts_max,
            origin: command.origin.map(String::into_boxed_str),
            key: command.key.map(String::into_boxed_str),
            priority: command.priority,
            notify: command.notify,
        }
    }
}

#[cfg(test)]
mod tests {
    use records::{RolloutEntry, RolloutStop};

    use super::*;

    fn of_all() -> NewRollout {
        let mut new = NewRollout::of(RolloutWork::Entries(Vec::new()), 0);
        new.selection = Some(fleet::Selection::default());
        new
    }

    #[test]
    fn fields_that_do_not_go_together_are_refused() {
        let named = || Some(DeviceId::new("a").into_iter().collect());
        let stage = |share_ppm| RolloutStage { share_ppm, soak_ms: 0, approve: false };
        let window = |cron: &str| Some(RolloutWindow { cron: cron.into(), for_ms: 1, tz: None });
        let stop = |after| Some(RolloutStop { failed_ppm: 1, after });
        for (new, expect) in [
            (of_all(), Ok(())),
            (NewRollout { selection: None, ..of_all() }, Err("missing_field")),
            (NewRollout { selection: None, devices: named(), ..of_all() }, Ok(())),
            (NewRollout { devices: Some(Vec::new()), ..of_all() }, Err("missing_field")),
            (NewRollout { selection: None, devices: Some(Vec::new()), ..of_all() }, Err("missing_field")),
            (NewRollout { devices: named(), include_later: true, ..of_all() }, Err("conflicting_fields")),
            (NewRollout { rate: Some(0), ..of_all() }, Err("invalid_number")),
            (NewRollout { in_flight: Some(0), ..of_all() }, Err("invalid_number")),
            (NewRollout { stop: stop(0), ..of_all() }, Err("invalid_number")),
            (NewRollout { stages: vec![stage(1), stage(1)], ..of_all() }, Err("invalid_stages")),
            (NewRollout { stages: (1..=100).map(stage).collect(), ..of_all() }, Ok(())),
            (NewRollout { stages: (1..=101).map(stage).collect(), ..of_all() }, Err("invalid_stages")),
            (NewRollout { window: window("0 2 * * *"), ..of_all() }, Ok(())),
            (NewRollout { window: window("at night"), ..of_all() }, Err("invalid_schedule")),
        ] {
            let name = format!("{new:?}");
            assert_eq!(new.check().map_err(|problem| problem.code), expect, "{name}");
        }
    }

    #[test]
    fn more_members_than_may_be_are_refused_where_they_are_known() {
        let entry = |number: usize| RolloutEntry { key: number.to_string().into(), value: None };
        let of_a_thousand = || RolloutWork::Entries((0..1_000).map(entry).collect());
        let to_all = || NewRollout { work: of_a_thousand(), ..of_all() };
        let one_site = fleet::Selection::parse("site=1").ok();
        let two = || Some(["a", "b"].iter().filter_map(|id| DeviceId::new(id)).collect());
        for (new, registered, expect) in [
            (to_all(), 10_000, Ok(())),
            (to_all(), 10_001, Err("too_many_devices")),
            (NewRollout { selection: None, ..to_all() }, 10_001, Err("too_many_devices")),
            (NewRollout { selection: one_site, ..to_all() }, 10_001, Ok(())),
            (NewRollout { devices: two(), ..to_all() }, 10_001, Ok(())),
            (of_all(), 10_001, Ok(())),
        ] {
            let checked = new.check_members(registered).map_err(|problem| problem.code);
            assert_eq!(checked, expect, "{registered}: {:?}", new.selection);
        }
    }

    #[test]
    fn a_share_is_a_part_of_all() {
        for (share, least, expect) in [
            (0.01, f64::MIN_POSITIVE, Some(10_000)),
            (1.0, f64::MIN_POSITIVE, Some(1_000_000)),
            (0.0, 0.0, Some(0)),
            (0.0, f64::MIN_POSITIVE, None),
            (1.1, 0.0, None),
            (f64::NAN, 0.0, None),
        ] {
            assert_eq!(share_ppm("share", share, least).ok(), expect, "{share} from {least}");
        }
    }

    #[test]
    fn an_id_and_named_devices_are_told_as_they_are() {
        assert_eq!(check_rollout_id("firmware-7_b"), Ok(()));
        for id in ["", "a.b", &"x".repeat(65)] {
            assert_eq!(check_rollout_id(id).map_err(|problem| problem.code), Err("invalid_id"), "{id}");
        }
        let names = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>();
        assert_eq!(named_devices(&names(&["0xA", "b"])).map(|ids| ids.len()), Ok(2));
        let refused = named_devices(&names(&["0xA", &"/".repeat(1_000)])).expect_err("no id");
        assert!(refused.code == "invalid_id" && refused.detail.len() < 200, "{refused:?}");
    }
}
