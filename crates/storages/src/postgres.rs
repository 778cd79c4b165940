//! A table of a PostgreSQL database. A block is one row, and read in parts.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use store::BlockStorage;
use tokio_postgres::{Client, Config, NoTls, config::SslMode};

use crate::over_network::{OverNetwork, READ_MAX, WRITE_MAX};

/// Connections that are kept for the next call.
const CONNECTIONS_KEPT: usize = 4;
/// How long a connection may take to be made.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// Names that one call lists.
const NAMES_PER_CALL: i64 = 10_000;
/// The table, made where it is not there.
const TABLE: &str = "CREATE TABLE IF NOT EXISTS fieldpost_blocks (
    folder text NOT NULL, name text NOT NULL, bytes bytea NOT NULL, PRIMARY KEY (folder, name))";

/// Checks the URL of a database.
///
/// # Errors
/// What is wrong with it; never the URL, which may hold a password.
pub fn check_postgres_url(url: &str) -> Result<(), String> {
    config(url).map(drop)
}

fn config(url: &str) -> Result<Config, String> {
    let wrong = "url must be postgres://USER:PASSWORD@HOST:PORT/DATABASE";
    if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
        return Err(wrong.to_owned());
    }
    let mut config: Config = url.parse().map_err(|_| wrong.to_owned())?;
    if config.get_hosts().is_empty() {
        return Err(wrong.to_owned());
    }
    if config.get_ssl_mode() == SslMode::Require {
        return Err("url asks for TLS, which is not spoken to PostgreSQL: use a private network".to_owned());
    }
    config.connect_timeout(CONNECT_MAX).application_name("fieldpost");
    Ok(config)
}

/// A database, as an operator sets it.
#[derive(Clone, PartialEq, Eq)]
pub struct PostgresLogin {
    /// Its URL, which may hold a password.
    pub url: String,
    /// The password, if the URL has none.
    pub password: Option<String>,
}

impl fmt::Debug for PostgresLogin {
    /// Without what may hold a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PostgresLogin")
    }
}

/// Blocks in a table.
pub struct PostgresStorage {
    database: Arc<BlockTable>,
    network: OverNetwork,
}

struct BlockTable {
    config: Config,
    idle: Mutex<Vec<Client>>,
}

impl fmt::Debug for PostgresStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hosts = self.database.config.get_hosts();
        write!(f, "blocks in PostgreSQL at {hosts:?}")
    }
}

impl PostgresStorage {
    /// The storage in a database. Nothing is asked yet.
    ///
    /// # Errors
    /// When the URL makes no sense.
    pub fn open(login: &PostgresLogin) -> Result<Self, String> {
        let mut config = config(&login.url)?;
        if let Some(password) = &login.password {
            config.password(password);
        }
        let database = BlockTable { config, idle: Mutex::default() };
        let network = OverNetwork::new("storage-pg").map_err(|error| error.to_string())?;
        Ok(Self { database: Arc::new(database), network })
    }
}

impl BlockTable {
    fn idle(&self) -> MutexGuard<'_, Vec<Client>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection: one that rested, or a new one.
    async fn connection(&self) -> io::Result<Client> {
        loop {
            let resting = self.idle().pop();
            let Some(client) = resting else { break };
            if !client.is_closed() {
                return Ok(client);
            }
        }
        let (client, connection) = self.config.connect(NoTls).await.map_err(|error| io_error(&error))?;
        tokio::spawn(async move {
            // Its client says what went wrong.
            let _ended = connection.await;
        });
        client.batch_execute(TABLE).await.map_err(|error| io_error(&error))?;
        Ok(client)
    }

    /// A connection whose last call went well may rest.
    fn keep(&self, client: Client) {
        let mut idle = self.idle();
        if idle.len() < CONNECTIONS_KEPT {
            idle.push(client);
        }
    }
}

fn io_error(error: &tokio_postgres::Error) -> io::Error {
    let text = match (error.as_db_error(), std::error::Error::source(error)) {
        (Some(refused), _) => refused.message().to_owned(),
        (None, Some(source)) => format!("{error}: {source}"),
        (None, None) => error.to_string(),
    };
    io::Error::other(text)
}

/// The folder of a block, and its name there.
fn parts(name: &str) -> io::Result<(String, String)> {
    let wrong = || io::Error::new(io::ErrorKind::InvalidInput, format!("{name:?} is no name of a block"));
    name.split_once('/').map(|(folder, file)| (folder.to_owned(), file.to_owned())).ok_or_else(wrong)
}

impl BlockStorage for PostgresStorage {
    fn put(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let ((folder, file), bytes, database) = (parts(name)?, bytes.to_vec(), Arc::clone(&self.database));
        self.network.call(WRITE_MAX, async move {
            let client = database.connection().await?;
            let put = "INSERT INTO fieldpost_blocks (folder, name, bytes) VALUES ($1, $2, $3)
                       ON CONFLICT (folder, name) DO UPDATE SET bytes = excluded.bytes";
            client.execute(put, &[&folder, &file, &bytes]).await.map_err(|error| io_error(&error))?;
            database.keep(client);
            Ok(())
        })
    }

    fn get_range(&self, name: &str, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        let short = || io::Error::new(io::ErrorKind::UnexpectedEof, "the block ends before");
        let (folder, file) = parts(name)?;
        // Ranges begin with 1 there.
        let from = i32::try_from(offset).ok().and_then(|offset| offset.checked_add(1)).ok_or_else(short)?;
        let count = i32::try_from(len).map_err(|_| short())?;
        let database = Arc::clone(&self.database);
        self.network.call(READ_MAX, async move {
            let client = database.connection().await?;
            let get = "SELECT substring(bytes FROM $3 FOR $4), octet_length(bytes)
                       FROM fieldpost_blocks WHERE folder = $1 AND name = $2";
            let rows = client.query(get, &[&folder, &file, &from, &count]).await;
            let rows = rows.map_err(|error| io_error(&error))?;
            database.keep(client);
            let Some(row) = rows.first() else {
                return Err(io::Error::new(io::ErrorKind::NotFound, "there is no such block"));
            };
            let (bytes, all): (Vec<u8>, i32) = (row.get(0), row.get(1));
            let is_within = u64::try_from(all).is_ok_and(|all| offset + len as u64 <= all);
            if is_within && bytes.len() == len { Ok(bytes) } else { Err(short()) }
        })
    }

    fn delete(&self, name: &str) -> io::Result<()> {
        let ((folder, file), database) = (parts(name)?, Arc::clone(&self.database));
        self.network.call(READ_MAX, async move {
            let client = database.connection().await?;
            let delete = "DELETE FROM fieldpost_blocks WHERE folder = $1 AND name = $2";
            client.execute(delete, &[&folder, &file]).await.map_err(|error| io_error(&error))?;
            database.keep(client);
            Ok(())
        })
    }

    fn list(&self, folder: &str, each: &mut dyn FnMut(String)) -> io::Result<()> {
        let mut after = String::new();
        loop {
            let (of, from, database) = (folder.to_owned(), after.clone(), Arc::clone(&self.database));
            let names: Vec<String> = self.network.call(READ_MAX, async move {
                let client = database.connection().await?;
                let list = "SELECT name FROM fieldpost_blocks WHERE folder = $1 AND name > $2
                            ORDER BY name LIMIT $3";
                let rows = client.query(list, &[&of, &from, &NAMES_PER_CALL]).await;
                let rows = rows.map_err(|error| io_error(&error))?;
                database.keep(client);
                Ok(rows.iter().map(|row| row.get(0)).collect())
            })?;
            let is_all = (names.len() as i64) < NAMES_PER_CALL;
            after = names.last().cloned().unwrap_or_default();
            names.into_iter().for_each(|name| each(format!("{folder}/{name}")));
            if is_all {
                return Ok(());
            }
        }
    }

    fn probe(&self) -> io::Result<()> {
        let database = Arc::clone(&self.database);
        self.network.call(READ_MAX, async move {
            let client = database.connection().await?;
            client.batch_execute("SELECT 1").await.map_err(|error| io_error(&error))?;
            database.keep(client);
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_that_makes_no_sense_is_refused_without_being_told() {
        for (url, is_right) in [
            ("postgres://fieldpost:secret@db.internal:5432/blocks", true),
            ("postgresql://127.0.0.1/blocks", true),
            ("postgres:///blocks", false),
            ("mysql://secret@db/blocks", false),
            ("postgres://u:secret@db/blocks?sslmode=require", false),
            ("postgres://u:secret@db/blocks?unknown=1", false),
        ] {
            let refused = check_postgres_url(url);
            assert_eq!(refused.is_ok(), is_right, "{url}: {refused:?}");
            assert!(refused.err().is_none_or(|text| !text.contains("secret")), "{url}");
        }
    }
}
