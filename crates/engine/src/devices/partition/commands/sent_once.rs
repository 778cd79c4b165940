//! A command of a request that may come again: what is kept for the repeat is which command the
//! request made. The answer is written anew from the command's own row, so that its payload is
//! stored once.

use std::sync::Arc;

use base::{DeviceId, EntityId, Timestamp};
use records::CommandState;
use store::StoreError;

use super::super::{DevicePartition, DeviceStep};
use crate::commands::{NewCommand, TrackedCommand, unknown_command};
use crate::kernel::idempotency::{AnswerForm, Idempotent};
use crate::kernel::reply::{Answered, InputFailure};

/// What a kept command begins with. No answer does: that of HTTP begins with a status, that of gRPC
/// with 0 or 1.
const MARK: u8 = 0xFF;
const BYTES: usize = 1 + EntityId::BYTES + 1 + 8;

/// The command that a request made, as its sender was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct KeptSend {
    id: EntityId,
    is_held: bool,
    expires_at: Option<Timestamp>,
}

impl KeptSend {
    fn of(TrackedCommand { command, state }: &TrackedCommand) -> Self {
        Self { id: command.id, is_held: state.is_held, expires_at: state.expires_at }
    }

    fn state(self) -> CommandState {
        CommandState { is_held: self.is_held, expires_at: self.expires_at, ..CommandState::WAITING }
    }

    fn written(self) -> Arc<[u8]> {
        let mut bytes = Vec::with_capacity(BYTES);
        bytes.push(MARK);
        bytes.extend_from_slice(&self.id.to_bytes());
        bytes.push(u8::from(self.is_held));
        bytes.extend_from_slice(&self.expires_at.unwrap_or(Timestamp(i64::MIN)).0.to_be_bytes());
        bytes.into()
    }

    /// `None` for an answer that was kept whole: a refusal, or one of an earlier version.
    fn read(bytes: &[u8]) -> Option<Self> {
        let (id, rest) = bytes.strip_prefix(&[MARK])?.split_first_chunk()?;
        let (is_held, expires_at) = rest.split_first()?;
        let expires_at = Timestamp(i64::from_be_bytes(expires_at.try_into().ok()?));
        let expires_at = (expires_at != Timestamp(i64::MIN)).then_some(expires_at);
        Some(Self { id: EntityId::from_bytes(id), is_held: *is_held == 1, expires_at })
    }
}

impl DevicePartition {
    /// Gives a device a command, unless this request did so before. A repeat whose command is kept
    /// no longer is refused like any call about it: 404 `unknown_command`.
    pub(in crate::devices::partition) fn send_once(
        &mut self,
        device: &DeviceId,
        command: NewCommand,
        form: &AnswerForm<TrackedCommand>,
        step: &mut DeviceStep<'_>,
    ) -> Result<Answered<Arc<[u8]>>, StoreError> {
        self.once_kept_as(
            form,
            step,
            |partition, step| partition.send_command(device, command, step),
            |answer, written| match answer {
                Ok(sent) => KeptSend::of(sent).written(),
                Err(_) => Arc::clone(written),
            },
            |partition, kept, step| partition.sent_before(kept, form, step),
        )
    }

    fn sent_before(
        &self,
        kept: Arc<[u8]>,
        form: &AnswerForm<TrackedCommand>,
        step: &DeviceStep<'_>,
    ) -> Result<Arc<[u8]>, StoreError> {
        let Some(sent) = KeptSend::read(&kept) else { return Ok(kept) };
        let again = match self.command_with(sent.id, step) {
            Ok(command) => Ok(TrackedCommand { command, state: sent.state() }),
            Err(InputFailure::Refused(_)) => Err(unknown_command(sent.id)),
            Err(InputFailure::Broken(error)) => return Err(error),
        };
        Ok((form.write)(&again))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_of_a_command_is_read_back_and_is_no_answer() {
        let id = EntityId { routing: 7, at: Timestamp(1_795_000_000_000), number: u32::MAX, tag: 3 };
        for (is_held, expires_at) in [(false, None), (true, Some(Timestamp(5)))] {
            let sent = KeptSend { id, is_held, expires_at };
            let written = sent.written();
            assert_eq!((written.len(), KeptSend::read(&written)), (BYTES, Some(sent)));
            assert_eq!(KeptSend::read(&written[1..]), None);
        }
        for answer in [&b"\x00\xC9{}"[..], b"\x01\x94", b"\x00", b""] {
            assert_eq!(KeptSend::read(answer), None);
        }
    }
}
