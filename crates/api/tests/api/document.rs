//! The OpenAPI document against what the routes do.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::Value as Json;

use crate::rig::Server;

/// The document as the TypeScript client is made from it.
const RECORDED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../clients/typescript/openapi.json");

/// Routes that are merged in by the whole server.
const OF_OTHER_CRATES: [&str; 3] = ["/v1/reports", "/v1/devices/{id}/ack", "/v1/quarantine/{id}/replay"];

/// The document with a member a line and the names in order, so that a change of it can be read.
fn laid_out(document: &Json) -> String {
    let mut text = Vec::new();
    let layout = serde_json::ser::PrettyFormatter::with_indent(b" ");
    document.serialize(&mut serde_json::Serializer::with_formatter(&mut text, layout)).expect("it is JSON");
    String::from_utf8(text).expect("JSON is text") + "\n"
}

/// `RECORD=1 cargo test --package api recorded` writes it.
#[tokio::test]
async fn the_recorded_document_is_that_of_the_routes() {
    let document = laid_out(&Server::start().await.get("/openapi.json").await);
    if std::env::var_os("RECORD").is_some() {
        std::fs::write(RECORDED, &document).expect("the document can be written");
    }
    let recorded = std::fs::read_to_string(RECORDED).expect("the document is recorded");
    let differs = recorded.lines().zip(document.lines()).position(|(recorded, now)| recorded != now);
    assert!(
        recorded == document,
        "clients/typescript/openapi.json differs from line {:?} on: RECORD=1 cargo test --package api recorded",
        differs.map(|line| line + 1)
    );
}

/// A path in which every name in braces stands for something.
fn filled(path: &str) -> String {
    // An operation's id has a form, which is looked at before parameters are.
    let id = if path.starts_with("/v1/operations/") { "op_257ztuabuh5wogbvaaaaaagajgjxlsiz" } else { "x" };
    let part = |part: &str| if part.starts_with('{') { id.to_owned() } else { part.to_owned() };
    path.split('/').map(part).collect::<Vec<_>>().join("/")
}

fn paths(document: &Json) -> impl Iterator<Item = (&str, BTreeSet<String>)> {
    document["paths"].as_object().expect("paths").iter().map(|(path, calls)| {
        let methods = calls.as_object().expect("methods").keys().map(|method| method.to_ascii_uppercase());
        (path.as_str(), methods.collect())
    })
}

#[tokio::test]
async fn every_path_has_the_methods_that_the_document_says() {
    let server = Server::start().await;
    let document = server.get("/openapi.json").await;
    assert!(document["openapi"].as_str().is_some_and(|version| version.starts_with("3.1")), "{document}");
    for (path, methods) in paths(&document).filter(|(path, _)| !OF_OTHER_CRATES.contains(path)) {
        let answer = server.call(&format!("BREW {}", filled(path)), "").await;
        assert_eq!(answer.status, 405, "{path}: {}", answer.text);
        let allowed = answer.header("allow").unwrap_or_default().split(',').map(str::to_owned);
        let allowed: BTreeSet<_> = allowed.filter(|method| method != "HEAD").collect();
        assert_eq!(allowed, methods, "{path}");
    }
}

#[tokio::test]
async fn a_path_that_is_no_text_is_refused_with_a_problem() {
    let server = Server::start().await;
    let document = server.get("/openapi.json").await;
    let mut calls = 0;
    let own = paths(&document).filter(|(path, _)| !OF_OTHER_CRATES.contains(path));
    for (path, methods) in own.filter(|(path, _)| path.contains('{')) {
        let part = |part: &str| if part.starts_with('{') { "%ff".to_owned() } else { part.to_owned() };
        let path = path.split('/').map(part).collect::<Vec<_>>().join("/");
        for method in methods {
            server.check(&format!("{method} {path}"), "", 400, "unreadable").await;
            calls += 1;
        }
    }
    assert!(calls >= 80, "{calls}");
}

#[tokio::test]
async fn a_call_that_takes_no_parameters_refuses_them() {
    let server = Server::start().await;
    let document = server.get("/openapi.json").await;
    let mut calls = 0;
    for (path, methods) in paths(&document).filter(|(path, _)| !OF_OTHER_CRATES.contains(path)) {
        for method in methods.iter().filter(|method| *method != "GET") {
            let call = &document["paths"][path][method.to_ascii_lowercase()];
            let mut parameters = call["parameters"].as_array().into_iter().flatten();
            if parameters.any(|parameter| parameter["in"] == "query") {
                continue;
            }
            let asked = format!("{method} {}?limit=1", filled(path));
            let problem = server.check(&asked, "", 422, "unknown_parameter").await;
            assert!(
                problem["detail"].as_str().is_some_and(|detail| detail.contains("\"limit\"")),
                "{problem}"
            );
            calls += 1;
        }
    }
    assert!(calls >= 60, "{calls}");
}

#[tokio::test]
async fn an_object_with_a_version_has_its_tag_in_the_document() {
    let server = Server::start().await;
    let document = server.get("/openapi.json").await;
    let is_tagged = |path: &str, method: &str, status: &str| {
        let answer = &document["paths"][path][method]["responses"][status];
        assert_eq!(answer["headers"]["ETag"]["schema"]["type"], "string", "{method} {path}: {answer}");
    };
    is_tagged("/v1/campaigns", "post", "201");
    for status in ["200", "201"] {
        is_tagged("/v1/campaigns/{id}", "put", status);
    }
    for path in ["/v1/campaigns/{id}/pause", "/v1/campaigns/{id}/resume"] {
        assert!(document["paths"][path]["post"]["responses"]["412"].is_object(), "{path}");
    }
    for path in ["/v1/devices/{id}", "/v1/clients/{id}", "/v1/campaigns/{id}"] {
        for method in ["get", "patch"] {
            is_tagged(path, method, "200");
        }
        let put = ["put"].into_iter().filter(|_| path.contains("campaigns"));
        for method in ["patch", "delete"].into_iter().chain(put) {
            let call = &document["paths"][path][method];
            let parameters = call["parameters"].as_array().expect("parameters");
            assert!(parameters.iter().any(|parameter| parameter["name"] == "If-Match"), "{method} {path}");
            assert!(call["responses"]["412"].is_object(), "{method} {path}");
        }
    }
}

/// The names that a refusal lists behind "known are".
fn told(answer: &Json) -> BTreeSet<String> {
    let detail = answer["detail"].as_str().unwrap_or_default();
    let (_, names) = detail.split_once("known are ").unwrap_or_else(|| panic!("{answer}"));
    names.split(", ").map(str::to_owned).collect()
}

#[tokio::test]
async fn every_parameter_is_in_the_document_and_no_other() {
    let server = Server::start().await;
    let document = server.get("/openapi.json").await;
    let mut lists = 0;
    for (path, _) in paths(&document) {
        let parameters = document["paths"][path]["get"]["parameters"].as_array().cloned().unwrap_or_default();
        let in_query = parameters.iter().filter(|parameter| parameter["in"] == "query");
        let documented: BTreeSet<_> =
            in_query.map(|parameter| parameter["name"].as_str().expect("a name").to_owned()).collect();
        if documented.is_empty() {
            continue;
        }
        let answer = server.call(&format!("GET {}?nonsense=1", filled(path)), "").await;
        assert_eq!(answer.status, 422, "{path}: {}", answer.text);
        assert_eq!(told(&answer.json()), documented, "{path}");
        lists += 1;
    }
    assert!(lists >= 7, "{lists}");
}

#[tokio::test]
async fn every_member_of_a_body_is_in_the_document() {
    let server = Server::start().await;
    let document = server.get("/openapi.json").await;
    for (call, left_out) in [
        ("post /v1/clients", &[][..]),
        ("patch /v1/clients/{id}", &["id"]),
        ("post /v1/devices", &[]),
        ("patch /v1/devices/{id}", &["id", "kind"]),
        ("post /v1/queues/{ns}/{queue}/jobs", &[]),
        ("post /v1/queues/{ns}/{queue}/consume", &[]),
        ("patch /v1/queues/{ns}/{queue}/aliases/{alias}", &[]),
        ("post /v1/queues/{ns}/{queue}/ack", &[]),
        ("put /v1/queues/{ns}/{queue}/settings", &[]),
        ("post /v1/queues/{ns}/{queue}/dead/respawn", &[]),
        ("post /v1/streams/{ns}/{stream}/messages", &[]),
        ("put /v1/streams/{ns}/{stream}/settings", &[]),
    ] {
        let (method, path) = call.split_once(' ').expect("a method and a path");
        let schema = &document["paths"][path][method]["requestBody"]["content"]["application/json"]["schema"];
        // Of several forms the first is that of one thing.
        let schema = if schema["oneOf"].is_array() { &schema["oneOf"][0] } else { schema };
        let documented: BTreeSet<_> =
            schema["properties"].as_object().expect("members").keys().cloned().collect();
        let request = format!("{} {}", method.to_ascii_uppercase(), filled(path));
        let mut known = told(&server.call(&request, r#"{"nonsense":1}"#).await.json());
        for name in left_out {
            assert!(known.remove(*name), "{name} of {call} may be named, but not changed");
        }
        assert_eq!(documented, known, "{call}");
    }
}
