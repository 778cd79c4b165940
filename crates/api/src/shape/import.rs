//! What became of an import.

use base::Problem;
use base::limits::REJECTIONS_LISTED_MAX;
use engine::ImportOutcome;
use serde::Serialize;
use utoipa::ToSchema;

/// What became of the lines of an import. Rejections are listed in order of their lines, the first
/// thousand only.
#[derive(Debug, Default, Serialize, ToSchema)]
#[schema(as = Import)]
pub(crate) struct ImportedShape {
    created: u64,
    updated: u64,
    rejected_count: u64,
    #[schema(max_items = 1000)]
    rejected: Vec<RejectedShape>,
}

/// A line that was refused. Lines count from 1.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RejectedDevice)]
pub(crate) struct RejectedShape {
    line: u64,
    code: &'static str,
    detail: String,
}

impl RejectedShape {
    pub(super) fn of(line: u64, Problem { code, detail, .. }: Problem) -> Self {
        Self { line, code, detail }
    }
}

impl ImportedShape {
    /// Counts a line, and lists it if it was refused.
    pub(crate) fn add(&mut self, line: u64, outcome: Result<ImportOutcome, Problem>) {
        match outcome {
            Ok(ImportOutcome::Created) => self.created += 1,
            Ok(ImportOutcome::Updated) => self.updated += 1,
            Err(problem) => {
                self.rejected_count += 1;
                if self.rejected.len() < REJECTIONS_LISTED_MAX {
                    self.rejected.push(RejectedShape::of(line, problem));
                }
            }
        }
    }
}
