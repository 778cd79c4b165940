//! Backfill: the rows that a table has already go into the outbox as `{"op":"read"}`.
//!
//! Each page locks its rows against changes until it is committed. A change that was committed
//! before is seen. One that comes later waits, and gets a later id. So no row is told as it was
//! after a newer change of it has been told.

use tokio_postgres::error::SqlState;

use crate::database::{DatabaseError, DatabaseSession, DatabaseUrl};
use crate::script::identifiers;
use crate::table::{TableName, identifier, literal};

/// Rows of a page.
const PAGE_ROWS: i64 = 1_000;

/// What is to be sent.
#[derive(Clone, Debug)]
pub struct BackfillPlan {
    /// The table.
    pub table: TableName,
    /// The outbox.
    pub outbox: TableName,
    /// Where its rows go.
    pub destination: String,
    /// A condition in SQL on the table's rows.
    pub condition: Option<String>,
    /// The column whose value is the key; by default that of the table's trigger, or else the
    /// primary key, if that is one column.
    pub key: Option<String>,
    /// The columns that are told; by default those of the table's trigger, or else all.
    pub columns: Vec<String>,
}

/// Why nothing, or not all, was sent.
#[derive(Debug, thiserror::Error)]
pub enum BackfillError {
    /// The database.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// There is no such table, or no such outbox.
    #[error("there is no table {0}")]
    NoTable(String),
    /// The table has no such column.
    #[error("{table} has no column {column}")]
    NoColumn {
        /// The table.
        table: String,
        /// What is no column of it.
        column: String,
    },
    /// The condition is none on the table's rows.
    #[error("--where must be a condition in SQL on the rows of {table}, as `total > 10` is: {why}")]
    Condition {
        /// The table.
        table: String,
        /// What is wrong with it.
        why: String,
    },
    /// A page did not end behind the one before.
    #[error(
        "the rows of {0} do not come in order of its primary key, so the backfill would never end; what \
         was written before stays. Give --where a condition on each row, and run it again"
    )]
    NoProgress(String),
}

impl From<tokio_postgres::Error> for BackfillError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Database(error.into())
    }
}

/// A column of the primary key, with its type.
struct KeyColumn {
    name: String,
    type_name: String,
}

/// Writes every row of a table into the outbox; how many. `told` is called with their number so
/// far.
///
/// # Errors
/// See [`BackfillError`]. What was written before stays.
pub async fn backfill(
    database: &DatabaseUrl,
    plan: &BackfillPlan,
    mut told: impl FnMut(u64),
) -> Result<u64, BackfillError> {
    const FOUND: &str = "SELECT to_regclass($1)::oid::bigint";
    let session = database.connect("fieldpost relay backfill").await?;
    for table in [&plan.table, &plan.outbox] {
        let found = session.client.query_one(FOUND, &[&table.to_string()]).await?;
        if found.try_get::<_, Option<i64>>(0)?.is_none() {
            return Err(BackfillError::NoTable(table.display_name()));
        }
    }
    // What a condition names is looked for where its author would, too. Nothing else is: whoever
    // may make functions there could have them called.
    let beside = plan.condition.as_ref().map(|_| format!("{}, public, ", plan.table.schema()));
    let path = format!("SET search_path = pg_catalog, {}pg_temp", beside.unwrap_or_default());
    session.client.batch_execute(&path).await?;
    if let Some(condition) = &plan.condition {
        check_condition(&session, &plan.table, condition).await?;
    }
    let primary = primary_key(&session, &plan.table).await?;
    let written = written(&session, plan, &primary).await?;
    if primary.is_empty() {
        let count = all_at_once(&session, plan, &written).await?;
        told(count);
        return Ok(count);
    }
    let (mut count, mut after): (u64, Option<Vec<String>>) = (0, None);
    loop {
        let (pages, end) = page(&session, plan, (&primary, &written), after.as_deref()).await?;
        count += pages;
        told(count);
        match end {
            Some(end) => after = Some(end),
            None => return Ok(count),
        }
    }
}

/// Refuses what would not stay within the parentheses that it is put into. It has to stand there
/// without them as well as with them: no text whose own parentheses do not match can do both.
async fn check_condition(
    session: &DatabaseSession,
    table: &TableName,
    condition: &str,
) -> Result<(), BackfillError> {
    let refused = |why: String| BackfillError::Condition { table: table.display_name(), why };
    for sql in condition_checks(table, condition) {
        match session.client.prepare(&sql).await {
            Ok(statement) if statement.params().is_empty() => {}
            Ok(_) => return Err(refused("it has parameters, as $1, that nobody gives".to_owned())),
            Err(error) => {
                let is_of_it = error.code().is_some_and(is_of_condition);
                let error = DatabaseError::from(error);
                return Err(if is_of_it { refused(error.to_string()) } else { error.into() });
            }
        }
    }
    Ok(())
}

/// Whether an error is about what was written: the syntax, a name or a value, and no right.
fn is_of_condition(code: &SqlState) -> bool {
    ["42", "22", "0A"].iter().any(|class| code.code().starts_with(class))
        && *code != SqlState::INSUFFICIENT_PRIVILEGE
}

/// The statements that PostgreSQL has to understand. It takes one at a time.
fn condition_checks(table: &TableName, condition: &str) -> [String; 2] {
    [format!("SELECT FROM {table} WHERE {condition}\n"), format!("SELECT FROM {table} WHERE ({condition}\n)")]
}

async fn primary_key(session: &DatabaseSession, table: &TableName) -> Result<Vec<KeyColumn>, DatabaseError> {
    let sql = "SELECT a.attname::text, format_type(a.atttypid, a.atttypmod) FROM pg_index i \
               CROSS JOIN LATERAL unnest(i.indkey::smallint[]) WITH ORDINALITY AS k(number, place) \
               JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number \
               WHERE i.indrelid = to_regclass($1) AND i.indisprimary \
               AND k.place <= i.indnkeyatts ORDER BY k.place";
    let rows = session.client.query(sql, &[&table.to_string()]).await?;
    rows.iter().map(|row| Ok(KeyColumn { name: row.try_get(0)?, type_name: row.try_get(1)? })).collect()
}

/// The columns that an `INSERT` into the outbox gets, of the rows `r`. A row is `r.*`: a column may
/// be called `r`, and then that name alone means the column.
async fn written(
    session: &DatabaseSession,
    plan: &BackfillPlan,
    primary: &[KeyColumn],
) -> Result<String, BackfillError> {
    let (of_trigger, columns_of_trigger) = trigger(session, plan).await?.unwrap_or_default();
    let of_primary = || if let [only] = primary { Some(only.name.clone()) } else { None };
    let key = plan.key.clone().or(Some(of_trigger).filter(|key| !key.is_empty())).or_else(of_primary);
    let columns = if plan.columns.is_empty() { columns_of_trigger } else { plan.columns.clone() };
    let named: Vec<&str> = columns.iter().chain(&key).map(String::as_str).collect();
    check_columns(session, &plan.table, &named).await?;
    let key = key.map_or_else(
        || "NULL::text".to_owned(),
        |key| format!("pg_catalog.to_jsonb(r.*) OPERATOR(pg_catalog.->>) {}", literal(&key)),
    );
    let row = if columns.is_empty() {
        "pg_catalog.to_jsonb(r.*)".to_owned()
    } else {
        format!("(SELECT pg_catalog.to_jsonb(c.*) FROM (SELECT {}) c)", {
            let of_row = |column: &String| format!("r.{}", identifier(column));
            columns.iter().map(of_row).collect::<Vec<_>>().join(", ")
        })
    };
    let destination = literal(&plan.destination);
    Ok(format!(
        "{destination}, {key}, pg_catalog.jsonb_build_object('op', 'read', 'key', {key}, 'old', NULL, 'new', {row})"
    ))
}

/// Refuses what is no column of the table.
async fn check_columns(
    session: &DatabaseSession,
    table: &TableName,
    named: &[&str],
) -> Result<(), BackfillError> {
    let sql = "SELECT n FROM unnest($2::text[]) AS n WHERE NOT EXISTS (SELECT FROM pg_attribute \
               WHERE attrelid = to_regclass($1) AND attname = n AND attnum > 0 AND NOT attisdropped) LIMIT 1";
    match session.client.query_opt(sql, &[&table.to_string(), &named]).await? {
        Some(row) => Err(BackfillError::NoColumn { table: table.display_name(), column: row.try_get(0)? }),
        None => Ok(()),
    }
}

/// The key and the columns of the trigger that `relay sql --watch` made.
async fn trigger(
    session: &DatabaseSession,
    plan: &BackfillPlan,
) -> Result<Option<(String, Vec<String>)>, DatabaseError> {
    // Ends of texts are zero bytes, which no text may have.
    let sql = "SELECT encode(tgargs, 'hex') FROM pg_trigger \
               WHERE tgrelid = to_regclass($1) AND tgfoid = to_regproc($2) AND tgnargs = 3";
    let watch = plan.outbox.with("_watch").to_string();
    let Some(row) = session.client.query_opt(sql, &[&plan.table.to_string(), &watch]).await? else {
        return Ok(None);
    };
    let hex: String = row.try_get(0)?;
    let bytes: Vec<u8> =
        (0..hex.len() / 2).filter_map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).ok()).collect();
    let mut texts = bytes.split(|byte| *byte == 0).map(|text| String::from_utf8_lossy(text).into_owned());
    let (_destination, key, columns) = (texts.next(), texts.next(), texts.next());
    let columns = serde_json::from_str(&columns.unwrap_or_default()).unwrap_or_default();
    Ok(key.map(|key| (key, columns)))
}

/// Writes the rows of a page behind `after`; how many, and where the page ends if another follows:
/// always further on.
async fn page(
    session: &DatabaseSession,
    plan: &BackfillPlan,
    (primary, written): (&[KeyColumn], &str),
    after: Option<&[String]>,
) -> Result<(u64, Option<Vec<String>>), BackfillError> {
    let names: Vec<String> = primary.iter().map(|column| column.name.clone()).collect();
    let key = identifiers(&names);
    let place = |texts: &[String]| {
        let cast = |(text, column): (&String, &KeyColumn)| format!("{}::{}", literal(text), column.type_name);
        let values: Vec<String> = texts.iter().zip(primary).map(cast).collect();
        format!("({})", values.join(", "))
    };
    let mut condition = plan.condition.as_ref().map_or_else(|| "true".to_owned(), |sql| format!("({sql}\n)"));
    if let Some(after) = after {
        condition.push_str(&format!(" AND ({key}) > {}", place(after)));
    }
    let table = &plan.table;
    let texts: Vec<String> = names.iter().map(|name| format!("{}::text", identifier(name))).collect();
    let rises = after.map_or_else(|| "true".to_owned(), |after| format!("({key}) > {}", place(after)));
    let end = format!(
        "SELECT ARRAY[{}], {rises} FROM {table} WHERE {condition} ORDER BY {key} OFFSET {} LIMIT 1",
        texts.join(", "),
        PAGE_ROWS - 1
    );
    let end = session.client.query_opt(&end, &[]).await?;
    let end: Option<(Vec<String>, bool)> =
        end.map(|row| Ok::<_, tokio_postgres::Error>((row.try_get(0)?, row.try_get(1)?))).transpose()?;
    if end.as_ref().is_some_and(|(_, rises)| !rises) {
        return Err(BackfillError::NoProgress(table.display_name()));
    }
    let end = end.map(|(end, _)| end);
    if let Some(end) = &end {
        condition.push_str(&format!(" AND ({key}) <= {}", place(end)));
    }
    let outbox = &plan.outbox;
    let sql = format!(
        "WITH r AS MATERIALIZED (SELECT * FROM {table} WHERE {condition} ORDER BY {key} FOR SHARE) \
         INSERT INTO {outbox} (destination, key, payload) SELECT {written} FROM r"
    );
    Ok((session.client.execute(&sql, &[]).await?, end))
}

/// A table without a primary key goes in one transaction.
async fn all_at_once(
    session: &DatabaseSession,
    plan: &BackfillPlan,
    written: &str,
) -> Result<u64, DatabaseError> {
    let (table, outbox) = (&plan.table, &plan.outbox);
    let condition = plan.condition.as_deref().unwrap_or("true");
    let sql = format!(
        "WITH r AS MATERIALIZED (SELECT * FROM {table} WHERE ({condition}\n) FOR SHARE) \
         INSERT INTO {outbox} (destination, key, payload) SELECT {written} FROM r"
    );
    Ok(session.client.execute(&sql, &[]).await?)
}
