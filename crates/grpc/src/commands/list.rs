//! Pages of commands.

use base::limits::{COMMAND_PAYLOAD_BYTES_MAX, COMMAND_RESULT_BYTES_MAX};
use base::{DeviceId, PartitionId, Problem, Timestamp};
use bytes::Bytes;
use engine::queries::{BoundedPage, CommandFilter, FeedKey};
use engine::records::CommandKey;
use engine::{Page, Queries};
use prost::Message;

use super::shape;
use crate::proto;
use crate::store_reads::{FIELD_BYTES_MAX, PAGE_BYTES_MAX, foreign_page, page_limit};
use crate::time::read_moment;

/// Commands that are read at a time: each may be large.
const READ_MAX: usize = 32;
/// What a command may take in memory, in bytes: its payload, its result and progress, and a late
/// result.
const ITEM_BYTES_MAX: usize = COMMAND_PAYLOAD_BYTES_MAX + 3 * COMMAND_RESULT_BYTES_MAX + 8 * 1_024;
const PAGE_KEY_BYTES: usize = 14;

/// The page of commands that is asked for.
pub(super) struct CommandPageRequest {
    filter: CommandFilter,
    page: Page<FeedKey<CommandKey>>,
}

impl CommandPageRequest {
    /// The part of the feed that is asked for.
    pub(super) fn feed_page(&self) -> &Page<FeedKey<CommandKey>> {
        &self.page
    }

    pub(super) fn read(request: proto::ListCommandsRequest) -> Result<Self, Problem> {
        let device = (!request.device_id.is_empty()).then(|| {
            DeviceId::new(&request.device_id)
                .ok_or_else(|| Problem::unknown("unknown_device", "there is no such device"))
        });
        let filter = CommandFilter {
            device: device.transpose()?,
            labels: request.labels.into_iter().collect(),
            status: shape::read_status(request.status)?,
            origin: request.origin,
            given_from: None,
        };
        let limit = page_limit(request.limit)?;
        let time = |field: &str, at: Option<prost_types::Timestamp>, else_at: Timestamp| {
            at.map_or(Ok(else_at), |at| read_moment(field, &at))
        };
        let page = Page {
            from: time("from", request.from, Timestamp(i64::MIN))?,
            to: time("to", request.to, Timestamp::MAX)?,
            ascending: request.ascending,
            after: (!request.page.is_empty()).then(|| key_in(&request.page)).transpose()?,
            limit,
        };
        Ok(Self { filter, page })
    }

    /// What the page may take while it is made, in bytes. Counted are the commands that are read at
    /// a time, and those that are shown, twice while they are written for the wire.
    pub(super) fn bytes_max(&self) -> usize {
        let read = self.page.limit.min(READ_MAX) * ITEM_BYTES_MAX;
        read + 2 * (self.page.limit * ITEM_BYTES_MAX).min(PAGE_BYTES_MAX)
    }

    pub(super) fn page(self, queries: &Queries) -> Result<proto::ListCommandsResponse, Problem> {
        let Self { filter, mut page } = self;
        let (wanted, mut commands, mut bytes) = (page.limit, Vec::new(), 0);
        let next_page = 'page: loop {
            page.limit = (wanted - commands.len()).min(READ_MAX);
            let BoundedPage { found, next: stopped, .. } = queries.commands(&filter, page)?;
            let has_ended = found.len() < page.limit && stopped.is_none();
            for (key, command) in found {
                let command = shape::command(&command);
                bytes += command.encoded_len() + FIELD_BYTES_MAX;
                if bytes > PAGE_BYTES_MAX && !commands.is_empty() {
                    break 'page page.after.map(written).unwrap_or_default();
                }
                commands.push(command);
                page.after = Some(key);
            }
            page.after = stopped.or(page.after);
            if has_ended {
                break Bytes::new();
            }
            if commands.len() == wanted || stopped.is_some() {
                break page.after.map(written).unwrap_or_default();
            }
        };
        Ok(proto::ListCommandsResponse { commands, next_page })
    }
}

fn written(at: FeedKey<CommandKey>) -> Bytes {
    let mut bytes = Vec::with_capacity(PAGE_KEY_BYTES);
    bytes.extend_from_slice(&at.key.at.0.to_be_bytes());
    bytes.extend_from_slice(&at.key.number.to_be_bytes());
    bytes.extend_from_slice(&at.partition.0.to_be_bytes());
    bytes.into()
}

fn key_in(bytes: &[u8]) -> Result<FeedKey<CommandKey>, Problem> {
    let read = || {
        let (at, rest) = bytes.split_first_chunk()?;
        let (number, partition) = rest.split_first_chunk()?;
        let key = CommandKey { at: Timestamp(i64::from_be_bytes(*at)), number: u32::from_be_bytes(*number) };
        let partition = PartitionId(u16::from_be_bytes(partition.try_into().ok()?));
        Some(FeedKey { key, partition })
    };
    read().ok_or_else(foreign_page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_goes_on_where_it_was_left() {
        let key = CommandKey { at: Timestamp(1_800_000_000_000), number: u32::MAX };
        let at = FeedKey { key, partition: PartitionId(7) };
        assert_eq!(key_in(&written(at)), Ok(at));
        for bytes in [&[0; 13][..], &[0; 15], b"x"] {
            assert_eq!(key_in(bytes).map_err(|problem| problem.status), Err(400), "{bytes:?}");
        }
    }
}
