//! Portals: each reaches its own client, as far as it may, on every route that there is.

use base::id::DELIVERY_ID_PREFIX;

use super::super::portal::{PORTAL_ROUTES, PortalRight};
use super::*;

/// Everything a portal can be about: two clients, a device of each and one of both, and
/// notifications to each.
pub(super) struct World {
    pub(super) rig: Rig,
    /// A delivery to `acme`, and one to `other`.
    deliveries: [String; 2],
}

const CLIENTS: [&str; 2] = ["acme", "other"];
const ALL: &str = r#"["read","retry","url"]"#;

impl World {
    async fn start(access: Access) -> Self {
        Self::of(Rig::start(access).await).await
    }

    pub(super) async fn of(rig: Rig) -> Self {
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

    pub(super) async fn open(&self, client: &str, may: &str) -> String {
        self.open_as("admin", client, may).await
    }

    async fn open_as(&self, token: &str, client: &str, may: &str) -> String {
        let body = format!(r#"{{"ttl":"1h","may":{may}}}"#);
        let answer = self.rig.with(token, &format!("POST /v1/clients/{client}/portal"), &body).await;
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

fn takes(method: &str, route: &str) -> Option<PortalRight> {
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
    for (may, right) in [
        (r#"["read"]"#, PortalRight::Read),
        (r#"["retry"]"#, PortalRight::Retry),
        (r#"["url"]"#, PortalRight::Url),
    ] {
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
async fn a_portal_ends_when_the_token_that_opened_it_may_no_longer_do_as_much() {
    let world = World::start(Access::of(tokens())).await;
    let opened = [
        ("admin", ALL, world.open("acme", ALL).await),
        ("admin", r#"["read"]"#, world.open("acme", r#"["read"]"#).await),
        ("operate", r#"["retry"]"#, world.open_as("operate", "acme", r#"["retry"]"#).await),
    ];
    let token = |name: &str, scope: &str| Token { name: name.into(), ..Token::for_tests(scope, &[scope]) };
    for (tokens, expect) in [
        (vec![token("admin", "admin"), token("operate", "admin")], [202, 403, 202]),
        (vec![token("admin", "operate"), token("operate", "operate")], [401, 403, 202]),
        (vec![token("admin", "read"), token("operate", "commands")], [401, 401, 401]),
        (vec![token("other", "admin")], [401, 401, 401]),
        (Vec::new(), [202, 403, 202]),
    ] {
        let names: Vec<_> = tokens.iter().map(|token| (token.name.clone(), token.scopes.clone())).collect();
        let rig = world.rig.with_access(Access::of(tokens));
        for ((by, may, portal), expect) in opened.iter().zip(expect) {
            let answer = rig.with(portal, "POST /v1/clients/acme/resend", "").await;
            assert_eq!(answer.status, expect, "{may} by {by} with {names:?}: {}", answer.json);
        }
    }
}

#[tokio::test]
async fn a_portal_opened_without_tokens_ends_when_there_are_some() {
    let world = World::start(Access::Open).await;
    let portal = world.open("acme", ALL).await;
    let guarded = world.rig.with_access(Access::of(tokens()));
    guarded.check(&portal, "GET /v1/clients/acme", 401).await;
    world.rig.check(&portal, "GET /v1/clients/acme", 200).await;
}

#[tokio::test]
async fn a_portal_does_nothing_that_the_token_which_opened_it_may_not_do() {
    let world = World::start(Access::of(tokens())).await;
    let call = "POST /v1/clients/acme/portal";
    for may in [r#"["url"]"#, ALL, r#"["read","url"]"#] {
        let refused = world.rig.with("operate", call, &format!(r#"{{"ttl":"1h","may":{may}}}"#)).await;
        assert_eq!((refused.status, &refused.json["code"]), (403, &Json::from("forbidden")), "{may}");
        let told = refused.json["detail"].as_str().expect("a text");
        assert!(told.contains(r#"with "url" in may"#) && told.contains("admin"), "{told}");
    }
    let portal = world.open_as("operate", "acme", r#"["read","retry"]"#).await;
    for (call, expect) in [
        ("GET /v1/clients/acme", 200),
        ("POST /v1/clients/acme/resend", 202),
        ("POST /v1/clients/acme/test", 403),
        ("POST /v1/clients/acme/rotate-secret", 403),
    ] {
        world.rig.check(&portal, call, expect).await;
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

#[tokio::test]
async fn a_portal_gets_pages_and_neither_exports_nor_what_labels_tell() {
    let world = World::start(Access::of(tokens())).await;
    let portal = world.open("acme", r#"["read"]"#).await;
    for path in ["/v1/deliveries?client=acme", "/v1/clients/acme/devices"] {
        assert_eq!(world.rig.export("acme", path).await.0, 200, "{path}");
        assert_eq!(world.rig.export(&portal, path).await, (403, Json::from("forbidden")), "{path}");
    }
    world.rig.check(&portal, "GET /v1/deliveries?client=acme&label.site=12", 403).await;
    world.rig.check(&portal, "GET /v1/deliveries?client=acme&status=pending", 200).await;
}

#[tokio::test]
async fn a_portal_that_is_closed_gets_nothing_of_what_it_waited_for() {
    let world = World::start(Access::Open).await;
    let portal = world.open("acme", r#"["read"]"#).await;
    let seen = world.rig.with(&portal, "GET /v1/deliveries?client=acme&order=asc", "").await.json;
    let tail = seen["tail_cursor"].as_str().expect("a cursor");
    let call = format!("GET /v1/deliveries?client=acme&order=asc&wait=30s&cursor={tail}");
    let waiting = world.rig.with(&portal, &call, "");
    let closing = async {
        while world.rig.engine.following().0 == 0 {
            tokio::task::yield_now().await;
        }
        close_all(&world, "acme").await;
        world.rig.report("d0").await;
    };
    let (answer, ()) = futures_util::future::join(waiting, closing).await;
    assert_eq!((answer.status, &answer.json["code"]), (401, &Json::from("unauthorized")), "{}", answer.json);
}

#[tokio::test]
async fn the_portals_of_a_client_test_it_once_in_a_while() {
    let world = World::start(Access::of(tokens())).await;
    let (one, other) = (world.open("acme", ALL).await, world.open("acme", ALL).await);
    // This rig sends no tests: those that are taken in find nobody who would send them.
    world.rig.check(&one, "POST /v1/clients/acme/test", 503).await;
    let again = world.rig.with(&other, "POST /v1/clients/acme/test", "").await;
    assert_eq!((again.status, &again.json["code"]), (429, &Json::from("too_many_requests")));
    // Less than five where seconds have passed.
    let seconds: u64 = again.headers["retry-after"].to_str().expect("text").parse().expect("seconds");
    assert!((1..=5).contains(&seconds), "{seconds}");
    world.rig.check("admin", "POST /v1/clients/acme/test", 503).await;
}
