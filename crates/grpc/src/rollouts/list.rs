//! Pages of rollouts, and of the devices of one.

use base::limits::COMMAND_PAYLOAD_BYTES_MAX;
use base::{DeviceId, Problem};
use bytes::Bytes;
use engine::Queries;
use engine::fleet::selection::SELECTOR_BYTES_MAX;
use engine::records::MemberStatus;
use prost::Message;

use super::{known, shape};
use crate::proto;
use crate::store_reads::{FIELD_BYTES_MAX, PAGE_BYTES_MAX, foreign_page, page_limit};

/// Rollouts that are read at a time: each may have a large payload, which is not shown.
const READ_MAX: usize = 32;
/// A bulk assignment that is read among them and left out, in bytes: 1,000 entries of 4 KiB.
const BULK_BYTES_MAX: usize = 5 * 1_024 * 1_024;
/// What a rollout that is shown may take, and a device of one, in bytes; on the wire and before.
const ROLLOUT_BYTES_MAX: usize = 2 * (SELECTOR_BYTES_MAX + 1_024);
const DEVICE_BYTES_MAX: usize = 1_024;

/// Which rollouts are asked for.
pub(super) struct RolloutPageRequest {
    after: Option<String>,
    limit: usize,
}

impl RolloutPageRequest {
    pub(super) fn read(request: &proto::ListRolloutsRequest) -> Result<Self, Problem> {
        Ok(Self { after: text(&request.page)?, limit: page_limit(request.limit)? })
    }

    /// What the page may take while it is made, in bytes.
    pub(super) fn bytes_max(&self) -> usize {
        let read = self.limit.min(READ_MAX) * (COMMAND_PAYLOAD_BYTES_MAX + SELECTOR_BYTES_MAX);
        BULK_BYTES_MAX + read + (self.limit * ROLLOUT_BYTES_MAX).min(2 * PAGE_BYTES_MAX)
    }

    pub(super) fn page(self, queries: &Queries) -> Result<proto::ListRolloutsResponse, Problem> {
        let Self { mut after, limit } = self;
        let (mut rollouts, mut bytes) = (Vec::<proto::Rollout>::new(), 0);
        loop {
            let wanted = (limit - rollouts.len()).min(READ_MAX);
            let (found, stopped) = queries.rollouts(after.as_deref(), wanted)?;
            let has_ended = found.len() < wanted && stopped.is_none();
            for rollout in &found {
                let shown = shape::rollout(rollout);
                bytes += shown.encoded_len() + FIELD_BYTES_MAX;
                if bytes > PAGE_BYTES_MAX && !rollouts.is_empty() {
                    return Ok(proto::ListRolloutsResponse { next_page: behind(&rollouts), rollouts });
                }
                rollouts.push(shown);
            }
            if has_ended {
                return Ok(proto::ListRolloutsResponse { rollouts, next_page: Bytes::new() });
            }
            if rollouts.len() == limit || stopped.is_some() {
                let next_page = stopped.map_or_else(|| behind(&rollouts), |id| String::from(id).into());
                return Ok(proto::ListRolloutsResponse { next_page, rollouts });
            }
            after = rollouts.last().map(|rollout| rollout.id.clone());
        }
    }
}

fn behind(rollouts: &[proto::Rollout]) -> Bytes {
    rollouts.last().map(|rollout| Bytes::from(rollout.id.clone())).unwrap_or_default()
}

/// Which devices of a rollout are asked for.
pub(super) struct RolloutDevicePageRequest {
    rollout: String,
    status: Option<MemberStatus>,
    after: Option<DeviceId>,
    limit: usize,
}

impl RolloutDevicePageRequest {
    pub(super) fn read(request: proto::RolloutDevicesRequest) -> Result<Self, Problem> {
        let after = text(&request.page)?;
        let after = after.map(|text| DeviceId::new(&text).ok_or_else(foreign_page)).transpose()?;
        Ok(Self {
            status: shape::read_device_status(request.status)?,
            after,
            limit: page_limit(request.limit)?,
            rollout: request.id,
        })
    }

    /// What the page may take while it is made, in bytes: the rollout, and its devices.
    pub(super) fn bytes_max(&self) -> usize {
        COMMAND_PAYLOAD_BYTES_MAX + self.limit * DEVICE_BYTES_MAX
    }

    pub(super) fn page(self, queries: &Queries) -> Result<proto::RolloutDevicesResponse, Problem> {
        let rollout = known(queries, &self.rollout)?.rollout;
        let found = queries.rollout_devices(&rollout.id, self.status, self.after.as_ref(), self.limit)?;
        let next = found.last().filter(|_| found.len() == self.limit);
        let next_page = next.map(|member| Bytes::copy_from_slice(member.place.device.as_str().as_bytes()));
        Ok(proto::RolloutDevicesResponse {
            next_page: next_page.unwrap_or_default(),
            devices: found.iter().map(shape::device).collect(),
        })
    }
}

/// Where a page goes on; empty at first.
fn text(page: &Bytes) -> Result<Option<String>, Problem> {
    let text = std::str::from_utf8(page).map_err(|_| foreign_page())?;
    Ok((!text.is_empty()).then(|| text.to_owned()))
}
