//! What is a client's own: itself, the devices linked to it, the deliveries to it.
//!
//! Something that does not exist is nobody's own, so that a client's token cannot find out what
//! there is.

use axum::extract::{Query, RawPathParams};
use axum::http::Uri;
use base::id::DELIVERY_ID_PREFIX;
use base::{ClientId, DeviceId, EntityId, Problem};

use super::table::Ownership;
use crate::ApiState;
use crate::path::id_of_import;
use crate::routes::stats::{COMMANDS, name_of};

/// What a request is about: the texts in its path and in its query.
#[derive(Debug)]
pub(super) struct About {
    path: Vec<(String, String)>,
    query: Vec<(String, String)>,
}

impl About {
    /// A path or a query that cannot be read is about nothing.
    pub(super) fn of(uri: &Uri, path: Option<&RawPathParams>) -> Self {
        let path = path.into_iter().flatten().chain(id_of_import(uri.path()).map(|id| ("id", id)));
        let path = path.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let query = Query::<Vec<(String, String)>>::try_from_uri(uri);
        Self { path: path.collect(), query: query.map(|Query(query)| query).unwrap_or_default() }
    }

    /// About these texts.
    pub(super) fn these(path: &[(&str, &str)], query: &[(&str, &str)]) -> Self {
        let owned = |texts: &[(&str, &str)]| {
            texts.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        Self { path: owned(path), query: owned(query) }
    }

    pub(super) fn in_path(&self, name: &str) -> Option<&str> {
        self.path.iter().find(|(given, _)| given == name).map(|(_, value)| value.as_str())
    }

    /// Whether a parameter is there.
    fn names(&self, name: &str) -> bool {
        self.query.iter().any(|(given, _)| given == name)
    }

    /// A parameter that is there once; the route refuses one that is there twice, so that would be
    /// about nothing.
    pub(super) fn in_query(&self, name: &str) -> Option<&str> {
        let mut values = self.query.iter().filter(|(given, _)| given == name);
        let (_, value) = values.next()?;
        values.next().is_none().then_some(value.as_str())
    }
}

/// Whether `about` is the own of `client`.
///
/// # Errors
/// When that cannot be looked up now.
pub(super) async fn is_own(
    api: &ApiState,
    client: &ClientId,
    own: Ownership,
    about: &About,
) -> Result<bool, Problem> {
    let is_client = |id: Option<&str>| id == Some(client.as_str());
    match own {
        Ownership::Never => Ok(false),
        Ownership::ClientInPath => Ok(is_client(about.in_path("id"))),
        Ownership::ClientInQuery => Ok(is_client(about.in_query("client"))),
        Ownership::DeviceInPath => is_linked(api, client, about.in_path("id")).await,
        Ownership::CountsInQuery if about.in_query("metric") == Some(name_of(COMMANDS)) => Ok(false),
        // A client that is asked for is its own, also where a device is asked for besides.
        Ownership::EitherInQuery | Ownership::CountsInQuery if about.names("client") => {
            Ok(is_client(about.in_query("client")))
        }
        Ownership::EitherInQuery | Ownership::CountsInQuery => {
            is_linked(api, client, about.in_query("device")).await
        }
        Ownership::DeliveryInPath => is_to(api, client, about.in_path("id")).await,
    }
}

async fn is_linked(api: &ApiState, client: &ClientId, device: Option<&str>) -> Result<bool, Problem> {
    let queries = api.queries();
    let known = (queries.client(client), device.and_then(DeviceId::new));
    let (Some(client), Some(device)) = known else { return Ok(false) };
    let device = api.shared.lookups.run(move || queries.device(&device)).await?;
    Ok(device.is_some_and(|device| device.profile.clients.contains(&client.incarnation)))
}

/// A client that was deleted and registered again does not see what its namesake was told.
async fn is_to(api: &ApiState, client: &ClientId, delivery: Option<&str>) -> Result<bool, Problem> {
    let queries = api.queries();
    let known = (queries.client(client), delivery.and_then(|id| EntityId::from_text(DELIVERY_ID_PREFIX, id)));
    let (Some(client), Some(delivery)) = known else { return Ok(false) };
    let delivery = api.shared.lookups.run(move || queries.delivery(delivery)).await?;
    Ok(delivery.is_some_and(|(delivery, _)| delivery.client == client.incarnation))
}
