//! The statements on an outbox: reading a page of rows, writing down what became of them, and who
//! may work.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use base::locks::locked;
use serde_json::Value;
use tokio_postgres::Statement;

use crate::database::{DatabaseError, DatabaseSession};
use crate::gaps::{IdGaps, SnapshotEnds};
use crate::outgoing::{FIELD_BYTES_MAX, OutboxRow, PAYLOAD_BYTES_MAX};
use crate::plan::RowOutcomes;
use crate::table::TableName;

/// Rows of a page.
pub(crate) const PAGE_ROWS: i64 = 1_000;
/// Bytes of payloads and attributes of a page; the first row is there whatever its size.
const PAGE_BYTES: i64 = 8 * 1_024 * 1_024;
/// What our advisory locks begin with: "FPRL".
const LOCK_CLASS: i32 = 0x4650_524C;
/// The database is asked before rows are sent if it has not answered for so long.
const ANSWERED_WITHIN: Duration = Duration::from_secs(2);
/// Around the rate in what PostgreSQL calls the session that works.
const RATE_BEGINS: &str = "fieldpost relay: ";
const RATE_ENDS: &str = " rows/s";
/// The columns of an outbox.
const COLUMNS: [&str; 8] =
    ["id", "uid", "destination", "key", "payload", "attributes", "created_at", "reason"];
/// Destinations that a look tells of.
const LOOK_MAX: i64 = 1_000;
/// Held rows that are read, one more than may be held.
pub(crate) const HELD_ROWS_MAX: usize = 10_000;

/// A row of a page.
#[derive(Debug)]
pub(crate) struct PageRow {
    pub(crate) row: OutboxRow,
    /// It was refused, and its key waits.
    pub(crate) is_held: bool,
    /// Its payload was not read, because its destination is behind.
    pub(crate) is_left_out: bool,
}

/// Rows in order of their ids, as one snapshot sees them.
#[derive(Debug)]
pub(crate) struct OutboxPage {
    pub(crate) rows: Vec<PageRow>,
    /// Nothing was left out for want of room.
    pub(crate) is_whole: bool,
    pub(crate) ends: SnapshotEnds,
}

/// Rows and bytes that wait.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct OutboxStats {
    pub(crate) waiting: i64,
    pub(crate) bytes: i64,
    /// In milliseconds since 1970.
    pub(crate) oldest_at_ms: Option<i64>,
    /// How long ago that is, by the clock of the database.
    pub(crate) oldest_age_ms: Option<i64>,
    pub(crate) held: i64,
    pub(crate) refused: i64,
}

/// An outbox, through one session.
#[derive(Debug)]
pub(crate) struct OutboxTable {
    pub(crate) session: DatabaseSession,
    pub(crate) table: TableName,
    oid: i64,
    read: Statement,
    read_of: Statement,
    delete: Statement,
    /// When the database answered last: until then the lock was ours.
    answered_at: Mutex<Instant>,
}

impl OutboxTable {
    pub(crate) async fn open(session: DatabaseSession, table: &TableName) -> Result<Self, DatabaseError> {
        let oid = found(&session, table).await?;
        let client = &session.client;
        let statements =
            [read_sql(table), read_of_sql(table), format!("DELETE FROM {table} WHERE id = ANY($1)")];
        let [read, read_of, delete] = statements.each_ref().map(|sql| client.prepare(sql));
        let (read, read_of, delete) = tokio::try_join!(read, read_of, delete)?;
        let answered_at = Mutex::new(Instant::now());
        Ok(Self { session, table: table.clone(), oid, read, read_of, delete, answered_at })
    }

    /// Whether this session is the one that works; once it is, it stays.
    pub(crate) async fn try_lock(&self) -> Result<bool, DatabaseError> {
        let lock = format!("SELECT pg_try_advisory_lock({LOCK_CLASS}, {})", self.lock_number());
        Ok(self.session.client.query_one(&lock, &[]).await?.try_get(0)?)
    }

    /// Whether the session, and with it the lock, is still there: the database is asked unless it
    /// answered a moment ago. A process that was stopped for a while finds out before it sends.
    pub(crate) async fn confirm(&self) -> Result<(), DatabaseError> {
        let answered_at = *locked(&self.answered_at);
        if answered_at.elapsed() > ANSWERED_WITHIN {
            self.session.client.batch_execute("").await?;
            self.answered();
        }
        Ok(())
    }

    fn answered(&self) {
        *locked(&self.answered_at) = Instant::now();
    }

    /// Has PostgreSQL show how many rows a second this session moves.
    pub(crate) async fn show_rate(&self, rows_per_second: u64) -> Result<(), DatabaseError> {
        let sql = format!("SET application_name = '{RATE_BEGINS}{rows_per_second}{RATE_ENDS}'");
        Ok(self.session.client.batch_execute(&sql).await?)
    }

    /// The second half of the lock, of the number that PostgreSQL has for the table.
    fn lock_number(&self) -> i32 {
        self.oid as i32
    }

    pub(crate) async fn listen(&self) -> Result<(), DatabaseError> {
        Ok(self.session.client.batch_execute(&format!("LISTEN {}", self.channel())).await?)
    }

    /// Where the relay is woken.
    pub(crate) fn channel(&self) -> String {
        format!("fieldpost_relay_{}", self.oid)
    }

    /// What is missing below the bound, as far as it is seen now, and what is above. Payloads of
    /// these destinations are left out, and in the run all of their rows.
    pub(crate) async fn read(
        &self,
        gaps: &IdGaps,
        bound: i64,
        left_out: &[String],
    ) -> Result<OutboxPage, DatabaseError> {
        let ((lows, highs), run_low) = (gaps.ranges(), gaps.run_low());
        let rows =
            self.session.client.query(&self.read, &[&lows, &highs, &bound, &left_out, &run_low]).await?;
        self.answered();
        page(rows)
    }

    /// The rows of one destination above one bound and up to another.
    pub(crate) async fn read_of(
        &self,
        destination: &str,
        (after, up_to): (i64, i64),
    ) -> Result<OutboxPage, DatabaseError> {
        let rows = self.session.client.query(&self.read_of, &[&destination, &after, &up_to]).await?;
        self.answered();
        page(rows)
    }

    /// What the table is known by.
    pub(crate) async fn identity(&self) -> Result<String, DatabaseError> {
        let sql = format!("SELECT {}()::text", self.table.with("_identity"));
        let identity: Option<String> = self.session.client.query_one(&sql, &[]).await?.try_get(0)?;
        let state = self.table.with("_state").display_name();
        identity.ok_or_else(|| no_outbox(&self.table, vec![format!("row in the table {state}")]))
    }

    /// Writes down what became of rows: durable when this returns.
    pub(crate) async fn settle(&self, outcomes: &RowOutcomes, holds: bool) -> Result<(), DatabaseError> {
        if !outcomes.refused.is_empty() {
            self.refuse(outcomes, holds).await?;
        }
        if !outcomes.taken.is_empty() {
            self.session.client.execute(&self.delete, &[&outcomes.taken]).await?;
        }
        if !(outcomes.refused.is_empty() && outcomes.taken.is_empty()) {
            self.answered();
        }
        Ok(())
    }

    async fn refuse(&self, outcomes: &RowOutcomes, holds: bool) -> Result<(), DatabaseError> {
        let (table, refused) = (&self.table, self.table.with("_refused"));
        let ids: Vec<i64> = outcomes.refused.iter().map(|(id, _)| *id).collect();
        let reasons: Vec<String> =
            outcomes.refused.iter().map(|(_, why)| why.reason().replace('\0', " ")).collect();
        let sql = if holds {
            format!(
                "UPDATE {table} t SET reason = r.reason FROM unnest($1::bigint[], $2::text[]) r(id, \
                 reason) \
                 WHERE t.id = r.id"
            )
        } else {
            format!(
                "WITH gone AS (DELETE FROM {table} WHERE id = ANY($1::bigint[]) \
                 RETURNING id, uid, destination, key, payload, attributes, created_at) \
                 INSERT INTO {refused} (id, uid, destination, key, payload, attributes, created_at, \
                 reason) \
                 SELECT g.id, coalesce(uid, gen_random_uuid()), coalesce(destination, ''), key, \
                 coalesce(payload, 'null'), attributes, coalesce(created_at, now()), r.reason \
                 FROM gone g JOIN unnest($1::bigint[], $2::text[]) r(id, reason) ON r.id = g.id"
            )
        };
        self.session.client.execute(&sql, &[&ids, &reasons]).await?;
        Ok(())
    }

    /// Has held rows tried like any other; how many.
    pub(crate) async fn release_held(&self) -> Result<u64, DatabaseError> {
        let sql = format!("UPDATE {} SET reason = NULL WHERE reason IS NOT NULL", self.table);
        Ok(self.session.client.execute(&sql, &[]).await?)
    }

    /// Destination and key of every held row, up to one more than may be held.
    pub(crate) async fn held(&self) -> Result<Vec<(String, Option<String>)>, DatabaseError> {
        let sql = format!(
            "SELECT DISTINCT destination, nullif(key, '') FROM {} WHERE reason IS NOT NULL LIMIT {}",
            self.table,
            HELD_ROWS_MAX + 1
        );
        let rows = self.session.client.query(&sql, &[]).await?;
        rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
    }

    /// Of each destination the first row up to the bound that neither is held nor waits behind one
    /// that is.
    pub(crate) async fn left_behind(&self, bound: i64) -> Result<Vec<(String, i64)>, DatabaseError> {
        let table = &self.table;
        let sql = format!(
            "SELECT destination, min(id) FROM {table} t WHERE id <= $1 AND reason IS NULL AND NOT EXISTS (\
             SELECT FROM {table} h WHERE h.reason IS NOT NULL AND h.destination = t.destination \
             AND (h.key = t.key AND t.key <> '' OR coalesce(h.key, '') = '' AND coalesce(t.key, '') = '' \
             AND starts_with(t.destination, 'stream:'))) \
             GROUP BY destination LIMIT {LOOK_MAX}"
        );
        let rows = self.session.client.query(&sql, &[&bound]).await?;
        rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
    }

    /// Counts what waits: a look at every row.
    pub(crate) async fn stats(&self) -> Result<OutboxStats, DatabaseError> {
        stats(&self.session, &self.table).await
    }
}

/// The number that PostgreSQL has for an outbox of which everything is there.
pub(crate) async fn found(session: &DatabaseSession, table: &TableName) -> Result<i64, DatabaseError> {
    let [refused, state] = ["_refused", "_state"].map(|ending| table.with(ending));
    let identity = table.with("_identity");
    let sql = "SELECT to_regclass($1)::oid::bigint, \
               ARRAY(SELECT c FROM unnest($2::text[]) c WHERE NOT EXISTS (SELECT FROM pg_attribute \
               WHERE attrelid = to_regclass($1) AND attname = c AND attnum > 0 AND NOT attisdropped)), \
               to_regclass($3) IS NULL, to_regclass($4) IS NULL, to_regprocedure($5) IS NULL, \
               EXISTS (SELECT FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid \
               AND a.attnum = i.indkey[0] WHERE i.indrelid = to_regclass($1) AND i.indisunique \
               AND i.indisvalid AND i.indnkeyatts = 1 AND i.indpred IS NULL AND a.attname = 'id')";
    let function = format!("{identity}()");
    let names = (table.to_string(), refused.to_string(), state.to_string());
    let found =
        session.client.query_one(sql, &[&names.0, &&COLUMNS[..], &names.1, &names.2, &function]).await?;
    let Some(oid) = found.try_get::<_, Option<i64>>(0)? else {
        return Err(no_outbox(table, vec![format!("table {}", table.display_name())]));
    };
    let columns: Vec<String> = found.try_get(1)?;
    let mut missing: Vec<String> = columns.iter().map(|column| format!("column {column}")).collect();
    if columns.is_empty() && !found.try_get::<_, bool>(5)? {
        missing.push("a unique index on id".to_owned());
    }
    let belonging = [format!("table {}", refused.display_name()), format!("table {}", state.display_name())];
    for (place, thing) in
        (2..).zip(belonging.into_iter().chain([format!("function {}", identity.display_name())]))
    {
        if found.try_get::<_, bool>(place)? {
            missing.push(thing);
        }
    }
    if missing.is_empty() { Ok(oid) } else { Err(no_outbox(table, missing)) }
}

fn no_outbox(table: &TableName, missing: Vec<String>) -> DatabaseError {
    DatabaseError::NoOutbox { table: table.display_name(), argument: table.argument(), missing }
}

/// Counts what waits in an outbox: a look at every row.
pub(crate) async fn stats(
    session: &DatabaseSession,
    table: &TableName,
) -> Result<OutboxStats, DatabaseError> {
    let refused = table.with("_refused");
    let sql = format!(
        "SELECT count(*), \
         coalesce(sum(pg_column_size(payload) + coalesce(pg_column_size(attributes), 0)), 0)::bigint, \
         (extract(epoch FROM min(created_at)) * 1000)::bigint, \
         (extract(epoch FROM clock_timestamp() - min(created_at)) * 1000)::bigint, count(reason), \
         (SELECT count(*) FROM {refused}) FROM {table}"
    );
    let row = session.client.query_one(&sql, &[]).await?;
    Ok(OutboxStats {
        waiting: row.try_get(0)?,
        bytes: row.try_get(1)?,
        oldest_at_ms: row.try_get(2)?,
        oldest_age_ms: row.try_get(3)?,
        held: row.try_get(4)?,
        refused: row.try_get(5)?,
    })
}

/// The process that holds the lock of an outbox, as PostgreSQL names it.
pub(crate) async fn worker(
    session: &DatabaseSession,
    table: &TableName,
) -> Result<Option<Value>, DatabaseError> {
    let sql = format!(
        "SELECT json_build_object('pid', l.pid, 'application', a.application_name, \
         'address', host(a.client_addr), 'since', a.backend_start, 'rate', \
         substring(a.application_name FROM '^{RATE_BEGINS}([0-9]+){RATE_ENDS}$')::bigint)::text \
         FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid \
         WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 2 AND l.classid = {LOCK_CLASS}::oid \
         AND l.objid = to_regclass($1)::oid \
         AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    );
    let found = session.client.query_opt(&sql, &[&table.to_string()]).await?;
    let text: Option<String> = found.map(|row| row.try_get(0)).transpose()?;
    Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
}

/// The payload, unless it or what stands beside it is too large to be sent; empty where it is null.
const PAYLOAD: &str = "CASE WHEN payload IS NULL THEN '' WHEN octet_length(payload::text) <= 4194304 \
                       AND coalesce(octet_length(attributes::text), 0) <= 65536 \
                       AND coalesce(octet_length(key), 0) <= 65536 \
                       AND octet_length(destination) <= 65536 THEN payload::text END";
const _: () = assert!(PAYLOAD_BYTES_MAX == 4_194_304, "as in the statement");
const _: () = assert!(FIELD_BYTES_MAX == 65_536, "as in the statements");

/// The columns beside the payload: what is cut off belongs to a row that is refused.
const DESTINATION: &str = "coalesce(left(destination, 65536), '')";
/// A key that is empty is none: the group of a job cannot be empty.
const KEY: &str = "nullif(left(key, 65536), '')";
const ATTRIBUTES: &str = "CASE WHEN octet_length(attributes::text) <= 65536 THEN attributes::text END";

/// What a page is made of rows `found`. They are weighed as they are stored first: that needs no
/// payload to be read, but compressed ones may be larger than that.
fn page_sql(found: &str, left_out: &str) -> String {
    format!(
        "WITH found AS MATERIALIZED ({found}), \
         weighed AS (SELECT *, sum(weight) OVER (ORDER BY id) AS weights FROM \
         (SELECT *, coalesce(pg_column_size(payload), 0) + coalesce(pg_column_size(destination), 0) \
         + coalesce(pg_column_size(key), 0) + coalesce(pg_column_size(attributes), 0) AS weight \
         FROM found) f), \
         told AS MATERIALIZED (SELECT id, coalesce(uid::text, '') AS uid, {DESTINATION} AS destination, {KEY} AS key, \
         CASE WHEN {left_out} THEN NULL ELSE {PAYLOAD} END AS payload, \
         CASE WHEN {left_out} THEN NULL ELSE {ATTRIBUTES} END AS attributes, \
         reason IS NOT NULL AS is_held, {left_out} AS is_left_out \
         FROM weighed WHERE weights - weight < {PAGE_BYTES}), \
         measured AS (SELECT *, \
         coalesce(octet_length(payload), 0) + coalesce(octet_length(attributes), 0) \
         + coalesce(octet_length(key), 0) + octet_length(destination) AS size FROM told), \
         sized AS (SELECT *, sum(size) OVER (ORDER BY id) AS total FROM measured) \
         SELECT s.id, s.uid, s.destination, s.key, s.payload, s.attributes, s.is_held, s.is_left_out, \
         (SELECT count(*) FROM found), pg_snapshot_xmin(pg_current_snapshot())::text::bigint, \
         pg_snapshot_xmax(pg_current_snapshot())::text::bigint \
         FROM (VALUES (1)) one LEFT JOIN sized s ON s.total - s.size < {PAGE_BYTES} ORDER BY s.id"
    )
}

fn read_sql(table: &TableName) -> String {
    // In a run, the last of the ranges, destinations that are behind have many rows; each reads its
    // own.
    let late = format!(
        "SELECT t.* FROM unnest($1::bigint[], $2::bigint[]) gap(low, high) CROSS JOIN LATERAL \
         (SELECT * FROM {table} WHERE id >= gap.low AND id <= gap.high \
         AND (gap.low IS DISTINCT FROM $5::bigint OR destination <> ALL($4::text[])) \
         ORDER BY id LIMIT {PAGE_ROWS}) t"
    );
    let new = format!("(SELECT * FROM {table} WHERE id > $3 ORDER BY id LIMIT {PAGE_ROWS})");
    let found = format!("SELECT * FROM ({late} UNION ALL {new}) u ORDER BY id LIMIT {PAGE_ROWS}");
    page_sql(&found, "(reason IS NOT NULL OR coalesce(destination = ANY($4::text[]), false))")
}

fn read_of_sql(table: &TableName) -> String {
    let found = format!(
        "SELECT * FROM {table} WHERE id > $2 AND id <= $3 AND destination = $1 ORDER BY id LIMIT \
         {PAGE_ROWS}"
    );
    page_sql(&found, "(reason IS NOT NULL)")
}

fn page(rows: Vec<tokio_postgres::Row>) -> Result<OutboxPage, DatabaseError> {
    let (mut found, mut ends) = (0, SnapshotEnds { xmin: 0, xmax: 0 });
    let mut page = Vec::with_capacity(rows.len());
    for row in rows {
        found = row.try_get(8)?;
        ends = SnapshotEnds { xmin: row.try_get(9)?, xmax: row.try_get(10)? };
        let Some(id) = row.try_get::<_, Option<i64>>(0)? else { continue };
        page.push(PageRow {
            row: OutboxRow {
                id,
                uid: row.try_get(1)?,
                destination: row.try_get(2)?,
                key: row.try_get(3)?,
                payload: row.try_get(4)?,
                attributes: row.try_get(5)?,
            },
            is_held: row.try_get(6)?,
            is_left_out: row.try_get(7)?,
        });
    }
    let is_whole = found < PAGE_ROWS && page.len() as i64 == found;
    Ok(OutboxPage { rows: page, is_whole, ends })
}
