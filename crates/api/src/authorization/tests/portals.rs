//! Portals: each reaches its own client, as far as it may, on every route that there is.

use base::id::DELIVERY_ID_PREFIX;

use super::super::portal::{PORTAL_ROUTES, Right};
use super::*;

/// Everything a portal can be about: two clients, a device of each and one of both, and
/// notifications to each.
struct World {
    rig: Rig,
    /// A delivery to `acme`, and one to `other`.
    deliveries: [String; 2],
}

const CLIENTS: [&str; 2] = ["acme", "other"];
const ALL: &str = r#"["read","retry","url"]"#;

impl World {
    async fn start(access: Access) -> Self {
        let rig = Rig::start(access).await;
        for client in CLIENTS {
            rig.add_client(client).await;
        }
        for (device, clients) in [("d0", &CLIENTS[..1]), ("d1", &CLIENTS[1..]), ("both", &CLIENTS)] {
            rig.make("POST /v1/devices", &format!(r#"{{"id":"{device}"}}"#)).await;
            for client in clients {
                rig.make(&format!("PUT /v1/devices/{device}/clients/{client}"), "").await;
            }
        }
        rig.report("both").await;
        let acme = rig.engine.queries().client(&ClientId::new("acme").expect("an id")).expect("is there");
        let due = rig.all_due(2).await;
        let of = |is_own: bool| {
            let due = due.iter().find(|due| (due.client == acme.incarnation) == is_own).expect("one of each");
            due.delivery.to_text(DELIVERY_ID_PREFIX)
        };
        let deliveries = [of(true), of(false)];
        Self { rig, deliveries }
    }

    async fn open(&self, client: &str, may: &str) -> String {
        let body = format!(r#"{{"ttl":"1h","may":{may}}}"#);
        let answer = self.rig.with("admin", &format!("POST /v1/clients/{client}/portal"), &body).await;
        assert_eq!(answer.status, 201, "{}", answer.json);
        let token = answer.json["token"].as_str().expect("a token").to_owned();
        assert_eq!(answer.json["url"], format!("/console/portal#{token}"));
        token
    }

    /// A call of a route about what is `acme`'s (0) or `other`'s (1).
    fn call(&self, method: &str, route: &str, whose: usize) -> String {
        let client = CLIENTS[whose];
        let id = match route.split('/').nth(2) {
            Some("clients") => client.to_owned(),
            Some("devices") => format!("d{whose}"),
            Some("deliveries") => self.deliveries[whose].clone(),
            _ => "x".to_owned(),
        };
        let path = route.replace("{id}", &id).replace("{client_id}", client).replace(['{', '}'], "");
        format!("{method} {path}?client={client}")
    }
}

/// A body that may change a URL, and otherwise nothing.
const BODY: &str = r#"{"url":"https://elsewhere.example/"}"#;

fn takes(method: &str, route: &str) -> Option<Right> {
    PORTAL_ROUTES.iter().find(|row| (row.0, row.1) == (method, route)).map(|row| row.2)
}

/// Every route of this server, those of queues and of other crates too.
fn routes() -> impl Iterator<Item = (&'static str, &'static str, bool)> {
    let more = [
        ("GET", "/v1/queues/{ns}/{queue}"),
        ("POST", "/v1/queues/{ns}/{queue}/jobs"),
        ("POST", "/v1/queues/{ns}/{queue}/pause"),
        ("POST", "/v1/queues/{ns}/{queue}/dead/respawn"),
        ("GET", "/v1/forgotten"),
    ];
    let rows = ROUTES.iter().map(|(method, route, needs)| (*method, *route, *needs == Needs::Nothing));
    rows.chain(more.map(|(method, route)| (method, route, false)))
}

#[tokio::test]
async fn a_portal_reaches_its_own_client_and_nothing_else_on_any_route() {
    for access in [Access::of(tokens()), Access::Open] {
        let world = World::start(access).await;
        for (place, (method, route, is_for_all)) in routes().enumerate() {
            for whose in [0, 1] {
                let call = world.call(method, route, whose);
                // A new one each time: none is stopped by how much it may ask for.
                let token = world.open("acme", ALL).await;
                let answer = world.rig.with(&token, &call, BODY).await;
                // Not every route is part of this rig.
                let is_there = answer.json["code"] != "unknown_route";
                let is_about_itself = route == "/v1/caller";
                let reaches = is_for_all || is_about_itself || (whose == 0 && takes(method, route).is_some());
                assert_eq!(
                    answer.status != 403 && is_there,
                    reaches,
                    "{place} {call}: {} {}",
                    answer.status,
                    answer.json
                );
                let shown = answer.json.to_string();
                assert!(whose == 1 || is_for_all || !shown.contains("other"), "{call} shows {shown}");
                let shows_secret = shown.contains("whsec_");
                assert!(!shows_secret || route.ends_with("rotate-secret"), "{call} shows {shown}");
                close_all(&world, "acme").await;
            }
        }
    }
}

async fn close_all(world: &World, client: &str) {
    let path = format!("/v1/clients/{client}/portal");
    let open = world.rig.with("admin", &format!("GET {path}"), "").await.json;
    for portal in open["items"].as_array().expect("items") {
        assert!(!portal.to_string().contains("fpp_"), "{portal}");
        let id = portal["id"].as_str().expect("an id");
        world.rig.make(&format!("DELETE {path}/{id}"), "").await;
    }
}

#[tokio::test]
async fn a_portal_does_what_it_was_opened_for_and_no_more() {
    let world = World::start(Access::of(tokens())).await;
    for (may, right) in
        [(r#"["read"]"#, Right::Read), (r#"["retry"]"#, Right::Retry), (r#"["url"]"#, Right::Url)]
    {
        let token = world.open("acme", may).await;
        for (method, route, takes, _) in PORTAL_ROUTES {
            let answer = world.rig.with(&token, &world.call(method, route, 0), BODY).await;
            assert_eq!(answer.status != 403, *takes == right, "{method} {route} with {may}: {}", answer.json);
        }
    }
}

#[tokio::test]
async fn two_portals_never_see_each_others_rows() {
    let world = World::start(Access::of(tokens())).await;
    for (whose, client) in CLIENTS.into_iter().enumerate() {
        let token = world.open(client, ALL).await;
        let list = world.rig.with(&token, &format!("GET /v1/deliveries?client={client}"), "").await.json;
        let ids: Vec<_> = list["items"].as_array().expect("items").iter().map(|item| &item["id"]).collect();
        assert_eq!(ids, [&world.deliveries[whose]], "{list}");
        let devices = world.rig.with(&token, &format!("GET /v1/clients/{client}/devices"), "").await.json;
        let ids: Vec<_> =
            devices["items"].as_array().expect("items").iter().map(|item| &item["id"]).collect();
        assert_eq!(ids, ["both", &format!("d{whose}")], "{devices}");
        let foreign = &world.deliveries[1 - whose];
        for call in [
            format!("GET /v1/deliveries/{foreign}"),
            format!("POST /v1/deliveries/{foreign}/retry"),
            format!("GET /v1/deliveries?client={}", CLIENTS[1 - whose]),
            format!("GET /v1/deliveries?client={client}&client={}", CLIENTS[1 - whose]),
            "GET /v1/deliveries?device=both".to_owned(),
            "GET /v1/deliveries".to_owned(),
        ] {
            assert_eq!(world.rig.with(&token, &call, "").await.status, 403, "{call}");
        }
    }
}

#[tokio::test]
async fn the_limits_of_a_portal_are_not_lifted_by_its_holder() {
    let world = World::start(Access::of(tokens())).await;
    let token = world.open("acme", ALL).await;
    for (call, body, expect) in [
        ("PATCH /v1/clients/acme", r#"{"enabled":false}"#, 403),
        ("PATCH /v1/clients/acme", r#"{"name":"mine"}"#, 403),
        ("PATCH /v1/clients/acme", r#"{"id":"acme","url":"https://a.example/"}"#, 403),
        ("PATCH /v1/clients/acme", r#"{"url":"https://a.example/","enabled":true}"#, 403),
        ("PATCH /v1/clients/acme", r#"{"url":"http://127.0.0.1/"}"#, 422),
        ("PATCH /v1/clients/acme", r#"{"url":"https://a.example/"}"#, 200),
        ("POST /v1/clients/acme/portal", r#"{"ttl":"24h","may":["read"]}"#, 403),
        ("GET /v1/clients/acme/portal", "", 403),
        ("PUT /v1/devices/d1/clients/acme", "", 403),
        ("GET /v1/clients/../clients/other", "", 404),
        ("GET /v1/clients/other%2f..%2facme", "", 403),
        ("GET /openapi.json", "", 403),
        ("GET /metrics", "", 403),
    ] {
        let answer = world.rig.with(&token, call, body).await;
        assert_eq!(answer.status, expect, "{call} {body}: {}", answer.json);
    }
}

#[tokio::test]
async fn a_portal_ends_with_its_client_and_when_it_is_closed() {
    for access in [Access::of(tokens()), Access::Open] {
        let world = World::start(access).await;
        let (closed, orphan) = (world.open("acme", ALL).await, world.open("other", ALL).await);
        world.rig.check(&closed, "GET /v1/clients/acme", 200).await;
        close_all(&world, "acme").await;
        world.rig.make("DELETE /v1/clients/other", "").await;
        world.rig.add_client("other").await;
        for (token, client) in [(closed, "acme"), (orphan, "other"), ("fpp_made-up".to_owned(), "acme")] {
            world.rig.check(&token, &format!("GET /v1/clients/{client}"), 401).await;
        }
        assert_eq!(world.rig.engine.portals().len(), 0);
    }
}

#[tokio::test]
async fn portals_are_opened_by_operators_and_so_many_at_most() {
    let world = World::start(Access::of(tokens())).await;
    let call = "POST /v1/clients/acme/portal";
    let body = r#"{"ttl":"1m","may":["read"]}"#;
    for token in tokens() {
        let expect = if ["admin", "operate"].contains(&token.name.as_str()) { 201 } else { 403 };
        assert_eq!(world.rig.with(&token.name, call, body).await.status, expect, "{}", token.name);
    }
    for (body, code) in [
        (r#"{"ttl":"59s","may":["read"]}"#, "invalid_ttl"),
        (r#"{"ttl":"25h","may":["read"]}"#, "invalid_ttl"),
        (r#"{"ttl":"1h","may":[]}"#, "unknown_word"),
        (r#"{"ttl":"1h","may":["admin"]}"#, "unknown_word"),
        (r#"{"ttl":"1h"}"#, "missing_field"),
    ] {
        let refused = world.rig.with("admin", call, body).await;
        assert_eq!((refused.status, &refused.json["code"]), (422, &Json::from(code)), "{body}");
    }
    let listed = world.rig.with("read", "GET /v1/clients/acme/portal", "").await.json;
    let by: Vec<_> = listed["items"].as_array().expect("items").iter().map(|item| &item["by"]).collect();
    assert_eq!(by, ["admin", "operate"]);
    for _ in 2..engine::portals::PORTALS_PER_CLIENT_MAX {
        world.rig.make(call, body).await;
    }
    let refused = world.rig.with("admin", call, body).await;
    assert_eq!((refused.status, &refused.json["code"]), (409, &Json::from("too_many_portals")));
    world.open("other", ALL).await;
}

#[tokio::test]
async fn a_portal_that_asks_too_much_is_told_when_to_come_back() {
    let world = World::start(Access::Open).await;
    let token = world.open("acme", ALL).await;
    let limited = loop {
        // Many at one moment, however slow the machine is.
        let calls = (0..64).map(|_| world.rig.with(&token, "GET /v1/clients/acme", ""));
        let answers = futures_util::future::join_all(calls).await;
        if let Some(limited) = answers.into_iter().find(|answer| answer.status != 200) {
            break limited;
        }
    };
    assert_eq!((limited.status, &limited.json["code"]), (429, &Json::from("too_many_requests")));
    assert_eq!(limited.headers["retry-after"], "1");
}
