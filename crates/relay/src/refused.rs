//! Refused rows, from the shell: looking at them, trying them again, dropping them.

use serde_json::Value;

use crate::database::{DatabaseError, DatabaseSession, DatabaseUrl, LOOK_AGAIN};
use crate::outbox::{found, stats, worker};
use crate::table::TableName;

/// Rows that are read at a time.
const PAGE_ROWS: i32 = 1_000;

/// Which refused rows are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusedChoice {
    /// Those with this id.
    Id(i64),
    /// All of them.
    All,
}

/// A refused row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedRow {
    /// Its id.
    pub id: i64,
    /// Whether it is still in the outbox, and its key waits.
    pub is_held: bool,
    /// Where it was to go.
    pub destination: String,
    /// Its key.
    pub key: Option<String>,
    /// Why it was refused.
    pub reason: String,
    /// When it was refused, where that is known, and written.
    pub times: (Option<String>, String),
    /// What it says, as JSON.
    pub payload: String,
}

/// Gives all refused rows, by their ids, to `shown`, a page at a time; the held ones, which are
/// still in the outbox, too. They are as one moment saw them.
///
/// # Errors
/// See [`DatabaseError`], and whatever `shown` gives.
pub async fn list_refused<E: From<DatabaseError>>(
    database: &DatabaseUrl,
    table: &TableName,
    mut shown: impl FnMut(&[RefusedRow]) -> Result<(), E>,
) -> Result<(), E> {
    let mut session = database.connect("fieldpost relay refused").await?;
    found(&session, table).await?;
    let sql = list_sql(table);
    let failed = |error: tokio_postgres::Error| DatabaseError::from(error);
    let transaction = session.client.transaction().await.map_err(failed)?;
    let portal = transaction.bind(&sql, &[]).await.map_err(failed)?;
    loop {
        let rows = transaction.query_portal(&portal, PAGE_ROWS).await.map_err(failed)?;
        let rows = rows.iter().map(read).collect::<Result<Vec<_>, _>>().map_err(failed)?;
        if rows.is_empty() {
            return Ok(());
        }
        shown(&rows)?;
    }
}

fn list_sql(table: &TableName) -> String {
    let refused = table.with("_refused");
    let form = "'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"'";
    let time = |column| format!("to_char({column} AT TIME ZONE 'UTC', {form})");
    format!(
        "SELECT id, false, destination, key, reason, {refused_at}, {created_at}, left(payload::text, \
         65536) FROM {refused} \
         UNION ALL SELECT id, true, destination, key, reason, NULL, {created_at}, left(payload::text, \
         65536) \
         FROM {table} WHERE reason IS NOT NULL ORDER BY 1",
        refused_at = time("refused_at"),
        created_at = time("created_at"),
    )
}

fn read(row: &tokio_postgres::Row) -> Result<RefusedRow, tokio_postgres::Error> {
    Ok(RefusedRow {
        id: row.try_get(0)?,
        is_held: row.try_get(1)?,
        destination: row.try_get(2)?,
        key: row.try_get(3)?,
        reason: row.try_get(4)?,
        times: (row.try_get(5)?, row.try_get(6)?),
        payload: row.try_get(7)?,
    })
}

/// Has refused rows tried again; how many. A row keeps its id, and with it its place, unless
/// another has it by now.
///
/// # Errors
/// See [`DatabaseError`].
pub async fn retry_refused(
    database: &DatabaseUrl,
    table: &TableName,
    choice: RefusedChoice,
) -> Result<u64, DatabaseError> {
    let refused = table.with("_refused");
    let columns = "uid, destination, key, payload, attributes, created_at";
    let moved = format!(
        "WITH gone AS (DELETE FROM {refused} WHERE $1::bigint IS NULL OR id = $1 RETURNING id, {columns}), \
         ranked AS (SELECT *, row_number() OVER (PARTITION BY id ORDER BY created_at) AS place FROM gone), \
         free AS (SELECT *, place = 1 AND NOT EXISTS (SELECT FROM {table} t WHERE t.id = ranked.id) AS \
         is_free FROM ranked), \
         same AS (INSERT INTO {table} (id, {columns}) SELECT id, {columns} FROM free WHERE is_free \
         RETURNING 1), \
         other AS (INSERT INTO {table} ({columns}) SELECT {columns} FROM free WHERE NOT is_free ORDER \
         BY id RETURNING 1) \
         SELECT (SELECT count(*) FROM same) + (SELECT count(*) FROM other)"
    );
    let released = format!(
        "WITH released AS (UPDATE {table} SET reason = NULL WHERE reason IS NOT NULL AND ($1::bigint IS \
         NULL OR id = $1) \
         RETURNING 1) SELECT count(*) FROM released"
    );
    change(database, table, choice, &[moved, released]).await
}

/// Deletes refused rows; how many. What waits behind a held one goes on.
///
/// # Errors
/// See [`DatabaseError`].
pub async fn drop_refused(
    database: &DatabaseUrl,
    table: &TableName,
    choice: RefusedChoice,
) -> Result<u64, DatabaseError> {
    let refused = table.with("_refused");
    let dropped = format!(
        "WITH gone AS (DELETE FROM {refused} WHERE $1::bigint IS NULL OR id = $1 RETURNING 1) SELECT \
         count(*) FROM gone"
    );
    let held = format!(
        "WITH gone AS (DELETE FROM {table} WHERE reason IS NOT NULL AND ($1::bigint IS NULL OR id = $1) \
         RETURNING 1) \
         SELECT count(*) FROM gone"
    );
    change(database, table, choice, &[dropped, held]).await
}

async fn change(
    database: &DatabaseUrl,
    table: &TableName,
    choice: RefusedChoice,
    statements: &[String],
) -> Result<u64, DatabaseError> {
    let mut session = database.connect("fieldpost relay refused").await?;
    found(&session, table).await?;
    let id = match choice {
        RefusedChoice::Id(id) => Some(id),
        RefusedChoice::All => None,
    };
    let transaction = session.client.transaction().await?;
    let mut count = 0;
    for statement in statements {
        count += transaction.query_one(statement, &[&id]).await?.try_get::<_, i64>(0)?;
    }
    let wake = "SELECT pg_notify('fieldpost_relay_' || to_regclass($1)::oid::bigint::text, $2)";
    transaction.query(wake, &[&table.to_string(), &LOOK_AGAIN]).await?;
    transaction.commit().await?;
    Ok(count.unsigned_abs())
}

/// What waits in an outbox, and who works on it.
#[derive(Clone, Debug, PartialEq)]
pub struct OutboxStatus {
    /// Rows that wait, and the bytes of their payloads and attributes as they are stored.
    pub waiting: i64,
    /// See `waiting`.
    pub bytes: i64,
    /// When the oldest row was written, in milliseconds since 1970.
    pub oldest_at_ms: Option<i64>,
    /// How long ago that is, by the clock of the database.
    pub oldest_age_ms: Option<i64>,
    /// Refused rows in the outbox, whose keys wait.
    pub held: i64,
    /// Refused rows beside it.
    pub refused: i64,
    /// The session of the relay that works, as far as we may see it; its `rate` is in rows a
    /// second.
    pub worker: Option<Value>,
}

/// Looks at an outbox: at every row.
///
/// # Errors
/// See [`DatabaseError`].
pub async fn outbox_status(database: &DatabaseUrl, table: &TableName) -> Result<OutboxStatus, DatabaseError> {
    let session: DatabaseSession = database.connect("fieldpost relay status").await?;
    found(&session, table).await?;
    let (stats, worker) = (stats(&session, table).await?, worker(&session, table).await?);
    Ok(OutboxStatus {
        waiting: stats.waiting,
        bytes: stats.bytes,
        oldest_at_ms: stats.oldest_at_ms,
        oldest_age_ms: stats.oldest_age_ms,
        held: stats.held,
        refused: stats.refused,
        worker,
    })
}
