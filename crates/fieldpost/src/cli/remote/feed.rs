//! The flags of feeds: a span of time, and which end comes first.

use clap::{Args, ValueEnum};

use super::api::Path;
use super::when::When;

/// A span of time: `from` is in it, `to` is not.
#[derive(Args, Debug)]
#[command(next_help_heading = "Time")]
pub(super) struct Span {
    /// Not before: a time, a day, or how long ago (2026-11-21T01:02:03Z, 2026-11-21, 2h).
    #[arg(long, value_name = "WHEN")]
    from: Option<When>,
    /// Before.
    #[arg(long, value_name = "WHEN")]
    to: Option<When>,
}

/// Which end of a feed comes first.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum Order {
    /// The oldest first.
    Asc,
    /// The newest first.
    Desc,
}

/// What part of a feed, and in which order.
#[derive(Args, Debug)]
pub(super) struct Feed {
    #[command(flatten)]
    span: Span,
    /// Oldest or newest first.
    #[arg(long, value_enum, value_name = "ORDER", default_value_t = Order::Desc)]
    order: Order,
}

impl Span {
    pub(super) fn of(&self, path: Path) -> Path {
        path.with_maybe("from", self.from).with_maybe("to", self.to)
    }
}

impl Feed {
    pub(super) fn of(&self, path: Path) -> Path {
        let order = match self.order {
            Order::Asc => "asc",
            Order::Desc => "desc",
        };
        self.span.of(path).with("order", order)
    }
}
