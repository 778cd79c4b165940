//! Who is let in over which listener: the lists of the settings in the form that the listeners
//! take. Warns where a listener is open to everybody.

use access::{Access, Logins, UsernameTaken};
use net::http::WebAccess;
use tracing::{info, warn};

use crate::config::ServerSettings;

/// Who may call the API.
pub(super) fn access(settings: &ServerSettings) -> Access {
    Access::of(settings.auth.tokens.clone())
}

/// Who may connect over MQTT; everybody if there are none.
pub(super) fn logins(settings: &ServerSettings) -> Result<Option<Logins>, UsernameTaken> {
    if settings.auth.logins.is_empty() {
        return Ok(None);
    }
    let mut logins = Logins::new();
    for login in &settings.auth.logins {
        logins.add(&login.username, login.password_sha256, login.login.clone())?;
    }
    Ok(Some(logins))
}

/// What web pages may do on an HTTP listener.
pub(super) fn web_access(settings: &ServerSettings) -> WebAccess {
    if settings.auth.tokens.is_empty() {
        WebAccess::open(&settings.http.hosts)
    } else {
        WebAccess::with_tokens(settings.http.origins.clone())
    }
}

/// Says what somebody who set up half of the access control may have overlooked.
pub(super) fn tell(settings: &ServerSettings) {
    for warning in &settings.warnings {
        warn!("{warning}");
    }
    let (http, mqtt) = (settings.http.listen, settings.mqtt.listen);
    let (tokens, logins) = (settings.auth.tokens.len(), settings.auth.logins.len());
    if tokens == 0 {
        let open = if logins == 0 && mqtt.is_some() { "the API and MQTT are" } else { "the API is" };
        warn!(%http, "{open} open to every program on this machine: there are no [[auth.tokens]]");
    }
    if let (1.., 0, Some(mqtt)) = (tokens, logins, mqtt) {
        info!(%mqtt, "MQTT is open to this machine: there are no [[auth.mqtt]]");
    }
    let listeners = settings.listeners().into_iter().filter_map(|(_, address)| address);
    for listen in listeners.filter(|listen| !listen.ip().to_canonical().is_loopback()) {
        if settings.tls.is_none() {
            warn!(%listen, "tokens and passwords cross the network unencrypted: [tls] is not set");
        }
    }
}
