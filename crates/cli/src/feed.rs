//! The flags of feeds: a span of time, which end comes first, and whether it is followed.

use clap::{Args, ValueEnum};

use super::api::{ApiPath, ServerApi};
use super::failure::CommandFailure;
use super::follow::{self, Timed};
use super::list::{self, ListFlags};
use super::screen::Screen;
use super::when::When;

/// A span of time: `from` is in it, `to` is not.
#[derive(Args, Debug)]
#[command(next_help_heading = "Time")]
pub(super) struct SpanFlags {
    /// Not before: a time, a day, or how long ago (2026-11-21T01:02:03Z, 2026-11-21, 2h).
    #[arg(long, value_name = "WHEN")]
    from: Option<When>,
    /// Before.
    #[arg(long, value_name = "WHEN")]
    to: Option<When>,
}

/// Which end of a feed comes first.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum SortOrder {
    /// The oldest first.
    Asc,
    /// The newest first.
    Desc,
}

/// What part of a feed, and in which order.
#[derive(Args, Debug)]
pub(super) struct FeedFlags {
    #[command(flatten)]
    span: SpanFlags,
    /// Oldest or newest first: desc, or asc with --follow, if left out.
    #[arg(long, value_enum, value_name = "ORDER")]
    order: Option<SortOrder>,
    /// Show what is there, oldest first, then every new item as it comes, until Ctrl-C.
    #[arg(long, conflicts_with = "to")]
    follow: bool,
}

impl SortOrder {
    /// The name that the API has for it.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Asc => "asc",
            Self::Desc => "desc",
        }
    }
}

impl SpanFlags {
    pub(super) fn of(&self, path: ApiPath) -> ApiPath {
        path.with_maybe("from", self.from).with_maybe("to", self.to)
    }
}

impl FeedFlags {
    /// Shows this part of a feed, and follows it if that is asked for. `nothing` is what people are
    /// told of an empty one.
    pub(super) fn show<R: Timed>(
        &self,
        api: &ServerApi,
        screen: &mut Screen,
        path: ApiPath,
        list_flags: &ListFlags,
        nothing: &str,
    ) -> Result<(), CommandFailure> {
        let path = self.span.of(path);
        let order = match (self.order, self.follow) {
            (Some(SortOrder::Desc), true) => {
                let what = "--follow goes from the oldest to the newest: leave --order out";
                return Err(CommandFailure::Usage(what.to_owned()));
            }
            (_, true) => return follow::run::<R>(api, screen, &path, list_flags, self.span.from.is_some()),
            (order, false) => order.unwrap_or(SortOrder::Desc),
        };
        list::show::<R>(api, screen, &path.with("order", order.as_str()), list_flags, nothing)
    }
}
