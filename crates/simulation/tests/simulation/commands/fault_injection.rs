//! What is broken on purpose in runs with commands.

use records::{CommandStatus, Op};

use crate::harness::fault_injection::{InjectedFault, Shows, StoredFault};

pub(crate) const ANSWER_INVENTED: InjectedFault =
    InjectedFault::Around("progress of a device is taken for its answer");
pub(crate) const WINDOW_IGNORED: InjectedFault =
    InjectedFault::Around("a device may have one command more unanswered than is set");
pub(crate) const GOODBYE_UNHEARD: InjectedFault =
    InjectedFault::Around("nobody hears that a session has ended");
pub(crate) const CANCELLED_GOES_ON: InjectedFault =
    InjectedFault::Around("a command that was called off is tried anew, and nobody has asked for that");
pub(crate) const TAKE_BACK_INVENTED: InjectedFault =
    InjectedFault::Around("the registry is told that commands of rollouts were taken back, and none was");
pub(crate) const GAP_IGNORED: InjectedFault = InjectedFault::Around("there is no gap between two publishes");

pub(crate) const PUBLISH_FORGOTTEN: InjectedFault = InjectedFault::Stored(StoredFault {
    name: "it is not stored that a command went out",
    shows: Shows::Store,
    change: |batch, seen| {
        let is_publish =
            |op: &Op| matches!(op, Op::PutCommandState(_, state) if state.status == CommandStatus::Published);
        let found = batch.ops.iter().filter(|op| is_publish(op)).count() as u64;
        *seen += found;
        if found > 0 && *seen > 3 {
            batch.ops.retain(|op| !is_publish(op));
        }
    },
});

pub(crate) const COMMAND_LOST: InjectedFault = InjectedFault::Stored(StoredFault {
    name: "one command that was given is not stored",
    shows: Shows::Store,
    change: |batch, seen| {
        *seen += batch.ops.iter().filter(|op| matches!(op, Op::PutCommand(_))).count() as u64;
        if *seen > 3 {
            batch.ops.retain(|op| !matches!(op, Op::PutCommand(_)));
        }
    },
});
