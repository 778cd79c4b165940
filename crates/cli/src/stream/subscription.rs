//! Subscriptions: readers whose place the server keeps, and receivers to which it posts.

use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::StreamArgs;
use super::view::MessageView;
use crate::api::{ApiPath, ServerApi};
use crate::failure::CommandFailure;
use crate::follow::PAGE_ITEMS_MAX;
use crate::list::{self, ListFlags, TableRow};
use crate::polling::patiently;
use crate::screen::Screen;
use crate::table::{BAD, Cell, TextTable, facts, plain};
use crate::when::to_second;

/// How long the server is to wait for the first message.
const WAIT: &str = "30s";
/// What a reader calls itself where nothing is said.
pub(super) const READER: &str = "cli";

#[derive(Args, Debug)]
pub struct SubscriptionListing {
    #[command(flatten)]
    place: StreamArgs,
    #[command(flatten)]
    list_flags: ListFlags,
}

/// A subscription of a stream.
#[derive(Args, Debug)]
pub struct SubscriptionArgs {
    #[command(flatten)]
    place: StreamArgs,
    /// The subscription.
    #[arg(value_name = "SUBSCRIPTION")]
    name: String,
}

#[derive(Args, Debug)]
pub struct Subscribe {
    #[command(flatten)]
    subscription: SubscriptionArgs,
    /// Where it begins, or goes on from now: start, end, the id of the last message that is read,
    /// or a time. A new one begins at the start.
    #[arg(long, value_name = "start|end|ID|TIME")]
    from: Option<String>,
    /// Give only messages of this segment, or of several (eu,us).
    #[arg(long, value_name = "SEGMENT[,SEGMENT...]")]
    segment: Option<String>,
    /// Post the messages to this URL, in their order, instead of having them read.
    #[arg(long, value_name = "URL")]
    push: Option<String>,
    /// Most messages of a post.
    #[arg(long, value_name = "N", requires = "push")]
    max: Option<u64>,
    /// What posts are signed with (whsec_...); one is made and shown if left out.
    #[arg(long, value_name = "SECRET", requires = "push")]
    secret: Option<String>,
}

#[derive(Args, Debug)]
pub struct CommitPosition {
    #[command(flatten)]
    subscription: SubscriptionArgs,
    /// Everything up to this message is read.
    #[arg(value_name = "ID")]
    id: u64,
    /// What the reader calls itself.
    #[arg(long, value_name = "NAME", default_value = READER)]
    reader: String,
    /// Go back, to read again what is behind that message.
    #[arg(long)]
    rewind: bool,
}

/// What a subscription is to be.
#[derive(Serialize)]
struct SubscriptionBody<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    segment: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    push: Option<PushBody<'a>>,
}

#[derive(Serialize)]
struct PushBody<'a> {
    url: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    max: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<&'a str>,
}

#[derive(Serialize)]
struct ReadBody<'a> {
    reader: &'a str,
    limit: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    wait: Option<&'a str>,
}

#[derive(Serialize)]
struct CommitBody<'a> {
    reader: &'a str,
    id: &'a str,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    rewind: bool,
}

#[derive(Deserialize)]
struct SubscriptionPage {
    items: Vec<Box<RawValue>>,
    next_after: String,
}

impl SubscriptionArgs {
    fn path(&self, parts: &[&str]) -> ApiPath {
        self.place.below(&[&["subscriptions", &self.name], parts].concat())
    }

    fn shown(&self) -> String {
        format!("{} of {}", plain(&self.name), self.place.name())
    }

    /// Says that the subscription is gone.
    pub(super) fn delete(&self, api: &ServerApi, screen: &mut Screen) -> Result<(), CommandFailure> {
        api.delete(&self.path(&[]))?;
        screen.tell(&format!("{} deleted\n", self.shown()))
    }
}

impl SubscriptionListing {
    pub(super) fn run(&self, api: &ServerApi, screen: &mut Screen) -> Result<(), CommandFailure> {
        let path = self.place.below(&["subscriptions"]);
        list::show::<SubscriptionView>(api, screen, &path, &self.list_flags, "no subscriptions")
    }
}

impl Subscribe {
    pub(super) fn run(&self, api: &ServerApi, screen: &mut Screen) -> Result<(), CommandFailure> {
        let subscription = api.replace(&self.subscription.path(&[]), &self.body())?;
        screen.show(&subscription, || Ok(api.read::<SubscriptionView>(&subscription)?.facts()))
    }

    fn body(&self) -> SubscriptionBody<'_> {
        let push = |url| PushBody { url, max: self.max, secret: self.secret.as_deref() };
        SubscriptionBody {
            from: self.from.as_deref(),
            segment: self.segment.as_deref(),
            push: self.push.as_deref().map(push),
        }
    }
}

impl CommitPosition {
    pub(super) fn run(&self, api: &ServerApi, screen: &mut Screen) -> Result<(), CommandFailure> {
        let id = self.id.to_string();
        let body = CommitBody { reader: &self.reader, id: &id, rewind: self.rewind };
        api.tell(&self.subscription.path(&["commit"]), &body)?;
        screen.tell(&format!("{}: everything up to {id} is read\n", self.subscription.shown()))
    }
}

/// Reading through a subscription.
pub(super) struct ReadOn<'a> {
    pub(super) place: &'a StreamArgs,
    pub(super) subscription: &'a str,
    pub(super) reader: &'a str,
    /// Whether what was shown is committed.
    pub(super) commits: bool,
    /// Most messages.
    pub(super) limit: u64,
    /// Whether to wait for more at the end.
    pub(super) follows: bool,
}

impl ReadOn<'_> {
    /// A read that commits goes on behind each page; one that does not gives one page, since the
    /// position stays where it is.
    pub(super) fn run(&self, api: &ServerApi, screen: &mut Screen) -> Result<(), CommandFailure> {
        let mut table = TextTable::new(MessageView::HEADINGS).within(screen.width());
        let (mut left, mut shown) = (self.limit, 0);
        while left > 0 {
            let wait = self.follows.then_some(WAIT);
            let page = match shown {
                0 => self.look(api, left, wait)?,
                _ => patiently(screen, || self.look(api, left, wait))?,
            };
            list::show_items::<MessageView>(api, screen, &mut table, &page.items)?;
            let found = page.items.len() as u64;
            (left, shown) = (left - found.min(left), shown + found);
            if self.commits {
                let path = self.path("commit");
                api.tell(&path, &CommitBody { reader: self.reader, id: &page.next_after, rewind: false })?;
            }
            if !self.commits || (found == 0 && !self.follows) {
                break;
            }
        }
        if shown == 0 && !screen.is_for_programs() {
            screen.note("no messages");
        }
        Ok(())
    }

    fn path(&self, call: &str) -> ApiPath {
        self.place.below(&["subscriptions", self.subscription, call])
    }

    fn look(
        &self,
        api: &ServerApi,
        limit: u64,
        wait: Option<&str>,
    ) -> Result<SubscriptionPage, CommandFailure> {
        let body = ReadBody { reader: self.reader, limit: limit.min(PAGE_ITEMS_MAX), wait };
        api.read(&api.post_and_wait(&self.path("read"), &body, None, std::time::Duration::from_secs(30))?)
    }
}

/// How a subscription stands.
#[derive(Deserialize)]
pub(super) struct SubscriptionView {
    name: String,
    position: String,
    lag: u64,
    reader: Option<String>,
    oldest_unread_at: Option<String>,
    segment: Option<String>,
    push: Option<PushView>,
}

#[derive(Deserialize)]
struct PushView {
    url: String,
    max: u64,
    failures: u64,
    error: Option<String>,
    #[serde(default)]
    secret: Option<String>,
}

impl SubscriptionView {
    fn facts(&self) -> String {
        let push = self.push.as_ref();
        let mut lines = vec![
            ("subscription", Cell::text(&self.name)),
            ("position", Cell::text(&self.position)),
            ("lag", Cell::number(self.lag)),
            ("segment", Cell::maybe(self.segment.as_deref())),
            ("pushed to", Cell::maybe(push.map(|push| push.url.as_str()))),
        ];
        if let Some(push) = push {
            lines.push(("at most", Cell::number(push.max)));
            lines.extend(push.secret.as_ref().map(|secret| ("secret", Cell::text(secret))));
        }
        facts(&lines)
    }
}

impl TableRow for SubscriptionView {
    const HEADINGS: &'static [&'static str] =
        &["NAME", "POSITION", "LAG", "OLDEST UNREAD", "READER", "SEGMENT", "PUSHED TO", "FAILED", "ERROR"];

    fn cells(&self) -> Vec<Cell> {
        let push = self.push.as_ref();
        let error = Cell::maybe(push.and_then(|push| push.error.as_deref()));
        let failed = push.filter(|push| push.failures > 0).map(|push| push.failures.to_string());
        vec![
            Cell::text(&self.name),
            Cell::text(&self.position).aligned_right(),
            Cell::number(self.lag),
            Cell::maybe(self.oldest_unread_at.as_deref().map(to_second).as_deref()),
            Cell::maybe(self.reader.as_deref()),
            Cell::maybe(self.segment.as_deref()),
            Cell::maybe(push.map(|push| push.url.as_str())),
            Cell::maybe(failed.as_deref()).aligned_right(),
            if failed.is_some() { error.styled(BAD) } else { error },
        ]
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        subscribe: Subscribe,
    }

    #[test]
    fn a_subscription_says_what_was_given_and_nothing_else() {
        for (words, expect) in [
            (&[][..], Some("{}")),
            (&["--from", "end", "--segment", "eu,us"], Some(r#"{"from":"end","segment":"eu,us"}"#)),
            (&["--push", "https://a/"], Some(r#"{"push":{"url":"https://a/"}}"#)),
            (&["--push", "https://a/", "--max", "7"], Some(r#"{"push":{"url":"https://a/","max":7}}"#)),
            (&["--max", "7"], None),
        ] {
            let words = ["test", "shop", "orders", "bill"].iter().chain(words);
            let line = Line::try_parse_from(words).ok();
            let body = line.map(|line| serde_json::to_string(&line.subscribe.body()).expect("JSON"));
            assert_eq!(body.as_deref(), expect);
        }
    }

    #[test]
    fn a_subscription_is_a_row_and_shows_a_secret_once() {
        let json = r#"{"name":"bill","position":"40","lag":1200,"reader":null,
            "oldest_unread_at":"2026-11-21T01:02:03.456Z","segment":null,"created_at":"2026-11-21T01:02:03.456Z",
            "push":{"url":"https://a/","max":100,"failures":3,"error":"answered 500","last_failed_at":null,
            "secret":"whsec_AAAA"}}"#;
        let subscription: SubscriptionView = serde_json::from_str(json).expect("a subscription");
        let lines = TextTable::new(SubscriptionView::HEADINGS).lines(&[subscription.cells()]);
        let lines = anstream::adapter::strip_str(&lines).to_string();
        for part in ["bill", "1,200", "2026-11-21 01:02:03Z", "https://a/", "answered 500"] {
            assert!(lines.contains(part), "{part} in {lines}");
        }
        let facts = anstream::adapter::strip_str(&subscription.facts()).to_string();
        assert!(facts.contains("whsec_AAAA"), "{facts}");
    }
}
