//! A PostgreSQL: how it is reached, and a session with it.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::poll_fn;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::{AsyncMessage, Client, Config};

use crate::tls::{PostgresTls, TlsCheck};

/// The oldest version that has all that is used, as PostgreSQL counts.
const VERSION_MIN: i32 = 130_000;
const CONNECT_MAX: Duration = Duration::from_secs(10);
/// A partner that is gone without a word is found out after about half a minute, on both sides.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(10);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEPALIVE_RETRIES: u32 = 4;
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(30);

/// How every session is set up: names mean what they say, nothing ends it but us, and what was
/// committed is durable.
const SETTINGS: &str = "\
    SET search_path = pg_catalog, pg_temp; SET statement_timeout = 0; SET lock_timeout = 0; \
    SET idle_in_transaction_session_timeout = 0; SET synchronous_commit = on; SET jit = off; \
    SET default_transaction_isolation = 'read committed'; SET default_transaction_read_only = off; \
    SET client_min_messages = warning; SET standard_conforming_strings = on; \
    SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 4";

/// Where a database is, with what lets us in. Shown without the password.
#[derive(Clone)]
pub struct DatabaseUrl {
    config: Config,
    tls: PostgresTls,
    /// What its certificate is checked for, and against which authorities.
    tls_asked: (Option<TlsCheck>, Option<PathBuf>),
    /// `host:port/database`.
    address: Arc<str>,
}

impl PartialEq for DatabaseUrl {
    fn eq(&self, other: &Self) -> bool {
        self.config == other.config && self.tls_asked == other.tls_asked
    }
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.address)
    }
}

/// Why a text is no URL of a database; never tells the text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DatabaseUrlError(String);

impl DatabaseUrl {
    /// Reads `postgres://user:password@host:port/database?sslmode=..&sslrootcert=FILE`, or
    /// `postgresql://`. `sslmode` is `disable`, `prefer` (the default), `require`, `verify-ca` or
    /// `verify-full`.
    ///
    /// # Errors
    /// When it is no such URL.
    pub fn parse(text: &str) -> Result<Self, DatabaseUrlError> {
        let wrong = |why: &str| {
            DatabaseUrlError(format!("{why}; write it as postgres://user:password@host:5432/database"))
        };
        if !text.starts_with("postgres://") && !text.starts_with("postgresql://") {
            return Err(wrong("the URL of a database begins with postgres://"));
        }
        let (rest, check, authorities) = tls_parameters(text).map_err(|why| wrong(&why))?;
        let mut config = Config::from_str(&rest).map_err(|error| wrong(&error.to_string()))?;
        if config.get_hosts().is_empty() {
            return Err(wrong("it names no host"));
        }
        if config.get_dbname().is_none_or(str::is_empty) {
            return Err(wrong("it names no database"));
        }
        if config.get_user().is_none() {
            return Err(wrong("it names no user"));
        }
        if let Some(check) = check {
            config.ssl_mode(if check == TlsCheck::None { config.get_ssl_mode() } else { SslMode::Require });
        }
        if config.get_password().is_none()
            && let Ok(password) = std::env::var("PGPASSWORD")
        {
            config.password(password);
        }
        config.connect_timeout(CONNECT_MAX);
        config.keepalives_idle(KEEPALIVE_IDLE).keepalives_interval(KEEPALIVE_INTERVAL);
        config.keepalives_retries(KEEPALIVE_RETRIES).tcp_user_timeout(UNACKNOWLEDGED_MAX);
        let tls = PostgresTls::new(check.unwrap_or(TlsCheck::None), authorities.as_deref());
        let tls = tls.map_err(DatabaseUrlError)?;
        let address = address(&config).into();
        Ok(Self { config, tls, tls_asked: (check, authorities), address })
    }

    /// `host:port/database`.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Opens a session that PostgreSQL knows by this name.
    ///
    /// # Errors
    /// See [`DatabaseError`].
    pub(crate) async fn connect(&self, application: &str) -> Result<DatabaseSession, DatabaseError> {
        let mut config = self.config.clone();
        config.application_name(application);
        let (client, mut connection) = config.connect(self.tls.clone()).await?;
        let signals = Arc::new(SessionSignals::default());
        let heard = Arc::clone(&signals);
        let driver = tokio::spawn(async move {
            while let Some(message) = poll_fn(|context| connection.poll_message(context)).await {
                match message {
                    Ok(AsyncMessage::Notification(notification)) => {
                        if notification.payload() == LOOK_AGAIN {
                            heard.look.store(true, Ordering::Relaxed);
                        }
                        heard.woken.notify_one();
                    }
                    Ok(_) => {}
                    Err(error) => {
                        tracing::debug!(%error, "a session with the database ended");
                        break;
                    }
                }
            }
            heard.woken.notify_one();
        });
        let session = DatabaseSession { client, signals, driver };
        session.client.batch_execute(SETTINGS).await?;
        let version = "SELECT current_setting('server_version_num')::int";
        let version: i32 = session.client.query_one(version, &[]).await?.try_get(0)?;
        if version < VERSION_MIN {
            return Err(DatabaseError::TooOld);
        }
        Ok(session)
    }
}

/// What a notification says when older rows are to be looked for.
pub(crate) const LOOK_AGAIN: &str = "look";

/// Why a database cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    /// It refused, or cannot be reached.
    #[error("{}", error_text(.0))]
    Postgres(#[from] tokio_postgres::Error),
    /// It has another version.
    #[error("the database is older than PostgreSQL 13")]
    TooOld,
    /// The table, or some of what belongs to it, is not there.
    #[error(
        "the outbox {table} cannot be used: there is no {}. Have psql run what `fieldpost relay sql --table \
         {argument}` prints; it leaves what is there",
        missing.join(", no ")
    )]
    NoOutbox {
        /// The outbox.
        table: String,
        /// What names it on a command line.
        argument: String,
        /// Tables, columns and functions.
        missing: Vec<String>,
    },
}

/// An error with what is behind it; of the database's own, what it says.
fn error_text(error: &tokio_postgres::Error) -> String {
    if let Some(refused) = error.as_db_error() {
        return format!("the database says: {} ({})", refused.message(), refused.code().code());
    }
    match std::error::Error::source(error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

#[derive(Debug, Default)]
struct SessionSignals {
    woken: Notify,
    look: AtomicBool,
}

/// A session. Its locks end with it.
#[derive(Debug)]
pub(crate) struct DatabaseSession {
    pub(crate) client: Client,
    signals: Arc<SessionSignals>,
    driver: JoinHandle<()>,
}

impl DatabaseSession {
    /// Returns after a notification, or when the session has ended.
    pub(crate) async fn woken(&self) {
        self.signals.woken.notified().await;
    }

    /// Whether a notification since the last call said that older rows are to be looked for.
    pub(crate) fn is_to_look(&self) -> bool {
        self.signals.look.swap(false, Ordering::Relaxed)
    }
}

impl Drop for DatabaseSession {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// The URL without the parameters that tokio-postgres does not know, the check that they ask for,
/// and the file of authorities.
fn tls_parameters(text: &str) -> Result<(String, Option<TlsCheck>, Option<PathBuf>), String> {
    let Some((front, query)) = text.split_once('?') else { return Ok((text.to_owned(), None, None)) };
    let (mut check, mut authorities, mut kept) = (None, None, Vec::new());
    for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
        match parameter.split_once('=') {
            Some(("sslmode", "verify-ca")) => check = Some(TlsCheck::Authority),
            Some(("sslmode", "verify-full")) => check = Some(TlsCheck::Full),
            Some(("sslmode", "disable" | "prefer" | "require")) => kept.push(parameter),
            Some(("sslmode", _)) => {
                return Err("sslmode is disable, prefer, require, verify-ca or verify-full".to_owned());
            }
            Some(("sslrootcert", file)) => authorities = Some(PathBuf::from(file.replace("%2F", "/"))),
            _ => kept.push(parameter),
        }
    }
    // Who names authorities wants them asked.
    if check.is_none() && authorities.is_some() {
        if !kept.contains(&"sslmode=require") {
            return Err("sslrootcert asks for sslmode=verify-full, verify-ca or require".to_owned());
        }
        // As PostgreSQL's own clients have it.
        check = Some(TlsCheck::Authority);
    }
    let query = if kept.is_empty() { String::new() } else { format!("?{}", kept.join("&")) };
    Ok((format!("{front}{query}"), check, authorities))
}

fn address(config: &Config) -> String {
    let hosts = config.get_hosts().iter().enumerate().map(|(place, host)| {
        let host = match host {
            Host::Tcp(name) => name.clone(),
            Host::Unix(path) => path.display().to_string(),
        };
        let ports = config.get_ports();
        let port = ports.get(place).or(ports.first()).copied().unwrap_or(5_432);
        format!("{host}:{port}")
    });
    format!("{}/{}", hosts.collect::<Vec<_>>().join(","), config.get_dbname().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_password_is_not_told() {
        let url = DatabaseUrl::parse("postgres://me:secret@db.example:6432/shop?sslmode=require");
        let url = url.expect("a right URL");
        assert_eq!(
            (url.address(), format!("{url:?}").as_str()),
            ("db.example:6432/shop", "db.example:6432/shop")
        );
        let short = DatabaseUrl::parse("postgresql://me@db/shop").expect("a right URL");
        assert_eq!(short.address(), "db:5432/shop");
    }

    #[test]
    fn a_wrong_url_is_told_without_it() {
        for text in [
            "",
            "secret",
            "http://me:secret@db/shop",
            "postgres://",
            "postgres://me:secret@db",
            "postgres://db/shop",
            "postgres://me:secret@db:port/shop",
            "postgres://me:secret@db/shop?sslmode=maybe",
            "postgres://me:secret@db/shop?secret=1",
            "postgres://me:secret@db/shop?sslrootcert=/etc/authorities.pem",
            "postgres://me:secret@db/shop?sslmode=verify-full&sslrootcert=/nonexistent",
        ] {
            let error = DatabaseUrl::parse(text).expect_err(text).to_string();
            assert!(!error.contains("me:secret"), "{text}: {error}");
        }
    }
}
