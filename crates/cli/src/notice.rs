//! `fieldpost notice`: what there is to be told of the server itself.

use clap::{Args, Subcommand};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::api::{ApiPath, ServerApi};
use super::failure::CommandFailure;
use super::feed::FeedFlags;
use super::follow::Timed;
use super::list::{ListFlags, TableRow};
use super::screen::Screen;
use super::table::Cell;
use super::when::to_second;

/// What can be done with notices.
#[derive(Debug, Subcommand)]
pub enum NoticeCommand {
    /// List notices, the newest first.
    Ls(ListNotices),
}

#[derive(Args, Debug)]
pub struct ListNotices {
    /// Only those of this type, such as `client.failing`.
    #[arg(long, value_name = "TYPE")]
    r#type: Option<String>,
    #[command(flatten)]
    feed: FeedFlags,
    #[command(flatten)]
    list_flags: ListFlags,
}

/// A notice.
#[derive(Deserialize)]
struct NoticeView {
    at: String,
    r#type: String,
    subject: String,
    detail: Box<RawValue>,
}

impl NoticeCommand {
    pub(super) fn run(&self, api: &ServerApi, screen: &mut Screen) -> Result<(), CommandFailure> {
        let Self::Ls(ls) = self;
        let path = ApiPath::of(&["notices"]).with_maybe("type", ls.r#type.as_ref());
        ls.feed.show::<NoticeView>(api, screen, path, &ls.list_flags, "no notices")
    }
}

impl TableRow for NoticeView {
    const HEADINGS: &'static [&'static str] = &["AT", "TYPE", "SUBJECT", "DETAIL"];

    fn cells(&self) -> Vec<Cell> {
        vec![
            Cell::text(&to_second(&self.at)),
            Cell::text(&self.r#type),
            Cell::text(&self.subject),
            Cell::elastic(self.detail.get()),
        ]
    }
}

impl Timed for NoticeView {
    fn time(&self) -> &str {
        &self.at
    }
}
