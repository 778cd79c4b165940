//! The OpenAPI 3.1 document, made from the routes: each is added to the router together with its
//! [`Call`].
//!
//! Reports and the replay of refused ones are routes of another crate, so `reports.rs` describes
//! them. A test over the whole server compares the document with what the listener takes.

mod call;
pub(crate) mod refusals;
mod reports;
mod webhooks;
pub(crate) mod words;

use std::collections::BTreeMap;

use axum::http::Method;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::openapi::{
    Components, HttpMethod, Info, OpenApi, PathItem, Paths, RefOr, Schema, SecurityRequirement,
};

pub(crate) use call::Call;
pub(crate) use reports::{RejectedLineShape, calls as calls_of_reports};

/// The name of the way to give a token.
const TOKEN: &str = "token";

/// A route's method and path, and what it does.
#[derive(Clone, Debug)]
pub(crate) struct Documented {
    pub method: Method,
    pub path: &'static str,
    pub call: Call,
}

/// The document that describes these calls, as JSON.
pub(crate) fn document(calls: Vec<Documented>) -> String {
    let mut paths = Paths::new();
    let mut schemas = BTreeMap::from([("Problem".to_owned(), words::problem().into())]);
    for Documented { method, path, call } in calls {
        let operation = call.operation(&method, path, &mut schemas);
        let item = PathItem::new(http_method(&method), operation);
        match paths.paths.get_mut(path) {
            Some(there) => there.merge_operations(item),
            None => drop(paths.paths.insert(path.to_owned(), item)),
        }
    }
    let mut document = OpenApi::new(info(), paths);
    document.components = Some(components(schemas));
    // Without `[auth]` no token is asked for.
    document.security =
        Some(vec![SecurityRequirement::default(), SecurityRequirement::new(TOKEN, [] as [&str; 0])]);
    let mut document = serde_json::to_value(&document).expect("a document is JSON");
    document["webhooks"] = webhooks::described();
    document.to_string()
}

fn info() -> Info {
    let mut info = Info::new("Fieldpost", env!("CARGO_PKG_VERSION"));
    info.description = Some(
        "Devices report, clients are told of changes, losses and restorations by signed webhooks, and everything is kept. \
         Every refusal is a problem document with a stable code."
            .to_owned(),
    );
    info
}

fn components(schemas: BTreeMap<String, RefOr<Schema>>) -> Components {
    let mut components = Components::new();
    components.schemas.extend(schemas);
    components.add_security_scheme(TOKEN, SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer)));
    components
}

fn http_method(method: &Method) -> HttpMethod {
    match *method {
        Method::POST => HttpMethod::Post,
        Method::PUT => HttpMethod::Put,
        Method::PATCH => HttpMethod::Patch,
        Method::DELETE => HttpMethod::Delete,
        _ => HttpMethod::Get,
    }
}
