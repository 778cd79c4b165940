//! `relay`: the outbox of a service's own PostgreSQL. One command runs until it is stopped; the
//! others do one thing, in the database and not at the server.

mod output;

use std::fs;
use std::io::{self, Write, stdout};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use ::relay::{
    BackfillError, BackfillPlan, ClientRenewal, DatabaseError, DatabaseUrl, OnRefused, RefusedChoice,
    RelayConfig, TableName, WatchedTable, backfill, drop_refused, inbox_script, list_refused, outbox_script,
    outbox_status, over_http, relay_name, retry_refused, watch_script,
};
use clap::{Args, Subcommand, ValueEnum};
use cli::{FileOrEmptyVariable, stdout_columns, stdout_of};
use fieldpost_client::{Client, Trust};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::EXIT_WRONG;

/// What an outbox is called, unless it is said otherwise.
// In two parts: what looks like the name of a metric is taken for one.
const OUTBOX: &str = concat!("fieldpost", "_outbox");
const INBOX: &str = concat!("fieldpost", "_inbox");

/// The flags of `relay`.
#[derive(Args, Debug)]
pub(crate) struct RelayFlags {
    /// What to do.
    #[command(subcommand)]
    action: RelayAction,
}

/// The commands.
#[derive(Debug, Subcommand)]
enum RelayAction {
    /// Print the SQL that makes an outbox, a trigger for a table, or an inbox: for psql, and it may
    /// be run again.
    Sql(RelaySql),
    /// Move rows to queues and streams until SIGTERM or SIGINT. Of several relays on one table one
    /// works.
    Run(RelayRun),
    /// Send the rows that a table has already, as {"op":"read"}, through the outbox.
    Backfill(RelayBackfill),
    /// Rows that were refused for good.
    #[command(subcommand)]
    Refused(RelayRefused),
    /// Say what waits in an outbox, and who works on it.
    Status(OutboxFlags),
}

/// The flags of `relay sql`.
#[derive(Args, Debug)]
struct RelaySql {
    /// The outbox: a table, or schema.table; without a schema it is in public. Capitals count.
    #[arg(long, value_name = "TABLE", default_value = OUTBOX, value_parser = TableName::outbox)]
    table: TableName,
    /// A table whose inserts, updates and deletes are to go into the outbox.
    #[arg(long, value_name = "TABLE", requires = "to", conflicts_with = "inbox")]
    #[arg(value_parser = TableName::parse)]
    watch: Option<TableName>,
    /// Where they go: queue:NAMESPACE/QUEUE or stream:NAMESPACE/STREAM.
    #[arg(long, value_name = "DESTINATION", requires = "watch", value_parser = destination)]
    to: Option<String>,
    /// The column whose value is the key, which order goes by; by default the primary key, if that
    /// is one column.
    #[arg(long, value_name = "COLUMN", requires = "watch")]
    key: Option<String>,
    /// The columns that are told, with commas between them; by default all.
    #[arg(long, value_name = "COLUMNS", requires = "watch", value_delimiter = ',')]
    columns: Vec<String>,
    /// Print a table and a function for consumers that want each message once in a transaction of
    /// their own.
    #[arg(long)]
    inbox: bool,
}

/// An outbox, and how to reach it.
#[derive(Args, Debug)]
struct OutboxFlags {
    /// The database: postgres://user:password@host:5432/database; better given in
    /// FIELDPOST_RELAY_DATABASE, which no list of processes shows.
    #[arg(long, value_name = "URL", env = "FIELDPOST_RELAY_DATABASE", hide_env_values = true)]
    database: String,
    /// The outbox: a table, or schema.table; without a schema it is in public. Capitals count.
    #[arg(long, value_name = "TABLE", default_value = OUTBOX, value_parser = TableName::outbox)]
    table: TableName,
    /// Print JSON: one document, or one line for each row.
    #[arg(long)]
    json: bool,
}

/// The flags of `relay run`.
#[derive(Args, Clone, Debug)]
struct RelayRun {
    /// The database: postgres://user:password@host:5432/database; better given in
    /// FIELDPOST_RELAY_DATABASE, which no list of processes shows.
    #[arg(long, value_name = "URL", env = "FIELDPOST_RELAY_DATABASE", hide_env_values = true)]
    database: String,
    /// The outbox: a table, or schema.table; without a schema it is in public. Capitals count.
    #[arg(long, value_name = "TABLE", default_value = OUTBOX, value_parser = TableName::outbox)]
    table: TableName,
    /// The server.
    #[arg(long, value_name = "URL", env = "FIELDPOST_URL", hide_env_values = true)]
    #[arg(default_value = "http://127.0.0.1:8080")]
    server: String,
    /// A file with the token that the server asks for; otherwise FIELDPOST_TOKEN. It is read again
    /// where the server does not take the token any more.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// A PEM file with the certificates to trust in place of the system's, of the server.
    #[arg(long, value_name = "FILE", env = "FIELDPOST_CA", hide_env_values = true)]
    #[arg(value_parser = FileOrEmptyVariable)]
    ca: Option<PathBuf>,
    /// What becomes of a row that is refused for good.
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = RelayOnRefused::Skip)]
    on_refused: RelayOnRefused,
}

/// The values of `--on-refused`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum RelayOnRefused {
    /// It moves to the table of refused rows, and its key goes on.
    Skip,
    /// It stays, and its key waits.
    Hold,
}

/// The flags of `relay backfill`.
#[derive(Args, Debug)]
struct RelayBackfill {
    /// The database: postgres://user:password@host:5432/database; better given in
    /// FIELDPOST_RELAY_DATABASE, which no list of processes shows.
    #[arg(long, value_name = "URL", env = "FIELDPOST_RELAY_DATABASE", hide_env_values = true)]
    database: String,
    /// The table whose rows are sent: a table, or schema.table; without a schema it is in public.
    #[arg(long, value_name = "TABLE", value_parser = TableName::parse)]
    table: TableName,
    /// Where they go: queue:NAMESPACE/QUEUE or stream:NAMESPACE/STREAM.
    #[arg(long, value_name = "DESTINATION", value_parser = destination)]
    to: String,
    /// Which rows: a condition in SQL.
    #[arg(long = "where", value_name = "CONDITION")]
    condition: Option<String>,
    /// The column whose value is the key; by default that of the table's trigger, or else the
    /// primary key.
    #[arg(long, value_name = "COLUMN")]
    key: Option<String>,
    /// The columns that are told; by default those of the table's trigger, or else all.
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    columns: Vec<String>,
    /// The outbox that they go through.
    #[arg(long, value_name = "TABLE", default_value = OUTBOX, value_parser = TableName::outbox)]
    outbox: TableName,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// The commands of `relay refused`.
#[derive(Debug, Subcommand)]
enum RelayRefused {
    /// Show them; also those that are held in the outbox.
    Ls(OutboxFlags),
    /// Have them tried again: all, or those with one id.
    Retry(RetriedRows),
    /// Delete them. Which ones has to be said: they do not come back.
    Drop(DroppedRows),
}

/// The flags of `relay refused retry`.
#[derive(Args, Debug)]
struct RetriedRows {
    #[command(flatten)]
    outbox: OutboxFlags,
    /// Those with this id.
    #[arg(long, value_name = "ID", conflicts_with = "all")]
    id: Option<i64>,
    /// All of them, which is meant without a flag, too.
    #[arg(long)]
    all: bool,
}

/// The flags of `relay refused drop`.
#[derive(Args, Debug)]
struct DroppedRows {
    #[command(flatten)]
    outbox: OutboxFlags,
    #[command(flatten)]
    choice: DroppedChoice,
}

/// Which rows are deleted.
#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
struct DroppedChoice {
    /// Those with this id.
    #[arg(long, value_name = "ID")]
    id: Option<i64>,
    /// All of them.
    #[arg(long)]
    all: bool,
}

/// Why a command ends otherwise than well.
#[derive(Debug, thiserror::Error)]
enum RelayFailure {
    /// What was asked for is wrong.
    #[error("{0}")]
    Wrong(String),
    /// The row that was named is not there.
    #[error("no refused row has the id {0}; `relay refused ls` shows those that there are")]
    NoRow(i64),
    #[error(transparent)]
    Database(#[from] DatabaseError),
    #[error(transparent)]
    Backfill(#[from] BackfillError),
    #[error("standard output cannot be written: {0}")]
    Output(#[from] io::Error),
}

/// Does what the flags say.
pub(crate) fn run(flags: RelayFlags) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: no runtime can be started: {error}");
            return ExitCode::FAILURE;
        }
    };
    match runtime.block_on(carry_out(flags.action)) {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever read the output has had enough of it, as `head` does.
        Err(RelayFailure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::from(if matches!(failure, RelayFailure::Wrong(_)) { EXIT_WRONG } else { 1 })
        }
    }
}

async fn carry_out(action: RelayAction) -> Result<(), RelayFailure> {
    match action {
        RelayAction::Sql(flags) => Ok(stdout().write_all(sql(&flags).as_bytes())?),
        RelayAction::Run(flags) => move_rows(flags).await,
        RelayAction::Backfill(flags) => send_what_is_there(flags).await,
        RelayAction::Refused(RelayRefused::Ls(outbox)) => list_all_refused(&outbox).await,
        RelayAction::Refused(RelayRefused::Retry(rows)) => {
            let database = database(&rows.outbox.database)?;
            let count = retry_refused(&database, &rows.outbox.table, choice(rows.id)).await?;
            check_found(rows.id, count)?;
            Ok(output::count("retried", count, rows.outbox.json, &mut stdout())?)
        }
        RelayAction::Refused(RelayRefused::Drop(rows)) => {
            let (database, id) = (database(&rows.outbox.database)?, rows.choice.id);
            let count = drop_refused(&database, &rows.outbox.table, choice(id)).await?;
            check_found(id, count)?;
            Ok(output::count("dropped", count, rows.outbox.json, &mut stdout())?)
        }
        RelayAction::Status(outbox) => {
            let status = outbox_status(&database(&outbox.database)?, &outbox.table).await?;
            Ok(output::status(&outbox.table, &status, outbox.json, &mut stdout())?)
        }
    }
}

fn choice(id: Option<i64>) -> RefusedChoice {
    id.map_or(RefusedChoice::All, RefusedChoice::Id)
}

/// Whoever names a row means one that is there.
fn check_found(id: Option<i64>, count: u64) -> Result<(), RelayFailure> {
    match id {
        Some(id) if count == 0 => Err(RelayFailure::NoRow(id)),
        _ => Ok(()),
    }
}

async fn list_all_refused(outbox: &OutboxFlags) -> Result<(), RelayFailure> {
    let (mut out, mut count) = (stdout_of(outbox.json), 0);
    let mut table = output::refused_table(stdout_columns());
    list_refused(&database(&outbox.database)?, &outbox.table, |rows| {
        count += rows.len();
        output::refused_rows(rows, &mut table, outbox.json, &mut out).map_err(RelayFailure::from)
    })
    .await?;
    if count == 0 && !outbox.json {
        writeln!(out, "no refused rows")?;
    }
    Ok(())
}

fn sql(flags: &RelaySql) -> String {
    if flags.inbox {
        return inbox_script(&flags.table.beside(INBOX));
    }
    let mut script = outbox_script(&flags.table);
    if let (Some(table), Some(destination)) = (&flags.watch, &flags.to) {
        let (key, columns) = (flags.key.clone(), flags.columns.clone());
        let watched = WatchedTable { table: table.clone(), destination: destination.clone(), key, columns };
        script.push('\n');
        script.push_str(&watch_script(&flags.table, &watched));
    }
    script
}

async fn move_rows(flags: RelayRun) -> Result<(), RelayFailure> {
    let config = RelayConfig {
        database: database(&flags.database)?,
        table: flags.table.clone(),
        on_refused: match flags.on_refused {
            RelayOnRefused::Skip => OnRefused::Skip,
            RelayOnRefused::Hold => OnRefused::Hold,
        },
        make_call: over_http(client(&flags)?, renewal(flags.clone())),
        name: relay_name(),
    };
    let mut signals = [SignalKind::terminate(), SignalKind::interrupt()].map(signal).into_iter();
    let (Some(Ok(mut terminate)), Some(Ok(mut interrupt))) = (signals.next(), signals.next()) else {
        return Err(RelayFailure::Output(io::Error::other("signals cannot be listened for")));
    };
    let (stop, stopped) = watch::channel(false);
    let mut relay = tokio::spawn(::relay::run(config, stopped));
    let failed = |error| RelayFailure::Output(io::Error::other(error));
    tokio::select! {
        // It ends by itself only where it fails.
        ended = &mut relay => return ended.map_err(failed),
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    stop.send_replace(true);
    relay.await.map_err(failed)
}

/// Reads the file of the token again: it may have been rotated while the relay ran.
fn renewal(flags: RelayRun) -> ClientRenewal {
    Arc::new(move || {
        flags.token_file.as_ref()?;
        let renewed = client(&flags);
        if let Err(error) = &renewed {
            tracing::warn!(%error, "the server asks for another token, and the file gives none");
        }
        renewed.ok()
    })
}

fn client(flags: &RelayRun) -> Result<Client, RelayFailure> {
    let wrong = |text: String| RelayFailure::Wrong(text);
    let read = |file: &PathBuf| {
        fs::read_to_string(file).map_err(|error| wrong(format!("{} cannot be read: {error}", file.display())))
    };
    let mut client = Client::builder(&flags.server)
        .user_agent(concat!("fieldpost-relay/", env!("CARGO_PKG_VERSION")))
        .proxy_of_environment();
    let token = match &flags.token_file {
        Some(file) => Some(read(file)?),
        None => std::env::var("FIELDPOST_TOKEN").ok(),
    };
    // A variable that is empty counts as not set.
    if let Some(token) = token.as_deref().map(str::trim).filter(|token| !token.is_empty()) {
        client = client.token(token);
    }
    if let Some(file) = flags.ca.as_ref().filter(|file| !file.as_os_str().is_empty()) {
        let trust = Trust::of_pem(read(file)?.as_bytes());
        client = client.trust(trust.map_err(|error| wrong(format!("--ca {}: {error}", file.display())))?);
    }
    client.build().map_err(|error| wrong(error.to_string()))
}

async fn send_what_is_there(flags: RelayBackfill) -> Result<(), RelayFailure> {
    let database = database(&flags.database)?;
    let plan = BackfillPlan {
        table: flags.table,
        outbox: flags.outbox,
        destination: flags.to,
        condition: flags.condition,
        key: flags.key,
        columns: flags.columns,
    };
    let rows = backfill(&database, &plan, |rows| tracing::debug!(rows, "backfill")).await;
    let rows = rows.map_err(|error| match error {
        BackfillError::Condition { .. } => RelayFailure::Wrong(error.to_string()),
        error => error.into(),
    })?;
    Ok(output::count("rows", rows, flags.json, &mut stdout())?)
}

/// Not where the command line is read: what is refused there is repeated on the screen.
fn database(url: &str) -> Result<DatabaseUrl, RelayFailure> {
    DatabaseUrl::parse(url).map_err(|error| RelayFailure::Wrong(format!("--database: {error}")))
}

fn destination(text: &str) -> Result<String, &'static str> {
    ::relay::check_destination(text).map(|()| text.to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        flags: RelayFlags,
    }

    fn parse(line: &str) -> Result<RelayAction, clap::error::ErrorKind> {
        let words = std::iter::once("relay").chain(line.split_whitespace());
        Line::try_parse_from(words).map(|line| line.flags.action).map_err(|error| error.kind())
    }

    #[test]
    fn what_belongs_together_is_asked_for() {
        for line in [
            "sql --watch orders",
            "sql --to stream:a/b",
            "sql --key id",
            "sql --watch a --to nowhere",
            "sql --watch a --to queue:a/_b",
            "backfill --database postgres://u@h/d --table t --to stream:_a/b",
            "sql --inbox --watch a --to queue:a/b",
            "run",
            "backfill --database postgres://u@h/d --table t",
            "refused retry --database postgres://u@h/d --id 1 --all",
            "refused drop --database postgres://u@h/d",
            "refused drop --database postgres://u@h/d --id 1 --all",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
        for line in [
            "sql",
            "sql --inbox",
            "sql --table shop.Out --watch shop.orders --to stream:a/b --key id --columns id,name",
            "run --database postgres://u@h/d --on-refused hold",
            "backfill --database postgres://u@h/d --table t --to queue:a/b --where x>1",
            "refused ls --database postgres://u@h/d",
            "refused retry --database postgres://u@h/d",
            "refused retry --database postgres://u@h/d --all",
            "refused drop --database postgres://u@h/d --id 7",
            "status --database postgres://u@h/d --json",
        ] {
            assert!(parse(line).is_ok(), "{line}");
        }
    }

    #[test]
    fn what_is_missing_is_told_whole() {
        let line = ["relay", "refused", "drop", "--database", "postgres://u@h/d"];
        let told = Line::try_parse_from(line).expect_err("nothing is chosen").to_string();
        assert!(told.contains("<--id <ID>|--all>"), "{told}");
    }

    #[test]
    fn a_watched_table_comes_with_its_outbox() {
        let Ok(RelayAction::Sql(flags)) = parse("sql --watch orders --to stream:a/b") else { panic!("sql") };
        let script = sql(&flags);
        assert!(script.contains("CREATE TABLE IF NOT EXISTS \"public\".\"fieldpost_outbox\" ("), "{script}");
        assert!(script.contains("'stream:a/b'") && script.contains("ON \"public\".\"orders\""), "{script}");
        let Ok(RelayAction::Sql(flags)) = parse("sql --inbox --table shop.o") else { panic!("sql") };
        assert!(sql(&flags).contains("CREATE TABLE IF NOT EXISTS \"shop\".\"fieldpost_inbox\" ("));
    }

    #[test]
    fn a_wrong_database_is_told_without_its_password() {
        let failure = database("postgres://me:s3cret@h").expect_err("no database").to_string();
        assert!(failure.starts_with("--database: ") && !failure.contains("s3cret"), "{failure}");
    }
}
