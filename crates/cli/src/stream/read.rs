//! Reading a stream: what is there, and with `--follow` every message as it comes, until Ctrl-C.
//!
//! The server keeps nothing for whoever reads. Each page tells where to read on, and a reader that
//! has come to the end waits there for the next message.

use std::thread::sleep;
use std::time::{Duration, Instant};

use clap::Args;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::StreamArgs;
use super::subscription::{READER, ReadOn};
use super::view::MessageView;
use crate::api::{ApiPath, ServerApi};
use crate::failure::CommandFailure;
use crate::follow::PAGE_ITEMS_MAX;
use crate::list::{self, TableRow};
use crate::polling::patiently;
use crate::screen::Screen;
use crate::table::{TextTable, grouped};
use crate::when::When;

/// How long the server is to wait for the first message: below the time that an answer is waited
/// for.
const WAIT: &str = "30s";
/// At least between two looks that find nothing.
const PAUSE: Duration = Duration::from_secs(1);

#[derive(Args, Debug)]
pub struct ReadMessages {
    #[command(flatten)]
    place: StreamArgs,
    /// What comes behind this message; from the start on if left out.
    #[arg(long, value_name = "ID")]
    after: Option<u64>,
    /// Only what was received since: a time, a day, or how long ago.
    #[arg(long, value_name = "WHEN")]
    from: Option<When>,
    /// Only of this segment, or of several (eu,us).
    #[arg(long, value_name = "SEGMENT[,SEGMENT...]")]
    segment: Option<String>,
    /// Show at most so many.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    limit: u64,
    /// Show all that there is, however many there are.
    #[arg(long, conflicts_with = "limit")]
    all: bool,
    /// Show what is there, then every message as it comes, until Ctrl-C.
    #[arg(long, conflicts_with_all = ["limit", "all"])]
    follow: bool,
    /// Read behind the position of this subscription, as its only reader.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["after", "from", "segment"])]
    subscription: Option<String>,
    /// What the reader calls itself.
    #[arg(long, value_name = "NAME", requires = "subscription", default_value = READER)]
    reader: String,
    /// Commit what was shown, and go on behind it.
    #[arg(long, requires = "subscription")]
    commit: bool,
}

/// A page of a stream.
#[derive(Deserialize)]
struct MessagePage {
    items: Vec<Box<RawValue>>,
    next_after: String,
    skipped: u64,
}

impl ReadMessages {
    pub(super) fn run(&self, api: &ServerApi, screen: &mut Screen) -> Result<(), CommandFailure> {
        if let Some(subscription) = &self.subscription {
            let read = ReadOn {
                place: &self.place,
                subscription,
                reader: &self.reader,
                commits: self.commit,
                limit: if self.all || self.follow { u64::MAX } else { self.limit },
                follows: self.follow,
            };
            return read.run(api, screen);
        }
        let path = self.place.below(&["messages"]).with_maybe("from", self.from);
        let path = path.with_maybe("segment", self.segment.as_ref());
        let mut table = TextTable::new(MessageView::HEADINGS).within(screen.width());
        let mut after = self.after.unwrap_or_default().to_string();
        if self.follow {
            return self.run_on(api, screen, &path, &mut table, after);
        }
        let mut left = if self.all { u64::MAX } else { self.limit };
        let mut shown = 0;
        while left > 0 {
            let page = look(api, &path, &after, left.min(PAGE_ITEMS_MAX))?;
            self.tell_skipped(screen, &page);
            list::show_items::<MessageView>(api, screen, &mut table, &page.items)?;
            let found = page.items.len() as u64;
            left -= found.min(left);
            shown += found;
            // At the end there is nowhere to go on to.
            if page.items.is_empty() && page.next_after == after {
                break;
            }
            after = page.next_after;
        }
        if screen.is_for_programs() {
            return Ok(());
        }
        match (shown, left) {
            (0, _) => screen.note("no messages"),
            (_, 0) => screen.note(&format!("there may be more: --after {after} goes on from here")),
            (_, _) => {}
        }
        Ok(())
    }

    /// Ends only by a failure. A server that cannot even be reached for the first time is not
    /// waited for.
    fn run_on(
        &self,
        api: &ServerApi,
        screen: &mut Screen,
        path: &ApiPath,
        table: &mut TextTable,
        mut after: String,
    ) -> Result<(), CommandFailure> {
        let mut page = look(api, path, &after, PAGE_ITEMS_MAX)?;
        let path = path.clone().with("wait", WAIT);
        loop {
            self.tell_skipped(screen, &page);
            list::show_items::<MessageView>(api, screen, table, &page.items)?;
            after = page.next_after;
            let began = Instant::now();
            page = patiently(screen, || look(api, &path, &after, PAGE_ITEMS_MAX))?;
            if page.items.is_empty() && page.next_after == after {
                sleep(PAUSE.saturating_sub(began.elapsed()));
            }
        }
    }

    /// What a reader asked for and cannot have any more.
    fn tell_skipped(&self, screen: &Screen, page: &MessagePage) {
        // Whoever reads from the start on takes what there is.
        if page.skipped > 0 && self.after.is_some() {
            screen.note(&format!("{} messages are gone already", grouped(page.skipped)));
        }
    }
}

fn look(api: &ServerApi, path: &ApiPath, after: &str, limit: u64) -> Result<MessagePage, CommandFailure> {
    api.read(&api.get(&path.clone().with("after", after).with("limit", &limit))?)
}
