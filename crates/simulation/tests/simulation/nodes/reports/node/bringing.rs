//! Brings the reports that a partition has gathered to the stream of their copy, step by step, as
//! whoever runs copies does. Their rows go once they are durable there.

use base::Problem;
use copies::gathered_reports::messages_of;
use engine::devices::input::{DeviceInput, GatheredInput};
use engine::gathering::Gathering;
use engine::kernel::reply::Reply;
use engine::streams::input::{AppendCall, AppendOutcome};
use engine::streams::{NewMessage, StreamsInput};
use records::GatheredReports;
use tokio::sync::oneshot::{Receiver, error::TryRecvError};

use super::ReportsNode;
use crate::nodes::reports::{DEVICES, copy_key};
use crate::streams::world::as_node::StreamsNode;

/// Reports that go together, about: few, so that rows and appends meet.
const REPORTS_AT_ONCE: usize = 6;

/// How far a process has come.
#[derive(Default)]
pub(super) struct Bringing {
    /// Where the rows begin, or before.
    from: u64,
    under_way: UnderWay,
}

/// What is under way.
#[derive(Default)]
enum UnderWay {
    #[default]
    Nothing,
    /// Reports in front of number `next` are appended.
    Append { gathering: Gathering, next: u64, outcome: Receiver<Result<Vec<AppendOutcome>, Problem>> },
    /// Their rows go.
    Taken { next: u64, done: Receiver<()> },
}

impl ReportsNode {
    /// Gathered reports go on to their stream. Whether there was anything to do.
    pub(in crate::nodes::reports) fn bring_gathered(&mut self, is_taken_at_once: bool) -> bool {
        match std::mem::take(&mut self.bringing.under_way) {
            UnderWay::Nothing => self.append_gathered(is_taken_at_once),
            UnderWay::Append { gathering, next, mut outcome } => match outcome.try_recv() {
                Err(TryRecvError::Empty) => {
                    self.bringing.under_way = UnderWay::Append { gathering, next, outcome };
                    false
                }
                Ok(Ok(_)) => self.take_gathered(&gathering, next),
                // It is tried again.
                Ok(Err(_)) | Err(TryRecvError::Closed) => true,
            },
            UnderWay::Taken { next, mut done } => match done.try_recv() {
                Err(TryRecvError::Empty) => {
                    self.bringing.under_way = UnderWay::Taken { next, done };
                    false
                }
                Ok(()) => {
                    self.bringing.from = next;
                    true
                }
                Err(TryRecvError::Closed) => true,
            },
        }
    }

    fn append_gathered(&mut self, is_taken_at_once: bool) -> bool {
        let Some((gathering, rows)) = self.gathered() else { return false };
        let rows_of = |row| messages_of(DEVICES, &gathering, row);
        let messages: Vec<NewMessage> = rows.iter().flat_map(rows_of).collect();
        let Some(next) = rows.last().map(GatheredReports::next).filter(|_| !messages.is_empty()) else {
            return false;
        };
        self.was_read();
        let (reply, outcome) = Reply::new();
        let call = AppendCall {
            is_durable: true,
            is_gathered: true,
            ..AppendCall::new(gathering.key.stream.clone(), messages, reply)
        };
        if !self.tell_streams(StreamsInput::Append(Box::new(call))) {
            return false;
        }
        if is_taken_at_once {
            return self.take_gathered(&gathering, next);
        }
        self.bringing.under_way = UnderWay::Append { gathering, next, outcome };
        true
    }

    fn take_gathered(&mut self, gathering: &Gathering, next: u64) -> bool {
        let (reply, done) = Reply::new();
        let input = GatheredInput::Taken { gather: gathering.gather, next, reply };
        let is_told = self.tell_devices(DeviceInput::Gathered(input));
        if is_told {
            self.bringing.under_way = UnderWay::Taken { next, done };
        }
        is_told
    }

    /// The next gathered reports that are durable.
    fn gathered(&self) -> Option<(Gathering, Vec<GatheredReports>)> {
        let context = self.context()?;
        let (store, key) = (&*context.kernel.store, copy_key());
        let gather = context.streams.copy_row(store, &key).ok()?.gather()?;
        let view = store.view(DEVICES).ok()?;
        let rows = view.gathered_reports((gather, self.bringing.from), REPORTS_AT_ONCE).ok()?;
        Some((Gathering { gather, key, selection: None }, rows))
    }
}
