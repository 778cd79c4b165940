//! `/v1/devices`: what is registered, and what it is like now.

use axum::extract::State;
use axum::response::Response;
use base::{DeviceId, Kind, Problem};
use engine::queries::{DeviceDetails, DeviceFilter};
use engine::queues::IdempotencyKey;
use engine::records::Connection;
use engine::{AnswerForm, ObjectVersion, Queries};
use net::problem::Refused;

use super::Routes;
use crate::ApiState;
use crate::answer::ApiAnswer;
use crate::body::Text;
use crate::etag::{IfMatch, Tagged};
use crate::idempotency::Creation;
use crate::list::{self, List, PageOfList};
use crate::openapi::refusals::{OF_A_CREATION, OF_A_DEVICE, OF_A_PATCH, OF_A_READ, UNKNOWN_DEVICE};
use crate::openapi::{Call, words};
use crate::params::Params;
use crate::path::{DeviceInPath, IMPORT_PATH, unknown_device};
use crate::shape::{self, DeviceShape};

pub(super) fn routes() -> Routes {
    let created = Call::new("Registers a device")
        .once()
        .takes(shape::new_device_schema())
        .gives::<DeviceShape<'_>>(201, "the device")
        .refuses(OF_A_CREATION)
        .refuses(OF_A_DEVICE)
        .refuses(&[(422, "too_many_kinds")]);
    let listed = Call::new("Devices in order of id")
        .query("kind", words::kind())
        .query("connection", words::connection())
        .query("connected", words::flag())
        .query("waiting", words::flag())
        .query("last_seen_before", words::time())
        .query("id_prefix", words::any_text())
        .query("quarantined", words::flag())
        .selection()
        .labels()
        .lists::<DeviceShape<'_>>();
    let mut routes = Routes::default().get("/v1/devices", list, listed).post("/v1/devices", create, created);
    // A device may be called as the route for imports is.
    for path in ["/v1/devices/{id}", IMPORT_PATH] {
        let [shown, changed, removed] = of_one();
        routes = routes.get(path, show, shown).patch(path, change, changed).delete(path, remove, removed);
    }
    routes
}

fn of_one() -> [Call; 3] {
    let shown = Call::new("A device with its state")
        .gives::<DeviceShape<'_>>(200, "the device")
        .tagged()
        .refuses(&[UNKNOWN_DEVICE])
        .refuses(OF_A_READ);
    let changed = Call::new("Changes what the merge patch names")
        .only_if()
        .takes(shape::device_changes_schema())
        .gives::<DeviceShape<'_>>(200, "the device as it is now")
        .tagged()
        .refuses(OF_A_PATCH)
        .refuses(OF_A_DEVICE)
        .refuses(&[UNKNOWN_DEVICE]);
    let removed = Call::new("Removes a device with its readings, events and commands")
        .only_if()
        .gives_nothing(204, "it is gone")
        .refuses(&[UNKNOWN_DEVICE]);
    [shown, changed, removed]
}

async fn create(State(api): State<ApiState>, creation: Creation) -> Result<ApiAnswer, Refused> {
    let create = async |api: ApiState, body: Text, idempotency: Option<IdempotencyKey>| {
        let write =
            |made: &_| ApiAnswer::of(made, |device| ApiAnswer::created(&DeviceShape::from(device))).stored();
        let form = AnswerForm { idempotency, write };
        ApiAnswer::kept(&api.engine().create_device_as(shape::new_device(&body)?, form).await?)
    };
    creation.once(&api, create).await
}

/// Devices by what they are.
pub(crate) struct MatchingDevices {
    queries: Queries,
    filter: DeviceFilter,
}

impl MatchingDevices {
    /// Those that the parameters ask for.
    ///
    /// # Errors
    /// `invalid_parameter`, `bad_selector`, `bad_place`.
    pub(crate) fn asked(api: &ApiState, params: &mut Params) -> Result<Self, Problem> {
        let connections = [Connection::Online, Connection::Lost, Connection::NeverSeen];
        let right = "a kind: a lower-case letter, then those, digits, '_' and '-'";
        let filter = DeviceFilter {
            kind: params.take("kind", right, Kind::new)?,
            labels: params.labels()?,
            connection: params.word("connection", &connections, Connection::as_str)?,
            connected: params.flag("connected")?,
            waiting: params.flag("waiting")?,
            last_seen_before: params.time("last_seen_before")?,
            id_prefix: params.id_prefix()?,
            quarantined: params.flag("quarantined")?,
            selection: params.selection(api.engine())?,
        };
        Ok(Self { queries: api.queries(), filter })
    }

    /// Those that `selector` and `place` mean.
    ///
    /// # Errors
    /// `invalid_parameter`, `bad_selector`, `bad_place`.
    pub(crate) fn of_selection(api: &ApiState, params: &mut Params) -> Result<Self, Problem> {
        let selection = params.selection(api.engine())?;
        Ok(Self { queries: api.queries(), filter: DeviceFilter { selection, ..DeviceFilter::default() } })
    }

    /// Whether a device is one of them.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) fn has(&self, device: &DeviceDetails) -> Result<bool, Problem> {
        self.queries.lists_device(&self.filter, device)
    }
}

impl List for MatchingDevices {
    type Key = DeviceId;
    type Found = DeviceDetails;
    type Shown<'a> = DeviceShape<'a>;

    fn look(&self, after: Option<&DeviceId>, limit: usize, cost_max: usize) -> PageOfList<Self> {
        self.queries.clone().within(cost_max).devices(&self.filter, after, limit)
    }

    fn key(device: &DeviceDetails) -> DeviceId {
        device.profile.id.clone()
    }

    fn show(device: &DeviceDetails) -> DeviceShape<'_> {
        device.into()
    }
}

async fn list(State(api): State<ApiState>, mut params: Params) -> Result<Response, Refused> {
    let matching = MatchingDevices::asked(&api, &mut params)?;
    list::answer(&api, params.page()?, matching).await
}

async fn show(State(api): State<ApiState>, DeviceInPath(id): DeviceInPath) -> Result<Tagged, Refused> {
    let queries = api.queries();
    let read = move || queries.device(&id)?.ok_or_else(|| unknown_device(id.as_str()));
    Ok(tagged(&api.shared.lookups.run(read).await?))
}

async fn change(
    State(api): State<ApiState>,
    DeviceInPath(id): DeviceInPath,
    IfMatch(only_if): IfMatch,
    body: Text,
) -> Result<Tagged, Refused> {
    Ok(tagged(&api.engine().patch_device(id, shape::change_of_device(&body)?, only_if).await?))
}

fn tagged(device: &DeviceDetails) -> Tagged {
    Tagged(ApiAnswer::ok(&DeviceShape::from(device)), ObjectVersion::of_device(&device.profile))
}

async fn remove(
    State(api): State<ApiState>,
    DeviceInPath(id): DeviceInPath,
    IfMatch(only_if): IfMatch,
) -> Result<ApiAnswer, Refused> {
    api.engine().delete_device(id, only_if).await?;
    Ok(ApiAnswer::nothing())
}
