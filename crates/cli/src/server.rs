//! Which server is asked, as whom, and for whose eyes: the flags that every command has.

use std::ffi::OsStr;
use std::path::PathBuf;

use clap::builder::{PathBufValueParser, TypedValueParser};
use clap::parser::ValueSource;
use clap::{Arg, Args, Command};
use fieldpost_client::{Client, Trust};
use url::Url;

use super::failure::CommandFailure;
use super::tls;
use super::token::BearerToken;

/// Where a server listens that was started without any setting.
const DEFAULT_URL: &str = "http://127.0.0.1:8080";

/// The flags that every command has which asks a server.
#[derive(Args, Debug)]
#[command(next_help_heading = "Server")]
pub struct ServerFlags {
    /// Where the server is.
    #[arg(long, global = true, env = "FIELDPOST_URL", hide_env_values = true, value_name = "URL", default_value = DEFAULT_URL, value_parser = server_url)]
    pub(super) url: Url,
    /// The token that the server asks for; better given in FIELDPOST_TOKEN, which no list of
    /// processes shows.
    #[arg(long, global = true, env = "FIELDPOST_TOKEN", hide_env_values = true, value_name = "TOKEN")]
    pub(super) token: Option<BearerToken>,
    /// A PEM file with the certificates to trust in place of the system's: authorities, or that of
    /// the server itself.
    #[arg(long, global = true, env = "FIELDPOST_CA", hide_env_values = true, value_name = "FILE", value_parser = FileOrEmptyVariable)]
    pub(super) ca: Option<PathBuf>,
    /// Print the API's JSON: one document, or one line for each item of a list.
    #[arg(long, global = true)]
    pub(super) json: bool,
}

impl ServerFlags {
    /// A client of the server. Nothing is sent yet.
    pub(super) fn client(&self) -> Result<Client, CommandFailure> {
        // Not where the command line is read: what is refused there is repeated on the screen.
        if !self.url.username().is_empty() || self.url.password().is_some() {
            return Err(CommandFailure::Usage(
                "the URL has a password in it; the server asks for a token".to_owned(),
            ));
        }
        let mut client = Client::builder(self.url.as_str())
            .user_agent(concat!("fieldpost/", env!("CARGO_PKG_VERSION")))
            .proxy_of_environment();
        // A variable that is empty counts as not set.
        if let Some(token) = self.token.as_ref().filter(|token| !token.is_empty()) {
            client = client.token(token.secret());
        }
        if let Some(trust) = self.trust()? {
            client = client.trust(trust);
        }
        client.build().map_err(|error| CommandFailure::Usage(error.to_string()))
    }

    /// The server as messages name it.
    pub(super) fn name(&self) -> String {
        self.url.as_str().trim_end_matches('/').to_owned()
    }

    /// Which servers are believed; `None` for one that is not asked over TLS.
    fn trust(&self) -> Result<Option<Trust>, CommandFailure> {
        // A variable that is empty counts as not set.
        let ca = self.ca.as_deref().filter(|file| !file.as_os_str().is_empty());
        (self.url.scheme() == "https").then(|| tls::trust(ca)).transpose()
    }
}

/// Reads the name of a file. A variable may be empty, which counts as not set; a flag names a file.
#[derive(Clone, Debug)]
pub struct FileOrEmptyVariable;

impl TypedValueParser for FileOrEmptyVariable {
    type Value = PathBuf;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<PathBuf, clap::Error> {
        PathBufValueParser::new().parse_ref(command, arg, value)
    }

    fn parse_ref_(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
        source: ValueSource,
    ) -> Result<PathBuf, clap::Error> {
        if value.is_empty() && source == ValueSource::EnvVariable {
            return Ok(PathBuf::new());
        }
        self.parse_ref(command, arg, value)
    }
}

fn server_url(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| format!("{error}; write it as {DEFAULT_URL}"))?;
    if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
        return Err(format!("the server speaks http or https; write it as {DEFAULT_URL}"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("the URL of a server has no ? and no #".to_owned());
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_url_of_a_server_is_http_and_nothing_else() {
        for (text, right) in [
            (DEFAULT_URL, true),
            ("https://fieldpost.example", true),
            ("https://example.com/fieldpost/", true),
            ("127.0.0.1:8080", false),
            ("localhost:8080", false),
            ("mqtt://127.0.0.1", false),
            ("http://127.0.0.1/?a=b", false),
            ("http://127.0.0.1/#a", false),
            ("", false),
        ] {
            assert_eq!(server_url(text).is_ok(), right, "{text}");
        }
    }
}
