//! Rollouts: one thing to do for many devices, handed out little by little.
//!
//! A rollout and its devices are rows of the registry's partition. Its [`table`] plans durably
//! which devices have their turns. A task carries each order to the device's partition, which makes
//! the command, and carries back what became of it. An order that may have been lost is given
//! again: a device's partition knows a turn that it has had.
//!
//! Only devices that can be reached have their turns. So nothing of a rollout waits in partitions
//! of devices for long, and a pause has little to wait for. What was handed out and did not go out
//! is taken back before the pause is answered.

mod changes;
mod check;
pub(crate) mod courier;
pub(crate) mod links;
mod search;
mod table;
mod tracked;
mod windows;

use std::time::Duration;

use base::{DeviceId, EntityId, Kind, Problem, hash};
use fleet::Selection;
use fleet::selection::{SelectionKey, Test};
use records::{
    OutcomeReceiver, Rollout, RolloutCommand, RolloutDevices, RolloutStage, RolloutStop, RolloutWindow,
    RolloutWork,
};
use tokio::time::timeout;

use crate::Engine;
use crate::chosen_id::CHOSEN_ID_CHARS_MAX;
use crate::kernel::idempotency::IdempotencyKey;
use crate::kernel::reply::{Answered, Reply};
use crate::registry::RegistryInput;

pub use crate::device_orders::{OrderKind, OrderMessages};
pub use changes::RolloutChanges;
pub use check::{DEVICES_MAX, check_rollout_id, named_devices, share_ppm};
pub use links::{
    CommandAt, CommandMove, DeviceLook, DeviceNow, FoundDevice, OrderOutcome, OrderReport, RolloutOrder,
    Search,
};
pub(crate) use table::{RolloutEffect, RolloutTable};
pub use tracked::{RolloutStatus, TrackedRollout};

/// What the text of a rollout's id begins with, where the server made it.
pub const ROLLOUT_ID_PREFIX: &str = "rol_";
/// Longest id of a rollout that a caller chooses, in characters.
pub const ROLLOUT_ID_CHARS_MAX: usize = CHOSEN_ID_CHARS_MAX;
/// Devices that are named in one record, of a rollout that has one entry.
const NAMED_PER_RECORD: usize = 1_000;
/// Records of the devices that a rollout names: all are in one batch.
const NAMED_RECORDS_MAX: usize = 10_000;
/// How long the answer to a new rollout waits until its devices are known.
const COLLECTED_WAIT: Duration = Duration::from_secs(2);

/// A rollout as a caller asks for it. Whoever makes one has checked its form and, with
/// [`NewRollout::check`], its ranges.
#[derive(Clone, Debug, PartialEq)]
pub struct NewRollout {
    /// A hash of the request.
    pub request: u128,
    /// The token of whoever asks, if there are tokens: it has a share of all that may go on.
    pub token: Option<Box<str>>,
    /// What is to be done.
    pub work: RolloutWork,
    /// Which devices; all, if neither this nor `devices` says so.
    pub selection: Option<Selection>,
    /// Only these.
    pub devices: Option<Vec<DeviceId>>,
    /// Commands a minute.
    pub rate: Option<u32>,
    /// Commands that may be unanswered at a time.
    pub in_flight: Option<u32>,
    /// Stages, by their shares.
    pub stages: Vec<RolloutStage>,
    /// When commands are handed out.
    pub window: Option<RolloutWindow>,
    /// When it stops by itself.
    pub stop: Option<RolloutStop>,
    /// Whether devices that come to be meant later belong to it.
    pub include_later: bool,
}

impl NewRollout {
    /// Who is told how each of its commands ended.
    #[must_use]
    pub fn receiver(&self) -> Option<&OutcomeReceiver> {
        match &self.work {
            RolloutWork::Command(command) => command.notify.as_ref(),
            RolloutWork::Entries(_) => None,
        }
    }

    /// A rollout of that work to all devices, without bounds.
    #[must_use]
    pub fn of(work: RolloutWork, request: u128) -> Self {
        Self {
            request,
            token: None,
            work,
            selection: None,
            devices: None,
            rate: None,
            in_flight: None,
            stages: Vec::new(),
            window: None,
            stop: None,
            include_later: false,
        }
    }

    /// The records of the devices that it names.
    fn named(&mut self, rollout: base::Incarnation) -> Vec<RolloutDevices> {
        let devices = self.devices.take().unwrap_or_default();
        let least = devices.len().div_ceil(NAMED_RECORDS_MAX);
        let together = per_members(NAMED_PER_RECORD, &self.work).max(least);
        let chunks = devices.chunks(together).map(<[DeviceId]>::to_vec);
        (0..).zip(chunks).map(|(number, devices)| RolloutDevices { rollout, number, devices }).collect()
    }
}

/// What is asked of a rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RolloutCall {
    /// Hand out nothing more until it is resumed.
    Pause,
    /// Go on.
    Resume,
    /// Go on behind the present stage, once it has soaked.
    Approve,
    /// Call off what was not sent.
    Cancel,
}

/// Who waits for something that is done or refused.
pub type DoneReply = Reply<Answered<()>>;

/// An input about rollouts to the registry.
#[derive(Debug)]
pub enum RolloutInput {
    /// Begin a rollout.
    Create {
        /// Its id.
        id: Box<str>,
        /// As asked for.
        new: Box<NewRollout>,
        /// The same request again is the same rollout.
        is_put: bool,
        /// Gets the rollout, and whether it is new.
        reply: Reply<Answered<Box<(TrackedRollout, bool)>>>,
    },
    /// Something is asked of a rollout.
    Call {
        /// The rollout.
        id: Box<str>,
        /// What.
        call: RolloutCall,
        /// Gets the outcome.
        reply: DoneReply,
    },
    /// Wait until all devices of a rollout are known.
    AwaitCollected {
        /// The rollout.
        id: Box<str>,
        /// Told then.
        reply: Reply<()>,
    },
    /// What tasks found out, and what partitions of devices had to say.
    Update(RolloutUpdate, Reply<()>),
}

/// What was found out for rollouts.
#[derive(Debug)]
pub enum RolloutUpdate {
    /// Devices of a rollout; the search goes on there.
    Found(base::Incarnation, records::RolloutCursor, Vec<FoundDevice>, Option<records::RolloutCursor>),
    /// The stored selector of a rollout cannot be read: no device is known to be meant.
    Unreadable(base::Incarnation),
    /// Devices that changed, or that a rollout may mean since.
    LookedUp(base::Incarnation, Vec<(DeviceId, DeviceNow)>),
    /// Devices of a rollout that can be reached, and those that were looked up besides and are gone
    /// or changed. The search goes on behind this one.
    Candidates(
        base::Incarnation,
        Vec<records::MemberPlace>,
        Vec<(DeviceId, DeviceNow)>,
        Option<records::MemberPlace>,
    ),
    /// The rank of the last device of a stage.
    Boundary(base::Incarnation, u32, Option<u64>),
    /// Commands moved on.
    Moved(Vec<CommandMove>),
    /// Orders were carried out.
    Reported(Vec<OrderReport>),
    /// Devices came, or changed.
    Looks(Vec<(DeviceId, DeviceLook)>),
    /// Devices may have come that nobody noted.
    LookAgain,
    /// Moves, or devices that came to be meant, may have been lost.
    AskAgain,
}

/// The calls about rollouts. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Rollouts {
    engine: Engine,
}

impl Rollouts {
    pub(crate) fn new(engine: Engine) -> Self {
        Self { engine }
    }

    /// Begins a rollout under an id that the server makes. The same request under the same key
    /// makes the same id, and so the same rollout.
    ///
    /// # Errors
    /// - 422 `no_place` for a payload that a kind of the selection cannot be shown.
    /// - 422 `bad_selector` or `bad_place` for a selection that cannot be kept.
    /// - 422 `too_many_devices`.
    /// - 409 `exists` if another request came with the key, or `too_many_rollouts`.
    /// - 503 when not accepting, here and for every call below.
    pub async fn create(
        &self,
        new: NewRollout,
        idempotency: Option<IdempotencyKey>,
    ) -> Result<TrackedRollout, Problem> {
        let id = made_id(idempotency)?;
        Ok(self.begin(id, new, idempotency.is_some()).await?.0)
    }

    /// [`Rollouts::create`] under the caller's id: the same request again is the same rollout.
    /// Whether it is new.
    ///
    /// # Errors
    /// 409 `exists` if another request made it.
    pub async fn put(&self, id: &str, new: NewRollout) -> Result<(TrackedRollout, bool), Problem> {
        self.begin(id.into(), new, true).await
    }

    async fn begin(
        &self,
        id: Box<str>,
        new: NewRollout,
        is_put: bool,
    ) -> Result<(TrackedRollout, bool), Problem> {
        new.selection.as_ref().map_or(Ok(()), Selection::check_kept)?;
        new.check_members(self.engine.devices_registered())?;
        self.check_payload(&new)?;
        let new = Box::new(new);
        let input =
            |reply| RegistryInput::Rollouts(RolloutInput::Create { id: id.clone(), new, is_put, reply });
        let (begun, is_new) = *self.engine.registry().ask(input).await??;
        if !is_new {
            return Ok((begun, false));
        }
        let id = begun.rollout.id.clone();
        let input = |reply| RegistryInput::Rollouts(RolloutInput::AwaitCollected { id: id.clone(), reply });
        // A rollout of very many devices is answered before all are known.
        let _so_far = timeout(COLLECTED_WAIT, self.engine.registry().ask(input)).await;
        let known = self.engine.queries().rollout(&id)?;
        Ok((known.unwrap_or(begun), true))
    }

    /// Refuses a command that devices of a kind that is asked for cannot be shown. Devices of other
    /// kinds are looked at when it is their turn.
    fn check_payload(&self, new: &NewRollout) -> Result<(), Problem> {
        let RolloutWork::Command(command) = &new.work else { return Ok(()) };
        let requirements = new.selection.as_ref().map_or(&[][..], Selection::requirements);
        for requirement in requirements.iter().filter(|one| one.key == SelectionKey::Kind) {
            let Test::In(kinds) = &requirement.test else { continue };
            for kind in kinds.iter().filter_map(|kind| Kind::new(kind)) {
                (self.engine.settings().check_payload)(&kind, &command.payload)?;
            }
        }
        Ok(())
    }

    /// Pauses, resumes, approves or cancels a rollout. When a pause or a cancellation is answered,
    /// nothing more of it goes out that did not go out before.
    ///
    /// # Errors
    /// 404 `unknown_rollout`; 409 `finished` or `nothing_to_approve`.
    pub async fn call(&self, id: &str, call: RolloutCall) -> Result<(), Problem> {
        let id = Box::from(id);
        let input = |reply| RegistryInput::Rollouts(RolloutInput::Call { id, call, reply });
        self.engine.registry().ask(input).await?
    }
}

/// A unique id; the same request under the same key gets the same one.
fn made_id(idempotency: Option<IdempotencyKey>) -> Result<Box<str>, Problem> {
    let bytes = IdempotencyKey::id_bytes(idempotency, 0)?;
    Ok(EntityId::from_bytes(&bytes).to_text(ROLLOUT_ID_PREFIX).into())
}

/// The hash of a request's body, by which the same request is known.
#[must_use]
pub fn request_hash(body: &[u8]) -> u128 {
    hash::wide(body)
}

/// How long a rollout's command may take.
fn ttl(rollout: &Rollout) -> Option<Duration> {
    match &rollout.work {
        RolloutWork::Command(command) => {
            let RolloutCommand { ttl_ms, .. } = **command;
            ttl_ms.map(Duration::from_millis)
        }
        RolloutWork::Entries(_) => None,
    }
}

/// Whether only devices that can be reached have their turns. What is wished of a device is kept
/// for it, whether it is there or not.
fn needs_reach(rollout: &Rollout) -> bool {
    matches!(rollout.work, RolloutWork::Command(_))
}

/// How many members of a rollout a device is.
fn entries(rollout: &Rollout) -> u32 {
    entries_of(&rollout.work)
}

fn entries_of(work: &RolloutWork) -> u32 {
    match work {
        RolloutWork::Command(_) => 1,
        RolloutWork::Entries(entries) => u32::try_from(entries.len()).unwrap_or(u32::MAX),
    }
}

/// How many devices have so many members, of which each has one for every entry: those of one input
/// to the registry are one batch. One device at least.
fn per_members(members: usize, work: &RolloutWork) -> usize {
    (members / entries_of(work).max(1) as usize).max(1)
}

pub(crate) fn unknown_rollout(id: &str) -> Problem {
    Problem::unknown("unknown_rollout", format!("there is no rollout {id}"))
}
