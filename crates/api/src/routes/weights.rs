//! `/v1/fleet/weights` and `/v1/fleet/fairness`: how fairly devices are picked.

use axum::extract::State;
use axum::response::Response;
use base::limits::DEVICE_ID_CHARS_MAX;
use base::{DeviceId, Problem};
use engine::Engine;
use engine::campaigns::Weight;
use engine::queries::BoundedPage;
use engine::records::DevicePlace;
use net::problem::Refused;
use tokio::runtime::Handle;

use super::Routes;
use super::devices::MatchingDevices;
use crate::ApiState;
use crate::answer::ApiAnswer;
use crate::list::{self, List, PageOfList};
use crate::openapi::Call;
use crate::params::Params;
use crate::shape::{FairnessShape, WeightShape};

pub(super) fn routes() -> Routes {
    let listed = Call::new("Devices in order of id, each with its share of all picks")
        .selection()
        .lists::<WeightShape<'_>>();
    let shown = Call::new("What the weights of devices follow from")
        .gives::<FairnessShape>(200, "as of the latest minute");
    Routes::default().get("/v1/fleet/weights", list, listed).get("/v1/fleet/fairness", show, shown)
}

/// Devices with their weights.
struct Weights {
    engine: Engine,
    devices: MatchingDevices,
    /// Of the server, where the machine that knows the weights runs.
    runtime: Handle,
}

impl List for Weights {
    type Key = DeviceId;
    type Found = (DeviceId, Weight);
    type Shown<'a> = WeightShape<'a>;

    const READ_MAX: usize = 64;
    const ITEM_BYTES_MAX: usize = 256 + DEVICE_ID_CHARS_MAX;

    /// It runs on a thread for reads, which may wait for the machine. A device costs as many rows
    /// as it had picks, so a page of devices that had very many ends early.
    fn look(&self, after: Option<&DeviceId>, limit: usize, cost_max: usize) -> PageOfList<Self> {
        let BoundedPage { found, next, looked_at, cost } = self.devices.look(after, limit, cost_max)?;
        let queries = self.engine.queries();
        let place = |id: DeviceId| -> Result<Option<(DeviceId, DevicePlace)>, Problem> {
            let place = queries.place(&id)?;
            Ok(place.map(|(partition, slot)| (id, DevicePlace { partition, slot })))
        };
        let last = found.last().map(|device| device.profile.id.clone());
        let matching = found.len();
        let found = found.into_iter().filter_map(|device| place(device.profile.id).transpose());
        let (ids, places): (Vec<_>, Vec<_>) = found.collect::<Result<Vec<_>, _>>()?.into_iter().unzip();
        if places.is_empty() {
            return Ok(BoundedPage { found: Vec::new(), next: next.or(last), looked_at, cost });
        }
        let (placed, cost_left) = (places.len(), cost_max.saturating_sub(cost));
        let (weights, cost_of_picks) =
            self.runtime.block_on(self.engine.tasks().weights(places, cost_left))?;
        let found: Vec<_> = ids.into_iter().zip(weights).collect();
        let next = match found.last() {
            Some((id, _)) if found.len() < placed => Some(id.clone()),
            // One that was deleted meanwhile makes this part shorter, and is not the list's end.
            _ if placed < matching => next.or(last),
            _ => next,
        };
        Ok(BoundedPage { found, next, looked_at, cost: cost + cost_of_picks })
    }

    fn key((device, _): &Self::Found) -> DeviceId {
        device.clone()
    }

    fn show((device, weight): &Self::Found) -> WeightShape<'_> {
        WeightShape::of(device, weight)
    }
}

async fn list(State(api): State<ApiState>, mut params: Params) -> Result<Response, Refused> {
    let devices = MatchingDevices::of_selection(&api, &mut params)?;
    let weights = Weights { engine: api.engine().clone(), devices, runtime: Handle::current() };
    list::answer(&api, params.page()?, weights).await
}

async fn show(State(api): State<ApiState>) -> Result<ApiAnswer, Refused> {
    let fairness = api.engine().tasks().fairness().await?;
    Ok(ApiAnswer::ok(&FairnessShape::from(fairness)))
}
