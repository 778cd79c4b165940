//! The bounds of tasks and campaigns, of each of which one token may hold a share: a quarter.

use ::campaigns::TokenUse;
use ::campaigns::token_use::{Exhausted, share_of_token};
use base::Problem;

use super::campaigns::{CAMPAIGNS_MAX, SLOTS_PER_HOUR_MAX};
use super::terms::TERMS_BYTES_MAX;
use super::{OPEN_PICKS_MAX, RUNNING_MAX};

/// What finds room, or is refused.
#[derive(Clone, Copy, Debug)]
pub(super) enum Requested {
    /// A task.
    Task,
    /// A campaign, or a change of one.
    Campaign,
}

impl Requested {
    fn code(self) -> &'static str {
        match self {
            Self::Task => "too_many_tasks",
            Self::Campaign => "too_many_campaigns",
        }
    }
}

/// A bound on what all tasks and campaigns hold together.
#[derive(Debug)]
pub(super) struct SharedBound {
    max: usize,
    /// Of what, as a caller reads it.
    what: &'static str,
    /// What a caller may do when there is no room.
    remedy: &'static str,
}

pub(super) const RUNNING: SharedBound =
    SharedBound { max: RUNNING_MAX, what: "tasks and slots that go on", remedy: "cancel some, or wait" };
pub(super) const OPEN_PICKS: SharedBound =
    SharedBound { max: OPEN_PICKS_MAX, what: "picks that go on", remedy: "ask fewer devices, or wait" };
pub(super) const CAMPAIGNS: SharedBound =
    SharedBound { max: CAMPAIGNS_MAX, what: "campaigns", remedy: "remove some" };
pub(super) const SLOTS_PER_HOUR: SharedBound = SharedBound {
    max: SLOTS_PER_HOUR_MAX,
    what: "slots of campaigns an hour",
    remedy: "let slots lie further apart, or remove campaigns",
};
pub(super) const TERMS_BYTES: SharedBound = SharedBound {
    max: TERMS_BYTES_MAX,
    what: "bytes of payloads and lists of devices of tasks and campaigns",
    remedy: "send less, remove campaigns, or wait until tasks have ended",
};

impl SharedBound {
    /// Whether whoever has this token, or has none, may hold so much more.
    ///
    /// # Errors
    /// 409 with the code of what is requested when all hold as much as they may; 429 when the token
    /// has its share.
    pub(super) fn check(
        &self,
        held: &TokenUse,
        (token, more): (Option<&str>, usize),
        requested: Requested,
    ) -> Result<(), Problem> {
        held.check(token, more, self.max).map_err(|by| self.refused(by, requested))
    }

    /// The same of what others held before: all together hold no more of it.
    ///
    /// # Errors
    /// 429 with the code of what is requested when the token has its share.
    pub(super) fn check_share(
        &self,
        held: &TokenUse,
        (token, more): (Option<&str>, usize),
        requested: Requested,
    ) -> Result<(), Problem> {
        held.check_share(token, more, self.max).map_err(|by| self.refused(by, requested))
    }

    /// How much more whoever has this token, or has none, may hold.
    pub(super) fn room(&self, held: &TokenUse, token: Option<&str>) -> usize {
        held.room(token, self.max)
    }

    fn refused(&self, by: Exhausted, requested: Requested) -> Problem {
        let (Self { max, what, remedy }, code) = (self, requested.code());
        match by {
            Exhausted::Bound(held) => {
                Problem::conflict(code, format!("there are {held} {what}, and there may be {max}; {remedy}"))
            }
            Exhausted::Share(held) => {
                let share = share_of_token(*max);
                let detail = format!(
                    "one token may have {share} of the {max} {what}, and this one has {held}; {remedy}"
                );
                Problem::new(429, code, detail)
            }
        }
    }
}
