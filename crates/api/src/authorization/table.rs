//! Which scope each route takes. A route that is not in the table is for `admin` alone.
//!
//! `read` is for whoever may see everything, `admin` for whoever may change it. `commands` sends
//! commands and sees the devices that these are for; `operate` does so too, sees everything, and
//! sets going again what has stopped. `tasks` has devices picked, sees what came of it, and how
//! the fleet is spread. A client's scope reaches what is its own: its entry in the registry, the
//! devices linked to it, its deliveries. It may have its deliveries sent again, which reaches
//! nobody but the client. It changes nothing else, and sees no other client.

use access::StreamRights;
use axum::http::Method;

/// What a route takes, beside `admin`, which is always enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Needs {
    /// Nothing, not even a token: probes and browsers ask, and the answer tells nothing of devices.
    Nothing,
    /// Any token: the answer tells the caller of itself.
    AnyToken,
    /// `read` or `operate`, or a client's scope where it is its own.
    Read(Ownership),
    /// `read`, `commands` or `operate`, or a client's scope where it is its own.
    Look(Ownership),
    /// `report`.
    Report,
    /// `commands` or `operate`.
    Command,
    /// `tasks`; or `read` or `operate` if nothing is changed.
    Picks,
    /// `tasks` or `operate`.
    OperatePicks,
    /// `read`, `commands`, `tasks` or `operate`.
    Fleet,
    /// `operate`, or a client's scope where it is its own.
    Operate(Ownership),
    /// A client's scope where it is its own, or else `admin`.
    Admin(Ownership),
    /// `jobs:NAMESPACE` of the `{ns}` in the path, or `read` or `operate` if nothing is changed.
    Jobs,
    /// `jobs:NAMESPACE` of the `{ns}` in the path, or `operate`.
    OperateJobs,
    /// `coordinate:NAMESPACE` of the `{ns}` in the path.
    Coordinate,
    /// The same, or what [`Needs::Jobs`] takes.
    Control,
    /// Any scope that may act on something, `jobs:NAMESPACE` where that is asked for with
    /// `namespace=`, or `read` if nothing is changed. Which scope an action takes is told
    /// elsewhere.
    Operations,
    /// `read` or `operate`, or `jobs:NAMESPACE` where that is asked for with `namespace=`.
    Queues,
    /// `coordinate:NAMESPACE` where that is asked for with `namespace=`.
    CoordinationList,
    /// This right to the streams of the `{ns}` in the path.
    Streams(StreamRights),
    /// `operate`, or any scope that publishes jobs or appends to streams: a relay speaks of itself.
    Relays,
    /// `read` or `operate`, or any scope that reads streams: what it may not read is not listed.
    StreamList,
}

/// By what a request is recognised as being about what is a client's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ownership {
    /// Never.
    Never,
    /// The client in the path.
    ClientInPath,
    /// The device in the path is linked to it.
    DeviceInPath,
    /// The delivery in the path is to it.
    DeliveryInPath,
    /// It is asked for with `client=`.
    ClientInQuery,
    /// Either of these two.
    EitherInQuery,
    /// Either of these two, and what is counted is no commands: whoever may look at none of them is
    /// not told how many there are.
    CountsInQuery,
}

use Needs::{
    Admin, AnyToken, Command, Look, Nothing, Operate, OperatePicks, Operations, Picks, Queues, Read, Report,
    StreamList, Streams,
};
use Ownership::{
    ClientInPath, ClientInQuery, CountsInQuery, DeliveryInPath, DeviceInPath, EitherInQuery, Never,
};

/// A method, a route as it is written for the router, and what it takes. HEAD is GET.
pub(super) const ROUTES: &[(&str, &str, Needs)] = &[
    ("GET", "/healthz", Nothing),
    ("GET", "/readyz", Nothing),
    ("GET", "/metrics", Read(Never)),
    ("GET", "/openapi.json", Read(Never)),
    ("GET", "/v1/backup", Admin(Never)),
    ("GET", "/v1/caller", AnyToken),
    ("GET", "/v1/clients", Read(Never)),
    ("POST", "/v1/clients", Admin(Never)),
    ("GET", "/v1/clients/{id}", Read(ClientInPath)),
    ("PATCH", "/v1/clients/{id}", Admin(Never)),
    ("DELETE", "/v1/clients/{id}", Admin(Never)),
    ("GET", "/v1/clients/{id}/devices", Read(ClientInPath)),
    ("GET", "/v1/clients/{id}/portal", Read(Never)),
    ("POST", "/v1/clients/{id}/portal", Operate(Never)),
    ("DELETE", "/v1/clients/{id}/portal/{portal_id}", Operate(Never)),
    ("POST", "/v1/clients/{id}/resend", Operate(ClientInPath)),
    ("POST", "/v1/clients/{id}/rotate-secret", Admin(Never)),
    ("POST", "/v1/clients/{id}/test", Admin(ClientInPath)),
    ("GET", "/v1/commands", Look(Never)),
    ("GET", "/v1/commands/{id}", Look(Never)),
    ("DELETE", "/v1/commands/{id}", Command),
    ("POST", "/v1/commands/{id}/retry", Command),
    ("GET", "/v1/devices", Look(Never)),
    ("POST", "/v1/devices", Admin(Never)),
    ("POST", "/v1/devices/import", Admin(Never)),
    ("GET", "/v1/devices/import", Look(DeviceInPath)),
    ("PATCH", "/v1/devices/import", Admin(Never)),
    ("DELETE", "/v1/devices/import", Admin(Never)),
    ("GET", "/v1/devices/{id}", Look(DeviceInPath)),
    ("PATCH", "/v1/devices/{id}", Admin(Never)),
    ("DELETE", "/v1/devices/{id}", Admin(Never)),
    ("GET", "/v1/devices/{id}/clients", Read(Never)),
    ("PUT", "/v1/devices/{id}/clients/{client_id}", Admin(Never)),
    ("DELETE", "/v1/devices/{id}/clients/{client_id}", Admin(Never)),
    ("POST", "/v1/devices/{id}/ack", Report),
    ("GET", "/v1/devices/{id}/commands", Look(Never)),
    ("POST", "/v1/devices/{id}/commands", Command),
    ("GET", "/v1/devices/{id}/desired", Look(Never)),
    ("PUT", "/v1/devices/{id}/desired/{key}", Command),
    ("DELETE", "/v1/devices/{id}/desired/{key}", Command),
    ("GET", "/v1/devices/{id}/poll", Report),
    ("GET", "/v1/devices/{id}/readings", Read(DeviceInPath)),
    ("GET", "/v1/devices/{id}/readings/summary", Read(DeviceInPath)),
    ("GET", "/v1/devices/{id}/timeline", Look(Never)),
    ("GET", "/v1/events", Read(EitherInQuery)),
    ("GET", "/v1/fleet/count", Needs::Fleet),
    ("GET", "/v1/stats", Read(CountsInQuery)),
    ("GET", "/v1/system", Read(Never)),
    ("GET", "/v1/deliveries", Read(ClientInQuery)),
    ("GET", "/v1/deliveries/{id}", Read(DeliveryInPath)),
    ("POST", "/v1/deliveries/{id}/retry", Operate(DeliveryInPath)),
    // Each topic takes what the list of its name takes.
    ("GET", "/v1/live", AnyToken),
    ("GET", "/v1/overview", Look(Never)),
    ("GET", "/v1/nodes", Admin(Never)),
    ("GET", "/v1/nodes/{name}", Admin(Never)),
    ("PUT", "/v1/nodes/{name}", Admin(Never)),
    ("DELETE", "/v1/nodes/{name}", Admin(Never)),
    ("GET", "/v1/notices", Read(Never)),
    ("GET", "/v1/queues", Queues),
    ("GET", "/v1/locks", Needs::CoordinationList),
    ("GET", "/v1/limits", Needs::CoordinationList),
    ("GET", "/v1/desired", Look(Never)),
    ("POST", "/v1/desired", Command),
    ("GET", "/v1/desired/{id}", Look(Never)),
    ("DELETE", "/v1/desired/{id}", Command),
    ("GET", "/v1/operations", Operations),
    ("POST", "/v1/operations", Operations),
    ("GET", "/v1/operations/{id}", Operations),
    ("DELETE", "/v1/operations/{id}", Operations),
    ("GET", "/v1/rollouts", Look(Never)),
    ("POST", "/v1/rollouts", Command),
    ("GET", "/v1/rollouts/{id}", Look(Never)),
    ("PUT", "/v1/rollouts/{id}", Command),
    ("DELETE", "/v1/rollouts/{id}", Command),
    ("POST", "/v1/rollouts/{id}/approve", Command),
    ("GET", "/v1/rollouts/{id}/devices", Look(Never)),
    ("POST", "/v1/rollouts/{id}/pause", Command),
    ("POST", "/v1/rollouts/{id}/resume", Command),
    ("GET", "/v1/campaigns", Picks),
    ("POST", "/v1/campaigns", Picks),
    ("GET", "/v1/campaigns/{id}", Picks),
    ("PUT", "/v1/campaigns/{id}", Picks),
    ("PATCH", "/v1/campaigns/{id}", Picks),
    ("DELETE", "/v1/campaigns/{id}", Picks),
    ("GET", "/v1/campaigns/{id}/coverage", Picks),
    ("POST", "/v1/campaigns/{id}/pause", OperatePicks),
    ("GET", "/v1/campaigns/{id}/results", Picks),
    ("POST", "/v1/campaigns/{id}/resume", OperatePicks),
    ("GET", "/v1/campaigns/{id}/slots", Picks),
    ("GET", "/v1/fleet/fairness", Needs::Fleet),
    ("GET", "/v1/fleet/weights", Needs::Fleet),
    ("POST", "/v1/tasks", Picks),
    ("GET", "/v1/tasks/{id}", Picks),
    ("DELETE", "/v1/tasks/{id}", Picks),
    ("GET", "/v1/tasks/{id}/results", Picks),
    ("GET", "/v1/streams", StreamList),
    ("GET", "/v1/streams/{ns}/{stream}", Streams(StreamRights::Read)),
    ("DELETE", "/v1/streams/{ns}/{stream}", Streams(StreamRights::All)),
    ("GET", "/v1/streams/{ns}/{stream}/blocks", Streams(StreamRights::Read)),
    ("GET", "/v1/streams/{ns}/{stream}/copies", Admin(Never)),
    ("GET", "/v1/streams/{ns}/{stream}/copies/{name}", Admin(Never)),
    ("PUT", "/v1/streams/{ns}/{stream}/copies/{name}", Admin(Never)),
    ("DELETE", "/v1/streams/{ns}/{stream}/copies/{name}", Admin(Never)),
    ("POST", "/v1/streams/{ns}/{stream}/copies/{name}/pause", Admin(Never)),
    ("POST", "/v1/streams/{ns}/{stream}/copies/{name}/resume", Admin(Never)),
    ("GET", "/v1/streams/{ns}/{stream}/handlers", Streams(StreamRights::Read)),
    ("GET", "/v1/streams/{ns}/{stream}/messages", Streams(StreamRights::Read)),
    ("POST", "/v1/streams/{ns}/{stream}/messages", Streams(StreamRights::Append)),
    ("GET", "/v1/streams/{ns}/{stream}/messages/{id}", Streams(StreamRights::Read)),
    ("GET", "/v1/streams/{ns}/{stream}/receipts", Streams(StreamRights::Read)),
    ("PUT", "/v1/streams/{ns}/{stream}/settings", Streams(StreamRights::All)),
    ("GET", "/v1/streams/{ns}/{stream}/subscriptions", Streams(StreamRights::Read)),
    ("GET", "/v1/streams/{ns}/{stream}/subscriptions/{name}", Streams(StreamRights::Read)),
    ("PUT", "/v1/streams/{ns}/{stream}/subscriptions/{name}", Streams(StreamRights::Subscribe)),
    ("DELETE", "/v1/streams/{ns}/{stream}/subscriptions/{name}", Streams(StreamRights::Subscribe)),
    ("POST", "/v1/streams/{ns}/{stream}/subscriptions/{name}/read", Streams(StreamRights::Subscribe)),
    ("POST", "/v1/streams/{ns}/{stream}/subscriptions/{name}/commit", Streams(StreamRights::Subscribe)),
    ("GET", "/v1/relays", Read(Never)),
    ("PUT", "/v1/relays/{name}", Needs::Relays),
    ("POST", "/v1/reports", Report),
    ("GET", "/v1/quarantine", Read(Never)),
    ("GET", "/v1/quarantine/{id}", Read(Never)),
    ("DELETE", "/v1/quarantine/{id}", Admin(Never)),
    ("POST", "/v1/quarantine/{id}/replay", Operate(Never)),
];

/// Everything below a namespace of queues takes the same, but for what an operator does.
const QUEUES: &str = "/v1/queues/{ns}/";
/// What is said to the workers of a queue.
const CONTROL: &str = "/v1/queues/{ns}/{queue}/control";
/// Everything below a namespace of these takes the same.
const COORDINATED: [&str; 4] =
    ["/v1/cache/{ns}/", "/v1/locks/{ns}/", "/v1/limits/{ns}/", "/v1/channels/{ns}/"];
const OPERATED: [&str; 3] = [
    "/v1/queues/{ns}/{queue}/dead/respawn",
    "/v1/queues/{ns}/{queue}/pause",
    "/v1/queues/{ns}/{queue}/resume",
];

/// The console's files. They hold no data: what they show they ask for with a token.
fn is_console(route: &str) -> bool {
    route == "/" || route == "/console" || route.starts_with("/console/")
}

/// What a call takes. A method that a path does not have is for `admin` to be told of, too.
pub(super) fn needs(method: &Method, route: &str) -> Needs {
    let method = if method == Method::HEAD { "GET" } else { method.as_str() };
    let row = ROUTES.iter().find(|(of_method, of_route, _)| (*of_method, *of_route) == (method, route));
    match row {
        Some((_, _, needs)) => *needs,
        None if method == "POST" && OPERATED.contains(&route) => Needs::OperateJobs,
        None if method == "GET" && is_console(route) => Nothing,
        None if route == CONTROL => Needs::Control,
        None if COORDINATED.iter().any(|prefix| route.starts_with(prefix)) => Needs::Coordinate,
        None if route.starts_with(QUEUES) => Needs::Jobs,
        None => Admin(Never),
    }
}

/// Whether a call takes nothing. What may be looked at without a token may be asked about too.
pub(super) fn is_public(method: &Method, route: &str) -> bool {
    let looked_at = if method == Method::OPTIONS { &Method::GET } else { method };
    needs(looked_at, route) == Nothing
}

impl Needs {
    /// What would be enough, for people; less is where nothing is changed.
    pub(super) fn description(self, is_safe: bool) -> &'static str {
        match self {
            Nothing => "nothing",
            AnyToken => "any",
            Report => "admin or report",
            Command => "admin, commands or operate",
            Picks => "admin or tasks, or read or operate to look",
            OperatePicks => "admin, tasks or operate",
            Needs::Fleet => "admin, read, commands, tasks or operate",
            Needs::Jobs if is_safe => "admin, read, operate, or jobs:NAMESPACE of this namespace",
            Needs::Jobs => "admin, or jobs:NAMESPACE of this namespace",
            Needs::Coordinate => "admin, or coordinate:NAMESPACE of this namespace",
            Needs::CoordinationList => "admin, or coordinate:NAMESPACE with namespace=NAMESPACE in the query",
            Needs::Control if is_safe => {
                "admin, read, operate, or jobs:NAMESPACE or coordinate:NAMESPACE of this namespace"
            }
            Needs::Control => "admin, or jobs:NAMESPACE or coordinate:NAMESPACE of this namespace",
            Needs::OperateJobs => "admin, operate, or jobs:NAMESPACE of this namespace",
            Operations => {
                "admin, operate, commands, client:ID, jobs:NAMESPACE with namespace=NAMESPACE in the query, or read to look"
            }
            Streams(right) => right.takes(),
            Needs::Relays => "admin, operate, jobs:NAMESPACE, streams:NAMESPACE or streams:NAMESPACE:append",
            StreamList => "admin, read, operate, streams:NAMESPACE or streams:NAMESPACE:read",
            Queues => "admin, read, operate, or jobs:NAMESPACE with namespace=NAMESPACE in the query",
            Read(own) => match own {
                Never => "admin, read or operate",
                ClientInPath => "admin, read, operate, or client:ID of this client",
                DeviceInPath => {
                    "admin, read, operate, or client:ID of a client that this device is linked to"
                }
                DeliveryInPath => "admin, read, operate, or client:ID of the client that was told",
                ClientInQuery => "admin, read, operate, or client:ID with client=ID in the query",
                EitherInQuery => {
                    "admin, read, operate, or client:ID with client=ID or device= of a linked device in the query"
                }
                CountsInQuery => {
                    "admin, read, operate, or, unless metric is commands, client:ID with client=ID or device= of a linked device in the query"
                }
            },
            Look(DeviceInPath) => {
                "admin, read, commands, operate, or client:ID of a client that this device is linked to"
            }
            Look(_) => "admin, read, commands or operate",
            Operate(Never) => "admin or operate",
            Operate(DeliveryInPath) => "admin, operate, or client:ID of the client that was told",
            Operate(_) => "admin, operate, or client:ID of this client",
            Admin(ClientInPath) => "admin, or client:ID of this client",
            Admin(_) => "admin",
        }
    }
}
