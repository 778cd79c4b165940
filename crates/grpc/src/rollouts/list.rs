//! Pages of rollouts, and of the devices of one.

use base::{DeviceId, Problem};
use bytes::Bytes;
use engine::Queries;
use engine::records::MemberStatus;

use super::{known, shape};
use crate::proto;
use crate::store_reads::{foreign_page, page_limit};

/// Rollouts that are read at a time: each may have a large payload, which is not shown.
const READ_MAX: usize = 32;

/// Which rollouts are asked for.
pub(super) struct PageOfRollouts {
    after: Option<String>,
    limit: usize,
}

impl PageOfRollouts {
    pub(super) fn read(request: &proto::ListRolloutsRequest) -> Result<Self, Problem> {
        Ok(Self { after: text(&request.page)?, limit: page_limit(request.limit)? })
    }

    pub(super) fn page(self, queries: &Queries) -> Result<proto::ListRolloutsResponse, Problem> {
        let Self { mut after, limit } = self;
        let mut rollouts: Vec<proto::Rollout> = Vec::new();
        loop {
            let wanted = (limit - rollouts.len()).min(READ_MAX);
            let found = queries.rollouts(after.as_deref(), wanted)?;
            rollouts.extend(found.iter().map(shape::rollout));
            let next = rollouts.last().map(|rollout| rollout.id.clone());
            if found.len() < wanted {
                return Ok(proto::ListRolloutsResponse { rollouts, next_page: Bytes::new() });
            }
            if rollouts.len() == limit {
                let next_page = next.map(Bytes::from).unwrap_or_default();
                return Ok(proto::ListRolloutsResponse { rollouts, next_page });
            }
            after = next;
        }
    }
}

/// Which devices of a rollout are asked for.
pub(super) struct DeviceList {
    rollout: String,
    status: Option<MemberStatus>,
    after: Option<DeviceId>,
    limit: usize,
}

impl DeviceList {
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
