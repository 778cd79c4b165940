//! Operations in answers.

use engine::TrackedOperation;
use engine::operations::OPERATION_ID_PREFIX;
use engine::records::OperationError;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::text::Time;
use crate::openapi::words;
use crate::row::{Cells, CsvRow};

/// An operation, and how far it has come.
#[derive(Serialize, ToSchema)]
#[schema(as = Operation)]
pub(crate) struct OperationShape<'a> {
    #[schema(schema_with = words::operation_id)]
    id: String,
    #[schema(schema_with = words::operation_action)]
    action: &'static str,
    #[schema(schema_with = words::operation_filter)]
    filter: Option<&'a RawValue>,
    /// The labels that devices are given, or lose.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = words::label_changes, required = false)]
    labels: Option<&'a RawValue>,
    /// The client that devices are linked to, or unlinked from.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = words::client_id, required = false)]
    client: Option<&'a str>,
    #[schema(schema_with = words::operation_status)]
    status: &'static str,
    /// Rows in a second.
    rate: u32,
    /// Rows that were found so far.
    matched: u64,
    /// Rows to which the action was done.
    done: u64,
    /// Rows for which it was refused.
    refused: u64,
    /// Rows that are gone, or were so already.
    skipped: u64,
    created_at: Time,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_at: Option<Time>,
    /// The name of the token that began it; null where there are no tokens.
    #[schema(required)]
    by: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_error: Option<RefusalShape<'a>>,
}

/// The latest refusal of an operation, what it waits for, or why it failed.
#[derive(Serialize, ToSchema)]
#[schema(as = OperationRefusal)]
pub(crate) struct RefusalShape<'a> {
    code: &'a str,
    detail: &'a str,
    /// The row; empty where it is about the operation as a whole.
    subject: &'a str,
}

/// What an operation would find.
#[derive(Serialize, ToSchema)]
#[schema(as = OperationDryRun)]
pub(crate) struct DryRunShape {
    pub matched: u64,
    /// Rows that were looked at.
    pub looked_at: u64,
    /// Whether that were all; else there may be more.
    pub complete: bool,
}

/// What an action needs besides its rows.
#[derive(Default, Deserialize)]
struct ArgumentsShape<'a> {
    #[serde(borrow)]
    labels: Option<&'a RawValue>,
    client: Option<&'a str>,
}

impl<'a> From<&'a TrackedOperation> for OperationShape<'a> {
    fn from(TrackedOperation { operation, state }: &'a TrackedOperation) -> Self {
        let arguments: ArgumentsShape<'_> = serde_json::from_str(&operation.arguments).unwrap_or_default();
        let refusal = |error: &'a OperationError| {
            let OperationError { code, detail, subject } = error;
            RefusalShape { code, detail, subject }
        };
        Self {
            id: operation.id.to_text(OPERATION_ID_PREFIX),
            action: operation.action.as_str(),
            filter: serde_json::from_str(&operation.filter).ok(),
            labels: arguments.labels,
            client: arguments.client,
            status: state.status.as_str(),
            rate: operation.rate,
            matched: state.counts.matched,
            done: state.counts.done,
            refused: state.counts.refused,
            skipped: state.counts.skipped,
            created_at: Time(operation.created_at),
            ended_at: state.ended_at.map(Time),
            by: operation.by.as_deref(),
            last_error: state.last_error.as_deref().map(refusal),
        }
    }
}

impl CsvRow for OperationShape<'_> {
    const COLUMNS: &'static [&'static str] = &[
        "id",
        "action",
        "filter",
        "status",
        "rate",
        "matched",
        "done",
        "refused",
        "skipped",
        "created_at",
        "ended_at",
        "by",
    ];

    fn write(&self, cells: &mut Cells<'_>) {
        cells.text(&self.id).text(self.action).json(self.filter).text(self.status).shown(self.rate);
        cells.shown(self.matched).shown(self.done).shown(self.refused).shown(self.skipped);
        cells.shown(self.created_at).shown_or_empty(self.ended_at).shown_or_empty(self.by);
    }
}
