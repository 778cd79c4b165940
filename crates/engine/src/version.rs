//! Versions of what is registered: whoever read an object can have it changed only if nobody
//! changed it meanwhile.
//!
//! A version is derived from what is kept of an object's registration. So nothing is stored for it,
//! and it is the same after a restart. What devices report moves no version: otherwise one that is
//! at work could never be changed so. Neither do the slots of a campaign.

use std::fmt::Write;

use base::{Problem, hash};
use records::{CampaignRecord, Client, DeviceProfile, PaceOverride};

use crate::campaigns::TrackedCampaign;

/// The version of a registered object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectVersion(pub u64);

impl ObjectVersion {
    /// Of a device's registration.
    #[must_use]
    pub fn of_device(profile: &DeviceProfile) -> Self {
        let DeviceProfile { id, incarnation, kind, address, labels, report_interval_ms, pace, .. } = profile;
        // Devices without a pace of their own have the versions that they had before there was one.
        let pace = Some(pace).filter(|pace| **pace != PaceOverride::default());
        let pace = pace.map_or_else(String::new, |pace| format!(" {:?} {:?}", pace.in_flight, pace.gap_ms));
        Self::of(format_args!(
            "device {id} {incarnation:?} {kind} {address:?} {labels:?} {report_interval_ms:?}{pace}"
        ))
    }

    /// Of a client's registration.
    #[must_use]
    pub fn of_client(client: &Client) -> Self {
        let Client { id, incarnation, name, url, enabled, notices, .. } = client;
        Self::of(format_args!("client {id} {incarnation:?} {name:?} {url:?} {enabled} {notices}"))
    }

    /// Of a campaign as it was asked for, and whether it is paused. Its terms have a new
    /// incarnation with every change of them, so payloads and long lists of devices are not read
    /// for it.
    #[must_use]
    pub fn of_campaign(tracked: &TrackedCampaign) -> Self {
        let TrackedCampaign { campaign, terms, state } = tracked;
        let CampaignRecord { id, incarnation, name, pace, phase_ms, is_phase_fixed, from, until, .. } =
            &**campaign;
        let (missed, is_panel, is_paused) = (campaign.missed, campaign.is_panel, state.is_paused);
        Self::of(format_args!(
            "campaign {id} {incarnation:?} {name:?} {pace:?} {phase_ms} {is_phase_fixed} {from:?} {until:?} \
             {missed:?} {is_panel} {is_paused} {:?}",
            terms.incarnation
        ))
    }

    fn of(text: std::fmt::Arguments<'_>) -> Self {
        let mut written = String::new();
        written.write_fmt(text).expect("a String takes every write");
        Self(hash::derived(0, written.as_bytes()))
    }
}

/// On which versions something is done: on any, and where there is none yet, unless it says so.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OnlyIf {
    /// On each of these.
    versions: Option<Vec<ObjectVersion>>,
    /// Only on what is there.
    is_there: bool,
}

impl OnlyIf {
    /// On each of these.
    #[must_use]
    pub fn one_of(versions: Vec<ObjectVersion>) -> Self {
        Self { versions: Some(versions), is_there: true }
    }

    /// On any that is there.
    #[must_use]
    pub fn present() -> Self {
        Self { versions: None, is_there: true }
    }

    /// Whether it is done where there is none.
    ///
    /// # Errors
    /// 412 `precondition_failed`.
    pub fn check_absent(&self) -> Result<(), Problem> {
        if self.is_there {
            let detail = "there is nothing of this id, and If-Match asks for a version of it; leave If-Match out to make it";
            return Err(Problem::new(412, "precondition_failed", detail));
        }
        Ok(())
    }

    /// Whether it is done on this one.
    ///
    /// # Errors
    /// 412 `precondition_failed`.
    pub fn check(&self, present: ObjectVersion) -> Result<(), Problem> {
        match &self.versions {
            Some(versions) if !versions.contains(&present) => {
                let detail = "it was changed since it was read: no version in If-Match is the present one; read it again";
                Err(Problem::new(412, "precondition_failed", detail))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_present_version_is_changed() {
        let (present, other) = (ObjectVersion(1), ObjectVersion(2));
        assert_eq!(OnlyIf::default().check(present), Ok(()));
        assert_eq!(OnlyIf::one_of(vec![other, present]).check(present), Ok(()));
        for versions in [vec![], vec![other]] {
            let refused = OnlyIf::one_of(versions).check(present).map_err(|problem| problem.status);
            assert_eq!(refused, Err(412));
        }
        assert_eq!(OnlyIf::present().check(present), Ok(()));
    }

    #[test]
    fn what_is_to_be_there_is_not_made() {
        assert_eq!(OnlyIf::default().check_absent(), Ok(()));
        for only_if in [OnlyIf::present(), OnlyIf::one_of(vec![ObjectVersion(1)]), OnlyIf::one_of(vec![])] {
            assert_eq!(only_if.check_absent().map_err(|problem| problem.status), Err(412));
        }
    }
}
