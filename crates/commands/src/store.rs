//! The port through which the rules read and write commands.

use std::sync::Arc;

use base::Timestamp;
use records::{
    Command, CommandKey, CommandPhase, CommandState, CommandStatus, DeviceSlot, FinishedCommand, Op,
    OpenCommand,
};

/// What the rules read and write. Reads see what was written before, in this step too.
pub trait CommandStore {
    /// Why a read failed.
    type Error;

    /// A command as it was given.
    fn command(&self, key: CommandKey) -> Result<Option<Arc<Command>>, Self::Error>;
    /// How far it has come.
    fn state(&self, key: CommandKey) -> Result<Option<CommandState>, Self::Error>;
    /// The first commands of a device in a phase: by priority, the highest first, then by key.
    fn first(
        &self,
        slot: DeviceSlot,
        phase: CommandPhase,
        limit: usize,
    ) -> Result<Vec<OpenCommand>, Self::Error>;
    /// The waiting or held commands of a device whose keys have this hash.
    fn with_key(&self, slot: DeviceSlot, key_hash: u64) -> Result<Vec<OpenCommand>, Self::Error>;
    /// The first open commands by `due`, then by key, behind this place and up to this time.
    fn due(
        &self,
        after: Option<(Timestamp, CommandKey)>,
        until: Timestamp,
        limit: usize,
    ) -> Result<Vec<OpenCommand>, Self::Error>;
    /// The first finished commands by when they ended, up to this time.
    fn finished(&self, until: Timestamp, limit: usize) -> Result<Vec<FinishedCommand>, Self::Error>;
    /// Whether this command may expire or fail by itself now, as `end` says. If somebody is to be
    /// told, there has to be room for the outcome. A receiver that is refused is noted.
    fn has_room_for_outcome(&mut self, of: &Command, end: CommandStatus) -> bool;
    /// Whether there may be room now for a receiver that was refused.
    fn has_room_again(&self) -> bool;
    /// The receivers that were refused are asked about anew.
    fn forget_refused(&mut self);
    /// Puts a change into the step's batch.
    fn write(&mut self, op: Op);
}
