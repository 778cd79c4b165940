//! The statements on an outbox: reading a page of rows, writing down what became of them, and who
//! may work.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_postgres::Statement;

use crate::database::{DatabaseError, DatabaseSession};
use crate::gaps::SnapshotEnds;
use crate::outgoing::{FIELD_BYTES_MAX, OutboxRow, PAYLOAD_BYTES_MAX};
use crate::plan::RowOutcomes;
use crate::table::TableName;

/// Rows of a page.
pub(crate) const PAGE_ROWS: i64 = 1_000;
/// Bytes of payloads and attributes of a page; the first row is there whatever its size.
const PAGE_BYTES: i64 = 8 * 1_024 * 1_024;
/// What our advisory locks begin with: "FPRL".
const LOCK_CLASS: i32 = 0x4650_524C;
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

/// A call that a relay began, as it is written down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BegunCall {
    pub(crate) key: String,
    pub(crate) destination: String,
    /// Ids, and the marks that tell these rows from others with the same ids.
    pub(crate) rows: Vec<(i64, u32)>,
}

/// Rows and bytes that wait.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct OutboxFigures {
    pub(crate) waiting: i64,
    pub(crate) bytes: i64,
    /// In milliseconds since 1970.
    pub(crate) oldest_at_ms: Option<i64>,
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
    begin: Statement,
}

impl OutboxTable {
    pub(crate) async fn open(session: DatabaseSession, table: &TableName) -> Result<Self, DatabaseError> {
        let missing = || DatabaseError::NoOutbox(table.told());
        let [refused, state] = ["_refused", "_state"].map(|ending| table.with(ending).to_string());
        let found = "SELECT to_regclass($1)::oid::bigint, \
                     to_regclass($2) IS NOT NULL AND to_regclass($3) IS NOT NULL";
        let found = session.client.query_one(found, &[&table.to_string(), &refused, &state]).await?;
        let oid: i64 = found.try_get::<_, Option<i64>>(0)?.ok_or_else(missing)?;
        if !found.try_get::<_, bool>(1)? {
            return Err(missing());
        }
        let client = &session.client;
        let calls = table.with("_calls");
        let statements = [
            read_sql(table),
            read_of_sql(table),
            format!("DELETE FROM {table} WHERE id = ANY($1)"),
            format!(
                "WITH gone AS (DELETE FROM {table} WHERE id = ANY($1)) \
                 SELECT identity::text, calls::text FROM {calls}($2::text::jsonb)"
            ),
        ];
        let [read, read_of, delete, begin] = statements.each_ref().map(|sql| client.prepare(sql));
        let (read, read_of, delete, begin) = tokio::try_join!(read, read_of, delete, begin)?;
        Ok(Self { session, table: table.clone(), oid, read, read_of, delete, begin })
    }

    /// Whether this session is the one that works; once it is, it stays.
    pub(crate) async fn try_lock(&self) -> Result<bool, DatabaseError> {
        let lock = format!("SELECT pg_try_advisory_lock({LOCK_CLASS}, {})", self.lock_number());
        Ok(self.session.client.query_one(&lock, &[]).await?.try_get(0)?)
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

    /// What is missing below the bound, as far as it is seen now, and what is above; payloads of
    /// these destinations are left out.
    pub(crate) async fn read(
        &self,
        (lows, highs): (&[i64], &[i64]),
        bound: i64,
        left_out: &[String],
    ) -> Result<OutboxPage, DatabaseError> {
        page(self.session.client.query(&self.read, &[&lows, &highs, &bound, &left_out]).await?)
    }

    /// The rows of one destination above one bound and up to another.
    pub(crate) async fn read_of(
        &self,
        destination: &str,
        (after, up_to): (i64, i64),
    ) -> Result<OutboxPage, DatabaseError> {
        page(self.session.client.query(&self.read_of, &[&destination, &after, &up_to]).await?)
    }

    /// These rows, as far as they are still there.
    pub(crate) async fn rows(&self, ids: &[i64]) -> Result<OutboxPage, DatabaseError> {
        let sql = format!(
            "SELECT id, uid::text, {DESTINATION}, {KEY}, {PAYLOAD}, {ATTRIBUTES}, reason IS NOT NULL, false, \
             count(*) OVER (), 0::bigint, 0::bigint FROM {} t WHERE id = ANY($1) ORDER BY id",
            self.table
        );
        page(self.session.client.query(&sql, &[&ids]).await?)
    }

    /// The table's identity and the calls that were under way.
    pub(crate) async fn state(&self) -> Result<(String, Vec<BegunCall>), DatabaseError> {
        let calls = self.table.with("_calls");
        let sql = format!("SELECT identity::text, calls::text FROM {calls}(NULL)");
        let found = self.session.client.query_opt(&sql, &[]).await?;
        let found = found.ok_or_else(|| DatabaseError::NoOutbox(self.table.told()))?;
        let calls: String = found.try_get(1)?;
        // Nobody else writes there; what cannot be read is none of ours.
        Ok((found.try_get(0)?, serde_json::from_str(&calls).unwrap_or_default()))
    }

    /// Writes down what became of rows, and, if any are given, which calls are under way from now
    /// on: durable when this returns.
    pub(crate) async fn settle(
        &self,
        outcomes: &RowOutcomes,
        holds: bool,
        begun: Option<&[BegunCall]>,
    ) -> Result<(), DatabaseError> {
        if !outcomes.refused.is_empty() {
            self.refuse(outcomes, holds).await?;
        }
        let client = &self.session.client;
        if let Some(begun) = begun {
            let begun = serde_json::to_string(begun).unwrap_or_else(|_| "[]".to_owned());
            client.query(&self.begin, &[&outcomes.taken, &begun]).await?;
        } else if !outcomes.taken.is_empty() {
            client.execute(&self.delete, &[&outcomes.taken]).await?;
        }
        Ok(())
    }

    async fn refuse(&self, outcomes: &RowOutcomes, holds: bool) -> Result<(), DatabaseError> {
        let (table, refused) = (&self.table, self.table.with("_refused"));
        let ids: Vec<i64> = outcomes.refused.iter().map(|(id, _)| *id).collect();
        let reasons: Vec<String> =
            outcomes.refused.iter().map(|(_, why)| why.told().replace('\0', " ")).collect();
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
                 SELECT g.id, uid, destination, key, payload, attributes, created_at, r.reason \
                 FROM gone g JOIN unnest($1::bigint[], $2::text[]) r(id, reason) ON r.id = g.id"
            )
        };
        self.session.client.execute(&sql, &[&ids, &reasons]).await?;
        Ok(())
    }

    /// Destination and key of every held row, up to one more than may be held.
    pub(crate) async fn held(&self) -> Result<Vec<(String, Option<String>)>, DatabaseError> {
        let sql = format!(
            "SELECT DISTINCT destination, key FROM {} WHERE reason IS NOT NULL LIMIT {}",
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
             AND (h.key = t.key OR h.key IS NULL AND t.key IS NULL AND starts_with(t.destination, \
             'stream:'))) \
             GROUP BY destination LIMIT {LOOK_MAX}"
        );
        let rows = self.session.client.query(&sql, &[&bound]).await?;
        rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
    }

    /// Counts what waits: a look at every row.
    pub(crate) async fn figures(&self) -> Result<OutboxFigures, DatabaseError> {
        figures(&self.session, &self.table).await
    }
}

/// Counts what waits in an outbox: a look at every row.
pub(crate) async fn figures(
    session: &DatabaseSession,
    table: &TableName,
) -> Result<OutboxFigures, DatabaseError> {
    let refused = table.with("_refused");
    let sql = format!(
        "SELECT count(*), \
         coalesce(sum(pg_column_size(payload) + coalesce(pg_column_size(attributes), 0)), 0)::bigint, \
         (extract(epoch FROM min(created_at)) * 1000)::bigint, count(reason), \
         (SELECT count(*) FROM {refused}) FROM {table}"
    );
    let row = session.client.query_one(&sql, &[]).await?;
    Ok(OutboxFigures {
        waiting: row.try_get(0)?,
        bytes: row.try_get(1)?,
        oldest_at_ms: row.try_get(2)?,
        held: row.try_get(3)?,
        refused: row.try_get(4)?,
    })
}

/// The process that holds the lock of an outbox, as PostgreSQL names it.
pub(crate) async fn worker(
    session: &DatabaseSession,
    table: &TableName,
) -> Result<Option<Value>, DatabaseError> {
    let sql = format!(
        "SELECT json_build_object('pid', l.pid, 'application', a.application_name, \
         'address', host(a.client_addr), 'since', a.backend_start)::text \
         FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid \
         WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 2 AND l.classid = {LOCK_CLASS}::oid \
         AND l.objid = to_regclass($1)::oid \
         AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    );
    let found = session.client.query_opt(&sql, &[&table.to_string()]).await?;
    let text: Option<String> = found.map(|row| row.try_get(0)).transpose()?;
    Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
}

/// The payload, unless it or what stands beside it is too large to be sent.
const PAYLOAD: &str = "CASE WHEN octet_length(payload::text) <= 4194304 \
                       AND coalesce(octet_length(attributes::text), 0) <= 65536 \
                       AND coalesce(octet_length(key), 0) <= 65536 \
                       AND octet_length(destination) <= 65536 THEN payload::text END";
const _: () = assert!(PAYLOAD_BYTES_MAX == 4_194_304, "as in the statement");
const _: () = assert!(FIELD_BYTES_MAX == 65_536, "as in the statements");

/// The columns beside the payload: what is cut off belongs to a row that is refused.
const DESTINATION: &str = "left(destination, 65536)";
const KEY: &str = "left(key, 65536)";
const ATTRIBUTES: &str = "CASE WHEN octet_length(attributes::text) <= 65536 THEN attributes::text END";

/// What a page is made of rows `found`. They are weighed as they are stored first: that needs no
/// payload to be read, but compressed ones may be larger than that.
fn page_sql(found: &str, left_out: &str) -> String {
    format!(
        "WITH found AS MATERIALIZED ({found}), \
         weighed AS (SELECT *, sum(weight) OVER (ORDER BY id) AS weights FROM \
         (SELECT *, pg_column_size(payload) + pg_column_size(destination) \
         + coalesce(pg_column_size(key), 0) + coalesce(pg_column_size(attributes), 0) AS weight \
         FROM found) f), \
         told AS MATERIALIZED (SELECT id, uid::text AS uid, {DESTINATION} AS destination, {KEY} AS key, \
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
    let late = format!(
        "SELECT t.* FROM unnest($1::bigint[], $2::bigint[]) gap(low, high) CROSS JOIN LATERAL \
         (SELECT * FROM {table} WHERE id >= gap.low AND id <= gap.high ORDER BY id LIMIT {PAGE_ROWS}) t"
    );
    let new = format!("(SELECT * FROM {table} WHERE id > $3 ORDER BY id LIMIT {PAGE_ROWS})");
    let found = format!("SELECT * FROM ({late} UNION ALL {new}) u ORDER BY id LIMIT {PAGE_ROWS}");
    page_sql(&found, "(reason IS NOT NULL OR destination = ANY($4::text[]))")
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
