//! A notice in answers.

use engine::records::{NOTICE_ID_PREFIX, Notice};
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::text::Time;
use crate::openapi::words;
use crate::row::{Cells, CsvRow};

/// Something that an operator wants to be told of the system itself.
#[derive(Serialize, ToSchema)]
#[schema(as = Notice)]
pub(crate) struct NoticeShape<'a> {
    #[schema(schema_with = words::notice_id)]
    id: String,
    at: Time,
    #[schema(schema_with = words::notice_type)]
    r#type: &'static str,
    /// What it is about: `client acme`, `queue mail/out`, `label site=12`.
    subject: &'a str,
    /// What there is to say of it, by its type.
    #[schema(schema_with = words::any_object)]
    detail: &'a RawValue,
}

impl<'a> From<&'a Notice> for NoticeShape<'a> {
    fn from(notice: &'a Notice) -> Self {
        Self {
            id: notice.id.to_text(NOTICE_ID_PREFIX),
            at: Time(notice.id.at),
            r#type: notice.kind.as_str(),
            subject: &notice.subject,
            // It was written by this program; another's would be shown as nothing.
            detail: serde_json::from_str(&notice.detail).unwrap_or(RawValue::NULL),
        }
    }
}

impl CsvRow for NoticeShape<'_> {
    const COLUMNS: &'static [&'static str] = &["id", "at", "type", "subject", "detail"];

    fn write(&self, cells: &mut Cells<'_>) {
        cells.text(&self.id).shown(self.at).text(self.r#type).text(self.subject).text(self.detail.get());
    }
}
